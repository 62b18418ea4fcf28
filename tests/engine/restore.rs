//! Tests of `flowcond restore` with a wrong, missing or unusable journal: it names the journal, and fails.

use crate::support::daemon::{Daemon, eventually};
use crate::support::engine::{CONVERGED, Engine, GROWING, RunSpec};
use crate::support::program::install;
use flowcon::host::docker::Conversion;
use flowcon::host::store::Store;
use flowcon::model::CpuWeight;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const GOVERNED: &str = "flowcon.enable=true";
const SOON: Duration = Duration::from_secs(30);

/// A folder that every user may enter, for state directories.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Place(dir)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A state directory with an empty journal.
    fn with_journal(&self, name: &str) -> PathBuf {
        let state = self.at(name);
        drop(Store::open(&state).unwrap());
        state
    }
}

fn restore(state: &Path, options: &[&str]) -> Output {
    // A process that another test is just starting may hold a released lock for a moment.
    eventually("the lock is free", SOON, || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowcond"));
        command.args(["restore", "--set", "engine.address=off", "--state-dir"]).arg(state).args(options);
        Some(command.output().unwrap()).filter(|output| !text(output).contains(": in use by"))
    })
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// It fails, and says which file it means and what to do.
fn assert_fails(output: &Output, about: &Path, next: &str) {
    let text = text(output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(&about.display().to_string()) && text.contains(next), "{text}");
}

#[test]
fn a_restore_without_a_journal_fails_unless_flowcond_need_not_have_run() {
    let place = Place::new();
    let (missing, empty, cut) = (place.at("missing"), place.at("empty"), place.at("cut"));
    fs::create_dir(&empty).unwrap();
    fs::create_dir(&cut).unwrap();
    fs::write(cut.join("flowcon.db"), "").unwrap();
    for state in [&missing, &empty, &cut] {
        assert_fails(&restore(state, &[]), &state.join("flowcon.db"), "--state-dir");
        for script in [&["--if-governed"][..], &["--as-configured"]] {
            let output = restore(state, script);
            let text = text(&output);
            assert!(output.status.success() && text.contains(&state.display().to_string()), "{script:?}: {text}");
        }
    }
    assert!(!missing.exists() && fs::read_dir(&empty).unwrap().next().is_none(), "nothing is created");
    assert_eq!(fs::read(cut.join("flowcon.db")).unwrap(), b"");
}

#[test]
fn a_restore_names_the_journal() {
    let place = Place::new();
    let state = place.with_journal("state");
    let output = restore(&state, &[]);
    let text = text(&output);
    assert!(output.status.success() && text.contains(&state.join("flowcon.db").display().to_string()), "{text}");
}

#[test]
fn a_journal_of_a_later_version_a_damaged_one_and_one_in_use_fail() {
    let place = Place::new();
    let later = place.with_journal("later");
    let journal = rusqlite::Connection::open(later.join("flowcon.db")).unwrap();
    journal.pragma_update(None, "user_version", 99).unwrap();
    drop(journal);
    assert_fails(&restore(&later, &[]), &later, "later flowcond");

    let damaged = place.at("damaged");
    fs::create_dir(&damaged).unwrap();
    fs::write(damaged.join("flowcon.db"), "this is not a database, but long enough to be taken for one".repeat(99))
        .unwrap();
    assert_fails(&restore(&damaged, &[]), &damaged, "check their limits");

    let used = place.at("used");
    let _open = Store::open(&used).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowcond"));
    let output = command.args(["restore", "--set", "engine.address=off", "--state-dir"]).arg(&used).output().unwrap();
    assert_fails(&output, &used, "`flowctl restore`");
}

#[test]
fn a_damaged_record_is_not_passed_over() {
    let place = Place::new();
    let state = place.with_journal("state");
    let journal = rusqlite::Connection::open(state.join("flowcon.db")).unwrap();
    let id = "ab".repeat(32);
    let columns = "id, runtime, name, cgroup, boot_id, started_unix_ms, remembered_unix_ms, cpu_weight";
    let row = format!("INSERT INTO original ({columns}) VALUES ('{id}', 'docker', 'job', '/x', 'b', 0, 0, -7)");
    journal.execute(&row, []).unwrap();
    drop(journal);
    assert_fails(&restore(&state, &[]), &state, "abababababab: ");
}

