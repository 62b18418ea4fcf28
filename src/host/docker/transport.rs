//! Sends one request per connection on the engine's Unix socket, with a limit on the size of the response.
//!
//! bollard uses this transport too, because its own one accepts responses of any size.

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

/// Maximum size of a response in bytes. A list of 5,000 containers is about 15 MiB; no other response is larger.
pub(super) const LARGEST_RESPONSE: u64 = 32 << 20;

/// No limit: for events and logs, which are endless. Their reader limits what it keeps.
pub(super) const ENDLESS: u64 = u64::MAX;

/// Sends one request on a new connection, which fails after `most` bytes of the response. The connection is closed when the body of the
/// response is dropped.
pub(super) async fn send<B>(socket: &Path, request: Request<B>, most: u64) -> io::Result<Response<Incoming>>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let stream = UnixStream::connect(socket).await?;
    let bounded = TokioIo::new(Bounded { stream, most, left: most });
    let (mut sender, connection) = hyper::client::conn::http1::handshake(bounded).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    sender.send_request(in_origin_form(request)).await.map_err(io::Error::other)
}

/// Returns the body of a response, whose size is limited by the connection.
pub(super) async fn whole_body(response: Response<Incoming>) -> io::Result<Bytes> {
    Ok(response.into_body().collect().await.map_err(io::Error::other)?.to_bytes())
}

/// Returns the innermost cause of an error, which hyper's message does not include.
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

/// A stream that fails after `most` bytes, of which `left` have not been read yet.
struct Bounded {
    stream: UnixStream,
    most: u64,
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
            None => Poll::Ready(Err(io::Error::other(format!("the response is larger than {} MiB", self.most >> 20)))),
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
