//! Follows the log of a training, and prints what is known of it as it changes.
//!
//! ```text
//! cargo run -p traininglog --example watch FILE            until Ctrl-C
//! cargo run -p traininglog --example watch -- --once FILE  to the current end of the file
//! ```

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use traininglog::{Hints, Learning, Millis, Progress, Tracker};

/// How often a file is looked at that has not grown.
const POLL_EVERY: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (once, path) = match words.as_slice() {
        ["--once", path] | [path, "--once"] => (true, *path),
        [path] if !path.starts_with("--") => (false, *path),
        _ => {
            eprintln!("usage: watch [--once] FILE");
            return ExitCode::from(2);
        }
    };
    match watch(path, once, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads any more, as of `watch FILE | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("watch: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line whenever new bytes change what is known.
fn watch(path: &str, once: bool, out: &mut impl Write) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut tracker = Tracker::new(&Hints::default());
    let (began, mut bytes, mut printed) = (Instant::now(), vec![0; 64 << 10], String::new());
    loop {
        let count = file.read(&mut bytes)?;
        if count == 0 && once {
            return Ok(());
        }
        if count == 0 {
            thread::sleep(POLL_EVERY);
            continue;
        }
        let now = Millis(began.elapsed().as_millis() as u64);
        tracker.push(&bytes[..count], now);
        let line = described(&tracker.peek(now));
        if line != printed {
            writeln!(out, "{line}")?;
            printed = line;
        }
    }
}

fn described(learning: &Learning) -> String {
    let metric = match (&learning.metric, learning.latest) {
        (Some(metric), Some(latest)) => format!("{metric} {}", latest.value),
        _ => "no metric so far".to_owned(),
    };
    // Known if the log states a total, once it was seen to grow.
    let left = learning.seconds_left().map(|left| duration(left.likely));
    let parts = [Some(metric), learning.progress.map(counted), left];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// `epoch 3 of 10`.
fn counted(progress: Progress) -> String {
    let Progress { unit, current, total, .. } = progress;
    let of = total.map_or_else(String::new, |total| format!(" of {total}"));
    format!("{} {}{of}", format!("{unit:?}").to_lowercase(), (current * 100.0).round() / 100.0)
}

fn duration(seconds: f64) -> String {
    match seconds {
        ..90.0 => format!("{seconds:.0} s left"),
        90.0..5400.0 => format!("{:.0} min left", seconds / 60.0),
        _ => format!("{:.1} h left", seconds / 3600.0),
    }
}
