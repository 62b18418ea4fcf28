//! gRPC calls over HTTP/2 on a Unix socket: a message each way, with limits on time and size, all of them on one connection.

use super::CriError;
use super::messages::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Method;
use hyper::body::Bytes;
use hyper::client::conn::http2::SendRequest;
use hyper::header::{CONTENT_TYPE, HeaderMap, TE};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Maximum size of a response in bytes; a thousand pods need about one MiB.
const LARGEST_RESPONSE: usize = 32 << 20;
/// Maximum length of a message of the runtime, in characters.
const MESSAGE_AT_MOST: usize = 300;
/// A flag (not compressed) and the length precede each message.
const PREFIX: usize = 5;

/// gRPC's status of a service that does not exist.
const UNIMPLEMENTED: u32 = 12;

/// A server's socket, with the connection to it, which is made at the first call and again after an error. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    socket: PathBuf,
    connection: Arc<Mutex<Option<SendRequest<Full<Bytes>>>>>,
}

impl Channel {
    pub(super) fn new(socket: &Path) -> Channel {
        Channel { socket: socket.to_owned(), connection: Arc::default() }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Makes a call, of containerd's own services in one of its namespaces.
    pub(super) async fn call<Q: Request>(
        &self,
        namespace: Option<&str>,
        message: &Q,
        within: Duration,
    ) -> Result<Q::Answer, CriError> {
        let method = Q::METHOD;
        let unreachable = |why: String| CriError::Unreachable { operation: method, socket: self.socket.clone(), why };
        let exchanged = timeout(within, self.exchange(namespace, method, framed(message))).await;
        let exchanged = exchanged.unwrap_or_else(|_| Err(format!("no answer within {} s", within.as_secs())));
        if exchanged.is_err() {
            self.connection.lock().await.take();
        }
        let (headers, body) = exchanged.map_err(unreachable)?;
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        match text("grpc-status").and_then(|status| status.parse().ok()) {
            Some(0) => {}
            Some(status) => {
                let message: String = text("grpc-message").unwrap_or("").chars().take(MESSAGE_AT_MOST).collect();
                return Err(match status {
                    UNIMPLEMENTED => CriError::Unsupported { socket: self.socket.clone(), message },
                    status => CriError::Refused { operation: method, status, message },
                });
            }
            None => return Err(unreachable("its response is not one of gRPC".to_owned())),
        }
        let payload = body.get(PREFIX..).ok_or_else(|| unreachable("its response is incomplete".to_owned()))?;
        Q::Answer::decode(payload).map_err(|error| unreachable(error.to_string()))
    }

    /// Returns the headers and trailers of the response, and its body.
    async fn exchange(&self, namespace: Option<&str>, method: &str, body: Bytes) -> Result<(HeaderMap, Bytes), String> {
        let mut request = hyper::Request::builder()
            .method(Method::POST)
            .uri(format!("http://localhost/{method}"))
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers");
        if let Some(namespace) = namespace {
            request = request.header("containerd-namespace", namespace);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        let mut connection = self.connected().await?;
        let response = connection.send_request(request).await.map_err(|error| error.to_string())?;
        let (head, body) = response.into_parts();
        let collected = Limited::new(body, LARGEST_RESPONSE).collect().await.map_err(|error| error.to_string())?;
        let mut headers = head.headers;
        headers.extend(collected.trailers().cloned().unwrap_or_default());
        Ok((headers, collected.to_bytes()))
    }

    /// Returns the connection, a new one if there is none or the server has closed it.
    async fn connected(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let mut connection = self.connection.lock().await;
        if let Some(open) = connection.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(open.clone());
        }
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| error.to_string())?;
        let (sender, task) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        tokio::spawn(task); // ends with the last sender
        Ok(connection.insert(sender).clone())
    }
}

