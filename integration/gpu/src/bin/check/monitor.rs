//! The figures of nvidia-smi, for comparison.

use flowcon_gpu_check::pmon::Monitored;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Lines with the times at which they were printed.
type Lines = Arc<Mutex<Vec<(Instant, String)>>>;

/// `nvidia-smi pmon` during the trainings, if it is installed.
pub struct Monitor {
    child: Option<Child>,
    lines: Lines,
}

impl Monitor {
    pub fn start() -> Monitor {
        let lines = Lines::default();
        let started =
            Command::new("nvidia-smi").args(["pmon", "-s", "u"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = started.ok();
        if let Some(output) = child.as_mut().and_then(|child| child.stdout.take()) {
            let lines = Arc::clone(&lines);
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    lines.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), line));
                }
            });
        }
        Monitor { child, lines }
    }

    /// Returns the figures that were printed after `from` and until `to`.
    pub fn end(mut self, (from, to): (Instant, Instant)) -> Monitored {
        if let Some(child) = &mut self.child {
            let _ = child.kill(); // may have ended already
            let _ = child.wait();
        }
        let mut monitored = Monitored::default();
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, line) in lines.iter().filter(|(at, line)| line.starts_with('#') || (*at > from && *at <= to)) {
            monitored.line(line);
        }
        monitored
    }
}
