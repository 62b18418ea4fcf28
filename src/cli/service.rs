//! Logging, threads and signals, shared by the command lines of the daemons.

use std::future::Future;
use std::io::IsTerminal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The engine's client would log whole responses, which contain the environments of containers.
const QUIET: &str = "bollard=warn,hyper=warn,zbus=warn";

/// Runs `work` on two threads: one for the main loop, one for blocking disk access.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
    let ended = runtime.block_on(work);
    runtime.shutdown_background();
    ended
}

/// Sends the log to the journal with fields under systemd, otherwise to standard error as lines.
pub(super) fn log_to_journal_or_stderr(level: &str) -> Result<(), String> {
    let filter: Targets = format!("{level},{QUIET}").parse().map_err(|error| format!("--log {level}: {error}"))?;
    let registry = tracing_subscriber::registry().with(filter);
    if std::env::var_os("JOURNAL_STREAM").is_some()
        && let Ok(journal) = tracing_journald::layer()
    {
        registry.with(journal).init();
        return Ok(());
    }
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false).with_ansi(colours);
    registry.with(lines).init();
    Ok(())
}

/// Sends `reload` on SIGHUP and `stop` on SIGTERM and SIGINT. `instead` says what an operator can do if signals cannot be handled.
pub(super) async fn forward_signals<T: Copy>(control: mpsc::Sender<T>, reload: T, stop: T, instead: &str) {
    let caught = (signal(SignalKind::hangup()), signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    let (Ok(mut hangup), Ok(mut terminate), Ok(mut interrupt)) = caught else {
        tracing::error!("cannot handle signals; {instead}");
        return std::future::pending().await; // keeps the channel open: closing it would stop the daemon
    };
    loop {
        let request = tokio::select! {
            _ = hangup.recv() => reload,
            _ = terminate.recv() => stop,
            _ = interrupt.recv() => stop,
        };
        if control.send(request).await.is_err() {
            return;
        }
    }
}
