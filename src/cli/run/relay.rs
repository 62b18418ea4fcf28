//! The command's output on its way: to the log first, then to whoever reads ours.
//!
//! When our reader goes away the command's output is still taken and logged: the command neither stops nor sees a broken pipe.

use crate::host::scope::OutputLog;
use std::cell::RefCell;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::Child;

const PIECE: usize = 32 << 10;

/// Takes the child's output until both streams have ended, wherever they were passed on to.
pub(super) fn output_of(child: &mut Child, log: OutputLog) -> impl Future<Output = ()> + use<> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let log = RefCell::new(Log { log, complained: false });
    async move {
        tokio::join!(relay(stdout, 0, &log, tokio::io::stdout()), relay(stderr, 1, &log, tokio::io::stderr()));
    }
}

/// The log, and whether its trouble has been told.
struct Log {
    log: OutputLog,
    complained: bool,
}

impl Log {
    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written
            && !std::mem::replace(&mut self.complained, true)
        {
            eprintln!("flowctl: the command runs on, but its output cannot be logged, so it is not governed: {error}");
        }
    }
}

async fn relay(from: Option<impl AsyncRead + Unpin>, stream: usize, log: &RefCell<Log>, to: impl AsyncWrite + Unpin) {
    let Some(mut from) = from else { return };
    let mut to = Some(to);
    let mut piece = vec![0; PIECE];
    loop {
        let read = match from.read(&mut piece).await {
            Ok(0) | Err(_) => break,
            Ok(read) => &piece[..read],
        };
        {
            let mut log = log.borrow_mut();
            let written = log.log.append(stream, read);
            log.note(written);
        }
        if let Some(reader) = &mut to
            && (reader.write_all(read).await.is_err() || reader.flush().await.is_err())
        {
            to = None;
        }
    }
    let mut log = log.borrow_mut();
    let written = log.log.finish(stream);
    log.note(written);
}
