//! The daemon's side of the socket for commands. All users may connect; the kernel identifies them.
//!
//! Limits: connections per user and in total, bytes per line, descriptors per message, time until a request is complete, and connections
//! accepted per second. Requests are handled elsewhere; see [`Call`].

use super::output::is_memory;
use super::protocol::{self, Answer, DESCRIPTORS, LONGEST_LINE, Registration, Request};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

/// Maximum number of connections of all users together.
const CONNECTIONS_AT_MOST: usize = 4096;
/// Connections per user in addition to one for each allowed command.
const SPARE_CONNECTIONS: usize = 16;
/// Timeout for receiving a line that has begun, and for sending an answer.
const LINE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of an idle connection without a registered command.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum time between two connections, and between two requests of a user, to limit their cost.
const PACE: Duration = Duration::from_millis(2);
const REQUEST_PACE: Duration = Duration::from_millis(50);
/// Length of the accept queue. It is short, so that a new caller waits only for a few, and many callers are rejected quickly.
const BACKLOG: i32 = 64;

/// The caller, as identified by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User of the connecting process at the time of connecting.
    pub uid: u32,
    /// The account that the user belongs to.
    pub account: u32,
    /// The connecting process, if it is visible here.
    pub pid: Option<u32>,
    /// Number of the connection.
    pub connection: u64,
}

/// A request whose descriptors have been checked.
#[derive(Debug)]
pub enum Asked {
    /// Registers a command.
    Register {
        /// Name, labels and command line given by the caller.
        registration: Registration,
        /// Its process.
        process: Pidfd,
        /// Its output, in memory that can be read without blocking.
        output: File,
    },
    /// Requests the caller's jobs.
    Jobs,
    /// The command registered on this connection has ended.
    End {
        /// Exit code as reported by the shell.
        exit_code: Option<u8>,
    },
}

/// A request with the channel for its answer.
#[derive(Debug)]
pub struct Call {
    /// The caller.
    pub caller: Caller,
    /// The request.
    pub asked: Asked,
    /// The channel for the answer.
    pub reply: oneshot::Sender<Answer>,
}

/// Events of the listener.
#[derive(Debug)]
pub enum Incoming {
    /// A request.
    Call(Call),
    /// A connection ended.
    Gone(Caller),
}

/// A process passed as a descriptor, which stays valid if its id is reused.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// Returns the process id while the process exists.
    pub fn pid(&self) -> Option<u32> {
        let path = format!("/proc/self/fdinfo/{}", self.0.as_raw_fd());
        let text = std::fs::read_to_string(path).ok()?;
        let number = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
        number.trim().parse().ok().filter(|pid| *pid > 0)
    }
}

/// The connections of one user.
#[derive(Default)]
struct Row {
    count: usize,
    /// Serializes the requests of a user.
    turn: Arc<tokio::sync::Mutex<()>>,
}

type Open = Arc<Mutex<BTreeMap<u32, Row>>>;

/// A reserved connection of a user, released when dropped.
struct Seat {
    open: Open,
    uid: u32,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Seat {
    fn take(open: &Open, uid: u32, most: usize) -> Option<Seat> {
        let mut seats = open.lock().unwrap_or_else(PoisonError::into_inner);
        if seats.values().map(|row| row.count).sum::<usize>() >= CONNECTIONS_AT_MOST {
            return None;
        }
        let own = seats.entry(uid).or_default();
        if own.count >= most {
            return None;
        }
        own.count += 1;
        Some(Seat { open: Arc::clone(open), uid, turn: Arc::clone(&own.turn) })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = seats.get_mut(&self.uid) {
            own.count -= 1;
            if own.count == 0 {
                seats.remove(&self.uid);
            }
        }
    }
}

/// Serves `listener` until the receiver of `calls` is dropped. `account_of`: returns the account of a user; `commands`: maximum number of
/// commands per account.
pub async fn serve(
    listener: &UnixListener,
    account_of: fn(u32) -> u32,
    commands: usize,
    calls: mpsc::Sender<Incoming>,
) {
    let open = Open::default();
    let own = rustix::process::geteuid().as_raw();
    let _ = rustix::net::listen(listener, BACKLOG); // it is listening already: this only shortens the queue
    let most = commands.saturating_add(SPARE_CONNECTIONS);
    for connection in 0.. {
        sleep(PACE).await;
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = calls.closed() => return,
        };
        // Out of descriptors, or the caller has disconnected: continue with the next.
        let Ok((stream, _)) = accepted else { continue };
        let Ok(credentials) = stream.peer_cred() else { continue };
        let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
        let uid = credentials.uid();
        let caller = Caller { uid, account: account_of(uid), pid, connection };
        let Some(seat) = Seat::take(&open, caller.account, most) else {
            try_answer(&stream, &too_many());
            continue;
        };
        let calls = calls.clone();
        tokio::spawn(async move {
            // A connection that violates the protocol is closed.
            let _ =
                serve_connection(stream, caller, (caller.uid != 0 && caller.uid != own).then_some(&*seat.turn), &calls)
                    .await;
            drop(seat);
            let _ = calls.send(Incoming::Gone(caller)).await;
        });
    }
}

