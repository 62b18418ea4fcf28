//! The protocol between `flowctl run` and the daemon: closed and size-limited messages, one line of JSON each.
//!
//! A connection registers at most one command. Requests do not identify the caller or the process: the kernel does (`SO_PEERCRED`, a
//! pidfd), because callers are not trusted.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum length of a line, in bytes.
pub const LONGEST_LINE: usize = 64 << 10;
/// Number of descriptors of a registration: the process (a pidfd), then its output.
pub const DESCRIPTORS: usize = 2;

/// Requests of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Governs the process whose pidfd is attached, together with the descriptor of its output.
    Register(Registration),
    /// Requests the jobs of the calling user.
    Jobs {},
    /// The registered command has ended. Only a hint: the daemon checks its cgroup.
    End {
        /// Exit code as reported by the shell.
        exit_code: Option<u8>,
    },
}

/// A command to be governed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Registration {
    /// Its name, from which the name of its cgroup is derived.
    pub name: String,
    /// Its labels: `flowcon.*` and any others.
    pub labels: BTreeMap<String, String>,
    /// The command line: runs of the same command by the same user are runs of one training.
    pub command: Vec<String>,
    /// Number of the output's descriptor in the calling process, for readers with access to it.
    pub output: i32,
    /// Whether the daemon is to make the cgroup, because this user may not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_cgroup: bool,
}

/// Answers of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The command is governed from now on.
    Registered {
        /// Its name in `flowctl status`.
        name: String,
    },
    /// The requested jobs, in the format of `GET /v1/containers`.
    Jobs(serde_json::Value),
    /// The hint was accepted.
    Noted {},
    /// The daemon cannot make the cgroup that the command needs; the command may run ungoverned.
    NoCgroup {
        /// The cause.
        message: String,
        /// The next step.
        next: String,
    },
    /// Rejected.
    Refused {
        /// The cause.
        message: String,
        /// The next step.
        next: String,
    },
}

impl Answer {
    /// Creates a rejection.
    pub fn refused(message: impl Into<String>, next: impl Into<String>) -> Answer {
        Answer::Refused { message: message.into(), next: next.into() }
    }
}

/// Parses a request.
///
/// # Errors
/// What is wrong, as text that is safe for a terminal.
pub fn request(line: &[u8]) -> Result<Request, String> {
    if line.len() > LONGEST_LINE {
        return Err(format!("a request must have at most {LONGEST_LINE} bytes"));
    }
    serde_json::from_slice(line).map_err(|error| {
        let words = error.to_string();
        words.chars().map(|c| if c.is_control() { '?' } else { c }).take(200).collect()
    })
}

/// Encodes a message as a line.
pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("messages have only strings, numbers and maps with string keys");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_parses_to_what_was_written_and_invalid_requests_are_rejected() {
        let register = Request::Register(Registration {
            name: "train".to_owned(),
            labels: [("flowcon.metric".to_owned(), "loss".to_owned())].into(),
            command: vec!["python".to_owned(), "train.py".to_owned()],
            output: 5,
            needs_cgroup: true,
        });
        for asked in [register, Request::Jobs {}, Request::End { exit_code: Some(1) }] {
            assert_eq!(request(line(&asked).trim_ascii_end()), Ok(asked));
        }
        for wrong in ["", "{}", "[]", "{\"register\":{}}", "{\"jobs\":{\"uid\":0}}", "{\"restore\":{}}", "\u{1b}[2J"] {
            let why = request(wrong.as_bytes()).expect_err(wrong);
            assert!(!why.contains('\u{1b}') && why.len() < 900, "{why}");
        }
        assert!(request("[".repeat(60_000).as_bytes()).is_err());
        assert!(request(&vec![b' '; LONGEST_LINE + 1]).is_err());
    }
}
