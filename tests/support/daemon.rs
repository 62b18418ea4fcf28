//! A real `flowcond` of a test's own, asked through the real `flowctl`.

#![allow(dead_code)] // each test binary uses a part of it
#![allow(clippy::unwrap_used)] // a test fails by panicking, in its support too

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How much longer than on an idle machine a wait may take: a generous end costs nothing where what is waited for comes.
pub const BUSY: u32 = 6;

/// Looks again and again until `look` answers; panics with `what` long after `within`.
pub fn eventually<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + within * BUSY;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "not within {within:?}: {what}");
        sleep(Duration::from_millis(100));
    }
}

/// A running daemon with a socket and a state directory of its own.
pub struct Daemon {
    dir: tempfile::TempDir,
    address: String,
    settings: Vec<String>,
    /// Variables of its environment, besides those of the test.
    environment: Vec<(String, String)>,
    /// A program, with arguments, that starts it: a tracer.
    under: Vec<String>,
    child: Option<Child>,
}

impl Daemon {
    /// Starts a daemon for the engine at `address` (`off` = none) and waits until it answers.
    pub fn start(address: &str, settings: &[&str]) -> Daemon {
        Daemon::start_configured(address, settings, "")
    }

    /// The same with a configuration file of this content, at [`Daemon::config`].
    pub fn start_configured(address: &str, settings: &[&str], config: &str) -> Daemon {
        let dir = tempfile::Builder::new().prefix("flowcond-").tempdir().unwrap();
        fs::write(dir.path().join("flowcond.toml"), config).unwrap();
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut daemon = Daemon {
            dir,
            address: address.to_owned(),
            settings,
            under: Vec::new(),
            environment: Vec::new(),
            child: None,
        };
        daemon.boot();
        daemon
    }

    /// The same without an engine, with its state in a folder that the test has prepared.
    pub fn start_over(state: &std::path::Path, settings: &[&str]) -> Daemon {
        let dir = tempfile::Builder::new().prefix("flowcond-").tempdir().unwrap();
        std::os::unix::fs::symlink(state, dir.path().join("state")).unwrap();
        fs::write(dir.path().join("flowcond.toml"), "").unwrap();
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut daemon = Daemon {
            dir,
            address: "off".to_owned(),
            settings,
            under: Vec::new(),
            environment: Vec::new(),
            child: None,
        };
        daemon.boot();
        daemon
    }

    /// The same without an engine, with these variables in its environment.
    pub fn start_with(environment: &[(&str, &str)], settings: &[&str]) -> Daemon {
        let dir = tempfile::Builder::new().prefix("flowcond-").tempdir().unwrap();
        fs::write(dir.path().join("flowcond.toml"), "").unwrap();
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let environment = environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let address = "off".to_owned();
        let mut daemon = Daemon { dir, address, settings, environment, under: Vec::new(), child: None };
        daemon.boot();
        daemon
    }

    /// Starts it (again), over the same state, and waits until it answers.
    pub fn boot(&mut self) {
        self.launch();
        eventually("flowcond answers", Duration::from_secs(20), || {
            self.flowctl(&["ps"]).status.success().then_some(())
        });
    }

    /// Starts it under another program and waits for nothing. The program must leave it as its own child: `strace --daemonize`.
    pub fn launch_under(&mut self, under: &[&str]) {
        self.under = under.iter().map(|word| (*word).to_owned()).collect();
        self.launch();
        self.under.clear();
    }

    /// Starts it and waits for nothing.
    pub fn launch(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        let words = self.under.iter().map(String::as_str).chain([env!("CARGO_BIN_EXE_flowcond")]);
        let words: Vec<&str> = words.collect();
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .arg("--config")
            .arg(self.config())
            .arg("--socket")
            .arg(self.socket())
            .arg("--state-dir")
            .arg(self.state_dir());
        command.args(["--set", &format!("engine.address={}", self.address)]);
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        self.child = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s.sock")
    }

    pub fn config(&self) -> PathBuf {
        self.dir.path().join("flowcond.toml")
    }

    pub fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// What it logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Runs `flowctl` against it.
    pub fn flowctl(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_flowctl")).arg("--socket").arg(self.socket()).args(arguments).output().unwrap()
    }

    /// Runs `flowctl`, which must succeed.
    pub fn told(&self, arguments: &[&str]) -> String {
        let output = self.flowctl(arguments);
        assert!(output.status.success(), "flowctl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// All governed containers of one instant, as the API tells them.
    pub fn jobs(&self) -> Vec<Value> {
        let listed: Value = serde_json::from_str(&self.told(&["ps", "-o", "json"])).unwrap();
        listed.get("containers").unwrap_or(&listed).as_array().unwrap().clone()
    }

    /// The governed container of that name.
    pub fn job(&self, name: &str) -> Option<Value> {
        self.jobs().into_iter().find(|job| job["name"] == name)
    }

    /// Waits until the container of that name fits, and gives it.
    pub fn job_that(&self, name: &str, what: &str, within: Duration, mut fits: impl FnMut(&Value) -> bool) -> Value {
        let mut last = None;
        let until = Instant::now() + within * BUSY;
        while Instant::now() < until {
            last = self.job(name);
            if let Some(job) = last.as_ref().filter(|job| fits(job)) {
                return job.clone();
            }
            sleep(Duration::from_millis(100));
        }
        panic!("{name}: not within {within:?}: {what}; last seen: {last:#?}\n{}", self.log());
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        Command::new("kill").args([&format!("-{signal}"), &self.pid().to_string()]).status().unwrap();
    }

    /// Ends it with a signal and waits.
    pub fn end(&mut self, signal: &str) {
        let Some(mut child) = self.child.take() else { return };
        Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        child.wait().unwrap();
    }

    /// `flowcond restore` over its state, as the unit does after a crash.
    pub fn restore(&self) -> String {
        let output = self.restoring().output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// The command that [`Daemon::restore`] runs.
    pub fn restoring(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowcond"));
        command.args(["restore", "--state-dir"]).arg(self.state_dir());
        command.args(["--set", &format!("engine.address={}", self.address)]);
        command
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // What a failed test leaves to whoever reads of it in CI. Not `told`: a second panic would end everything at once.
        if std::thread::panicking() && self.child.is_some() {
            let status = self.flowctl(&["status", "-o", "json"]).stdout;
            eprintln!("its status: {}\nits log:\n{}", String::from_utf8_lossy(&status), self.log());
        }
        self.end("TERM");
    }
}