#[test]
fn a_user_without_permission_is_told_that_root_is_needed() {
    let place = Place::new();
    let closed = place.with_journal("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let open = place.with_journal("open");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    let flowcond = place.at("flowcond");
    install(env!("CARGO_BIN_EXE_flowcond"), &flowcond);
    let as_user = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=12345", "--regid=12345", "--clear-groups"]).arg(&flowcond).args(words);
        command.args(["--set", "engine.address=off"]).output().unwrap()
    };
    for state in [closed, open, place.at("missing")] {
        let output = as_user(&["restore", "--state-dir", state.to_str().unwrap()]);
        assert_fails(&output, &state, "as root");
    }
    let daemon = as_user(&["--socket", "/run/flowcon-of-root/s.sock", "--state-dir", "/var/lib/flowcon-of-root"]);
    assert!(!daemon.status.success() && text(&daemon).contains("as root"), "{}", text(&daemon));
}

/// The daemon may have used another state directory than the default, which is read instead.
#[test]
fn a_restore_fails_if_the_configuration_does_not_say_which_journal_to_read() {
    let place = Place::new();
    let state = place.with_journal("state");
    let run = |config: &Path, options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowcond"));
        command.args(["restore", "--set", "engine.address=off", "--config"]).arg(config).args(options);
        command.env_remove("FLOWCON_STATE_DIR").output().unwrap()
    };
    let no_file = place.at("no-such.toml");
    let mistaken = place.at("mistaken.toml");
    fs::write(&mistaken, "state-dir = 7\n").unwrap();
    for config in [&no_file, &mistaken] {
        let output = run(config, &[]);
        assert!(!output.status.success() && text(&output).contains("may not be"), "{}", text(&output));
    }
    let named = run(&no_file, &["--state-dir", state.to_str().unwrap()]);
    assert!(named.status.success(), "{}", text(&named));
}

#[test]
fn limits_that_the_journal_does_not_know_are_named_and_an_owners_own_are_not() {
    let engine = Engine::start();
    let settings = ["policy.name=flowcon", "policy.interval=2s"];
    let run =
        |name: &str, options: &[&str], script: &str| engine.run(RunSpec { name, labels: &[GOVERNED], options, script });
    run("grow", &[], GROWING);
    let flat = run("flat", &["--cpu-shares", "300"], CONVERGED);
    let original = engine.cpu_weight(&flat);
    assert!(original == 29 || !Engine::is_cgroup_v1(), "{original}"); // 300 shares
    let mut daemon = Daemon::start(&engine.address(), &settings);
    daemon.wait_for_job("flat", "completes", SOON, |job| job["list"] == "completing");
    eventually("it is limited", SOON, || (engine.cpu_weight(&flat) < original - 4).then_some(()));
    daemon.end("KILL");
    // Never governed: started with shares that flowcon could request, and set to round ones afterwards.
    run("started-with", &["--cpu-shares", "51"], "");
    run("set", &[], "");
    engine.docker(&["update", "--cpu-shares", "700", "set"]);

    let place = Place::new();
    let restore = |state: &Path, options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowcond"));
        command.args(["restore", "--set", &format!("engine.address={}", engine.address()), "--state-dir"]);
        command.arg(state).args(options).output().unwrap()
    };
    let conversions = if Engine::is_cgroup_v1() { Conversion::Shares } else { Conversion::Linear }.possible();
    for state in [place.at("missing"), place.with_journal("another")] {
        let failed = eventually("its lock is free", SOON, || {
            Some(restore(&state, &[])).filter(|output| !text(output).contains(": in use by"))
        });
        assert_fails(&failed, &state, "`docker update --cpu-shares 300 flat`");
        let text = text(&failed);
        let sets_default =
            |engines: &Conversion| text.contains(&format!("--cpu-shares {} grow", engines.shares(CpuWeight::DEFAULT)));
        assert!(text.contains("grow: ") && conversions.iter().any(sets_default), "{text}");
        assert!(!text.contains("started-with") && !text.contains("set: "), "{text}");
    }
    assert!(daemon.restore().contains("2 restored"));
    assert_eq!(engine.cpu_weight(&flat), original);
    daemon.restore();
    let missing = restore(&place.at("missing"), &["--if-governed"]);
    assert!(missing.status.success(), "{}", text(&missing));
}
