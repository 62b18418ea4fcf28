//! Getting a command into its cgroup before it runs its first instruction.
//!
//! A process can only put itself (or be put) into a cgroup, and must be there before the command starts. So `flowctl run` starts
//! itself again as the exec wrapper, which connects back, enters, says so, waits until its scope is registered, and becomes the command.
//! The socket is an abstract one and closes when the command begins: nothing of it is left in the command.

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

/// How long the exec wrapper may take, on a machine under load too.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the exec wrapper is told: the files to write itself into.
#[derive(Serialize, Deserialize)]
struct Order {
    entrances: Vec<PathBuf>,
}

/// What the exec wrapper answers, a line each.
#[derive(Serialize, Deserialize)]
enum Answer {
    /// It is in its cgroup.
    Inside,
    /// It cannot go on; with the exit code that shells use for that.
    Failed { text: String, exit_code: u8 },
}

/// The side of `flowctl run`: a place for the exec wrapper to connect to.
#[derive(Debug)]
pub struct HandshakeSocket {
    listener: tokio::net::UnixListener,
    name: String,
}

/// The exec wrapper inside its cgroup, waiting for the word to become the command.
#[derive(Debug)]
pub struct Admitted {
    stream: tokio::io::BufReader<tokio::net::UnixStream>,
}

impl HandshakeSocket {
    /// Opens a socket; call it inside a tokio runtime.
    ///
    /// # Errors
    /// [`ScopeError::Start`].
    pub fn open() -> Result<HandshakeSocket, ScopeError> {
        let failed = |error: io::Error| ScopeError::Start(format!("opening a socket to the new process: {error}"));
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let name = format!("flowcon-socket-{}-{}", std::process::id(), since_epoch.as_nanos());
        let address = SocketAddr::from_abstract_name(&name).map_err(failed)?;
        let listener = UnixListener::bind_addr(&address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(HandshakeSocket { listener: tokio::net::UnixListener::from_std(listener).map_err(failed)?, name })
    }

    /// What the exec wrapper needs in order to find the socket.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the exec wrapper, process `pid`, and sends it through `entrances`. Nobody else is let in.
    ///
    /// # Errors
    /// [`ScopeError::Start`] with the exec wrapper's own words, or when it does not come.
    pub async fn admit(self, pid: u32, entrances: Vec<PathBuf>) -> Result<Admitted, ScopeError> {
        let entered = async {
            let mut stream = tokio::io::BufReader::new(self.accept(pid).await?);
            send(&mut stream, &Order { entrances }).await?;
            match receive(&mut stream).await? {
                Some(Answer::Inside) => Ok(Admitted { stream }),
                Some(Answer::Failed { text, .. }) => Err(io::Error::other(text)),
                None => Err(io::Error::other("it ended before it was in its cgroup")),
            }
        };
        let entered = tokio::time::timeout(PATIENCE, entered).await;
        let entered = entered.unwrap_or_else(|_| Err(io::Error::other("it did not enter its cgroup in time")));
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

/// Why the command itself did not begin.
#[derive(Debug)]
pub struct NotBegun {
    /// What was wrong with it.
    pub text: String,
    /// 127 when there is no such command, 126 when it cannot be executed.
    pub exit_code: u8,
}

impl Admitted {
    /// Lets the exec wrapper become the command; returns when it has, or could not.
    ///
    /// # Errors
    /// The exec wrapper's words, with the exit code that shells use.
    pub async fn begin(mut self) -> Result<(), NotBegun> {
        let begun = async {
            self.stream.write_all(b"begin\n").await?;
            receive(&mut self.stream).await
        };
        match begun.await {
            // The command has begun: the exec wrapper's end of the socket closed with it.
            Ok(None) => Ok(()),
            Ok(Some(Answer::Failed { text, exit_code })) => Err(NotBegun { text, exit_code }),
            Ok(Some(Answer::Inside)) => {
                Err(NotBegun { text: "the new process answers nonsense".into(), exit_code: 125 })
            }
            Err(error) => Err(NotBegun { text: format!("the new process is lost: {error}"), exit_code: 125 }),
        }
    }
}

async fn send(stream: &mut tokio::io::BufReader<tokio::net::UnixStream>, order: &Order) -> io::Result<()> {
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

async fn receive(stream: &mut tokio::io::BufReader<tokio::net::UnixStream>) -> io::Result<Option<Answer>> {
    let mut line = String::new();
    match stream.read_line(&mut line).await? {
        0 => Ok(None),
        _ => Ok(Some(serde_json::from_str(&line)?)),
    }
}

/// The exec wrapper: connects to the socket `name`, enters, waits, and becomes `command`. Returns only when that failed, with the exit
/// code to end with.
pub fn enter(name: &str, command: &[OsString]) -> u8 {
    const NO_GATE: u8 = 125;
    let Ok(mut stream) = connect(name) else { return NO_GATE };
    match prepare(&mut stream) {
        Ok(true) => become_command(stream, command),
        // Whoever was to say the word is gone: nobody wants the command any more.
        Ok(false) => NO_GATE,
        Err(error) => {
            let _ = answer(&mut stream, &Answer::Failed { text: error.to_string(), exit_code: NO_GATE });
            NO_GATE
        }
    }
}

fn connect(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Enters the cgroup and waits for the word; false when it does not come.
fn prepare(stream: &mut UnixStream) -> io::Result<bool> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    for entrance in order.entrances {
        let named = |error: io::Error| io::Error::other(format!("entering {}: {error}", entrance.display()));
        fs::OpenOptions::new().write(true).open(&entrance).and_then(|mut file| file.write_all(b"0")).map_err(named)?;
    }
    answer(stream, &Answer::Inside)?;
    line.clear();
    Ok(reader.read_line(&mut line)? > 0)
}

fn become_command(mut stream: UnixStream, command: &[OsString]) -> u8 {
    let Some((program, arguments)) = command.split_first() else { return 125 };
    let error = Command::new(program).args(arguments).exec();
    let exit_code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    let text = format!("{}: {error}", program.to_string_lossy());
    let _ = answer(&mut stream, &Answer::Failed { text, exit_code });
    exit_code
}

fn answer(stream: &mut UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}
