//! One gRPC call over HTTP/2 on a Unix socket: a message each way, with limits on time and size.

use super::CriError;
use super::messages::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, TE};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Maximum size of a response in bytes; a thousand pods need about one MiB.
const LARGEST_RESPONSE: usize = 32 << 20;
/// Maximum length of a message of the runtime, in characters.
const MESSAGE_AT_MOST: usize = 300;
/// A flag (not compressed) and the length precede each message.
const PREFIX: usize = 5;

/// gRPC's status of a service that does not exist.
const UNIMPLEMENTED: u32 = 12;

/// Makes a call to the service `runtime.v1.RuntimeService`, on a connection of its own.
pub(super) async fn call<Q: Request>(socket: &Path, message: &Q, within: Duration) -> Result<Q::Answer, CriError> {
    let method = Q::METHOD;
    let unreachable = |why: String| CriError::Unreachable { operation: method, socket: socket.to_owned(), why };
    let exchange = exchange(socket, method, framed(message));
    let (headers, body) = match timeout(within, exchange).await {
        Ok(answered) => answered.map_err(unreachable)?,
        Err(_) => return Err(unreachable(format!("no answer within {} s", within.as_secs()))),
    };
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status").and_then(|status| status.parse().ok()) {
        Some(0) => {}
        Some(status) => {
            let message: String = text("grpc-message").unwrap_or("").chars().take(MESSAGE_AT_MOST).collect();
            return Err(match status {
                UNIMPLEMENTED => CriError::Unsupported { socket: socket.to_owned(), message },
                status => CriError::Refused { operation: method, status, message },
            });
        }
        None => return Err(unreachable("its response is not one of gRPC".to_owned())),
    }
    let payload = body.get(PREFIX..).ok_or_else(|| unreachable("its response is incomplete".to_owned()))?;
    Q::Answer::decode(payload).map_err(|error| unreachable(error.to_string()))
}

fn framed(message: &impl Message) -> Bytes {
    let encoded = message.encode_to_vec();
    let length = u32::try_from(encoded.len()).expect("requests are small");
    [&[0], &length.to_be_bytes()[..], &encoded].concat().into()
}

/// Returns the headers and trailers of the response, and its body.
async fn exchange(socket: &Path, method: &str, body: Bytes) -> Result<(HeaderMap, Bytes), String> {
    let stream = UnixStream::connect(socket).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(connection); // ends with the sender
    let request = hyper::Request::builder()
        .method(Method::POST)
        .uri(format!("http://localhost/runtime.v1.RuntimeService/{method}"))
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers")
        .body(Full::new(body))
        .expect("the names of methods are valid in a path");
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let (head, body) = response.into_parts();
    let collected = Limited::new(body, LARGEST_RESPONSE).collect().await.map_err(|error| error.to_string())?;
    let mut headers = head.headers;
    headers.extend(collected.trailers().cloned().unwrap_or_default());
    Ok((headers, collected.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::super::messages::{VersionRequest, VersionResponse};
    use super::*;
    use hyper::service::service_fn;
    use hyper::{Response, body::Incoming};
    use std::convert::Infallible;
    use tempfile::TempDir;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixListener;

    const LONG: Duration = Duration::from_secs(10);

    /// Calls a runtime that answers with these headers and this body.
    async fn version(
        headers: &'static [(&'static str, &'static str)],
        body: &'static [u8],
    ) -> Result<VersionResponse, CriError> {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("cri.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let answer = move |request: hyper::Request<Incoming>| async move {
            assert_eq!(request.uri().path(), "/runtime.v1.RuntimeService/Version");
            let mut response = Response::new(Full::new(Bytes::from_static(body)));
            for (name, value) in headers {
                response.headers_mut().insert(*name, value.parse().unwrap());
            }
            Ok::<_, Infallible>(response)
        };
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await; // the client hangs up
        });
        call(&socket, &VersionRequest::default(), LONG).await
    }

    #[tokio::test]
    async fn the_answer_is_decoded() {
        let body = b"\0\0\0\0\x13\x12\x0acontainerd\x1a\x051.7.2";
        let version = version(&[("grpc-status", "0")], body).await.unwrap();
        assert_eq!((version.runtime_name.as_str(), version.runtime_version.as_str()), ("containerd", "1.7.2"));
    }

    #[tokio::test]
    async fn a_runtime_without_the_interface_is_told_from_one_that_rejects_the_call() {
        let missing = version(&[("grpc-status", "12"), ("grpc-message", "unknown service")], b"").await.unwrap_err();
        assert!(matches!(&missing, CriError::Unsupported { message, .. } if message == "unknown service"), "{missing}");
        assert!(missing.to_string().contains("containerd 1.6"), "{missing}");
        let rejected = version(&[("grpc-status", "2"), ("grpc-message", "no such pod")], b"").await.unwrap_err();
        assert!(matches!(&rejected, CriError::Refused { status: 2, operation: "Version", .. }), "{rejected}");
    }

    #[tokio::test]
    async fn an_answer_that_is_not_grpc_is_an_error_with_the_next_step() {
        for (headers, body) in [
            (&[][..], &b"<html>"[..]),
            (&[("grpc-status", "0")], b"\0\0"),
            (&[("grpc-status", "0")], b"\0\0\0\0\x01\x12"),
        ] {
            let error = version(headers, body).await.unwrap_err();
            assert!(
                matches!(error, CriError::Unreachable { .. }) && error.to_string().contains("engine.address"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn a_socket_that_is_missing_or_of_another_server_is_an_error() {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("cri.sock");
        assert!(matches!(call(&socket, &VersionRequest::default(), LONG).await, Err(CriError::Unreachable { .. })));
        let listener = UnixListener::bind(&socket).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await; // the client may be gone
        });
        assert!(matches!(call(&socket, &VersionRequest::default(), LONG).await, Err(CriError::Unreachable { .. })));
    }

    #[tokio::test]
    async fn a_runtime_that_never_answers_is_an_error_after_the_time_limit() {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("cri.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        let error = call(&socket, &VersionRequest::default(), Duration::from_secs(1)).await.unwrap_err();
        assert!(error.to_string().contains("no answer within 1 s"), "{error}");
    }
}
