//! Writes the command's output to one of our standard streams, whatever is behind it: a slow reader is waited for, and so is space on a
//! full disk, for a while. Each other problem is an error.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::termios::isatty;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};
use term::message;

/// How long the command's output waits for space on a full disk.
const WAIT_FOR_SPACE: Duration = Duration::from_secs(30);
/// Interval between attempts on a full disk.
const RETRY_EVERY: Duration = Duration::from_millis(100);

/// One of our standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Output,
    Error,
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stream::Output => "standard output",
            Stream::Error => "standard error",
        })
    }
}

/// Why the stream takes no more output.
#[derive(Debug)]
pub(super) enum WriteError {
    /// Its reader has left, as `head` does.
    NoReader,
    /// The terminal was closed, so that nobody can see it.
    NoTerminal,
    /// The output is lost.
    Lost(io::Error),
}

impl Stream {
    /// Writes all of `bytes`. The disk being full is reported when the wait begins.
    pub(super) fn write_all(self, bytes: &[u8]) -> Result<(), WriteError> {
        match self {
            Stream::Output => self.write_to(io::stdout().as_fd(), bytes),
            Stream::Error => self.write_to(io::stderr().as_fd(), bytes),
        }
    }

    fn write_to(self, fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), WriteError> {
        let mut full_since = None;
        while !bytes.is_empty() {
            // Not through `std`, which buffers, and takes a closed descriptor for a success.
            match rustix::io::write(fd, bytes) {
                Ok(written) => (bytes, full_since) = (&bytes[written..], None),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait_until_writable(fd),
                Err(full @ (Errno::NOSPC | Errno::DQUOT)) if is_file(fd) => {
                    let since = *full_since.get_or_insert_with(|| {
                        let wait = WAIT_FOR_SPACE.as_secs();
                        message::print(format_args!("{self}: {full}; it is tried again for {wait} s: free some space"));
                        Instant::now()
                    });
                    if since.elapsed() >= WAIT_FOR_SPACE {
                        return Err(WriteError::Lost(full.into()));
                    }
                    thread::sleep(RETRY_EVERY);
                }
                Err(Errno::PIPE) => return Err(WriteError::NoReader),
                Err(Errno::IO) if isatty(fd) => return Err(WriteError::NoTerminal),
                Err(error) => return Err(WriteError::Lost(error.into())),
            }
        }
        Ok(())
    }
}

/// Waits for the reader of a descriptor that does not block, as a pipe of an event loop.
fn wait_until_writable(fd: BorrowedFd<'_>) {
    // An error is also one of the next write.
    let _ = poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None);
}

/// Whether the disk may have space again; a device such as `/dev/full` never has.
fn is_file(fd: BorrowedFd<'_>) -> bool {
    fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}
