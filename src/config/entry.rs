//! The origin of a value, and the errors that report it.

use super::value::Value;
use std::fmt;
use std::path::PathBuf;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of a file, counted from 1.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Line number.
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
    /// Name of the key, for example `policy.interval`.
    pub key: String,
    /// The value as written.
    pub(super) value: Value,
    /// Where it was set.
    pub origin: Origin,
}

/// An error in the configuration: where it is, and what is expected there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("{path}: {reason}; check the path and its permissions, or select another file with --config")]
    Unreadable {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        reason: String,
    },
    /// A file is not valid TOML.
    #[error("{origin}: {reason}")]
    Syntax {
        /// Where it is.
        origin: Origin,
        /// Message of the parser.
        reason: String,
    },
    /// The key does not exist.
    #[error("{origin}: unknown key `{key}`{}", suggestion.as_ref().map(|key| format!("; did you mean `{key}`?")).unwrap_or_default())]
    UnknownKey {
        /// Where it is.
        origin: Origin,
        /// The key.
        key: String,
        /// The most similar existing key.
        suggestion: Option<String>,
    },
    /// The value is invalid.
    #[error("{origin}: `{key}`: {expected}")]
    BadValue {
        /// Where it is.
        origin: Origin,
        /// The key.
        key: String,
        /// What is expected.
        expected: String,
    },
}
