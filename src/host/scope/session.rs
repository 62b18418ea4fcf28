//! The `flowctl run` side: registers its command with the daemon, and stays connected while the command is running.

use super::ScopeError;
use super::protocol::{self, Answer, LONGEST_LINE, Registration, Request};
use rustix::net::sockopt::Timeout;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Interest};
use tokio::net::UnixStream;

/// Timeout of a request; a daemon that does not respond must not delay the command further.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to the daemon at its socket for commands.
#[derive(Debug)]
pub struct Session {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

impl Session {
    /// Connects to the daemon that listens at `socket`, from [`socket_of`](super::socket_of).
    ///
    /// # Errors
    /// [`ScopeError::NoDaemon`].
    pub async fn open(socket: &Path) -> Result<Session, ScopeError> {
        let absent = |source| ScopeError::NoDaemon { path: socket.to_owned(), source };
        let path = socket.to_owned();
        let connected = tokio::task::spawn_blocking(move || connect(&path)).await;
        let stream = connected.unwrap_or_else(|panic| Err(io::Error::other(panic))).map_err(absent)?;
        Ok(Session { stream: BufReader::new(stream), path: socket.to_owned() })
    }

    /// Registers the process of a pidfd with its output; returns its name in `flowctl status`.
    ///
    /// # Errors
    /// [`ScopeError::Refused`]; [`ScopeError::NoDaemon`] if there is no response.
    pub async fn register(
        &mut self,
        registration: Registration,
        process: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
    ) -> Result<String, ScopeError> {
        match self.request(&Request::Register(registration), &[process, output]).await? {
            Answer::Registered { name } => Ok(name),
            _ => Err(unexpected_answer()),
        }
    }

    /// Requests the jobs of this user, in the format of `GET /v1/containers`.
    ///
    /// # Errors
    /// As [`Session::register`].
    pub async fn jobs(&mut self) -> Result<serde_json::Value, ScopeError> {
        match self.request(&Request::Jobs {}, &[]).await? {
            Answer::Jobs(jobs) => Ok(jobs),
            _ => Err(unexpected_answer()),
        }
    }

    /// Notifies the daemon that the command has ended. If this fails, the daemon notices it in the cgroup.
    pub async fn end(&mut self, exit_code: u8) {
        let _ = self.request(&Request::End { exit_code: Some(exit_code) }, &[]).await;
    }

    /// Returns when the connection to the daemon is lost.
    pub async fn lost(&mut self) {
        let mut nothing = [0; 64];
        while matches!(self.stream.read(&mut nothing).await, Ok(1..)) {}
    }

    async fn request(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<Answer, ScopeError> {
        let request_line = protocol::line(request);
        if request_line.len() > LONGEST_LINE {
            return Err(too_long(request_line.len()));
        }
        let exchange = async {
            self.send(&request_line, descriptors).await?;
            let mut line = Vec::new();
            let most = if matches!(request, Request::Jobs {}) { usize::MAX } else { LONGEST_LINE };
            (&mut self.stream).take(most as u64).read_until(b'\n', &mut line).await?;
            Ok(serde_json::from_slice(&line)?)
        };
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, exchange).await;
        match answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(Answer::Refused { message, next }) => Err(ScopeError::Refused { message, next }),
            Ok(Answer::NoCgroup { message, next }) => Err(ScopeError::NoCgroup { message, next }),
            Ok(answer) => Ok(answer),
            Err(source) => Err(ScopeError::NoDaemon { path: self.path.clone(), source }),
        }
    }

    /// Sends a line; the descriptors are attached to its first byte.
    async fn send(&mut self, line: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let stream = self.stream.get_ref();
        let mut sent = 0;
        while sent < line.len() {
            sent += stream
                .async_io(Interest::WRITABLE, || {
                    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(protocol::DESCRIPTORS))];
                    let mut ancillary = SendAncillaryBuffer::new(&mut space);
                    if sent == 0 && !descriptors.is_empty() {
                        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
                    }
                    let rest = [IoSlice::new(&line[sent..])];
                    Ok(rustix::net::sendmsg(stream.as_fd(), &rest, &mut ancillary, SendFlags::NOSIGNAL)?)
                })
                .await?;
        }
        Ok(())
    }
}

/// Connects, waiting in the accept queue: a non-blocking connect is rejected while the queue is full.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let kind = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None)?;
    rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Send, Some(REQUEST_TIMEOUT))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = std::os::unix::net::UnixStream::from(socket);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// The daemon would close the connection without an answer.
fn too_long(bytes: usize) -> ScopeError {
    ScopeError::Refused {
        message: format!("the request with the labels has {bytes} bytes; the maximum is {LONGEST_LINE}"),
        next: "remove some labels".to_owned(),
    }
}

fn unexpected_answer() -> ScopeError {
    ScopeError::Refused {
        message: "unexpected answer from the daemon".to_owned(),
        next: "check that `flowctl --version` and `flowcond --version` match".to_owned(),
    }
}
