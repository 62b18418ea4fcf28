//! Source of a container's log.

use docker::LogFormat;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tail::Source;
use traininglog::LogFile;

/// Source of a container's log.
#[derive(Debug)]
pub(crate) enum LogFeed {
    /// A file of the engine or runtime, which wraps each line.
    Wrapped(PathBuf, LogFile),
    /// Plain bytes: a command's output, or the file that `flowcon.log` names.
    Plain(Source),
    /// The engine's logs API.
    Api(LogFormat),
}

pub(super) const GROWS_TOO_FAST: &str = "its log is written faster than it can be read: parts of it were skipped";
/// How long a warning stays after the last time that parts of a log were skipped.
pub(super) const SKIPS_SHOWN_FOR: Duration = Duration::from_secs(600);

/// Whether only the engine can read this log: the daemon belongs to an ordinary user who may use the engine, as in a demo, or runs in a
/// container that has none of the engine's files.
pub(crate) fn is_closed_to_us(log: &Path) -> bool {
    let is_out_of_sight = !log.parent().is_some_and(Path::is_dir);
    is_out_of_sight || (!rustix::process::geteuid().is_root() && std::fs::File::open(log).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_in_a_directory_that_is_not_here_is_read_through_the_engine() {
        let folder = tempfile::tempdir().unwrap();
        assert!(is_closed_to_us(&folder.path().join("elsewhere/x-json.log")));
        let here = folder.path().join("x-json.log");
        std::fs::write(&here, "").unwrap();
        assert!(!is_closed_to_us(&here));
    }
}
