//! A stream with write timeouts: a write without progress ends the connection, and so does an answer that is read too slowly.
//!
//! hyper limits the time for a request's head, but not the time for which a client may leave an answer unread in the socket's buffer. An
//! answer is held in memory until its end is written, so the whole of it has a limit too. hyper flushes the stream whenever it has written
//! all that it holds; in an event stream that is after every few events, which therefore may last.

use hyper::rt::{Read, ReadBufCursor, Write};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// An answer may take this many times the timeout of a write.
const WRITES_PER_ANSWER: u32 = 6;

/// A stream with limits on how long one write may wait, and how long an answer may take.
pub(super) struct WriteTimeout<S> {
    stream: S,
    timeout: Duration,
    /// Limit for all writes up to a flush.
    answer_time: Duration,
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
    /// When a write first had to wait since the last flush.
    slow_since: Option<Instant>,
}

impl<S> WriteTimeout<S> {
    /// Limits the wait of each write to `timeout`, and that of an answer to a multiple of it.
    pub(super) fn new(stream: S, timeout: Duration) -> Self {
        WriteTimeout {
            stream,
            timeout,
            answer_time: timeout * WRITES_PER_ANSWER,
            deadline: Box::pin(tokio::time::sleep(timeout)),
            waiting: false,
            slow_since: None,
        }
    }

    fn limited<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = false;
            return written;
        }
        if !self.waiting {
            self.waiting = true;
            let now = Instant::now();
            let answer_ends = *self.slow_since.get_or_insert(now) + self.answer_time;
            self.deadline.as_mut().reset(answer_ends.min(now + self.timeout));
        }
        ready!(self.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client did not read the answer in time")))
    }
}

impl<S: Read + Unpin> Read for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: Write + Unpin> Write for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limited(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.limited(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.slow_since = None;
        }
        self.limited(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.limited(closed, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    const PAUSE: Duration = Duration::from_millis(10);

    /// A stream whose reader takes one byte after each pause.
    struct Trickle(Pin<Box<Sleep>>);

    impl Write for Trickle {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, _bytes: &[u8]) -> Poll<io::Result<usize>> {
            ready!(self.0.as_mut().poll(cx));
            self.0.as_mut().reset(Instant::now() + PAUSE);
            Poll::Ready(Ok(1))
        }

        fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// A connection on which a single write hardly ever reaches its timeout, but an answer does after half a second.
    fn connection() -> WriteTimeout<Trickle> {
        let mut stream = WriteTimeout::new(Trickle(Box::pin(tokio::time::sleep(PAUSE))), Duration::from_secs(60));
        stream.answer_time = Duration::from_millis(500);
        stream
    }

    #[tokio::test]
    async fn an_answer_that_is_read_byte_by_byte_is_given_up() {
        let mut stream = connection();
        let ended = async {
            loop {
                if let Err(error) = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"answer")).await {
                    return error.kind();
                }
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(30), ended).await.expect("the answer has a limit");
        assert_eq!(ended, io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_slow_reader_of_an_endless_stream_of_events_stays_connected() {
        let mut stream = connection();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"event")).await.expect("written");
            poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await.expect("flushed");
        }
    }
}
