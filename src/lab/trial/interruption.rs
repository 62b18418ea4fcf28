//! The signals that end a trial early.

use term::exit::{Exit, Failure};
use tokio::signal::unix::{SignalKind, signal};

/// Returns a future that waits for SIGINT, SIGTERM or SIGHUP. A signal counts from this call on, also before the future is polled.
pub(crate) fn interrupted() -> impl Future<Output = Failure> {
    let ended = |name: &str| {
        Failure::new(Exit::Failed, format!("interrupted by {name}; everything was removed"), "start it again")
    };
    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    async move {
        let [Ok(mut int), Ok(mut term), Ok(mut hup)] = signals else { return std::future::pending().await };
        tokio::select! {
            _ = int.recv() => ended("Ctrl-C"),
            _ = term.recv() => ended("SIGTERM"),
            _ = hup.recv() => ended("SIGHUP"),
        }
    }
}
