//! Registers a command with the daemon before it starts, and again whenever the daemon is restarted.

use anyhow::Context;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use scope::protocol::Registration;
use scope::{Output, ScopeError, Session};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use term::hint::{self, START_DAEMON};
use term::message;
use term::text;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Interval between attempts to reach the daemon.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// Timeout for reporting the end of the command; afterwards the daemon detects the end itself.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size of the command line that is sent, in bytes of JSON: with the labels, it must fit into one line of the protocol.
const COMMAND_SENT: usize = 16 << 10;

/// Handle of the task that keeps a command registered.
pub(super) struct Registered {
    end: oneshot::Sender<u8>,
    task: JoinHandle<()>,
}

/// The data of a registration, reused for each daemon.
struct Command {
    socket: PathBuf,
    registration: Registration,
    process: OwnedFd,
    output: OwnedFd,
}

/// Returns the words of a command line for the daemon, which only recognizes runs of the same training by them: a long one is cut off.
pub(super) fn words_sent(command: &[OsString]) -> Vec<String> {
    const QUOTES_AND_COMMA: usize = 3;
    let mut left = COMMAND_SENT;
    let mut fits = |size: usize| {
        let rest = left.checked_sub(size);
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    let mut words: Vec<String> = Vec::new();
    for word in command {
        if !fits(QUOTES_AND_COMMA) {
            break;
        }
        words.push(word.to_string_lossy().chars().take_while(|c| fits(size_in_json(*c))).collect());
    }
    words
}

/// The size of a character in a string of JSON, at most.
fn size_in_json(c: char) -> usize {
    match c {
        '"' | '\\' => 2,
        '\0'..' ' => 6,
        _ => c.len_utf8(),
    }
}

/// Registers process `pid` with the daemon at `socket`. If no daemon is running, the command starts nevertheless. `missing`: why it has no
/// cgroup yet; if the daemon makes none either, it runs ungoverned, with a warning.
///
/// # Errors
/// The daemon rejected the registration: [`ScopeError::Refused`].
pub(super) async fn begin(
    socket: &Path,
    registration: Registration,
    missing: Option<&anyhow::Error>,
    pid: u32,
    output: &Output,
) -> anyhow::Result<Registered> {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).context("the new process has no valid pid")?;
    let (end, ended) = oneshot::channel();
    let descriptors = pidfd_open(process, PidfdFlags::empty()).map_err(io::Error::from);
    let (process, output) = match descriptors.and_then(|process| Ok((process, output.handle()?))) {
        Ok(descriptors) => descriptors,
        Err(error) => {
            message::print(format_args!(
                "the command is not governed: this needs a pidfd (Linux 5.3) and a free file descriptor: {error}"
            ));
            return Ok(Registered::never(end));
        }
    };
    let registration = Registration { output: output.as_raw_fd(), ..registration };
    let command = Command { socket: socket.to_owned(), registration, process, output };
    let session = match command.register().await {
        Ok(session) => Some(session),
        Err(error @ (ScopeError::NoDaemon { .. } | ScopeError::NoCgroup { .. })) if missing.is_some() => {
            warn_ungoverned(missing, &error);
            return Ok(Registered::never(end));
        }
        Err(ScopeError::NoDaemon { path, source }) => {
            message::print(format_args!(
                "no flowcond answers at {} ({source}): the command is not governed until flowcond runs",
                path.display()
            ));
            None
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Registered { end, task: tokio::spawn(command.keep(session, ended)) })
}

/// One warning: why there is no cgroup, and what gives the next command one.
fn warn_ungoverned(missing: Option<&anyhow::Error>, answer: &ScopeError) {
    let why = match (missing, answer) {
        (_, ScopeError::NoCgroup { message, next }) => format!("{message}; next: {next}"),
        (Some(missing), _) => {
            let text = format!("{missing:#}");
            let (why, next) = text.rsplit_once("; ").unwrap_or((&text, "flowctl doctor"));
            // Where systemd is init, the cgroup tree is its own, and the daemon makes none.
            let or_daemon = format!("; or start the daemon with {START_DAEMON}, which makes one for you");
            format!("{why}; next: {next}{}", if node::systemd_is_init() { "" } else { &or_daemon })
        }
        (None, other) => other.to_string(),
    };
    message::print(format_args!("the command is not governed: {}", text::clean(&hint::fitting(&why))));
}

impl Registered {
    /// Of a command that is never governed.
    fn never(end: oneshot::Sender<u8>) -> Registered {
        Registered { end, task: tokio::spawn(async {}) }
    }

    /// Reports the end of the command to the daemon, if one is running.
    pub(super) async fn end(self, exit_code: u8) {
        if self.end.send(exit_code).is_ok() {
            let _ = tokio::time::timeout(END_TIMEOUT, self.task).await;
        }
    }
}

impl Command {
    async fn register(&self) -> Result<Session, ScopeError> {
        let mut session = Session::open(&self.socket).await?;
        session.register(self.registration.clone(), self.process.as_fd(), self.output.as_fd()).await?;
        Ok(session)
    }

    /// Keeps the command registered until it ends, across restarts of the daemon.
    async fn keep(self, mut session: Option<Session>, mut ended: oneshot::Receiver<u8>) {
        loop {
            let exit_code = match &mut session {
                Some(session) => tokio::select! {
                    code = &mut ended => Some(code),
                    () = session.lost() => None,
                },
                None => tokio::time::timeout(RETRY_EVERY, &mut ended).await.ok(),
            };
            if let Some(code) = exit_code {
                if let (Some(session), Ok(code)) = (&mut session, code) {
                    session.end(code).await;
                }
                return;
            }
            session = match self.register().await {
                Ok(session) => Some(session),
                Err(ScopeError::NoDaemon { .. }) => None,
                Err(error) => {
                    message::print(format_args!("the command keeps running, but is no longer governed: {error}"));
                    return;
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scope::protocol::{LONGEST_LINE, Request};
    use std::ffi::OsStr;

    #[test]
    fn a_long_command_line_with_the_largest_labels_fits_into_a_request() {
        let words = |word: &str| vec![OsString::from("sh"), OsString::from("-c"), OsString::from(word)];
        let scripts = ["x", "\n", "\u{1}", "\"", "\\", "日"].map(|text| words(&text.repeat(100_000)));
        for command in scripts.into_iter().chain([vec![OsString::new(); 100_000]]) {
            let registration = Registration {
                name: "n".repeat(64),
                labels: [("note".to_owned(), "x".repeat(40_000))].into(),
                command: words_sent(&command),
                output: i32::MAX,
                needs_cgroup: true,
            };
            let sent = registration.command.concat();
            assert!(command.join(OsStr::new("")).to_string_lossy().starts_with(&sent), "its beginning is sent");
            let request = serde_json::to_vec(&Request::Register(registration)).unwrap();
            assert!((42_000..LONGEST_LINE).contains(&request.len()), "{} bytes", request.len());
        }
        let short = ["python", "train.py", "--name", "é \"x\""];
        assert_eq!(words_sent(&short.map(OsString::from)), short);
    }
}
