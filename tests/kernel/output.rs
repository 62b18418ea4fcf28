//! Tests of output that cannot be written, or only later: `flowctl run` behaves as its command does alone, loses nothing silently, and no
//! program reports a success. Needs root.

use crate::support::daemon::{Daemon, eventually};
use crate::support::job::Job;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const SIGPIPE: i32 = 13;
const NO_SPACE: &str = "No space left on device";

/// A shell script, alone.
fn alone(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null());
    command
}

/// A shell script under `flowctl run`, without a daemon.
fn relayed(test: &str, script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
    let name = format!("test-{}-{test}", std::process::id());
    command.args(["--socket", "/nonexistent/flowcond.sock", "run", "--name", &name, "--", "sh", "-c", script]);
    command.stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// A file system of a few pages, unmounted when dropped.
struct Tiny(tempfile::TempDir);

impl Tiny {
    fn mount() -> Tiny {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(folder.path()).status();
        assert!(mount.unwrap().success());
        Tiny(folder)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Fills it with a file.
    fn fill(&self, name: &str) -> PathBuf {
        let path = self.at(name);
        fs::write(&path, vec![0; 1 << 20]).unwrap_err();
        path
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Prints twenty lines of 2,000 characters within two seconds.
const TWENTY_LINES: &str = "for i in $(seq 20); do printf '%2000d\n' $i; sleep 0.1; done";

fn twenty_lines() -> String {
    (1..=20).map(|n| format!("{n:2000}\n")).collect()
}

#[test]
fn a_disk_that_is_full_for_seconds_delays_the_output_but_loses_none() {
    let disk = Tiny::mount();
    let out = disk.at("out");
    let script = format!("{TWENTY_LINES}; echo end >&2; exit 3");
    let mut command = relayed("seconds", &script);
    let flowctl = command.stdout(File::create(&out).unwrap()).stderr(Stdio::piped()).spawn().unwrap();
    let has_begun = || (fs::metadata(&out).unwrap().len() > 2_000).then_some(());
    eventually("it has begun", Duration::from_secs(10), has_begun);
    let ballast = disk.fill("ballast");
    thread::sleep(Duration::from_secs(4));
    fs::remove_file(ballast).unwrap();
    let ended = flowctl.wait_with_output().unwrap();
    assert!(fs::read_to_string(&out).unwrap() == twenty_lines(), "{} bytes", fs::metadata(&out).unwrap().len());
    let errors = text(&ended.stderr);
    assert_eq!((ended.status.code(), errors.matches(NO_SPACE).count()), (Some(3), 1), "{errors}");
    assert!(errors.ends_with("end\n"), "{errors}");
}

#[test]
fn a_disk_that_stays_full_makes_the_command_fail_as_alone() {
    let run = |mut command: Command| {
        let disk = Tiny::mount();
        command.stdout(File::create(disk.at("out")).unwrap()).output().unwrap()
    };
    let script = "exec seq 100000";
    assert!(!run(alone(script)).status.success());
    let ended = run(relayed("stays", script));
    let errors = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(128 + SIGPIPE), "{errors}");
    assert!(errors.contains("is tried again") && errors.contains("output of the command is lost"), "{errors}");
}

#[test]
fn output_that_cannot_be_written_makes_the_command_or_flowctl_fail() {
    for (number, script) in ["echo lost", "exec seq 100000", "trap '' PIPE; seq 100000; exit 0"].into_iter().enumerate()
    {
        let test = format!("full-{number}");
        let alone = alone(script).stdout(full()).output().unwrap();
        let ended = relayed(&test, script).stdout(full()).output().unwrap();
        assert!(!ended.status.success(), "{script}: alone {:?}, {ended:?}", alone.status);
        let errors = text(&ended.stderr);
        assert_eq!(errors.matches("output of the command is lost").count(), 1, "{errors}");
        assert!(errors.contains("standard output") && errors.contains(NO_SPACE), "{errors}");
    }
    let ended = relayed("full-error", "echo lost >&2").stderr(full()).output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "standard error is output, too");
    let ended = relayed("full-failed", "echo lost; exit 7").stdout(full()).output().unwrap();
    assert_eq!(ended.status.code(), Some(7), "the command's own failure comes first");
}

#[test]
fn a_pipe_that_does_not_block_gets_all_of_the_output() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    fcntl_setfl(&writer, fcntl_getfl(&writer).unwrap() | OFlags::NONBLOCK).unwrap();
    let mut command = relayed("nonblocking", "exec seq 300000");
    let mut flowctl = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    drop(command); // with its end of the pipe
    thread::sleep(Duration::from_secs(1));
    let mut read = String::new();
    reader.read_to_string(&mut read).unwrap();
    assert_eq!(flowctl.wait().unwrap().code(), Some(0));
    let expected: String = (1..=300_000).map(|n| format!("{n}\n")).collect();
    assert!(read == expected, "{} of 300000 lines", read.lines().count());
}

#[test]
fn a_command_whose_reader_leaves_ends_as_alone() {
    let ended = |mut command: Command| -> Output {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert_eq!(first, "1\n");
        child.wait_with_output().unwrap()
    };
    let script = "exec seq 20000000";
    assert_eq!(ended(alone(script)).status.signal(), Some(SIGPIPE));
    let began = Instant::now();
    let relayed = ended(relayed("reader", script));
    assert_eq!(relayed.status.code(), Some(128 + SIGPIPE), "after {:?}", began.elapsed());
    assert!(!text(&relayed.stderr).contains("lost"), "{relayed:?}");
    let both = |head: &str, command: &str| text(&alone(&format!("{command} | head -{head}")).output().unwrap().stdout);
    let flowctl = format!("{} run -- sh -c 'exec seq 20000000' 2>/dev/null", env!("CARGO_BIN_EXE_flowctl"));
    assert_eq!(both("3", &flowctl), both("3", "seq 20000000"));
}

/// As when the connection to a remote terminal is lost.
#[test]
fn a_command_that_ignores_the_end_of_its_terminal_outlives_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let quoted = |path: &Path| path.display().to_string();
    let inner = format!(
        "touch {}; until [ -e {} ]; do sleep 0.1; done; seq 50000; touch {}",
        quoted(&file("begun")),
        quoted(&file("go")),
        quoted(&file("done"))
    );
    fs::write(file("inner"), inner).unwrap();
    let flowctl = env!("CARGO_BIN_EXE_flowctl");
    let command = format!("trap '' HUP; {flowctl} run -- sh {}", quoted(&file("inner")));
    let mut terminal = Command::new("script");
    terminal.args(["-qfc", &command, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut terminal = terminal.spawn().unwrap();
    let is_there = |name: &str| file(name).exists().then_some(());
    eventually("it runs", Duration::from_secs(10), || is_there("begun"));
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    fs::write(file("go"), "").unwrap();
    eventually("it ends", Duration::from_secs(10), || is_there("done"));
}

/// Runs a program with its output on a full device, and requires an error that names the reason.
fn must_report(program: &str, arguments: &[&str]) {
    let ended = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(full()).output().unwrap();
    let errors = text(&ended.stderr);
    assert!(
        !ended.status.success() && errors.contains(NO_SPACE),
        "{program} {arguments:?}: {:?}: {errors}",
        ended.status
    );
}

#[test]
fn no_page_of_help_is_lost_silently() {
    let flowctl = env!("CARGO_BIN_EXE_flowctl");
    let commands = "--help; --version; run --help; help; help labels; completion zsh; config keys; config keys -o json";
    for command in commands.split("; ") {
        must_report(flowctl, &command.split(' ').collect::<Vec<_>>());
    }
    for program in [
        env!("CARGO_BIN_EXE_flowcond"),
        env!("CARGO_BIN_EXE_flowcoord"),
        env!("CARGO_BIN_EXE_flowcon-notify"),
        env!("CARGO_BIN_EXE_flowsim"),
    ] {
        must_report(program, &["--help"]);
        must_report(program, &["--version"]);
    }
    must_report(env!("CARGO_BIN_EXE_flowsim"), &["list"]);
    must_report(env!("CARGO_BIN_EXE_flowsim"), &["run", "fixed-3"]);
}

#[test]
fn no_answer_of_the_daemon_is_lost_silently() {
    let daemon = Daemon::start("off", &["policy.interval=1s", "api.group="]);
    let script = "i=0; while :; do i=$((i+1)); echo epoch $i loss: 0.$((900 / i)); sleep 0.1; done";
    let job = Job::start(&daemon, "job", &[], &["sh", "-c", script]);
    daemon.wait_for_job("job", "its metric is read", Duration::from_secs(30), |job| job["metric"]["name"] == "loss");
    let in_history = || daemon.flowctl(&["history", "job"]).status.success().then_some(());
    eventually("it is in the history", Duration::from_secs(30), in_history);
    let socket = daemon.socket().display().to_string();
    let commands = "status; status -o json; ps; ps -a; explain job; history; history job; history --events; \
                    events --no-follow; events --no-follow --since 1h; metrics; logs job; logs job -o json; report -o -; \
                    record --for 2s; policy; config show; check-log job; release job; govern job; top --batch -n 1; doctor";
    for command in commands.split("; ") {
        let words: Vec<&str> = command.split(' ').collect();
        must_report(env!("CARGO_BIN_EXE_flowctl"), &[&["--socket", &socket], &words[..]].concat());
    }
    drop(job);
}

#[test]
fn no_result_of_a_benchmark_is_lost_silently() {
    let jobs = concat!(env!("CARGO_MANIFEST_DIR"), "/config/examples/bench.toml");
    let options = "--repeats 1 --policy fair --scale 0.01 --runtime scope";
    let words: Vec<&str> = ["bench", jobs].into_iter().chain(options.split(' ')).collect();
    must_report(env!("CARGO_BIN_EXE_flowctl"), &words);
}
