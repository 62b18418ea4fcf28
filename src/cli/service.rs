//! What every daemon's command line does alike: where its log goes, and the threads that it runs on. Imports: tokio, tracing.

use std::future::Future;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The engine's client would log whole answers, and those hold the environments of containers.
const QUIET: &str = "bollard=warn,hyper=warn,notify=error,zbus=warn";

/// Two threads: one for the loop, one for what blocks on the disk.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| format!("no threads to run on: {error}"))?;
    let ended = runtime.block_on(work);
    runtime.shutdown_background();
    ended
}

/// Under systemd with fields, otherwise as lines on the standard error.
pub(super) fn log_to_journal_or_stderr(level: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(format!("{level},{QUIET}")).map_err(|error| format!("--log {level}: {error}"))?;
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
