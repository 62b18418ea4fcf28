//! Errors of calls to an engine; each message ends with the next step.

use std::path::PathBuf;
use std::time::Duration;

/// A failed call to the engine: the operation, the cause, and the next step.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No connection, or the connection was lost.
    #[error(
        "{operation}: no connection to the engine at {}: {why}; check that it is running (systemctl status docker) \
         and that DOCKER_HOST or the configuration names its socket; without an engine, set engine.address = \"off\"",
        socket.display()
    )]
    Unreachable {
        /// The operation.
        operation: String,
        /// The socket of the engine.
        socket: PathBuf,
        /// Error of the operating system.
        why: String,
    },
    /// The engine did not respond in time.
    #[error("{operation}: no response within {} s; the engine is overloaded, or it or a container hangs: see its log", limit.as_secs())]
    Timeout {
        /// The operation.
        operation: String,
        /// The time limit of the call.
        limit: Duration,
    },
    /// The engine is too old or too new.
    #[error("{operation}: {found}; {next}")]
    Unsupported {
        /// The operation.
        operation: String,
        /// The engine and its API versions, and those that are supported.
        found: String,
        /// The next step.
        next: &'static str,
    },
    /// The container does not exist or is not running any more.
    #[error("{operation}: the container has ended ({why}); no action is needed")]
    Gone {
        /// The operation.
        operation: String,
        /// Message of the engine.
        why: String,
    },
    /// The engine rejected the request.
    #[error(
        "{operation}: the engine rejected the request (status {status}): {message}; see docker inspect and the engine's log"
    )]
    Refused {
        /// The operation.
        operation: String,
        /// HTTP status.
        status: u16,
        /// Message of the engine, shortened.
        message: String,
    },
    /// The response is not valid.
    #[error("{operation}: invalid response: {why}; check that the socket belongs to Docker or Podman")]
    InvalidResponse {
        /// The operation.
        operation: String,
        /// What is invalid.
        why: String,
    },
}

impl EngineError {
    /// Whether the container has ended meanwhile, which is no failure and needs no retry.
    pub fn is_gone(&self) -> bool {
        matches!(self, EngineError::Gone { .. })
    }

    /// Whether the container does not exist any more, running or not.
    pub fn is_missing(&self) -> bool {
        matches!(self, EngineError::Gone { why, .. } if contains_any(why, &NOT_FOUND) || contains_any(why, &["marked for removal"]))
    }

    /// Whether the engine itself is unavailable, so that other calls will fail too.
    pub fn is_engine_lost(&self) -> bool {
        matches!(self, EngineError::Unreachable { .. } | EngineError::Timeout { .. } | EngineError::Unsupported { .. })
    }

    /// Returns the error for a response with an unsuccessful status.
    pub(super) fn from_status(operation: &str, status: u16, body: &[u8]) -> EngineError {
        #[derive(serde::Deserialize)]
        struct Message {
            message: String,
        }
        let text = match serde_json::from_slice::<Message>(body) {
            Ok(error) => error.message,
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

/// Only the message is conclusive: a 404 can mean that this engine does not support the call, and if a container ends between two calls,
/// engines respond with 409 or 500.
fn is_gone(status: u16, message: &str) -> bool {
    match status {
        404 => contains_any(message, &NOT_FOUND),
        409 | 500 => contains_any(message, &NOT_FOUND) || contains_any(message, &NOT_RUNNING),
        _ => false,
    }
}

const NOT_FOUND: [&str; 2] = ["no such container", "no container with"];
const NOT_RUNNING: [&str; 4] = ["is not running", "no such process", "marked for removal", "container does not exist"];

fn contains_any(message: &str, words: &[&str]) -> bool {
    let message = message.to_lowercase();
    words.iter().any(|words| message.contains(words))
}

/// Shortens a text to at most 300 characters, because an engine's error can contain a whole stack trace.
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
    fn a_missing_container_and_one_that_stopped_meanwhile_are_gone() {
        assert!(EngineError::from_status("inspect", 404, br#"{"message":"No such container: x"}"#).is_missing());
        let stopped = br#"{"message":"Container 449e is not running"}"#;
        assert!(EngineError::from_status("update", 409, stopped).is_gone());
        assert!(!EngineError::from_status("update", 409, stopped).is_missing());
        assert!(!EngineError::from_status("update", 400, stopped).is_gone());
    }

    #[test]
    fn podmans_messages_are_recognized_and_an_unsupported_call_is_not_a_missing_container() {
        let gone =
            br#"{"cause":"no such container","message":"no container with name or ID \"x\" found","response":404}"#;
        assert!(EngineError::from_status("inspect", 404, gone).is_gone());
        assert!(matches!(
            EngineError::from_status("update", 404, b"Not Found\n"),
            EngineError::Refused { status: 404, .. }
        ));
    }

    #[test]
    fn a_rejection_includes_the_message_of_the_engine_and_the_next_step() {
        let error = EngineError::from_status("update", 500, br#"{"message":"Conflicting options: NanoCPUs"}"#);
        assert!(!error.is_gone());
        let text = error.to_string();
        assert!(text.contains("Conflicting options") && text.contains("docker inspect"), "{text}");
    }

    #[test]
    fn a_response_that_is_not_json_is_shortened_and_sanitized() {
        let page = format!("<html>\u{1b}[31m{}", "x".repeat(100_000));
        let text = EngineError::from_status("list", 502, page.as_bytes()).to_string();
        assert!(text.len() < 500 && !text.contains('\u{1b}'), "{text}");
    }
}
