//! A private `flowcond` for a test, used through `flowctl`.

#![allow(dead_code)] // each test binary needs only a part of it
#![allow(clippy::unwrap_used)] // tests fail by panicking, also in their support code

use serde_json::Value;
use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Factor by which timeouts are extended for busy machines; it costs nothing if the awaited condition occurs.
pub const BUSY_FACTOR: u32 = 6;

/// `flowctl`'s exit codes for a command that takes longer than its reply may, and continues.
const FAILED: i32 = 1;
pub const TIMEOUT: i32 = 7;
/// What it reports about an adopted or disowned container if the command is repeated.
const CARRIED_OUT: [&str; 2] = ["is already adopted", "no governed container"];

/// Polls until `probe` returns a value; panics with `what` after `within * BUSY_FACTOR`.
pub fn eventually<T>(what: &str, within: Duration, probe: impl FnMut() -> Option<T>) -> T {
    eventually_or(what, within, probe, String::new)
}

/// Like [`eventually`], with diagnostics in the message of the panic.
pub fn eventually_or<T>(
    what: &str,
    within: Duration,
    mut probe: impl FnMut() -> Option<T>,
    diagnostics: impl Fn() -> String,
) -> T {
    let until = Instant::now() + within * BUSY_FACTOR;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < until, "not within {within:?}: {what}\n{}", diagnostics());
        sleep(Duration::from_millis(100));
    }
}

/// Fails if a daemon with this log said that weights have no effect: no test takes them out of force.
pub fn assert_weights_decide(log: &str) {
    assert!(std::thread::panicking() || !log.contains("CPU weights have no effect"), "{log}");
}

/// Text without line breaks from wrapping.
pub fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs a command that releases, governs, restores, adopts or disowns, until it has been carried out. If the engine takes some seconds, as
/// on a busy machine, the daemon reports that and continues. Returns the standard output, or nothing if it was done meanwhile.
pub fn carried_out(what: &str, run: impl Fn() -> Output) -> String {
    let (mut is_late, why) = (false, RefCell::new(String::new()));
    let probe = || {
        let output = run();
        if output.status.success() {
            return Some(String::from_utf8(output.stdout).unwrap());
        }
        *why.borrow_mut() = String::from_utf8_lossy(&output.stderr).into_owned();
        if is_late && CARRIED_OUT.iter().any(|text| why.borrow().contains(text)) {
            return Some(String::new());
        }
        is_late |= matches!(output.status.code(), Some(FAILED | TIMEOUT));
        assert!(is_late, "{what}: {}", why.borrow());
        None
    };
    eventually_or(&format!("{what} is carried out"), Duration::from_secs(30), probe, || why.borrow().clone())
}

/// A running daemon with a private socket and state directory.
pub struct Daemon {
    dir: tempfile::TempDir,
    address: String,
    settings: Vec<String>,
    /// Additional environment variables.
    environment: Vec<(String, String)>,
    /// A program, with arguments, that starts it, such as a tracer.
    under: Vec<String>,
    child: Option<Child>,
}

impl Daemon {
    /// Like [`Daemon::start`], with the environment of the systemd unit, for a measurement.
    pub fn start_as_unit(address: &str, settings: &[&str]) -> Daemon {
        let unit = include_str!("../../systemd/flowcond.service");
        let lines = unit.lines().filter_map(|line| line.strip_prefix("Environment="));
        let variables = lines.flat_map(str::split_whitespace).filter_map(|variable| variable.split_once('='));
        let mut daemon = Daemon::new(address, settings);
        daemon.environment = variables.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        daemon.booted()
    }

    /// Starts a daemon for the engine at `address` (`off` = none) and waits until it replies.
    pub fn start(address: &str, settings: &[&str]) -> Daemon {
        Daemon::start_configured(address, settings, "")
    }

    /// Like [`Daemon::start`], with this content of the configuration file at [`Daemon::config`].
    pub fn start_configured(address: &str, settings: &[&str], config: &str) -> Daemon {
        let daemon = Daemon::new(address, settings);
        fs::write(daemon.config(), config).unwrap();
        daemon.booted()
    }

    /// Starts a daemon without an engine, with its state in a prepared folder.
    pub fn start_over(state: &Path, settings: &[&str]) -> Daemon {
        let daemon = Daemon::new("off", settings);
        symlink(state, daemon.state_dir()).unwrap();
        daemon.booted()
    }

    /// Starts a daemon without an engine, with additional environment variables.
    pub fn start_with(environment: &[(&str, &str)], settings: &[&str]) -> Daemon {
        let mut daemon = Daemon::new("off", settings);
        daemon.environment = environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        daemon.booted()
    }

    /// A daemon that has not been started, with an empty configuration file in a folder of its own.
    fn new(address: &str, settings: &[&str]) -> Daemon {
        let dir = tempfile::Builder::new().prefix("flowcond-").tempdir().unwrap();
        let daemon = Daemon {
            dir,
            address: address.to_owned(),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            environment: Vec::new(),
            under: Vec::new(),
            child: None,
        };
        fs::write(daemon.config(), "").unwrap();
        daemon
    }

