//! The side of `flowctl run`: it registers its command with the daemon, and stays connected as long as the command runs.

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

/// A daemon that has not answered by then does not keep a command from beginning.
const PATIENCE: Duration = Duration::from_secs(5);

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

    /// Registers the process of a pidfd with its output; its name in `flowctl status`.
    ///
    /// # Errors
    /// [`ScopeError::Refused`]; [`ScopeError::NoDaemon`] when no answer comes.
    pub async fn register(
        &mut self,
        registration: Registration,
        process: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
    ) -> Result<String, ScopeError> {
        match self.ask(&Request::Register(registration), &[process, output]).await? {
            Answer::Registered { name } => Ok(name),
            _ => Err(nonsense()),
        }
    }

    /// The jobs of this user, as `GET /v1/containers` tells them.
    ///
    /// # Errors
    /// As [`Session::register`].
    pub async fn jobs(&mut self) -> Result<serde_json::Value, ScopeError> {
        match self.ask(&Request::Jobs {}, &[]).await? {
            Answer::Jobs(jobs) => Ok(jobs),
            _ => Err(nonsense()),
        }
    }

    /// Tells that the command has ended. Whoever does not hear it sees it in the cgroup.
    pub async fn end(&mut self, exit_code: u8) {
        let _ = self.ask(&Request::End { exit_code: Some(exit_code) }, &[]).await;
    }

    /// Returns when the daemon is gone.
    pub async fn lost(&mut self) {
        let mut nothing = [0; 64];
        while matches!(self.stream.read(&mut nothing).await, Ok(1..)) {}
    }

    async fn ask(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<Answer, ScopeError> {
        let exchange = async {
            self.send(&protocol::line(request), descriptors).await?;
            let mut line = Vec::new();
            let most = if matches!(request, Request::Jobs {}) { usize::MAX } else { LONGEST_LINE };
            (&mut self.stream).take(most as u64).read_until(b'\n', &mut line).await?;
            Ok(serde_json::from_slice(&line)?)
        };
        let answer = tokio::time::timeout(PATIENCE, exchange).await;
        match answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(Answer::Refused { message, next }) => Err(ScopeError::Refused { message, next }),
            Ok(answer) => Ok(answer),
            Err(source) => Err(ScopeError::NoDaemon { path: self.path.clone(), source }),
        }
    }

    /// The descriptors go with the first byte.
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

/// Waits in line, where others want in as well: a connection that does not wait is turned away as long as the line is full.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let kind = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None)?;
    rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = std::os::unix::net::UnixStream::from(socket);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

fn nonsense() -> ScopeError {
    ScopeError::Refused {
        message: "the daemon answers something else than what was asked".to_owned(),
        next: "compare `flowctl --version` with `flowcond --version`".to_owned(),
    }
}
