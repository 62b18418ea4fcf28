//! Ways to a target. Each blocks until the message was accepted, for a limited time.

mod command;
mod http;
mod mail;

use crate::message::Delivery;
use config::{TargetSettings, Transport};
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The longest time that a delivery may take.
const WITHIN: Duration = Duration::from_secs(20);
/// Bytes of a secret, at most.
const SECRET_LONGEST: u64 = 64 << 10;

/// A failed delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendError {
    /// Whether another attempt would fail too.
    pub is_permanent: bool,
    /// The time for which the server asked.
    pub retry_after_ms: Option<u64>,
    /// What happened, and the next step. Contains no secret.
    pub text: String,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl SendError {
    /// An error that may pass.
    fn passing(text: String) -> SendError {
        SendError { is_permanent: false, retry_after_ms: None, text }
    }

    /// An error that will not pass.
    fn permanent(text: String) -> SendError {
        SendError { is_permanent: true, ..SendError::passing(text) }
    }
}

/// Sends a message.
///
/// # Errors
/// The target did not accept it, or may not have.
pub(crate) fn send(target: &TargetSettings, delivery: &Delivery) -> Result<(), SendError> {
    match target.transport {
        Some(Transport::Command) => command::send(&target.command, delivery),
        Some(Transport::Webhook) => http::webhook(target, delivery),
        Some(Transport::Ntfy) => http::ntfy(target, delivery),
        Some(Transport::Slack) => http::slack(target, delivery),
        Some(Transport::Smtp) => mail::send(target, delivery),
        None => Err(SendError::permanent("the target has no type".to_owned())),
    }
}

/// The address of a target.
fn url(target: &TargetSettings) -> Result<String, SendError> {
    match (&target.url, &target.url_file) {
        (Some(url), _) => Ok(url.clone()),
        (None, Some(path)) => secret(path),
        (None, None) => Err(SendError::permanent("the target has no url".to_owned())),
    }
}

/// Reads the first line of a file. It is read for each message, so that it can be replaced at any time.
fn secret(path: &Path) -> Result<String, SendError> {
    let next = "check that the user flowcon-notify may read it";
    let failed = |why: String| SendError::passing(format!("{}: {why}; next: {next}", path.display()));
    if fs::metadata(path).map_err(|error| failed(error.to_string()))?.len() > SECRET_LONGEST {
        return Err(failed("it is too long for a secret".to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let line = text.lines().next().map(str::trim).filter(|line| !line.is_empty());
    line.map(str::to_owned).ok_or_else(|| failed("its first line is empty".to_owned()))
}
