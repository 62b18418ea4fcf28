//! A training of the check.

use crate::daemon::Daemon;
use crate::{Check, Outcome};
use flowcon_gpu_check::log::Line;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Instant;

/// A training under `flowctl run`.
pub struct Training {
    pub name: String,
    pub child: Child,
    log: PathBuf,
    /// Seconds from the start to the end, and whether it succeeded.
    pub ended: Option<(f64, bool)>,
}

impl Training {
    pub fn start(check: &Check, daemon: &Daemon<'_>, number: usize, steps: u64) -> Outcome<Training> {
        let name = format!("training-{}-{number}", std::process::id());
        let log = check.folder.join(format!("{name}.log"));
        let file = File::create(&log).map_err(|error| error.to_string())?;
        let training = check.training(steps, number + 1);
        let mut command = Command::new(&check.flowctl);
        command.arg("--socket").arg(&daemon.socket).args(["run", "--name", &name, "--"]);
        command.arg(training.get_program()).args(training.get_args());
        let child = command.stdout(file).spawn().map_err(|error| error.to_string())?;
        Ok(Training { name, child, log, ended: None })
    }

    pub fn poll(&mut self, began: Instant) -> Outcome<()> {
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait().map_err(|error| error.to_string())?
        {
            self.ended = Some((began.elapsed().as_secs_f64(), status.success()));
        }
        Ok(())
    }

    /// Returns its last line about progress.
    pub fn line(&self) -> Option<Line> {
        Line::last(&self.log())
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}
