//! `flowctl run` on the real kernel, and the daemon's watch over what it registers. Wants root.

use flowcon::host::cgroup::{Cgroup, StartTime};
use flowcon::host::scope::{Placement, Scope, ScopeEvent, ScopeWatch, directory_of};
use flowcon::model::{ContainerId, CpuWeight, Setting};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A daemon's socket path of this test's own, and names that no other test uses.
struct Place {
    dir: tempfile::TempDir,
    test: &'static str,
}

impl Place {
    fn of(test: &'static str) -> Place {
        Place { dir: tempfile::tempdir().expect("a temporary folder"), test }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("flowcond.sock")
    }

    fn scopes(&self) -> PathBuf {
        directory_of(&self.socket())
    }

    fn name(&self) -> String {
        format!("test-{}-{}", std::process::id(), self.test)
    }

    fn folder(&self) -> PathBuf {
        self.scopes().join(self.name())
    }

    /// `flowctl run` of a shell script.
    fn command(&self, script: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        command.arg("--socket").arg(self.socket()).args(["run", "--name", &self.name(), "--", "sh", "-c", script]);
        command.stdin(Stdio::null());
        command
    }

    fn output(&self, script: &str) -> Output {
        self.command(script).output().expect("flowctl starts")
    }

    /// Starts a script that prints `ready` when it may be looked at.
    fn start(&self, script: &str) -> (Running, BufReader<std::process::ChildStdout>) {
        let mut child =
            self.command(&format!("echo ready; {script}")).stdout(Stdio::piped()).spawn().expect("flowctl starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        (Running { child, cgroups: self.cgroups() }, stdout)
    }

    fn cgroups(&self) -> Vec<PathBuf> {
        let record = fs::read_to_string(self.folder().join("scope.json")).expect("registered before the command runs");
        let record: serde_json::Value = serde_json::from_str(&record).expect("a record is JSON");
        let cgroups = record["cgroups"].as_array().expect("cgroupfs").iter();
        cgroups.map(|path| PathBuf::from(path.as_str().expect("a path"))).collect()
    }

    fn watch(&self) -> (ScopeWatch, Receiver<ScopeEvent>) {
        let (sender, events) = channel();
        let watch = ScopeWatch::start(&self.scopes(), move |event| sender.send(event).is_ok()).expect("a folder");
        (watch, events)
    }
}

/// A running `flowctl run`; whatever is left of it ends with the test, also with one that fails.
struct Running {
    child: Child,
    cgroups: Vec<PathBuf>,
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let left = self.cgroups.iter().filter_map(|cgroup| fs::read_to_string(cgroup.join("cgroup.procs")).ok());
        for pid in left.flat_map(|pids| pids.lines().map(str::to_owned).collect::<Vec<_>>()) {
            let _ = Command::new("kill").args(["-KILL", &pid]).stderr(Stdio::null()).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        flowcon::host::cgroup::remove_empty(&self.cgroups);
    }
}

fn started(events: &Receiver<ScopeEvent>) -> Scope {
    match events.recv_timeout(Duration::from_secs(10)) {
        Ok(ScopeEvent::Started(scope)) => scope,
        other => panic!("{other:?}"),
    }
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(10));
    }
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().expect("kill").success());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn output_and_exit_code_are_the_commands_and_nothing_is_left() {
    let place = Place::of("plain");
    let out = place.output("echo out; echo err >&2; cat /proc/self/cgroup; exit 7");
    assert_eq!(out.status.code(), Some(7));
    assert_eq!(text(&out.stderr), "err\n");
    let stdout = text(&out.stdout);
    assert!(stdout.starts_with("out\n"), "{stdout}");
    assert!(stdout.lines().any(|line| line.ends_with(&format!("/flowcon-{}", place.name()))), "{stdout}");
    assert_eq!(fs::read_dir(place.scopes()).unwrap().count(), 0);
}

#[test]
fn the_command_is_registered_and_in_every_cgroup_before_it_runs() {
    let place = Place::of("before");
    let out = place.output(&format!("cat {}/scope.json; echo; cat /proc/self/cgroup", place.folder().display()));
    let stdout = text(&out.stdout);
    let (record, memberships) = stdout.split_once('\n').unwrap();
    let record: serde_json::Value = serde_json::from_str(record).unwrap();
    assert_eq!(record["labels"]["flowcon.enable"], "true");
    let cgroups = record["cgroups"].as_array().unwrap();
    let inside = memberships.lines().filter(|line| line.ends_with(&format!("/flowcon-{}", place.name()))).count();
    assert_eq!(inside, cgroups.len(), "{stdout}");
    assert!(cgroups.iter().all(|path| !Path::new(path.as_str().unwrap()).exists()), "a cgroup was left");
}

