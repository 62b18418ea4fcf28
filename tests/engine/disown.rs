//! Tests of the permission to adopt and disown, and of a daemon killed while it disowns a container: the container is either adopted
//! or not, and its original limits are in force or can still be restored. Uses a real engine and a journal slowed down by `strace`.

use crate::served::as_user;
use crate::support::daemon::{Daemon, carried_out, eventually};
use crate::support::engine::{CONVERGED, Engine, GROWING, RunSpec};
use crate::support::program::public_flowctl;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);
/// Timeout for a step with a slow journal.
const SLOW_TIMEOUT: Duration = Duration::from_secs(600);

/// A group and a user that exist on every Debian system and are otherwise unused.
const READERS: (&str, u32) = ("games", 60);
const ADMIN: (&str, u32) = ("www-data", 33);
const OTHER_USER: u32 = 12_345;

/// The number of adoptions and original limits of `id` in the journal.
fn on_disk(daemon: &Daemon, id: &str) -> (u32, u32) {
    let condition = format!("id = '{id}'");
    let count = |table| eventually("a readable journal", SOON, || daemon.count_in_journal(table, &condition));
    (count("adopted"), count("original"))
}

#[test]
fn adopting_and_disowning_need_write_access() {
    let engine = Engine::start();
    let settings = ["policy.name=flowcon", "policy.interval=2s", "api.group=games", "api.admins=www-data"];
    let daemon = Daemon::start(&engine.address(), &settings);
    daemon.wait_until_connected("docker");
    let run = |name, script| engine.run(RunSpec { name, script, ..RunSpec::default() });
    let (free, taken) = (run("free", GROWING), run("taken", CONVERGED));
    daemon.carried_out(&["adopt", "taken", "--label", "flowcon.weight=2"]);
    let folder = daemon.socket().parent().unwrap().to_owned();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let programs = tempfile::tempdir().unwrap();
    let flowctl = public_flowctl(programs.path()).display().to_string();
    let socket = daemon.socket().display().to_string();
    let request = |(user, group): (u32, u32), words: &[&str]| {
        as_user(user, group, None, &[&[flowctl.as_str(), "--timeout", "60", "--socket", &socket], words].concat())
            .output()
            .unwrap()
    };
    let http = |(user, group): (u32, u32), path: &str| {
        let url = format!("http://flowcond/v1/containers/{path}");
        let curl =
            ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", "--unix-socket", &socket, &url];
        String::from_utf8(as_user(user, group, None, &curl).output().unwrap().stdout).unwrap()
    };
    let (reader, stranger) = ((OTHER_USER, READERS.1), (OTHER_USER, OTHER_USER));
    let status = request(reader, &["status"]);
    assert!(status.status.success(), "{} may read: {}", READERS.0, String::from_utf8_lossy(&status.stderr));
    for unprivileged in [reader, stranger] {
        for (verb, name) in
            [("adopt", "free"), ("disown", "taken"), ("adopt", "taken"), ("adopt", "nobody"), ("disown", "nobody")]
        {
            let refused = request(unprivileged, &[verb, name]);
            let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(5), "{unprivileged:?} {verb} {name}: {stderr}");
            assert!(stderr.contains("next:"), "{stderr}");
            assert_eq!(http(unprivileged, &format!("{name}/{verb}")), "403", "{unprivileged:?} {verb} {name}");
        }
    }
    sleep(Duration::from_secs(3)); // more than a tick
    assert!(daemon.job("free").is_none() && engine.cpu_weight(&free) == 100);
    assert_eq!(on_disk(&daemon, &free), (0, 0));
    assert_eq!(on_disk(&daemon, &taken).0, 1);
    assert_eq!(daemon.job("taken").unwrap()["adopted"]["labels"]["flowcon.weight"], "2");
    assert!(!daemon.stdout_of(&["events", "--no-follow", "-n", "100"]).contains("disowned"));

    let admin = (ADMIN.1, ADMIN.1);
    for words in [["adopt", "free"], ["disown", "free"], ["disown", "taken"]] {
        carried_out(&format!("{} may: {words:?}", ADMIN.0), || request(admin, &words));
    }
    assert!(daemon.jobs().is_empty());
}

/// The step of a disowning after which the daemon is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    LimitsRestored,
    OriginalDeleted,
    AdoptionDeleted,
}

impl Step {
    /// The system calls whose delay gives time to kill the daemon after this step: limits are restored long before the first write is on
    /// disk, and each commit is written long before its sync ends, and with it the step. The other calls are not delayed, so that the
    /// request does not exceed its time limit.
    fn delayed_calls(self) -> &'static str {
        match self {
            Step::LimitsRestored => "write,pwrite64",
            Step::OriginalDeleted | Step::AdoptionDeleted => "fsync,fdatasync",
        }
    }

    /// Delay of these calls on the journal, longer than it takes to detect the step, also on a busy machine. A commit has many writes and
    /// one sync, and one sync must end before the last step is reached, within the time limit of the request.
    fn delay(self) -> &'static str {
        match self {
            Step::LimitsRestored => "2500000us",
            Step::OriginalDeleted | Step::AdoptionDeleted => "8000000us",
        }
    }
}

