//! `flowctl record`: the daemon's ticks, whole line by whole line, into a file that `flowsim replay` decides again.
//!
//! A recording may end after any line, so nothing that was written is lost when either side stops. Imports: the API's client.

use crate::api::client::{Client, LineStream};
use crate::term::exit::{Exit, Failure};
use crate::term::when;
use clap::Args;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// A week; what is longer is a mistake.
const LONGEST: Duration = Duration::from_secs(604_800);

/// Arguments of `flowctl record`.
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// Where the recording goes; `-` is standard output
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,
    /// How long, as 90s, 10m, 2h; without it until Ctrl-C
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    within: Option<Duration>,
}

fn duration(text: &str) -> Result<Duration, String> {
    when::duration_within(text, Duration::from_secs(1), LONGEST)
}

/// Why a recording ended.
enum End {
    /// The time is over, or Ctrl-C.
    Asked,
    /// The daemon let go.
    Daemon,
}

/// Records until the time is over or a signal says so.
pub async fn record(client: &Client, args: &RecordArgs) -> Result<(), Failure> {
    // Opened before the file, so that without a daemon there is no file either.
    let mut recording = client.recording().await?;
    let mut out = open(&args.file)?;
    let unwritable = |error| unwritable(&args.file, error);
    let mut lines = 0;
    let mut over = std::pin::pin!(over(args.within));
    let end = loop {
        let arrived = tokio::select! {
            () = &mut over => break End::Asked,
            arrived = next(&mut recording) => arrived?,
        };
        let Some(text) = arrived else { break End::Daemon };
        lines += text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{\"tick\"")).count();
        out.write_all(&text).and_then(|()| out.flush()).map_err(unwritable)?;
    };
    let shown = args.file.display();
    match end {
        End::Asked => {
            eprintln!("flowctl: {lines} ticks recorded; `flowsim replay {shown}` decides them again");
            Ok(())
        }
        End::Daemon => Err(Failure::new(
            Exit::Failed,
            format!(
                "the daemon ended the recording after {lines} ticks: it stopped, or the lines were read too slowly"
            ),
            format!("what was recorded is whole: `flowsim replay {shown}`; start another recording for the rest"),
        )),
    }
}

async fn next(recording: &mut LineStream) -> Result<Option<Vec<u8>>, Failure> {
    Ok(recording.next().await?)
}

fn open(path: &Path) -> Result<Box<dyn Write>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    File::create(path).map(|file| Box::new(file) as Box<dyn Write>).map_err(|error| unwritable(path, error))
}

fn unwritable(path: &Path, error: io::Error) -> Failure {
    if path == Path::new("-") {
        return error.into();
    }
    let message = format!("cannot write the recording to {}: {error}", path.display());
    Failure::new(Exit::Failed, message, "check the folder, its permissions and the free space")
}

/// Ends with the time, or with Ctrl-C, SIGTERM or SIGHUP.
async fn over(within: Option<Duration>) {
    let time = async {
        match within {
            Some(within) => tokio::time::sleep(within).await,
            None => std::future::pending().await,
        }
    };
    let told = async |kind| match signal(kind) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = time => {}
        () = told(SignalKind::interrupt()) => {}
        () = told(SignalKind::terminate()) => {}
        () = told(SignalKind::hangup()) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)));
        }
        for wrong in ["", "s", "ten", "0s", "-1m", "nan", "1000h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