fn too_many() -> Answer {
    Answer::refused("too many connections to the socket for commands", "wait until some of your commands end")
}

/// Sends an answer without waiting: a caller that does not read loses it.
fn try_answer(stream: &UnixStream, answer: &Answer) {
    let _ = stream.try_write(&protocol::line(answer));
}

/// Handles the requests of one connection in sequence; `turn` serializes them with the user's other connections.
async fn serve_connection(
    mut stream: UnixStream,
    caller: Caller,
    turn: Option<&tokio::sync::Mutex<()>>,
    calls: &mpsc::Sender<Incoming>,
) -> io::Result<()> {
    let mut incoming = Received::default();
    let mut registered = false;
    loop {
        let first = incoming.more(&stream);
        if registered {
            first.await?;
        } else {
            timeout(IDLE_TIMEOUT, first).await??;
        }
        let Some(line) = timeout(LINE_TIMEOUT, incoming.line(&stream)).await?? else { return Ok(()) };
        let turn = match turn {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        let answer = match parse(&line, incoming.take_descriptors(), registered) {
            Ok(asked) => {
                let (reply, answer) = oneshot::channel();
                let call = Call { caller, asked, reply };
                if calls.send(Incoming::Call(call)).await.is_err() {
                    return Ok(());
                }
                answer.await.unwrap_or_else(|_| Answer::refused("the daemon is shutting down", "try again in a moment"))
            }
            Err(why) => Answer::refused(why, "check that `flowctl --version` and `flowcond --version` match"),
        };
        let keep_open = !matches!(answer, Answer::Refused { .. } | Answer::NoCgroup { .. });
        registered |= matches!(answer, Answer::Registered { .. });
        timeout(LINE_TIMEOUT, stream.write_all(&protocol::line(&answer))).await??;
        if turn.is_some() {
            sleep(REQUEST_PACE).await;
        }
        if !keep_open {
            return Ok(());
        }
    }
}

fn parse(line: &[u8], descriptors: Vec<OwnedFd>, registered: bool) -> Result<Asked, String> {
    match protocol::request(line)? {
        Request::Register(_) if registered => Err("this connection has already registered a command".to_owned()),
        Request::Register(registration) => {
            let [process, output]: [OwnedFd; DESCRIPTORS] = descriptors
                .try_into()
                .map_err(|_| "a registration needs two descriptors: the process and its output".to_owned())?;
            let process = Pidfd(process);
            if process.pid().is_none() {
                return Err("the first descriptor is not a pidfd of a running process".to_owned());
            }
            if !is_memory(output.as_fd()) {
                return Err("the second descriptor is not readable memory (memfd_create)".to_owned());
            }
            Ok(Asked::Register { registration, process, output: File::from(output) })
        }
        Request::Jobs {} => Ok(Asked::Jobs),
        Request::End { exit_code } if registered => Ok(Asked::End { exit_code }),
        Request::End { .. } => Err("this connection has not registered a command".to_owned()),
    }
}

/// Received data that has not been processed yet.
#[derive(Default)]
struct Received {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    ended: bool,
}

impl Received {
    /// Waits for data unless there is some already.
    async fn more(&mut self, stream: &UnixStream) -> io::Result<()> {
        if self.bytes.is_empty() && !self.ended { self.receive(stream).await } else { Ok(()) }
    }

    /// Returns the next line without its end; `None` at the end of the stream.
    async fn line(&mut self, stream: &UnixStream) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.bytes) {
                let rest = self.bytes.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.bytes, rest);
                line.pop();
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            if self.bytes.len() > LONGEST_LINE {
                return Err(io::Error::other("the line is too long"));
            }
            self.receive(stream).await?;
        }
    }

    fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }

    async fn receive(&mut self, stream: &UnixStream) -> io::Result<()> {
        let mut piece = [0; 4096];
        let descriptors = &mut self.descriptors;
        let count = stream
            .async_io(Interest::READABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
                let mut ancillary = RecvAncillaryBuffer::new(&mut space);
                let mut into = [IoSliceMut::new(&mut piece)];
                let received =
                    rustix::net::recvmsg(stream.as_fd(), &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
                for message in ancillary.drain() {
                    if let RecvAncillaryMessage::ScmRights(received_fds) = message {
                        // Excess descriptors are closed here; the kernel has closed those that did not fit into the buffer.
                        descriptors.extend(received_fds);
                        descriptors.truncate(DESCRIPTORS + 1);
                    }
                }
                Ok(received.bytes)
            })
            .await?;
        self.ended = count == 0;
        self.bytes.extend_from_slice(&piece[..count]);
        Ok(())
    }
}
