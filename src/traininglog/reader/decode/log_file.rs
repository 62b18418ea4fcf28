//! The files in which container engines and runtimes keep the output of a container.

use super::cri_file::CriFile;
use super::json_file::JsonFile;

/// Unwraps a file of one of these formats as its bytes arrive. Small, without a buffer.
#[derive(Clone, Copy, Debug)]
pub enum LogFile {
    /// Docker's `json-file`.
    Json(JsonFile),
    /// The format of the container runtimes of Kubernetes.
    Cri(CriFile),
}

impl LogFile {
    /// Docker's `json-file`, at its beginning.
    pub fn json() -> LogFile {
        LogFile::Json(JsonFile::default())
    }

    /// The format of the container runtimes of Kubernetes, at its beginning.
    pub fn cri() -> LogFile {
        LogFile::Cri(CriFile::default())
    }

    /// The format with this [name](LogFile::name), at its beginning.
    pub fn named(name: &str) -> Option<LogFile> {
        [LogFile::json(), LogFile::cri()].into_iter().find(|file| file.name() == name)
    }

    /// Name of the format.
    pub fn name(&self) -> &'static str {
        match self {
            LogFile::Json(_) => "json-file",
            LogFile::Cri(_) => "cri",
        }
    }

    /// Decodes the next bytes of the file, which may be cut anywhere. Passes the container's output to `each` in pieces.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        match self {
            LogFile::Json(file) => file.push(bytes, |_, text| each(text)),
            LogFile::Cri(file) => file.push(bytes, each),
        }
    }
}
