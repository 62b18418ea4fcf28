//! Who may adopt and disown, and what a daemon that is killed in the middle of a disowning leaves: a container that is adopted or is
//! not, with limits that are its own or can still be put back. On a real engine, with a real journal that `strace` makes slow.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod served;
mod support;

use rusqlite::Connection;
use served::{as_user, public_flowctl};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::daemon::{Daemon, eventually};
use support::engine::{CONVERGED, Engine, GROWING, RunSpec};

const SOON: Duration = Duration::from_secs(30);
/// What waits for a journal that is made slow: its first looks write dozens of pages, each of which takes a part of a second.
const SLOWLY_SOON: Duration = Duration::from_secs(600);

/// A group and a user that every Debian has, and that are nobody's.
const LOOKERS: (&str, u32) = ("games", 60);
const ADMIN: (&str, u32) = ("www-data", 33);
const SOMEBODY: u32 = 12_345;

/// What is known of adoptions and originals on the disk at this instant, without the daemon's help: (adopted, originals of `id`).
fn on_disk(daemon: &Daemon, id: &str) -> (u32, u32) {
    let folder = tempfile::tempdir().unwrap();
    for file in ["flowcon.db", "flowcon.db-wal"] {
        let _ = fs::copy(daemon.state_dir().join(file), folder.path().join(file)); // there may be no log of changes
    }
    let journal = Connection::open(folder.path().join("flowcon.db")).unwrap();
    journal.pragma_update(None, "synchronous", "OFF").unwrap(); // a copy, looked at again and again
    let count = |table: &str| {
        journal.query_row(&format!("SELECT count(*) FROM {table} WHERE id = ?1"), [id], |row| row.get(0)).unwrap()
    };
    (count("adopted"), count("original"))
}

fn is_connected(daemon: &Daemon) {
    let connected = || daemon.stdout_of(&["status"]).contains("docker: connected").then_some(());
    eventually("the engine is connected", SOON, connected);
}

#[test]
fn who_may_not_change_things_adopts_and_disowns_nothing() {
    let engine = Engine::start();
    let settings = ["policy.name=flowcon", "policy.interval=2s", "api.group=games", "api.admins=www-data"];
    let daemon = Daemon::start(&engine.address(), &settings);
    is_connected(&daemon);
    let run = |name, script| engine.run(RunSpec { name, script, ..RunSpec::default() });
    let (free, taken) = (run("free", GROWING), run("taken", CONVERGED));
    daemon.stdout_of(&["adopt", "taken", "--label", "flowcon.weight=2"]);
    let folder = daemon.socket().parent().unwrap().to_owned();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(daemon.socket(), fs::Permissions::from_mode(0o666)).unwrap(); // credentials decide alone
    let programs = tempfile::tempdir().unwrap();
    let flowctl = public_flowctl(programs.path()).display().to_string();
    let socket = daemon.socket().display().to_string();
    let asks = |(user, group): (u32, u32), words: &[&str]| {
        as_user(user, group, None, &[&[flowctl.as_str(), "--socket", &socket], words].concat()).output().unwrap()
    };
    let http = |(user, group): (u32, u32), path: &str| {
        let url = format!("http://flowcond/v1/containers/{path}");
        let curl =
            ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", "--unix-socket", &socket, &url];
        String::from_utf8(as_user(user, group, None, &curl).output().unwrap().stdout).unwrap()
    };
    let (looker, stranger) = ((SOMEBODY, LOOKERS.1), (SOMEBODY, SOMEBODY));
    assert!(asks(looker, &["status"]).status.success(), "{} may look", LOOKERS.0);
    for nobody in [looker, stranger] {
        for (verb, name) in
            [("adopt", "free"), ("disown", "taken"), ("adopt", "taken"), ("adopt", "nobody"), ("disown", "nobody")]
        {
            let refused = asks(nobody, &[verb, name]);
            let told = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(5), "{nobody:?} {verb} {name}: {told}");
            assert!(told.contains("next:"), "{told}");
            assert_eq!(http(nobody, &format!("{name}/{verb}")), "403", "{nobody:?} {verb} {name}");
        }
    }
    sleep(Duration::from_secs(3)); // a tick and more
    assert!(daemon.job("free").is_none() && engine.cpu_weight(&free) == 100);
    assert_eq!(on_disk(&daemon, &free), (0, 0));
    assert_eq!(on_disk(&daemon, &taken).0, 1);
    assert_eq!(daemon.job("taken").unwrap()["adopted"]["labels"]["flowcon.weight"], "2");
    assert!(!daemon.stdout_of(&["events", "--no-follow", "-n", "100"]).contains("disowned"));

    let admin = (ADMIN.1, ADMIN.1);
    for words in [["adopt", "free"], ["disown", "free"], ["disown", "taken"]] {
        let done = asks(admin, &words);
        assert!(done.status.success(), "{} may: {words:?}: {}", ADMIN.0, String::from_utf8_lossy(&done.stderr));
    }
    assert!(daemon.jobs().is_empty());
}

