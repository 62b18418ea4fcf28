//! Tests of `flowctl run` on the real kernel, with and without a daemon. Needs root.

use crate::support::cgroups::cgroups_named;
use crate::support::daemon::{Daemon, eventually};
use flowcon::host::cgroup::{Cgroup, start_time};
use flowcon::host::scope::{Session, socket_of};
use flowcon::model::{CpuWeight, Setting};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The socket of a test's daemon, and a unique name for its job.
struct Place {
    dir: tempfile::TempDir,
    socket: PathBuf,
    test: String,
}

impl Place {
    /// A socket path without a daemon.
    fn of(test: &str) -> Place {
        let dir = tempfile::tempdir().expect("a temporary folder");
        Place { socket: dir.path().join("flowcond.sock"), dir, test: test.to_owned() }
    }

    fn at(daemon: &Daemon, test: &str) -> Place {
        Place { socket: daemon.socket(), ..Place::of(test) }
    }

    fn name(&self) -> String {
        format!("test-{}-{}", std::process::id(), self.test)
    }

    /// The command `flowctl run` with a shell script.
    fn command(&self, script: &str) -> Command {
        self.labelled(&[], script)
    }

    fn labelled(&self, labels: &[&str], script: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        command.arg("--socket").arg(&self.socket).args(["run", "--name", &self.name()]);
        for label in labels {
            command.args(["--label", label]);
        }
        command.args(["--", "sh", "-c", script]).stdin(Stdio::null());
        command
    }

    fn output(&self, script: &str) -> Output {
        self.command(script).output().expect("flowctl starts")
    }

    /// Starts a script and waits until it runs.
    fn start(&self, script: &str) -> (Running, BufReader<std::process::ChildStdout>) {
        start(self.command(&format!("echo ready; {script}")), self)
    }

    /// The directories of its cgroup in all hierarchies.
    fn cgroups(&self) -> Vec<PathBuf> {
        cgroups_named(&format!("flowcon-{}", self.name()))
    }

    /// The first process of the command that is left. Its number need not be the smallest one.
    fn pid(&self) -> u32 {
        let procs = fs::read_to_string(self.cgroups()[0].join("cgroup.procs")).expect("a cgroup");
        let pids = procs.lines().map(|pid| pid.parse().expect("a number"));
        pids.min_by_key(|pid| start_time(*pid).map_or(u64::MAX, |start| start.0)).expect("a process")
    }
}

fn start(mut command: Command, place: &Place) -> (Running, BufReader<std::process::ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("flowctl starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    (Running { child, cgroups: place.cgroups() }, stdout)
}

/// Runs a command until the daemon answers in time, which it may not do on a busy machine; each time with another name.
fn answered(daemon: &Daemon, test: &str, run: impl Fn(&Place) -> Output) -> (Place, Output) {
    let mut outputs = (1..=5).map(|number| {
        let place = Place::at(daemon, &format!("{test}-{number}"));
        let output = run(&place);
        (place, output)
    });
    let is_answered = |(_, output): &(Place, Output)| !text(&output.stderr).contains("no flowcond answers");
    outputs.find(is_answered).expect("an answer in time")
}

/// A running `flowctl run`; all its processes are killed when dropped, also in a failed test.
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

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().expect("kill").success());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn output_and_exit_code_are_those_of_the_command_and_nothing_is_left_behind() {
    let place = Place::of("plain");
    let out = place.output("echo out; echo err >&2; cat /proc/self/cgroup; exit 7");
    assert_eq!(out.status.code(), Some(7));
    let errors = text(&out.stderr);
    let (warning, err) = errors.split_once('\n').expect("two lines");
    assert!(warning.contains("no flowcond answers") && warning.contains("not governed until"), "{warning}");
    assert_eq!(err, "err\n");
    let stdout = text(&out.stdout);
    assert!(stdout.starts_with("out\n"), "{stdout}");
    let own = format!("/flowcon-{}", place.name());
    let inside = stdout.lines().filter(|line| line.strip_suffix(".scope").unwrap_or(line).ends_with(&own)).count();
    assert!(inside > 0, "{stdout}");
    assert_eq!(place.cgroups(), Vec::<PathBuf>::new(), "a cgroup was left behind");
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 0, "a file was left behind");
}

