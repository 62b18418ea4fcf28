//! What can go wrong between the daemon and an engine, in words that end with the next step. Imports: std only.

use super::CALL_TIMEOUT;
use std::path::PathBuf;

/// A call to the engine that failed: which operation, on what, and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Nobody listens, or the connection broke.
    #[error(
        "{operation}: no connection to the engine at {}: {why}; see that it runs (systemctl status docker) \
         and that DOCKER_HOST or the configuration names its socket; where there is none, set engine.address = \"off\"",
        socket.display()
    )]
    Unreachable {
        /// What was asked.
        operation: String,
        /// Where.
        socket: PathBuf,
        /// The system's words.
        why: String,
    },
    /// The engine took longer than [`CALL_TIMEOUT`].
    #[error("{operation}: no answer within {} s; the engine hangs or is overloaded: see its log", CALL_TIMEOUT.as_secs())]
    Timeout {
        /// What was asked.
        operation: String,
    },
    /// The container is no longer there, or no longer runs.
    #[error("{operation}: the container is gone ({why}); nothing to do")]
    Gone {
        /// What was asked.
        operation: String,
        /// The engine's words.
        why: String,
    },
    /// The engine understood and said no.
    #[error("{operation}: the engine refused (status {status}): {message}; see docker inspect and the engine's log")]
    Refused {
        /// What was asked.
        operation: String,
        /// HTTP status.
        status: u16,
        /// The engine's words, shortened.
        message: String,
    },
    /// What came back is not what an engine says.
    #[error("{operation}: the answer cannot be understood: {why}; see that the socket is a Docker or Podman engine's")]
    InvalidResponse {
        /// What was asked.
        operation: String,
        /// What was wrong with it.
        why: String,
    },
}

impl EngineError {
    /// Whether the container ended meanwhile: no fault, nothing to retry.
    pub fn is_gone(&self) -> bool {
        matches!(self, EngineError::Gone { .. })
    }

    /// Whether there is no such container any more, running or not.
    pub fn is_missing(&self) -> bool {
        matches!(self, EngineError::Gone { why, .. } if says(why, &NOT_THERE) || says(why, &["marked for removal"]))
    }

    /// Whether the engine itself is in doubt, so that other calls will fail too.
    pub fn is_engine_lost(&self) -> bool {
        matches!(self, EngineError::Unreachable { .. } | EngineError::Timeout { .. })
    }

    /// The error of an answer with a status that is no success.
    pub(super) fn from_status(operation: &str, status: u16, body: &[u8]) -> EngineError {
        #[derive(serde::Deserialize)]
        struct Message {
            message: String,
        }
        let text = match serde_json::from_slice::<Message>(body) {
            Ok(said) => said.message,
            Err(_) => String::from_utf8_lossy(body).into_owned(),
        };
        let message = shortened(text.trim());
        let operation = operation.to_owned();
        if is_gone(status, &message) {
            EngineError::Gone { operation, why: message }
        } else {
            EngineError::Refused { operation, status, message }
        }
    }
}

/// Only the words tell: a 404 can mean that this engine has no such call, and where a container ended between two
/// calls engines answer 409 or 500.
fn is_gone(status: u16, message: &str) -> bool {
    match status {
        404 => says(message, &NOT_THERE),
        409 | 500 => says(message, &NOT_THERE) || says(message, &NOT_RUNNING),
        _ => false,
    }
}

const NOT_THERE: [&str; 2] = ["no such container", "no container with"];
const NOT_RUNNING: [&str; 4] = ["is not running", "no such process", "marked for removal", "container does not exist"];

fn says(message: &str, words: &[&str]) -> bool {
    let message = message.to_lowercase();
    words.iter().any(|words| message.contains(words))
}

/// At most 300 characters: an engine's error can hold a whole trace.
pub(super) fn shortened(text: &str) -> String {
    const AT_MOST: usize = 300;
    let mut short: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(AT_MOST).collect();
    if short.len() < text.len() && text.chars().count() > AT_MOST {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_404_and_a_container_that_stopped_meanwhile_are_gone() {
        assert!(EngineError::from_status("inspect", 404, br#"{"message":"No such container: x"}"#).is_missing());
        let stopped = br#"{"message":"Container 449e is not running"}"#;
        assert!(EngineError::from_status("update", 409, stopped).is_gone());
        assert!(!EngineError::from_status("update", 409, stopped).is_missing());
        assert!(!EngineError::from_status("update", 400, stopped).is_gone());
    }

    #[test]
    fn podmans_words_are_known_and_a_call_that_an_engine_lacks_is_no_missing_container() {
        let gone =
            br#"{"cause":"no such container","message":"no container with name or ID \"x\" found","response":404}"#;
        assert!(EngineError::from_status("inspect", 404, gone).is_gone());
        assert!(matches!(
            EngineError::from_status("update", 404, b"Not Found\n"),
            EngineError::Refused { status: 404, .. }
        ));
    }

    #[test]
    fn a_refusal_carries_the_engines_words_and_a_next_step() {
        let error = EngineError::from_status("update", 500, br#"{"message":"Conflicting options: NanoCPUs"}"#);
        assert!(!error.is_gone());
        let text = error.to_string();
        assert!(text.contains("Conflicting options") && text.contains("docker inspect"), "{text}");
    }

    #[test]
    fn an_answer_that_is_no_json_is_shortened_and_harmless() {
        let page = format!("<html>\u{1b}[31m{}", "x".repeat(100_000));
        let text = EngineError::from_status("list", 502, page.as_bytes()).to_string();
        assert!(text.len() < 500 && !text.contains('\u{1b}'), "{text}");
    }
}