/// Where in a disowning the daemon is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    LimitsAreBack,
    OriginalIsForgotten,
    AdoptionIsForgotten,
}

/// Longer than it takes to see that a moment has come: every write of the journal and every promise to the disk takes this long, so
/// that limits are back well before the first is on the disk, and each commit stands well before the next begins.
const SLOWLY: &str = "300000us";

#[test]
fn a_daemon_that_is_killed_while_it_disowns_leaves_a_container_that_is_adopted_or_is_not() {
    let engine = Engine::start();
    let run = |name, labels, options, script| engine.run(RunSpec { name, labels, options, script });
    run("grow", &["flowcon.enable=true"][..], &[][..], GROWING);
    let flat = run("flat", &[], &["--cpu-shares", "2048"], CONVERGED);
    let mut daemon = Daemon::start(&engine.address(), &["policy.name=flowcon", "policy.interval=2s"]);
    is_connected(&daemon);
    let limited = || eventually("flat is limited", SOON, || (engine.cpu_weight(&flat) < 150).then_some(()));
    for moment in [Moment::LimitsAreBack, Moment::OriginalIsForgotten, Moment::AdoptionIsForgotten] {
        daemon.stdout_of(&["adopt", "flat"]);
        limited();
        daemon.end("KILL");
        begin_slowly(&mut daemon);
        daemon.wait_for_job("flat", "is known to the slow daemon", SLOWLY_SOON, |job| job["metric"].is_object());
        assert!(engine.cpu_weight(&flat) < 150, "what stood stands");

        let mut flowctl = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        flowctl
            .arg("--socket")
            .arg(daemon.socket())
            .args(["disown", "flat"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut asking = flowctl.spawn().unwrap();
        let until = Instant::now() + SLOWLY_SOON;
        let is_there = || match moment {
            Moment::LimitsAreBack => engine.cpu_weight(&flat) == 200,
            Moment::OriginalIsForgotten => on_disk(&daemon, &flat).1 == 0,
            Moment::AdoptionIsForgotten => on_disk(&daemon, &flat).0 == 0,
        };
        while !is_there() {
            assert!(Instant::now() < until, "{moment:?} never comes: {}", daemon.log());
        }
        daemon.end("KILL");
        assert!(!asking.wait().unwrap().success(), "{moment:?}: nobody was told that it is done");
        let left = on_disk(&daemon, &flat);
        let expected = match moment {
            Moment::LimitsAreBack => (1, 1),
            Moment::OriginalIsForgotten => (1, 0),
            Moment::AdoptionIsForgotten => (0, 0),
        };
        assert_eq!(left, expected, "{moment:?}: adopted, original");
        assert_eq!(engine.cpu_weight(&flat), 200, "{moment:?}: its original limits");

        daemon.boot();
        is_connected(&daemon);
        daemon.wait_for_job("grow", "is found", SOON, |job| job["hold"].is_null());
        if left.0 == 1 {
            // Adopted still, whole: governed, with its own limits as its originals.
            limited();
            let detail: serde_json::Value =
                serde_json::from_str(&daemon.stdout_of(&["explain", "flat", "-o", "json"])).unwrap();
            assert_eq!(detail["explanation"]["limits"]["cpu_weight"]["original"], 200.0, "{moment:?}");
            daemon.stdout_of(&["disown", "flat"]);
        }
        assert!(daemon.job("flat").is_none(), "{moment:?}");
        assert_eq!((on_disk(&daemon, &flat), engine.cpu_weight(&flat)), ((0, 0), 200), "{moment:?}: afterwards");
        sleep(Duration::from_secs(3)); // a tick and more
        assert_eq!(engine.cpu_weight(&flat), 200, "{moment:?}: it is left alone");
    }
}

/// Starts a daemon whose journal is on a disk that takes a while for each write and each promise.
fn begin_slowly(daemon: &mut Daemon) {
    const CALLS: &str = "write,pwrite64,fsync,fdatasync";
    let (trace, inject) = (format!("trace={CALLS}"), format!("inject={CALLS}:delay_enter={SLOWLY}"));
    let state = daemon.state_dir();
    let files = ["flowcon.db", "flowcon.db-wal"].map(|name| format!("{}/{name}", state.display()));
    let mut under = vec!["strace", "--daemonize", "--follow-forks", "--quiet=all", "--output=/dev/null"];
    under.extend(["-e", &trace, "-e", &inject]);
    files.iter().for_each(|file| under.extend(["-P", file]));
    daemon.launch_under(&under);
    eventually("the slow daemon answers", SLOWLY_SOON, || daemon.flowctl(&["ps"]).status.success().then_some(()));
    is_connected(daemon);
}
