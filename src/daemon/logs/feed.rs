//! What there is to read of a container. Imports: host's engine and files.

use crate::host::docker::LogFormat;
use crate::host::tail::Source;

/// What to read for a container.
#[derive(Debug)]
pub(in crate::daemon) enum LogFeed {
    /// The engine's json-file.
    JsonFile(std::path::PathBuf),
    /// Plain bytes: a command's output, or the file that `flowcon.log` names.
    Plain(Source),
    /// The engine's logs API.
    Api(LogFormat),
}

pub(super) const GROWS_TOO_FAST: &str = "its log grows faster than it is worth reading: parts of it were skipped";
