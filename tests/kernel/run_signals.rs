//! Tests of `flowctl run` in unusual surroundings: signals after the end of the command, a closed standard error, and a long command
//! line. Needs root.

use crate::support::daemon::{Daemon, eventually};
use crate::support::job::Job;
use std::io::{BufRead, BufReader, PipeWriter};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

fn name_of(test: &str) -> String {
    format!("test-{}-{test}", std::process::id())
}

/// `flowctl run` with a shell script.
fn run(socket: &Path, test: &str, options: &[&str], script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
    command.arg("--socket").arg(socket).args(["run", "--name", &name_of(test)]).args(options);
    command.args(["--", "sh", "-c", script]).stdin(Stdio::null());
    command
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

/// A process that is killed when dropped, also in a failed test.
struct Killed(u32);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", &self.0.to_string()]).stderr(Stdio::null()).status();
    }
}

#[test]
fn a_signal_ends_flowctl_after_its_command_although_another_process_holds_the_output() {
    let daemon = Daemon::start("off", &[]);
    // In its own session, so that it does not get the signals of the command's group.
    let script = "setsid sh -c 'echo $$; exec sleep 300' & echo $$; exit 3";
    let mut flowctl = run(&daemon.socket(), "held", &[], script).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(flowctl.stdout.take().unwrap()).lines();
    let pids: Vec<u32> = lines.take(2).map(|line| line.unwrap().parse().unwrap()).collect();
    let is_command = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
    eventually("the command has ended", SOON, || pids.iter().any(is_command).then_some(()));
    let left = pids.iter().copied().find(|pid| !is_command(pid)).expect("the other process runs");
    let left = Killed(left);
    assert!(flowctl.try_wait().unwrap().is_none(), "it waits for the output");
    signal(flowctl.id(), "TERM");
    let status = eventually("flowctl ends", SOON, || flowctl.try_wait().unwrap());
    assert_eq!(status.code(), Some(3));
    assert!(Path::new(&format!("/proc/{}", left.0)).exists(), "the other process has not been signalled");
    drop(left);
    eventually("the job has ended", SOON, || daemon.job(&name_of("held")).is_none().then_some(()));
}

#[test]
fn a_closed_standard_error_does_not_stop_the_command() {
    fn closed() -> PipeWriter {
        std::io::pipe().unwrap().1 // without its reader
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("flowcond.sock"); // no daemon, about which a warning is printed
    let status = run(&socket, "foreground", &[], "exit 4").stderr(closed()).status().unwrap();
    assert_eq!(status.code(), Some(4));
    let mut background = run(&socket, "background", &[], "exit 4");
    let status = background.env("FLOWCON_RUN_IN_BACKGROUND", "1").stderr(closed()).status().unwrap();
    assert_eq!(status.code(), Some(4));
    let detached = run(&socket, "detached", &["-d"], "exit 4").stderr(closed()).output().unwrap();
    let printed = String::from_utf8_lossy(&detached.stdout).into_owned();
    assert_eq!((detached.status.code(), printed), (Some(0), format!("{}\n", name_of("detached"))));
}

#[test]
fn a_command_line_longer_than_a_request_is_governed() {
    let daemon = Daemon::start("off", &[]);
    let script = format!("exec sleep 300 # {}", "x".repeat(100_000));
    let mut flowctl = Job::start(&daemon, &name_of("long"), &[], &["sh", "-c", &script]);
    daemon.wait_for_job(&name_of("long"), "it is governed", SOON, |_| true);
    flowctl.end("TERM");
}

#[test]
fn labels_longer_than_a_request_are_rejected_before_the_command_runs() {
    let daemon = Daemon::start("off", &[]);
    let label = format!("note={}", "x".repeat(70_000));
    let output = run(&daemon.socket(), "labels", &["--label", &label], "echo ran").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(6), &b""[..]), "{errors}");
    assert!(errors.contains("the maximum is 65536") && errors.contains("remove some labels"), "{errors}");
}