#[test]
fn the_command_is_governed_before_it_runs_and_its_end_is_recorded() {
    let daemon = Daemon::start("off", &[]);
    let flowctl = env!("CARGO_BIN_EXE_flowctl");
    let ps = format!("{flowctl} --socket {} --timeout 120 ps -o json", daemon.socket().display());
    let (place, out) = answered(&daemon, "before", |place| place.output(&format!("{ps}; exit 3")));
    assert_eq!(out.status.code(), Some(3));
    assert_eq!(text(&out.stderr), "");
    // The registration is an event before its reply; the published status follows.
    let ended = eventually("its end is reported", SOON, || {
        let events = text(&daemon.flowctl(&["events", "-o", "json", "--no-follow", "-n", "100"]).stdout);
        events.contains(&format!("{} ended", place.name())).then_some(events)
    });
    assert!(ended.contains(&format!("{} is governed", place.name())), "{ended}");
    eventually("it is no longer listed", SOON, || daemon.job(&place.name()).is_none().then_some(()));
    assert_eq!(place.cgroups(), Vec::<PathBuf>::new());
}

/// A `flowctl` on a busy machine reports the exit code after the daemon has seen the cgroup empty.
#[test]
fn an_exit_code_that_is_reported_a_little_later_is_recorded() {
    let daemon = Daemon::start("off", &["policy.interval=1s"]);
    let exit_code_of = |number: u32| {
        let at = |test: &str| Place::at(&daemon, &format!("{test}-{number}"));
        let (place, other) = (at("late"), at("other"));
        let wait_for = |file: &Path| format!("until [ -e {} ]; do sleep 0.05; done", file.display());
        let (go, other_go) = (place.dir.path().join("go"), other.dir.path().join("go"));
        let (mut flowctl, _stdout) = place.start(&format!("{}; exit 3", wait_for(&go)));
        let (mut other_flowctl, _other_stdout) = other.start(&wait_for(&other_go));
        let procs = place.cgroups()[0].join("cgroup.procs");
        signal(flowctl.id(), "STOP");
        fs::write(go, "").unwrap();
        eventually("the command has ended", SOON, || {
            // systemd removes the cgroup.
            fs::read_to_string(&procs).map_or(true, |pids| pids.is_empty()).then_some(())
        });
        // At the end of another command, the daemon looks for commands without processes.
        fs::write(other_go, "").unwrap();
        other_flowctl.wait().unwrap();
        signal(flowctl.id(), "CONT");
        flowctl.wait().unwrap();
        eventually("its end is in the history", SOON, || {
            let history = daemon.flowctl(&["history", &place.name(), "-o", "json"]);
            let history: serde_json::Value = serde_json::from_slice(&history.stdout).ok()?;
            history["job"]["ended_unix_ms"].is_u64().then(|| history["job"]["exit_code"].as_i64())
        })
    };
    // The daemon waits for two seconds, which may pass on a busy machine.
    assert!((1..=10).any(|number| exit_code_of(number) == Some(3)));
}

#[test]
fn a_command_that_cannot_run_is_reported_with_the_shells_exit_codes() {
    let place = Place::of("missing");
    let run = |command: &str| {
        let flowctl = env!("CARGO_BIN_EXE_flowctl");
        Command::new(flowctl).arg("--socket").arg(&place.socket).args(["run", "--", command]).output().unwrap()
    };
    let missing = run("/nonexistent/program");
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("/nonexistent/program"));
    assert_eq!(run("/etc/passwd").status.code(), Some(126));
    assert_eq!(place.output("kill -KILL $$").status.code(), Some(128 + 9));
}

