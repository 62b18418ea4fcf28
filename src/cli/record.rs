//! `flowctl record`: records the daemon's ticks, line by line, into a file for `flowsim replay`.
//!
//! A recording is valid up to any line, so nothing is lost when either side stops.

use api::client::{Client, LineStream};
use clap::Args;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use term::exit::{Exit, Failure};
use term::message;
use term::when;
use tokio::signal::unix::{SignalKind, signal};

/// Maximum duration: one week; a longer one is probably a mistake.
const LONGEST: Duration = Duration::from_secs(604_800);

/// Arguments of `flowctl record`.
#[derive(Args, Debug)]
pub(crate) struct RecordArgs {
    /// The file to write; `-` is standard output
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,
    /// Duration, such as 90s, 10m, 2h [default: until Ctrl-C]
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    within: Option<Duration>,
}

fn duration(text: &str) -> Result<Duration, String> {
    when::duration_within(text, Duration::from_secs(1), LONGEST)
}

/// Why a recording ended.
enum End {
    /// The duration is over, or a signal was received.
    Requested,
    /// The daemon closed the stream.
    Daemon,
}

/// Records until the duration is over or a signal is received.
pub(crate) async fn record(client: &Client, args: &RecordArgs) -> Result<(), Failure> {
    // The stream is opened first, so that no file is created without a daemon.
    let mut recording = client.recording().await?;
    let mut out = open(&args.file)?;
    let unwritable = |error| unwritable(&args.file, error);
    let mut lines = 0;
    let mut over = std::pin::pin!(over(args.within));
    let end = loop {
        let arrived = tokio::select! {
            () = &mut over => break End::Requested,
            arrived = next(&mut recording) => arrived?,
        };
        let Some(text) = arrived else { break End::Daemon };
        lines += text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{\"tick\"")).count();
        out.write_all(&text).and_then(|()| out.flush()).map_err(unwritable)?;
    };
    let shown = args.file.display();
    match end {
        End::Requested => {
            message::print(format_args!("{lines} ticks recorded; `flowsim replay {shown}` replays them"));
            Ok(())
        }
        End::Daemon => Err(Failure::new(
            Exit::Failed,
            format!(
                "the daemon ended the recording after {lines} ticks: it stopped, or the recording was read too slowly"
            ),
            format!("the recording is valid up to there: `flowsim replay {shown}`; start another one for the rest"),
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
    Failure::new(Exit::Failed, message, "check that the folder exists, its permissions and the free space")
}

/// Returns when the duration is over, or on SIGINT, SIGTERM or SIGHUP.
async fn over(within: Option<Duration>) {
    let time = async {
        match within {
            Some(within) => tokio::time::sleep(within).await,
            None => std::future::pending().await,
        }
    };
    let received = async |kind| match signal(kind) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = time => {}
        () = received(SignalKind::interrupt()) => {}
        () = received(SignalKind::terminate()) => {}
        () = received(SignalKind::hangup()) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_with_and_without_a_unit_are_parsed() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)));
        }
        for wrong in ["", "s", "ten", "0s", "-1m", "nan", "1000h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
