//! Relays the command's output: stores it for the daemon, then writes it to our own output.
//!
//! Guarantees: no output is lost silently. If ours cannot be written, or its reader leaves, the command's next write fails as it would
//! without a relay (SIGPIPE); a loss is reported, and it shows in the exit code. Only a closed terminal does not end the command, which may
//! be meant to outlive it: its output is still read and stored.

use super::write::{Stream, WriteError};
use model::ContainerId;
use scope::Output;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tail::{Budget, ContainerFile, Source, Start, Tailer};
use term::message;
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::task::spawn_blocking;

const PIECE: usize = 32 << 10;
/// A problem with the log is reported after this time: the file may not exist yet.
const REPORT_AFTER: Duration = Duration::from_secs(10);

/// Relays the child's output until both streams have ended, even if other processes inherited them; stores it in `kept`, if given. Returns
/// whether nothing was lost.
///
/// # Errors
/// Errors of the operating system; nothing is relayed.
pub(super) fn output_of(child: &mut Child, kept: Option<Output>) -> io::Result<impl Future<Output = bool> + use<>> {
    let stdout = child.stdout.take().map(ChildStdout::into_owned_fd).transpose()?;
    let stderr = child.stderr.take().map(ChildStderr::into_owned_fd).transpose()?;
    let kept = Arc::new(Mutex::new(Kept { output: kept, has_warned: false }));
    // In threads, because a write may block for as long as its reader likes.
    let start = |from: Option<OwnedFd>, stream: Stream| {
        let kept = kept.clone();
        spawn_blocking(move || from.is_none_or(|from| relay(from, stream, &kept)))
    };
    let (stdout, stderr) = (start(stdout, Stream::Output), start(stderr, Stream::Error));
    Ok(async move {
        let (stdout, stderr) = tokio::join!(stdout, stderr);
        stdout.unwrap_or(false) && stderr.unwrap_or(false)
    })
}

/// Reads the file of `flowcon.log` with the permissions of this user and stores it for the daemon, which opens no path that a user
/// names. `pid` is the command. The thread ends with this program.
pub(super) fn log_of_file(path: &str, pid: u32, output: Output) {
    let file = ContainerFile::new(Some(pid), &[], Path::new(path));
    let name = path.to_owned();
    let reading = move || {
        let mut kept = Kept { output: Some(output), has_warned: false };
        let (mut reported, mut seen) = (None, None);
        let id = ContainerId::new("log");
        let mut tailer = Tailer::new(Budget::default());
        tailer.follow(id.clone(), Source::Inside(file), Start::Beginning);
        loop {
            let rest = tailer.poll(&mut |_, bytes| kept.append(Stream::Output, bytes));
            let problem = tailer.health(&id).and_then(|health| health.problem.clone());
            if seen.as_ref().is_none_or(|(known, _)| *known != problem) {
                seen = Some((problem.clone(), Instant::now()));
            }
            let lasts = seen.as_ref().is_some_and(|(_, since)| since.elapsed() >= REPORT_AFTER);
            if lasts && reported != problem {
                if let Some(problem) = &problem {
                    message::print(format_args!("cannot read the command's log {name}: {problem}"));
                }
                reported = problem;
            }
            thread::sleep(rest);
        }
    };
    if let Err(error) = thread::Builder::new().name("log".to_owned()).spawn(reading) {
        message::print(format_args!("cannot start a thread to read {path}: {error}"));
    }
}

/// The stored output, and whether a failure to store it was reported.
struct Kept {
    output: Option<Output>,
    has_warned: bool,
}

impl Kept {
    fn append(&mut self, stream: Stream, piece: &[u8]) {
        let written = self.output.as_mut().map_or(Ok(()), |output| output.append(stream as usize, piece));
        self.warn(written);
    }

    fn finish(&mut self, stream: Stream) {
        let written = self.output.as_mut().map_or(Ok(()), |output| output.finish(stream as usize));
        self.warn(written);
    }

    fn warn(&mut self, written: io::Result<()>) {
        if let Err(error) = written
            && !std::mem::replace(&mut self.has_warned, true)
        {
            message::print(format_args!(
                "the command keeps running, but is not governed: cannot store its output: {error}"
            ));
        }
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Relays one stream. Returns whether nothing was lost. The command's end of the pipe is closed with `from`.
fn relay(from: OwnedFd, stream: Stream, kept: &Mutex<Kept>) -> bool {
    let mut from = File::from(from);
    let mut piece = vec![0; PIECE];
    let (mut is_shown, mut is_lost) = (true, false);
    loop {
        let read = match from.read(&mut piece) {
            Ok(read @ 1..) => &piece[..read],
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => break,
        };
        lock(kept).append(stream, read);
        match if is_shown { stream.write_all(read) } else { Ok(()) } {
            Ok(()) => {}
            Err(WriteError::NoTerminal) => is_shown = false,
            Err(WriteError::NoReader) => break,
            Err(WriteError::Lost(error)) => {
                message::print(format_args!(
                    "output of the command is lost: cannot write to {stream}: {error}; its next write fails, too"
                ));
                is_lost = true;
                break;
            }
        }
    }
    lock(kept).finish(stream);
    !is_lost
}