#[test]
fn signals_reach_the_command_and_its_exit_code_is_returned() {
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
fn a_signal_that_arrives_before_the_command_starts_ends_it_and_leaves_no_cgroup_behind() {
    let place = Place::of("early");
    let flowctl = place.command("sleep 60");
    let mut strace = Command::new("strace");
    // Sent while the first directory of the cgroup is created.
    strace.args(["--follow-forks", "--quiet=all", "--output=/dev/null", "-e", "trace=/^mkdir"]);
    strace.args(["-e", "inject=/^mkdir:signal=TERM:when=1"]);
    strace.arg(flowctl.get_program()).args(flowctl.get_args()).stdin(Stdio::null());
    let out = strace.output().unwrap();
    assert_eq!(out.status.code(), Some(128 + 15), "{out:?}");
    assert_eq!(place.cgroups(), Vec::<PathBuf>::new());
}

#[test]
fn processes_that_end_a_little_later_than_the_command_leave_no_cgroup_behind() {
    let place = Place::of("lingers");
    let (mut flowctl, _stdout) = place.start("sleep 0.5 >/dev/null 2>&1 & exec sleep 1000");
    signal(place.pid(), "KILL");
    assert_eq!(flowctl.wait().unwrap().code(), Some(128 + 9));
    if flowcon::host::node::systemd_is_init() {
        eventually("systemd has removed it", SOON, || place.cgroups().is_empty().then_some(()));
    }
    assert_eq!(place.cgroups(), Vec::<PathBuf>::new());
}

#[test]
fn a_stopped_flowctl_stops_the_command_and_continues_with_it() {
    let place = Place::of("stop");
    let (mut flowctl, _stdout) = place.start("exec sleep 1000");
    let state = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat[stat.rfind(')').unwrap() + 2..].chars().next().unwrap()
    };
    let pid = place.pid();
    signal(flowctl.id(), "TSTP");
    eventually("both are stopped", SOON, || (state(flowctl.id()) == 'T' && state(pid) == 'T').then_some(()));
    signal(flowctl.id(), "CONT");
    eventually("both continue", SOON, || (state(flowctl.id()) != 'T' && state(pid) != 'T').then_some(()));
    signal(flowctl.id(), "TERM");
    assert_eq!(flowctl.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn ignored_signals_stay_ignored() {
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
fn a_name_in_use_is_rejected() {
    let place = Place::of("twice");
    let (mut first, _stdout) = place.start("exec sleep 1000");
    let second = place.output("echo must not run");
    assert_eq!(second.status.code(), Some(6));
    assert_eq!(text(&second.stdout), "");
    assert!(text(&second.stderr).contains("choose another --name"), "{}", text(&second.stderr));
    signal(first.id(), "TERM");
    first.wait().unwrap();
}

const SOON: Duration = Duration::from_secs(30);

/// The cgroup of a job.
fn cgroup_of(place: &Place) -> Cgroup {
    let pid = place.pid();
    let start = flowcon::host::cgroup::start_time(pid);
    let directory = place.cgroups().remove(0);
    Cgroup::of_scope(pid, start, &directory.file_name().unwrap_or_default().to_string_lossy()).expect("its cgroup")
}

#[test]
fn the_daemon_reads_its_output_and_governs_it() {
    let daemon = Daemon::start("off", &["policy.interval=1s"]);
    let place = Place::at(&daemon, "governed");
    let (mut flowctl, _stdout) =
        place.start("for i in 1 2 3; do echo epoch $i loss: 0.$((9-i)); done; exec sleep 1000");
    let is_read = |job: &serde_json::Value| job["metric"]["name"] == "loss" && job["metric"]["value"] == 0.6;
    daemon.wait_for_job(&place.name(), "its metric is read", SOON, is_read);
    let logged = daemon.stdout_of(&["logs", &place.name(), "--json"]);
    assert!(logged.contains("0.6"), "{logged}");
    let weight = Setting::CpuWeight(CpuWeight::clamped(40.0));
    assert_eq!(cgroup_of(&place).write(weight).unwrap(), weight);
    signal(flowctl.id(), "TERM");
    flowctl.wait().unwrap();
    eventually("it is gone", SOON, || daemon.job(&place.name()).is_none().then_some(()));
    let is_kept = || text(&daemon.flowctl(&["history", "-o", "json"]).stdout).contains(&place.name());
    eventually("it is in the history", SOON, || is_kept().then_some(()));
}

#[test]
fn a_daemon_that_starts_later_or_again_governs_running_commands() {
    let mut daemon = Daemon::start("off", &["policy.interval=1s"]);
    daemon.end("KILL");
    let place = Place::at(&daemon, "later");
    let (mut flowctl, _stdout) = place.start("echo epoch 1 loss: 0.9; exec sleep 1000");
    for _ in 0..2 {
        daemon.boot();
        daemon.wait_for_job(&place.name(), "its output is read", SOON, |job| job["metric"]["name"] == "loss");
        let read = daemon.stdout_of(&["logs", &place.name(), "--json"]);
        assert!(read.contains("0.9"), "{read}");
        daemon.end("KILL");
    }
    signal(flowctl.id(), "TERM");
    assert_eq!(flowctl.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn a_command_whose_flowctl_died_is_governed_until_its_last_process_ends_and_then_cleaned_up() {
    let mut daemon = Daemon::start("off", &["policy.interval=1s"]);
    let place = Place::at(&daemon, "orphan");
    // The first process ends, another process in the same cgroup continues.
    let (mut flowctl, _stdout) = start(place.command("setsid sleep 1000 & echo ready; exec sleep 1000"), &place);
    let cgroups = place.cgroups();
    let first = place.pid();
    flowctl.child.kill().unwrap();
    flowctl.child.wait().unwrap();
    signal(first, "KILL");
    assert_eq!(place.output("echo no").status.code(), Some(6), "its name is taken");
    daemon.end("KILL");
    daemon.boot();
    daemon.wait_for_job(&place.name(), "it is governed by the next daemon", SOON, |_| true);
    let left = place.pid();
    assert_ne!(left, first);
    for pid in fs::read_to_string(cgroups[0].join("cgroup.procs")).unwrap().lines() {
        signal(pid.parse().unwrap(), "KILL");
    }
    eventually("its end is detected", SOON, || daemon.job(&place.name()).is_none().then_some(()));
    eventually("the cgroups are gone", SOON, || cgroups.iter().all(|cgroup| !cgroup.exists()).then_some(()));
    assert_eq!(fs::read_dir(daemon.state_dir().join("scopes")).unwrap().count(), 0);
}

/// As moved by a container engine that the command runs.
#[test]
fn a_command_whose_processes_are_in_a_child_of_its_cgroup_is_governed_again_and_restored() {
    let mut daemon = Daemon::start("off", &["policy.interval=1s"]);
    let (moved, other) = (Place::at(&daemon, "moved"), Place::at(&daemon, "other"));
    let script = "i=0; echo ready; while :; do i=$((i+1)); echo step $i loss 0.5; sleep 0.2; done";
    let (mut flowctl, _stdout) = start(moved.labelled(&["flowcon.weight=4"], script), &moved);
    let (_other_flowctl, _other_stdout) = other.start("exec sleep 1000");
    let limits = cgroup_of(&moved);
    let weight = || limits.limits().cpu_weight;
    let changed = || (weight() != Some(CpuWeight::DEFAULT)).then_some(());
    eventually("it has a larger share", SOON, changed);
    let pid = moved.pid().to_string();
    let inner: Vec<PathBuf> = moved.cgroups().iter().map(|cgroup| cgroup.join("inner")).collect();
    for directory in &inner {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("cgroup.procs"), &pid).unwrap();
    }
    daemon.end("KILL");
    daemon.boot();
    daemon.wait_for_job(&moved.name(), "it is governed by the next daemon", SOON, |job| job["share"].is_number());
    let step = |job: &serde_json::Value| job["progress"]["current"].as_f64();
    let before = daemon.job(&moved.name()).as_ref().and_then(step);
    daemon.wait_for_job(&moved.name(), "its output is read", SOON, |job| step(job) > before);
    eventually("it has a larger share again", SOON, changed);
    daemon.end("KILL");
    let restored = daemon.restore();
    assert_eq!(weight(), Some(CpuWeight::DEFAULT), "{restored}");
    signal(flowctl.id(), "TERM");
    flowctl.wait().unwrap();
    for directory in inner {
        eventually("it is empty", SOON, || (!directory.exists() || fs::remove_dir(&directory).is_ok()).then_some(()));
    }
}

#[test]
fn a_configured_log_file_is_read_after_rotation() {
    let daemon = Daemon::start("off", &["policy.interval=1s"]);
    let place = Place::at(&daemon, "file");
    let log = place.dir.path().join("train.log");
    let label = format!("flowcon.log={}", log.display());
    let script = format!(
        "echo ready; echo epoch 1 loss: 0.9 >{0}; sleep 1; mv {0} {0}.1; echo epoch 2 loss: 0.4321 >{0}; exec sleep 1000",
        log.display()
    );
    let (mut flowctl, _stdout) = start(place.labelled(&[&label], &script), &place);
    let job = |job: &serde_json::Value| job["metric"]["value"] == 0.4321;
    daemon.wait_for_job(&place.name(), "the second file is read", SOON, job);
    let explained = daemon.stdout_of(&["explain", &place.name(), "-o", "json"]);
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    assert_eq!(explained["explanation"]["reading"]["source"], format!("file {}", log.display()));
    signal(flowctl.id(), "TERM");
    flowctl.wait().unwrap();
}

#[test]
fn labels_above_the_size_limit_are_rejected_before_the_command_runs() {
    let daemon = Daemon::start("off", &[]);
    let label = format!("note={}", "x".repeat(40_000));
    let run = |place: &Place| place.labelled(&[&label], "echo ran").output().unwrap();
    let (place, out) = answered(&daemon, "bytes", run);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(6), String::new()));
    assert!(text(&out.stderr).contains("bytes"), "{}", text(&out.stderr));
    assert_eq!(place.cgroups(), Vec::<PathBuf>::new());
}

#[test]
fn a_detached_command_prints_its_name_and_one_that_cannot_start_an_error() {
    let daemon = Daemon::start("off", &[]);
    let place = Place::at(&daemon, "detached");
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        command.arg("--socket").arg(&place.socket).args(["run", "-d", "--name", &place.name()]).args(words);
        command.output().unwrap()
    };
    let out = run(&["--", "sh", "-c", "echo epoch 1 loss: 0.5; exec sleep 1000"]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(0), format!("{}\n", place.name())));
    assert!(text(&out.stderr).contains(&format!("flowctl logs {}", place.name())), "{}", text(&out.stderr));
    daemon.wait_for_job(&place.name(), "its output is read", SOON, |job| job["metric"]["value"] == 0.5);
    assert_eq!(daemon.stdout_of(&["logs", &place.name()]), "epoch 1 loss: 0.5\n");
    signal(place.pid(), "TERM");
    eventually("it is gone", SOON, || daemon.job(&place.name()).is_none().then_some(()));
    eventually("its cgroup is gone", SOON, || place.cgroups().is_empty().then_some(()));
    let out = run(&["--", "/nonexistent/program"]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(127), String::new()));
    assert!(text(&out.stderr).contains("/nonexistent/program"), "{}", text(&out.stderr));
}