fn framed(message: &impl Message) -> Bytes {
    let encoded = message.encode_to_vec();
    let length = u32::try_from(encoded.len()).expect("requests are small");
    [&[0], &length.to_be_bytes()[..], &encoded].concat().into()
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use hyper::service::service_fn;
    use hyper::{Response, body::Incoming};
    use std::convert::Infallible;
    use std::future::ready;
    use tempfile::TempDir;
    use tokio::net::UnixListener;
    use tokio::task::JoinSet;

    /// Headers and body of a response.
    pub(crate) type Answer = (&'static [(&'static str, &'static str)], Bytes);

    /// A runtime that answers by recorded messages.
    pub(crate) struct Recorded {
        folder: TempDir,
        connections: Arc<Mutex<JoinSet<hyper::Result<()>>>>,
    }

    impl Recorded {
        /// Starts a runtime that answers a call by its path and containerd's namespace.
        pub(crate) fn start(answer: impl Fn(&str, &str) -> Answer + Clone + Send + 'static) -> Recorded {
            let recorded = Recorded { folder: TempDir::new().unwrap(), connections: Arc::default() };
            let listener = UnixListener::bind(recorded.socket()).unwrap();
            let respond = move |request: hyper::Request<Incoming>| {
                let namespace = request.headers().get("containerd-namespace").map_or("", |name| name.to_str().unwrap());
                let (headers, body) = answer(request.uri().path(), namespace);
                let mut response = Response::new(Full::new(body));
                for (name, value) in headers {
                    response.headers_mut().insert(*name, value.parse().unwrap());
                }
                ready(Ok::<_, Infallible>(response))
            };
            let connections = recorded.connections.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let serve = server.serve_connection(TokioIo::new(stream), service_fn(respond.clone()));
                    connections.lock().await.spawn(serve);
                }
            });
            recorded
        }

        pub(crate) fn socket(&self) -> PathBuf {
            self.folder.path().join("cri.sock")
        }

        /// How many connections were made to it.
        pub(crate) async fn connections(&self) -> usize {
            self.connections.lock().await.len()
        }

        /// Closes them.
        pub(crate) async fn hang_up(&self) {
            self.connections.lock().await.abort_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::{VersionRequest, VersionResponse};
    use super::testing::{Answer, Recorded};
    use super::*;
    use tempfile::TempDir;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixListener;

    const LONG: Duration = Duration::from_secs(10);

    async fn call(socket: &Path, within: Duration) -> Result<VersionResponse, CriError> {
        Channel::new(socket).call(None, &VersionRequest::default(), within).await
    }

    /// Calls a runtime that answers with these headers and this body.
    async fn version(
        headers: &'static [(&'static str, &'static str)],
        body: &'static [u8],
    ) -> Result<VersionResponse, CriError> {
        let runtime = Recorded::start(move |path, namespace| {
            assert_eq!((path, namespace), ("/runtime.v1.RuntimeService/Version", ""));
            (headers, body.into())
        });
        call(&runtime.socket(), LONG).await
    }

    #[tokio::test]
    async fn the_answer_is_decoded() {
        let body = b"\0\0\0\0\x13\x12\x0acontainerd\x1a\x051.7.2";
        let version = version(&[("grpc-status", "0")], body).await.unwrap();
        assert_eq!((version.runtime_name.as_str(), version.runtime_version.as_str()), ("containerd", "1.7.2"));
    }

    #[tokio::test]
    async fn calls_share_a_connection_until_the_runtime_closes_it() {
        let answer = |_: &str, _: &str| -> Answer { (&[("grpc-status", "0")], b"\0\0\0\0\0"[..].into()) };
        let runtime = Recorded::start(answer);
        let channel = Channel::new(&runtime.socket());
        let request = VersionRequest::default();
        let call = || channel.call(None, &request, LONG);
        for _ in 0..3 {
            call().await.unwrap();
        }
        assert_eq!(runtime.connections().await, 1);
        runtime.hang_up().await;
        let _ = call().await; // may be too early to notice
        call().await.unwrap();
        assert_eq!(runtime.connections().await, 2);
    }

    #[tokio::test]
    async fn a_runtime_without_the_interface_is_told_from_one_that_rejects_the_call() {
        let missing = version(&[("grpc-status", "12"), ("grpc-message", "unknown service")], b"").await.unwrap_err();
        assert!(matches!(&missing, CriError::Unsupported { message, .. } if message == "unknown service"), "{missing}");
        assert!(missing.to_string().contains("containerd 1.6"), "{missing}");
        let rejected = version(&[("grpc-status", "2"), ("grpc-message", "no such pod")], b"").await.unwrap_err();
        assert!(
            matches!(&rejected, CriError::Refused { status: 2, operation: "runtime.v1.RuntimeService/Version", .. }),
            "{rejected}"
        );
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
        assert!(matches!(call(&socket, LONG).await, Err(CriError::Unreachable { .. })));
        let listener = UnixListener::bind(&socket).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await; // the client may be gone
        });
        assert!(matches!(call(&socket, LONG).await, Err(CriError::Unreachable { .. })));
    }

    #[tokio::test]
    async fn a_runtime_that_never_answers_is_an_error_after_the_time_limit() {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("cri.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        let error = call(&socket, Duration::from_secs(1)).await.unwrap_err();
        assert!(error.to_string().contains("no answer within 1 s"), "{error}");
    }
}