#[test]
fn a_command_that_cannot_run_is_said_to_be_with_the_shells_exit_codes() {
    let place = Place::of("missing");
    let run = |command: &str| {
        let flowctl = env!("CARGO_BIN_EXE_flowctl");
        Command::new(flowctl).arg("--socket").arg(place.socket()).args(["run", "--", command]).output().unwrap()
    };
    let missing = run("/nonexistent/program");
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("/nonexistent/program"));
    assert_eq!(run("/etc/passwd").status.code(), Some(126));
    assert_eq!(place.output("kill -KILL $$").status.code(), Some(128 + 9));
    assert_eq!(fs::read_dir(place.scopes()).unwrap().count(), 0);
}

#[test]
fn signals_reach_the_command_and_its_answer_is_the_exit_code() {
    let place = Place::of("signals");
    let script = "trap 'echo usr1' USR1; trap 'echo term; exit 3' TERM; echo armed; while :; do sleep 0.05; done";
    let (mut flowctl, mut stdout) = place.start(script);
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "armed\n");
    line.clear();
    signal(flowctl.id(), "USR1");
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "usr1\n");
    signal(flowctl.id(), "TERM");
    assert_eq!(flowctl.wait().unwrap().code(), Some(3));
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "term\n");
}

#[test]
fn a_stopped_flowctl_stops_the_command_and_goes_on_with_it() {
    let place = Place::of("stop");
    let (mut flowctl, _stdout) = place.start("exec sleep 1000");
    let state = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat[stat.rfind(')').unwrap() + 2..].chars().next().unwrap()
    };
    let pid = fs::read_to_string(place.folder().join("scope.json")).unwrap();
    let pid = serde_json::from_str::<serde_json::Value>(&pid).unwrap()["pid"].as_u64().unwrap() as u32;
    signal(flowctl.id(), "TSTP");
    eventually("both are stopped", || state(flowctl.id()) == 'T' && state(pid) == 'T');
    signal(flowctl.id(), "CONT");
    eventually("both go on", || state(flowctl.id()) != 'T' && state(pid) != 'T');
    signal(flowctl.id(), "TERM");
    assert_eq!(flowctl.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn what_was_ignored_stays_ignored() {
    let place = Place::of("nohup");
    let mut nohup = Command::new("nohup");
    let flowctl = place.command("grep SigIgn /proc/self/status");
    nohup.arg(flowctl.get_program()).args(flowctl.get_args()).stdin(Stdio::null());
    let out = nohup.output().unwrap();
    let set = text(&out.stdout);
    let set = u64::from_str_radix(set.trim().strip_prefix("SigIgn:").unwrap().trim(), 16).unwrap();
    assert_eq!(set & 1, 1, "HUP is no longer ignored: {set:x}");
    let sigpipe = 1 << 12;
    assert_eq!(set & sigpipe, 0, "PIPE is ignored: {set:x}");
}

#[test]
fn a_reader_that_goes_away_neither_stops_nor_kills_the_command() {
    let place = Place::of("reader");
    let done = place.dir.path().join("done");
    let script =
        format!("i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; touch {}; exit 4", done.display());
    let (mut flowctl, stdout) = place.start(&script);
    drop(stdout);
    assert_eq!(flowctl.wait().unwrap().code(), Some(4));
    assert!(done.exists());
}

#[test]
fn a_name_in_use_is_refused_without_harm() {
    let place = Place::of("twice");
    let (mut first, _stdout) = place.start("exec sleep 1000");
    let second = place.output("echo must not run");
    assert_eq!(second.status.code(), Some(6));
    assert_eq!(text(&second.stdout), "");
    assert!(text(&second.stderr).contains("choose another --name"), "{}", text(&second.stderr));
    assert!(place.folder().join("scope.json").exists());
    signal(first.id(), "TERM");
    first.wait().unwrap();
}

#[test]
fn the_daemon_sees_a_scope_come_and_go_and_can_govern_it() {
    let place = Place::of("watch");
    let (_watch, events) = place.watch();
    let began = Instant::now();
    let (mut flowctl, _stdout) = place.start("echo loss 1; exec sleep 1000");
    let scope = started(&events);
    assert!(began.elapsed() < Duration::from_secs(2), "only the clock found it");
    assert_eq!(scope.name.as_str(), place.name());
    let cgroup = Cgroup::of_scope(scope.pid, Some(StartTime(scope.start_ticks)), &scope.cgroup_name()).unwrap();
    let weight = Setting::CpuWeight(CpuWeight::clamped(40.0));
    assert_eq!(cgroup.write(weight).unwrap(), weight);
    eventually("the output is in the log", || fs::read_to_string(&scope.log).unwrap() == "ready\nloss 1\n");
    signal(flowctl.id(), "TERM");
    flowctl.wait().unwrap();
    let ended = events.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(ended, ScopeEvent::Ended(ContainerId::new(&format!("scope:{}", place.name()))));
}

#[test]
fn a_daemon_that_comes_later_adopts_and_one_that_finds_remains_clears_them() {
    let place = Place::of("adopt");
    let (mut flowctl, _stdout) = place.start("exec sleep 1000");
    let cgroups = place.cgroups();
    let (watch, events) = place.watch();
    let scope = started(&events);
    drop(watch);
    // flowctl dies without a word; its command lives on, and its name stays taken.
    flowctl.kill().unwrap();
    flowctl.wait().unwrap();
    assert_eq!(place.output("echo no").status.code(), Some(6));
    let (_watch, events) = place.watch();
    assert_eq!(started(&events), scope);
    signal(scope.pid, "KILL");
    let ended = events.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(ended, ScopeEvent::Ended(scope.name.id()));
    eventually("the folder is gone", || !place.folder().exists());
    eventually("the cgroups are gone", || cgroups.iter().all(|cgroup| !cgroup.exists()));
}

#[test]
fn a_folder_that_lies_about_its_process_is_not_believed() {
    let place = Place::of("lies");
    let (mut flowctl, _stdout) = place.start("exec sleep 1000");
    let record = fs::read_to_string(place.folder().join("scope.json")).unwrap();
    let liar = |name: &str, change: &dyn Fn(&str) -> String, owner: u32| {
        let folder = place.scopes().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("scope.json"), change(&record.replace(&place.name(), name))).unwrap();
        for path in [folder.join("scope.json"), folder.clone()] {
            std::os::unix::fs::chown(path, Some(owner), Some(owner)).unwrap();
        }
        // Held, as a living flowctl would, so that it is not taken for remains.
        let held = fs::File::open(&folder).unwrap();
        rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
        held
    };
    let same = |record: &str| record.to_owned();
    let _held = [
        // The process is not in a cgroup of that name.
        liar("another-name", &same, 0),
        // No such process, another version, and no record at all.
        liar("no-process", &|record| record.replace("\"pid\":", "\"pid\":9"), 0),
        liar("garbage", &|_| "\u{0}{".repeat(1000), 0),
        liar("endless", &|record| format!("{record}{}", " ".repeat(1 << 20)), 0),
    ];
    // Somebody else's folder about root's process.
    fs::remove_dir_all(place.folder()).unwrap();
    let _stolen = liar(&place.name(), &same, 12345);
    let (_watch, events) = place.watch();
    assert!(events.recv_timeout(Duration::from_secs(3)).is_err());
    signal(flowctl.id(), "TERM");
    flowctl.wait().unwrap();
}

