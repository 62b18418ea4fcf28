//! What `flowctl run` and the daemon say to each other: a line of JSON each, closed and bounded.
//!
//! A connection registers one command at most. Nothing in a request says who asks or which process is meant: the kernel does
//! (`SO_PEERCRED`, a pidfd), for the daemon believes nobody.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// No line is longer.
pub const LONGEST_LINE: usize = 64 << 10;
/// Descriptors of a registration: the process (a pidfd), then its output.
pub const DESCRIPTORS: usize = 2;

/// What a client may ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Govern the process whose pidfd comes with this, together with the descriptor of its output.
    Register(Registration),
    /// Tell about the jobs of the user who asks.
    Jobs {},
    /// The registered command has ended. Only a hint: whether it has is seen in its cgroup.
    End {
        /// As the shell says it.
        exit_code: Option<u8>,
    },
}

/// A command that wants to be governed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Registration {
    /// Its name, of which its cgroup is called too.
    pub name: String,
    /// Labels as given: `flowcon.*` and any other.
    pub labels: BTreeMap<String, String>,
    /// What runs, word by word: two runs of the same command by the same user are runs of one training.
    pub command: Vec<String>,
    /// The number that the output's descriptor has in the asking process, for whoever may look there.
    pub output: i32,
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The command is governed from now on.
    Registered {
        /// Its name in `flowctl status`.
        name: String,
    },
    /// The jobs asked for, as `GET /v1/containers` tells them.
    Jobs(serde_json::Value),
    /// The hint was taken.
    Noted {},
    /// No, and why.
    Refused {
        /// What is wrong.
        message: String,
        /// What to do about it.
        next: String,
    },
}

impl Answer {
    /// A refusal.
    pub fn refused(message: impl Into<String>, next: impl Into<String>) -> Answer {
        Answer::Refused { message: message.into(), next: next.into() }
    }
}

/// Reads a request.
///
/// # Errors
/// What is wrong with it, in words fit for a terminal.
pub fn request(line: &[u8]) -> Result<Request, String> {
    if line.len() > LONGEST_LINE {
        return Err(format!("a request has at most {LONGEST_LINE} bytes"));
    }
    serde_json::from_slice(line).map_err(|error| {
        let words = error.to_string();
        words.chars().map(|c| if c.is_control() { '?' } else { c }).take(200).collect()
    })
}

/// A message as its line.
pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("messages have only strings, numbers and maps with string keys");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written_and_nothing_else_is() {
        let register = Request::Register(Registration {
            name: "train".to_owned(),
            labels: [("flowcon.metric".to_owned(), "loss".to_owned())].into(),
            command: vec!["python".to_owned(), "train.py".to_owned()],
            output: 5,
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
