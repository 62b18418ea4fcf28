//! Relays the command's output: stores it for the daemon, then writes it to our own output.
//!
//! If the reader of our output goes away, the command's output is still read and stored: the command neither stops nor gets a broken pipe.

use super::message;
use crate::host::scope::Output;
use crate::host::tail::{Budget, ContainerFile, Source, Start, Tailer};
use crate::model::ContainerId;
use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::Child;

const PIECE: usize = 32 << 10;
/// A problem with the log is reported after this time: the file may not exist yet.
const REPORT_AFTER: Duration = Duration::from_secs(10);

/// Reads the child's output until both streams have ended, even if other processes inherited them; stores it in `kept`, if given.
pub(super) fn output_of(child: &mut Child, kept: Option<Output>) -> impl Future<Output = ()> + use<> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let kept = RefCell::new(Kept { output: kept, has_warned: false });
    async move {
        tokio::join!(relay(stdout, 0, &kept, tokio::io::stdout()), relay(stderr, 1, &kept, tokio::io::stderr()));
    }
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
            let rest = tailer.poll(&mut |_, bytes| kept.append(0, bytes));
            let problem = tailer.health(&id).and_then(|health| health.problem.clone());
            if seen.as_ref().is_none_or(|(known, _)| *known != problem) {
                seen = Some((problem.clone(), Instant::now()));
            }
            let lasts = seen.as_ref().is_some_and(|(_, since)| since.elapsed() >= REPORT_AFTER);
            if lasts && reported != problem {
                if let Some(problem) = &problem {
                    message::warn(format_args!("cannot read the command's log {name}: {problem}"));
                }
                reported = problem;
            }
            thread::sleep(rest);
        }
    };
    if let Err(error) = thread::Builder::new().name("log".to_owned()).spawn(reading) {
        message::warn(format_args!("cannot start a thread to read {path}: {error}"));
    }
}

/// The stored output, and whether a failure to store it was reported.
struct Kept {
    output: Option<Output>,
    has_warned: bool,
}

impl Kept {
    fn append(&mut self, stream: usize, piece: &[u8]) {
        let written = self.output.as_mut().map_or(Ok(()), |output| output.append(stream, piece));
        self.warn(written);
    }

    fn finish(&mut self, stream: usize) {
        let written = self.output.as_mut().map_or(Ok(()), |output| output.finish(stream));
        self.warn(written);
    }

    fn warn(&mut self, written: io::Result<()>) {
        if let Err(error) = written
            && !std::mem::replace(&mut self.has_warned, true)
        {
            message::warn(format_args!(
                "the command keeps running, but is not governed: cannot store its output: {error}"
            ));
        }
    }
}

async fn relay(from: Option<impl AsyncRead + Unpin>, stream: usize, kept: &RefCell<Kept>, to: impl AsyncWrite + Unpin) {
    let Some(mut from) = from else { return };
    let mut to = Some(to);
    let mut piece = vec![0; PIECE];
    loop {
        let read = match from.read(&mut piece).await {
            Ok(0) | Err(_) => break,
            Ok(read) => &piece[..read],
        };
        kept.borrow_mut().append(stream, read);
        if let Some(reader) = &mut to
            && (reader.write_all(read).await.is_err() || reader.flush().await.is_err())
        {
            to = None;
        }
    }
    kept.borrow_mut().finish(stream);
}
