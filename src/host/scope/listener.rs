//! The daemon's side of the socket for commands: everybody may connect, and the kernel says who they are.
//!
//! Bounded: connections of a user and of all, bytes of a line, descriptors of a message, time until a request is whole, and how many
//! connections are taken a second. What is asked is decided elsewhere; see [`Call`].

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

/// Connections of all users together.
const CONNECTIONS_AT_MOST: usize = 4096;
/// A user's, besides one for each command that they may have.
const SPARE_CONNECTIONS: usize = 16;
/// A line that has begun must be whole by then, and an answer taken.
const LINE_AT_MOST: Duration = Duration::from_secs(5);
/// A connection without a registered command is closed after so long a silence.
const SILENCE_AT_MOST: Duration = Duration::from_secs(10);
/// Between two connections, and between two requests of a user, so that no number of them costs much.
const PACE: Duration = Duration::from_millis(2);
const REQUEST_PACE: Duration = Duration::from_millis(50);
/// Connections that wait to be taken. Few: whoever comes waits for those before, and a crowd is let in and refused quickly.
const WAITING_AT_MOST: i32 = 64;

/// Who asks, as the kernel knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user of the connecting process, when it connected.
    pub uid: u32,
    /// Whose account that user is.
    pub account: u32,
    /// That process, where it can be seen from here.
    pub pid: Option<u32>,
    /// Which connection this is.
    pub connection: u64,
}

/// What somebody asks, checked as far as descriptors go.
#[derive(Debug)]
pub enum Asked {
    /// A command wants to be governed.
    Register {
        /// What it says of itself.
        registration: Registration,
        /// Its process.
        process: Pidfd,
        /// Its output: memory that can be read without asking anybody.
        output: File,
    },
    /// About the caller's jobs.
    Jobs,
    /// The command that this connection registered ended.
    End {
        /// As the shell says it.
        exit_code: Option<u8>,
    },
}

/// A question with the place for its answer.
#[derive(Debug)]
pub struct Call {
    /// Who asks.
    pub caller: Caller,
    /// What.
    pub asked: Asked,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Answer>,
}

/// What comes in at the listener.
#[derive(Debug)]
pub enum Incoming {
    /// Somebody asks.
    Call(Call),
    /// A connection ended.
    Gone(Caller),
}

/// A process that somebody handed over, whatever becomes of its number.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// Its number, as long as it lives.
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
    /// Whose turn it is: a user's requests are answered one after the other.
    turn: Arc<tokio::sync::Mutex<()>>,
}

type Open = Arc<Mutex<BTreeMap<u32, Row>>>;

/// A user's place among the connections, given back when dropped.
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

/// Answers at `listener` until nobody takes calls any more. `account_of`: whose account a user is; `commands`: how many of these an
/// account may have.
pub async fn serve(
    listener: &UnixListener,
    account_of: fn(u32) -> u32,
    commands: usize,
    calls: mpsc::Sender<Incoming>,
) {
    let open = Open::default();
    let own = rustix::process::geteuid().as_raw();
    let _ = rustix::net::listen(listener, WAITING_AT_MOST); // it listens already: this only shortens the queue
    let most = commands.saturating_add(SPARE_CONNECTIONS);
    for connection in 0.. {
        sleep(PACE).await;
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = calls.closed() => return,
        };
        // Out of descriptors, or the caller went away again: the next may fare better.
        let Ok((stream, _)) = accepted else { continue };
        let Ok(credentials) = stream.peer_cred() else { continue };
        let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
        let uid = credentials.uid();
        let caller = Caller { uid, account: account_of(uid), pid, connection };
        let Some(seat) = Seat::take(&open, caller.account, most) else {
            refuse(&stream, &too_many());
            continue;
        };
        let calls = calls.clone();
        tokio::spawn(async move {
            // A caller that breaks the rules is not talked to any more.
            let _ = attend(stream, caller, (caller.uid != 0 && caller.uid != own).then_some(&*seat.turn), &calls).await;
            drop(seat);
            let _ = calls.send(Incoming::Gone(caller)).await;
        });
    }
}

fn too_many() -> Answer {
    Answer::refused("too many connections to the daemon's socket for commands", "wait until some of your commands end")
}

/// Without waiting: whoever does not read it does not get it.
fn refuse(stream: &UnixStream, answer: &Answer) {
    let _ = stream.try_write(&protocol::line(answer));
}

/// Answers one connection's requests, one after the other, and those of a user's connections as well: `turn`.
async fn attend(
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
            timeout(SILENCE_AT_MOST, first).await??;
        }
        let Some(line) = timeout(LINE_AT_MOST, incoming.line(&stream)).await?? else { return Ok(()) };
        let turn = match turn {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        let answer = match asked(&line, incoming.take_descriptors(), registered) {
            Ok(asked) => {
                let (reply, answer) = oneshot::channel();
                let call = Call { caller, asked, reply };
                if calls.send(Incoming::Call(call)).await.is_err() {
                    return Ok(());
                }
                answer.await.unwrap_or_else(|_| Answer::refused("the daemon is going down", "try again in a moment"))
            }
            Err(why) => Answer::refused(why, "compare `flowctl --version` with `flowcond --version`"),
        };
        let goes_on = !matches!(answer, Answer::Refused { .. });
        registered |= matches!(answer, Answer::Registered { .. });
        timeout(LINE_AT_MOST, stream.write_all(&protocol::line(&answer))).await??;
        if turn.is_some() {
            sleep(REQUEST_PACE).await;
        }
        if !goes_on {
            return Ok(());
        }
    }
}

fn asked(line: &[u8], descriptors: Vec<OwnedFd>, registered: bool) -> Result<Asked, String> {
    match protocol::request(line)? {
        Request::Register(_) if registered => Err("this connection has registered a command already".to_owned()),
        Request::Register(registration) => {
            let [process, output]: [OwnedFd; DESCRIPTORS] = descriptors
                .try_into()
                .map_err(|_| "a registration comes with two descriptors: the process and its output".to_owned())?;
            let process = Pidfd(process);
            if process.pid().is_none() {
                return Err("the first descriptor is no pidfd of a living process".to_owned());
            }
            if !is_memory(output.as_fd()) {
                return Err("the second descriptor is not readable memory (memfd_create)".to_owned());
            }
            Ok(Asked::Register { registration, process, output: File::from(output) })
        }
        Request::Jobs {} => Ok(Asked::Jobs),
        Request::End { exit_code } if registered => Ok(Asked::End { exit_code }),
        Request::End { .. } => Err("this connection has registered no command".to_owned()),
    }
}

/// What has come in and was not answered yet.
#[derive(Default)]
struct Received {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    ended: bool,
}

impl Received {
    /// Waits for some bytes, if there are none.
    async fn more(&mut self, stream: &UnixStream) -> io::Result<()> {
        if self.bytes.is_empty() && !self.ended { self.receive(stream).await } else { Ok(()) }
    }

    /// The next line without its end; `None` at the end.
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
                return Err(io::Error::other("a line without an end"));
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
                    if let RecvAncillaryMessage::ScmRights(handed) = message {
                        // What is too many is closed here; what did not fit, the kernel closed.
                        descriptors.extend(handed);
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