#[test]
fn a_container_is_either_adopted_or_not_after_the_daemon_is_killed_while_disowning_it() {
    let engine = Engine::start();
    let run = |name, labels, options, script| engine.run(RunSpec { name, labels, options, script });
    run("grow", &["flowcon.enable=true"][..], &[][..], GROWING);
    let flat = run("flat", &[], &["--cpu-shares", "2048"], CONVERGED);
    let file = engine.weight_file(&flat);
    let limit = || fs::read_to_string(&file).unwrap();
    let (original, weight) = (limit(), engine.cpu_weight(&flat));
    assert!(weight == 200 || !Engine::is_cgroup_v1(), "{weight}");
    let mut daemon = Daemon::start(&engine.address(), &["policy.name=flowcon", "policy.interval=2s"]);
    daemon.wait_until_connected("docker");
    let limited = || eventually("flat is limited", SOON, || (engine.cpu_weight(&flat) < weight * 3 / 4).then_some(()));
    for step in [Step::LimitsRestored, Step::OriginalDeleted, Step::AdoptionDeleted] {
        daemon.carried_out(&["adopt", "flat"]);
        limited();
        daemon.end("KILL");
        daemon.boot();
        daemon.wait_until_connected("docker");
        daemon.wait_for_job("flat", "is adopted by the next daemon", SOON, |job| job["list"] == "completing");
        limited();
        let mut tracer = slow_down(&daemon, step);

        let mut flowctl = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        flowctl
            .arg("--socket")
            .arg(daemon.socket())
            .args(["disown", "flat"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut client = flowctl.spawn().unwrap();
        let until = Instant::now() + SLOW_TIMEOUT;
        let reached = || match step {
            Step::LimitsRestored => limit() == original,
            Step::OriginalDeleted => on_disk(&daemon, &flat).1 == 0,
            Step::AdoptionDeleted => on_disk(&daemon, &flat).0 == 0,
        };
        while !reached() {
            assert!(Instant::now() < until, "{step:?} was never reached: {}", daemon.log());
            sleep(Duration::from_millis(5));
        }
        // Directly: starting a program such as `kill` may take longer than the delay.
        kill_process(Pid::from_raw(daemon.pid() as i32).unwrap(), Signal::KILL).unwrap();
        daemon.end("KILL");
        let _ = tracer.kill(); // fails if it has ended with the daemon
        tracer.wait().unwrap();
        assert!(!client.wait().unwrap().success(), "{step:?}: success was not reported");
        let left = on_disk(&daemon, &flat);
        let expected = match step {
            Step::LimitsRestored => (1, 1),
            Step::OriginalDeleted => (1, 0),
            Step::AdoptionDeleted => (0, 0),
        };
        assert_eq!(left, expected, "{step:?}: adopted, original");
        assert_eq!(engine.cpu_weight(&flat), weight, "{step:?}: its original limits");

        daemon.boot();
        daemon.wait_until_connected("docker");
        daemon.wait_for_job("grow", "is found", SOON, |job| job["hold"].is_null());
        if left.0 == 1 {
            // Still adopted and governed, with the right original limits.
            limited();
            let detail: Value = serde_json::from_str(&daemon.stdout_of(&["explain", "flat", "-o", "json"])).unwrap();
            assert_eq!(detail["explanation"]["limits"]["cpu_weight"]["original"], f64::from(weight), "{step:?}");
            daemon.carried_out(&["disown", "flat"]);
        }
        assert!(daemon.job("flat").is_none(), "{step:?}");
        assert_eq!((on_disk(&daemon, &flat), engine.cpu_weight(&flat)), ((0, 0), weight), "{step:?}: afterwards");
        sleep(Duration::from_secs(3)); // more than a tick
        assert_eq!(engine.cpu_weight(&flat), weight, "{step:?}: it is left alone");
    }
}

/// Delays system calls of the running daemon on its journal, which gives time to kill it after this step. Returns the tracer.
fn slow_down(daemon: &Daemon, step: Step) -> Child {
    let (calls, delay) = (step.delayed_calls(), step.delay());
    let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:delay_enter={delay}"));
    let mut strace = Command::new("strace");
    strace.args(["--follow-forks", "--quiet=all", "--output=/dev/null", "-e", &trace, "-e", &inject]);
    for name in ["flowcon.db", "flowcon.db-wal"] {
        strace.arg("-P").arg(daemon.state_dir().join(name));
    }
    let tracer = strace.arg(format!("--attach={}", daemon.pid())).spawn().unwrap();
    let is_traced = |thread: &Path| {
        // A thread that has ended meanwhile has no status.
        let status = fs::read_to_string(thread.join("status")).ok();
        status.is_none_or(|status| status.contains(&format!("TracerPid:\t{}\n", tracer.id())))
    };
    eventually("all threads are traced", SOON, || {
        let threads = fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
        threads.map(|thread| thread.unwrap().path()).all(|thread| is_traced(&thread)).then_some(())
    });
    tracer
}