#[test]
fn corrections_are_suggested_before_the_command_runs() {
    let place = Place::of("meant");
    let run = |words: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_flowctl")).arg("run").args(words).output().unwrap();
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(2), String::new()), "{words:?}");
        text(&out.stderr)
    };
    assert!(run(&["-l", "flowcon.weihgt=2", "--", "echo", "ran"]).contains("did you mean flowcon.weight?"));
    assert!(run(&["-l", "weight=2", "--", "echo", "ran"]).contains("did you mean flowcon.weight?"));
    assert!(run(&["-x", "--", "echo", "ran"]).contains("-x is neither an option"));
    assert_eq!(place.cgroups(), Vec::<PathBuf>::new());
}

#[test]
fn a_client_that_requests_its_jobs_gets_only_its_own() {
    let daemon = Daemon::start("off", &[]);
    let place = Place::at(&daemon, "own");
    let (mut flowctl, _stdout) = place.start("exec sleep 1000");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request = || {
        runtime.block_on(async {
            let mut session = Session::open(&socket_of(&place.socket)).await.ok()?;
            session.jobs().await.ok()
        })
    };
    let own = eventually("it is published", SOON, || {
        Some(request()?["containers"].clone()).filter(|jobs| jobs[0]["name"].is_string())
    });
    assert_eq!(own[0]["name"], place.name());
    assert_eq!(own.as_array().map(Vec::len), Some(1));
    signal(flowctl.id(), "TERM");
    flowctl.wait().unwrap();
}
