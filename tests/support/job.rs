//! A command under `flowctl run` for a test.

#![allow(dead_code)] // each test binary needs only a part of it
#![allow(clippy::unwrap_used)] // tests fail by panicking, also in their support code

use super::daemon::{Daemon, eventually};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A running `flowctl`, ended with SIGTERM when dropped: `flowctl run` forwards the signal to its command and removes the cgroup.
pub struct Job(Child);

impl Job {
    /// Runs the command `words` with this name and these labels.
    pub fn start(daemon: &Daemon, name: &str, labels: &[&str], words: &[&str]) -> Job {
        Job::spawn(Job::command(daemon, name, labels, words))
    }

    /// The command of [`Job::start`], to be run with another environment, working directory or affinity.
    pub fn command(daemon: &Daemon, name: &str, labels: &[&str], words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        command.arg("--socket").arg(daemon.socket()).args(["run", "--name", name]);
        for label in labels {
            command.args(["--label", label]);
        }
        command.arg("--").args(words);
        command
    }

    /// Starts a command without input; its standard output is discarded.
    pub fn spawn(mut command: Command) -> Job {
        Job(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Waits for its exit.
    pub fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }

    /// Ends it with a signal and waits for its exit.
    pub fn end(&mut self, signal: &str) -> ExitStatus {
        Command::new("kill").args([&format!("-{signal}"), &self.0.id().to_string()]).status().unwrap();
        eventually("it ends after the signal", Duration::from_secs(60), || self.0.try_wait().unwrap())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
            let _ = self.0.wait();
        }
    }
}