    fn booted(mut self) -> Daemon {
        self.boot();
        self
    }

    /// Starts the daemon (again) with the same state and waits until it replies.
    pub fn boot(&mut self) {
        self.launch();
        eventually("flowcond replies", Duration::from_secs(20), || {
            self.flowctl(&["ps"]).status.success().then_some(())
        });
    }

    /// Starts the daemon under another program without waiting. The daemon must stay this process's child: `strace --daemonize`.
    pub fn launch_under(&mut self, under: &[&str]) {
        self.under = under.iter().map(|word| (*word).to_owned()).collect();
        self.launch();
        self.under.clear();
    }

    /// Starts the daemon without waiting.
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

    /// The content of its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Runs `flowctl` with this daemon, for which a busy machine has time.
    pub fn flowctl(&self, arguments: &[&str]) -> Output {
        let mut flowctl = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        flowctl.arg("--socket").arg(self.socket()).args(["--timeout", "120"]).args(arguments).output().unwrap()
    }

    /// Runs `flowctl`, which must succeed, and returns its standard output.
    pub fn stdout_of(&self, arguments: &[&str]) -> String {
        let output = self.flowctl(arguments);
        assert!(output.status.success(), "flowctl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `flowctl` with such a command until it has been [carried out](carried_out).
    pub fn carried_out(&self, arguments: &[&str]) -> String {
        carried_out(&format!("flowctl {arguments:?}"), || self.flowctl(arguments))
    }

    /// All governed containers as reported by the API.
    pub fn jobs(&self) -> Vec<Value> {
        let listed: Value = serde_json::from_str(&self.stdout_of(&["ps", "-o", "json"])).unwrap();
        listed.get("containers").unwrap_or(&listed).as_array().unwrap().clone()
    }

    /// The governed container with this name.
    pub fn job(&self, name: &str) -> Option<Value> {
        self.jobs().into_iter().find(|job| job["name"] == name)
    }

    /// Waits until the container with this name satisfies `condition`, and returns it.
    pub fn wait_for_job(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        mut condition: impl FnMut(&Value) -> bool,
    ) -> Value {
        let what = format!("{name}: {what}");
        let probe = || self.job(name).filter(&mut condition);
        eventually_or(&what, within, probe, || format!("now: {:#?}\n{}", self.job(name), self.log()))
    }

    /// Waits until it is connected to an engine such as `docker`.
    pub fn wait_until_connected(&self, engine: &str) {
        let connected = format!("{engine}: connected");
        let probe = || self.stdout_of(&["status"]).contains(&connected).then_some(());
        eventually(&connected, Duration::from_secs(40), probe);
    }

    /// Returns the number of rows in a table of the journal that satisfy an SQL condition, from a copy: the daemon locks the original. `None`
    /// while the copy cannot be read, because the daemon was writing.
    pub fn count_in_journal(&self, table: &str, condition: &str) -> Option<u32> {
        let copy = tempfile::tempdir_in("/dev/shm").ok()?; // a busy disk would delay it
        for file in ["flowcon.db", "flowcon.db-wal"] {
            let _ = fs::copy(self.state_dir().join(file), copy.path().join(file)); // the WAL may not exist
        }
        let journal = rusqlite::Connection::open(copy.path().join("flowcon.db")).ok()?;
        journal.query_row(&format!("SELECT count(*) FROM {table} WHERE {condition}"), [], |row| row.get(0)).ok()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        Command::new("kill").args([&format!("-{signal}"), &self.pid().to_string()]).status().unwrap();
    }

    /// Ends it with a signal and waits for its exit.
    pub fn end(&mut self, signal: &str) {
        let Some(mut child) = self.child.take() else { return };
        Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        child.wait().unwrap();
    }

    /// Runs `flowcond restore` with its state, as the unit does after a crash. Repeated while the engine does not respond in time, as on a
    /// busy machine: what is not restored stays in the journal.
    pub fn restore(&self) -> String {
        let run = || self.restore_command().output().unwrap();
        let is_late = |output: &Output| {
            !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("no response within")
        };
        let output = (0..5).map(|_| run()).find(|output| !is_late(output)).unwrap_or_else(run);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// The command of [`Daemon::restore`].
    pub fn restore_command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowcond"));
        command.args(["restore", "--state-dir"]).arg(self.state_dir());
        command.args(["--set", &format!("engine.address={}", self.address)]);
        command
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        assert_weights_decide(&self.log());
        // Diagnostics of a failed test. Not `stdout_of`: a second panic would abort the process.
        if std::thread::panicking() && self.child.is_some() {
            let status = self.flowctl(&["status", "-o", "json"]).stdout;
            eprintln!("its status: {}\nits log:\n{}", String::from_utf8_lossy(&status), self.log());
        }
        self.end("TERM");
    }
}