#[test]
fn remains_that_lead_elsewhere_take_nothing_with_them() {
    let place = Place::of("remains");
    let elsewhere = place.dir.path().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::create_dir_all(place.scopes()).unwrap();
    for name in ["scope.json", "output.log", "precious"] {
        fs::write(elsewhere.join(name), "precious").unwrap();
    }
    std::os::unix::fs::symlink(&elsewhere, place.scopes().join("link")).unwrap();
    let folder = place.scopes().join("mine");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("precious"), "").unwrap();
    let (_watch, events) = place.watch();
    assert!(events.recv_timeout(Duration::from_millis(500)).is_err());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 3);
    assert!(folder.join("precious").exists());
}

#[test]
fn who_is_not_root_is_told_what_to_do() {
    let place = Place::of("user");
    // Readable for the other user all the way down.
    let bin = place.dir.path().join("flowctl");
    fs::copy(env!("CARGO_BIN_EXE_flowctl"), &bin).unwrap();
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(place.dir.path(), everybody).unwrap();
    let out = Command::new(bin)
        .arg("--socket")
        .arg(place.socket())
        .args(["run", "--name", &place.name(), "--", "true"])
        .uid(12345)
        .gid(12345)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(5));
    let said = text(&out.stderr);
    assert!(said.contains("sudo flowctl run") && said.contains("Delegate"), "{said}");
    assert!(!place.folder().exists());
}

#[test]
fn the_watch_puts_no_trust_in_cgroup_paths_of_a_record() {
    let place = Place::of("paths");
    let (mut flowctl, _stdout) = place.start("exec sleep 1000");
    let record = fs::read_to_string(place.folder().join("scope.json")).unwrap();
    let hostile = record.replace("/sys/fs/cgroup/", "/sys/fs/cgroup/../../tmp/");
    fs::write(place.folder().join("scope.json"), hostile).unwrap();
    let (_watch, events) = place.watch();
    assert_eq!(started(&events).placement, Placement::Cgroupfs(Vec::new()));
    signal(flowctl.id(), "TERM");
    flowctl.wait().unwrap();
}
