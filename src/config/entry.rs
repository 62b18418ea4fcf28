//! Where a value came from, and the error that says so.

use super::value::Value;
use std::fmt;
use std::path::PathBuf;

/// Who said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of a file, counted from 1.
    File {
        /// Which file.
        path: PathBuf,
        /// Which line.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
    /// A command-line flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Environment(name) => write!(f, "environment variable {name}"),
            Origin::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One value for one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// `policy.interval`.
    pub key: String,
    /// As written.
    pub(super) value: Value,
    /// By whom.
    pub origin: Origin,
}

/// What is wrong with the configuration, where, and what is expected there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A file that cannot be read.
    #[error("{path}: {reason}; create it, or name another with --config")]
    Unreadable {
        /// Which file.
        path: String,
        /// The system's answer.
        reason: String,
    },
    /// A file that is not TOML.
    #[error("{origin}: {reason}")]
    Syntax {
        /// Where.
        origin: Origin,
        /// The parser's words.
        reason: String,
    },
    /// A key that does not exist.
    #[error("{origin}: unknown key `{key}`{}", suggestion.as_ref().map(|key| format!("; did you mean `{key}`?")).unwrap_or_default())]
    UnknownKey {
        /// Where.
        origin: Origin,
        /// The key.
        key: String,
        /// The nearest key that exists.
        suggestion: Option<String>,
    },
    /// A value that does not fit.
    #[error("{origin}: `{key}`: {expected}")]
    BadValue {
        /// Where.
        origin: Origin,
        /// The key.
        key: String,
        /// What is expected.
        expected: String,
    },
}
