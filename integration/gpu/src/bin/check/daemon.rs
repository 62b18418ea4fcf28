//! A `flowcond` of the check.

use crate::{Check, Outcome};
use serde_json::Value;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A `flowcond` of the check, without an engine.
pub struct Daemon<'check> {
    check: &'check Check,
    pub child: Child,
    pub socket: PathBuf,
    log: PathBuf,
}

impl Daemon<'_> {
    pub fn start<'check>(check: &'check Check, settings: &[&str]) -> Outcome<Daemon<'check>> {
        let (socket, log) = (check.folder.join("s.sock"), check.folder.join("daemon.log"));
        let file = File::options().create(true).append(true).open(&log).map_err(|error| error.to_string())?;
        let mut command = Command::new(&check.flowcond);
        command.arg("--socket").arg(&socket).arg("--state-dir").arg(check.folder.join("state"));
        for setting in settings.iter().chain(&["engine.address=off", "history.enabled=false", "api.group="]) {
            command.args(["--set", setting]);
        }
        let child = command.stdout(Stdio::null()).stderr(file).spawn().map_err(|error| error.to_string())?;
        let daemon = Daemon { check, child, socket, log };
        let until = Instant::now() + Duration::from_secs(60);
        while daemon.status().is_null() {
            if Instant::now() > until {
                return Err(format!("flowcond does not respond; its log:\n{}", daemon.log()));
            }
            sleep(Duration::from_millis(100));
        }
        Ok(daemon)
    }

    /// Returns its current status; null if it does not respond.
    pub fn status(&self) -> Value {
        let mut command = Command::new(&self.check.flowctl);
        let output = command.arg("--socket").arg(&self.socket).args(["status", "-o", "json"]).output();
        output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn end(mut self) -> Outcome<()> {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let ended = self.child.wait().map_err(|error| error.to_string())?;
        if ended.success() { Ok(()) } else { Err(format!("flowcond ended with {ended}; its log:\n{}", self.log())) }
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill(); // still running only if the check failed
        let _ = self.child.wait();
    }
}
