//! Places a command into its cgroup before it executes its first instruction.
//!
//! The process must be in the cgroup before the command starts. So `flowctl run` starts itself again as the exec wrapper, which connects
//! back, enters the cgroup, confirms it, waits until its scope is registered, and then executes the command. The socket is abstract and is
//! closed on exec, so the command inherits nothing of it.

use super::ScopeError;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

/// Timeout for the exec wrapper, also on a machine under load.
const WRAPPER_TIMEOUT: Duration = Duration::from_secs(20);

/// The request to the exec wrapper: the files in which it must write itself.
#[derive(Serialize, Deserialize)]
struct Request {
    entrances: Vec<PathBuf>,
}

/// Responses of the exec wrapper, one per line.
#[derive(Serialize, Deserialize)]
enum WrapperReply {
    /// It is in its cgroup.
    Inside,
    /// It failed; the exit code is the one that shells use.
    Failed { text: String, exit_code: u8 },
}

/// The socket on which `flowctl run` waits for the exec wrapper.
#[derive(Debug)]
pub struct HandshakeSocket {
    listener: tokio::net::UnixListener,
    name: String,
}

/// The exec wrapper inside its cgroup, waiting for permission to execute the command.
#[derive(Debug)]
pub struct Admitted {
    stream: tokio::io::BufReader<tokio::net::UnixStream>,
}

impl HandshakeSocket {
    /// Opens a socket; must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ScopeError::Start`].
    pub fn open() -> Result<HandshakeSocket, ScopeError> {
        let failed = |error: io::Error| ScopeError::Start(format!("opening a socket for the new process: {error}"));
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let name = format!("flowcon-socket-{}-{}", std::process::id(), since_epoch.as_nanos());
        let address = SocketAddr::from_abstract_name(&name).map_err(failed)?;
        let listener = UnixListener::bind_addr(&address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(HandshakeSocket { listener: tokio::net::UnixListener::from_std(listener).map_err(failed)?, name })
    }

    /// Returns the name of the socket for the exec wrapper.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the exec wrapper, process `pid`, and makes it enter the cgroup through `entrances`. Other processes are rejected.
    ///
    /// # Errors
    /// [`ScopeError::Start`] with the message of the exec wrapper, or if it does not connect in time.
    pub async fn admit(self, pid: u32, entrances: Vec<PathBuf>) -> Result<Admitted, ScopeError> {
        let entered = async {
            let mut stream = tokio::io::BufReader::new(self.accept(pid).await?);
            send(&mut stream, &Request { entrances }).await?;
            match receive(&mut stream).await? {
                Some(WrapperReply::Inside) => Ok(Admitted { stream }),
                Some(WrapperReply::Failed { text, .. }) => Err(io::Error::other(text)),
                None => Err(io::Error::other("the new process ended before it entered its cgroup")),
            }
        };
        let entered = tokio::time::timeout(WRAPPER_TIMEOUT, entered).await;
        let entered =
            entered.unwrap_or_else(|_| Err(io::Error::other("the new process did not enter its cgroup in time")));
        entered.map_err(|error| ScopeError::Start(error.to_string()))
    }

    async fn accept(&self, pid: u32) -> io::Result<tokio::net::UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if stream.peer_cred()?.pid().and_then(|peer| u32::try_from(peer).ok()) == Some(pid) {
                return Ok(stream);
            }
        }
    }
}

/// The command could not be executed.
#[derive(Debug)]
pub struct NotBegun {
    /// The cause.
    pub text: String,
    /// 127 if there is no such command, 126 if it cannot be executed.
    pub exit_code: u8,
}

impl Admitted {
    /// Makes the exec wrapper execute the command; returns when it has done so or failed.
    ///
    /// # Errors
    /// The message of the exec wrapper, with the exit code that shells use.
    pub async fn begin(mut self) -> Result<(), NotBegun> {
        let begun = async {
            self.stream.write_all(b"begin\n").await?;
            receive(&mut self.stream).await
        };
        match begun.await {
            // The command was executed, which closed the exec wrapper's end of the socket.
            Ok(None) => Ok(()),
            Ok(Some(WrapperReply::Failed { text, exit_code })) => Err(NotBegun { text, exit_code }),
            Ok(Some(WrapperReply::Inside)) => {
                Err(NotBegun { text: "invalid response from the new process".into(), exit_code: 125 })
            }
            Err(error) => {
                Err(NotBegun { text: format!("connection to the new process lost: {error}"), exit_code: 125 })
            }
        }
    }
}

async fn send(stream: &mut tokio::io::BufReader<tokio::net::UnixStream>, request: &Request) -> io::Result<()> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

async fn receive(stream: &mut tokio::io::BufReader<tokio::net::UnixStream>) -> io::Result<Option<WrapperReply>> {
    let mut line = String::new();
    match stream.read_line(&mut line).await? {
        0 => Ok(None),
        _ => Ok(Some(serde_json::from_str(&line)?)),
    }
}

/// Runs the exec wrapper: connects to the socket `name`, enters the cgroup, waits, and executes `command`. Returns only on failure, with
/// the exit code.
pub fn enter(name: &str, command: &[OsString]) -> u8 {
    const NOT_STARTED: u8 = 125;
    let Ok(mut stream) = connect(name) else { return NOT_STARTED };
    match prepare(&mut stream) {
        Ok(true) => become_command(stream, command),
        // `flowctl run` has ended, so the command is no longer wanted.
        Ok(false) => NOT_STARTED,
        Err(error) => {
            let _ = answer(&mut stream, &WrapperReply::Failed { text: error.to_string(), exit_code: NOT_STARTED });
            NOT_STARTED
        }
    }
}

fn connect(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Enters the cgroup and waits for permission; returns false if it does not come.
fn prepare(stream: &mut UnixStream) -> io::Result<bool> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let request: Request = serde_json::from_str(&line)?;
    for entrance in request.entrances {
        let named = |error: io::Error| io::Error::other(format!("entering {}: {error}", entrance.display()));
        fs::OpenOptions::new().write(true).open(&entrance).and_then(|mut file| file.write_all(b"0")).map_err(named)?;
    }
    answer(stream, &WrapperReply::Inside)?;
    line.clear();
    Ok(reader.read_line(&mut line)? > 0)
}

fn become_command(mut stream: UnixStream, command: &[OsString]) -> u8 {
    let Some((program, arguments)) = command.split_first() else { return 125 };
    let error = Command::new(program).args(arguments).exec();
    let exit_code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    let text = format!("{}: {error}", program.to_string_lossy());
    let _ = answer(&mut stream, &WrapperReply::Failed { text, exit_code });
    exit_code
}

fn answer(stream: &mut UnixStream, answer: &WrapperReply) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}
