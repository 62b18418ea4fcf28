//! The signals that end a trial early.
//!
//! Imports: term's exit codes, tokio.

use crate::term::exit::{Exit, Failure};
use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGINT, SIGTERM or SIGHUP.
pub async fn interrupted() -> Failure {
    let ended = |code, name: &str| {
        Failure::new(code, format!("interrupted by {name}; everything was removed"), "start it again")
    };
    let (Ok(mut int), Ok(mut term), Ok(mut hup)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = int.recv() => ended(Exit::Failed, "Ctrl-C"),
        _ = term.recv() => ended(Exit::Failed, "SIGTERM"),
        _ = hup.recv() => ended(Exit::Failed, "SIGHUP"),
    }
}
