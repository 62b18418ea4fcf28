//! One request, one connection, on the engine's Unix socket, with a bound on what the other side may send.
//!
//! bollard runs on this transport too: its own collects answers of any length. Imports: hyper, tokio.

use super::EngineAddress;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

/// A list of 5,000 containers is about 15 MiB; nothing that is asked here is longer.
pub(super) const LONGEST_ANSWER: u64 = 32 << 20;

/// How much the other side may send on one connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    /// A single answer.
    Answer,
    /// Events and logs have no end; who reads them bounds what it keeps.
    Stream,
}

/// Sends one request on a connection of its own. The connection closes when the answer's body is dropped.
pub(super) async fn send<B>(
    address: &EngineAddress,
    request: Request<B>,
    bound: Bound,
) -> io::Result<Response<Incoming>>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let stream = UnixStream::connect(address.socket()).await?;
    let left = match bound {
        Bound::Answer => LONGEST_ANSWER,
        Bound::Stream => u64::MAX,
    };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(Bounded { stream, left }))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(connection);
    sender.send_request(in_origin_form(request)).await.map_err(io::Error::other)
}

/// A whole answer's body; its length is bounded by the connection.
pub(super) async fn whole_body(response: Response<Incoming>) -> io::Result<Bytes> {
    Ok(response.into_body().collect().await.map_err(io::Error::other)?.to_bytes())
}

/// The innermost cause in words: hyper's own message hides it.
pub(super) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn in_origin_form<B>(mut request: Request<B>) -> Request<B> {
    let target = request.uri().path_and_query().map_or("/", |path| path.as_str());
    if let Ok(uri) = target.parse::<Uri>() {
        *request.uri_mut() = uri;
    }
    request.headers_mut().insert(HOST, HeaderValue::from_static("engine"));
    request
}

/// A stream that ends in an error after `left` more bytes were read.
struct Bounded {
    stream: UnixStream,
    left: u64,
}

impl AsyncRead for Bounded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let ready = Pin::new(&mut self.stream).poll_read(cx, buf);
        let read = (buf.filled().len() - before) as u64;
        match self.left.checked_sub(read) {
            Some(left) => {
                self.left = left;
                ready
            }
            None => Poll::Ready(Err(io::Error::other("the answer is longer than 32 MiB"))),
        }
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
