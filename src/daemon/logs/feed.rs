//! Source of a container's log.

use docker::LogFormat;
use std::path::Path;
use std::time::Duration;
use tail::Source;

/// Source of a container's log.
#[derive(Debug)]
pub(crate) enum LogFeed {
    /// The engine's json-file.
    JsonFile(std::path::PathBuf),
    /// Plain bytes: a command's output, or the file that `flowcon.log` names.
    Plain(Source),
    /// The engine's logs API.
    Api(LogFormat),
}

pub(super) const GROWS_TOO_FAST: &str = "its log is written faster than it can be read: parts of it were skipped";
/// How long a warning stays after the last time that parts of a log were skipped.
pub(super) const SKIPS_SHOWN_FOR: Duration = Duration::from_secs(600);

/// Whether only the engine may read this log: a daemon of an ordinary user who may use the engine, as in a demo.
pub(crate) fn is_closed_to_us(log: &Path) -> bool {
    !rustix::process::geteuid().is_root() && std::fs::File::open(log).is_err()
}
