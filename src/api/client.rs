//! Client of the daemon: requests with one connection and one timeout each, the event stream, and recordings.

use super::wire::{Done, Event, Gap, Problem, ProblemDetail};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;

/// Maximum bytes of an answer.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// Maximum bytes of a message of the event stream.
const MAX_MESSAGE: usize = 1024 * 1024;

/// A failed or refused request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens on the socket.
    #[error("no daemon answers at {socket}: {source}")]
    Unreachable {
        /// The socket's path.
        socket: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The mode of the socket does not allow this user to connect.
    #[error("{socket}: this user may not connect")]
    PermissionDenied {
        /// The socket's path.
        socket: PathBuf,
    },
    /// The daemon has no place for another connection.
    #[error("{socket}: busy: {what}")]
    Busy {
        /// The socket's path.
        socket: PathBuf,
        /// What was seen.
        what: &'static str,
    },
    /// No answer within the timeout.
    #[error("the daemon at {socket} did not answer within {} s", .after.as_secs_f64())]
    Timeout {
        /// The socket's path.
        socket: PathBuf,
        /// The timeout.
        after: Duration,
    },
    /// The daemon refused the request.
    #[error("{}", .problem.message)]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error in the answer.
        problem: ProblemDetail,
    },
    /// The answer is not that of a daemon of this version.
    #[error("invalid response from {socket}: {what}; check that it is the socket of a flowcond of the same version")]
    InvalidResponse {
        /// The socket's path.
        socket: PathBuf,
        /// The error.
        what: String,
    },
}

/// Client of the daemon at one socket.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    timeout: Duration,
}

impl Client {
    /// Returns a client of the daemon at `socket` with the given timeout per request.
    pub fn new(socket: &Path, timeout: Duration) -> Client {
        Client { socket: socket.to_owned(), timeout }
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns a client whose timeout is at most `at_most`.
    pub fn with_timeout(&self, at_most: Duration) -> Client {
        Client { socket: self.socket.clone(), timeout: self.timeout.min(at_most) }
    }

    /// Gets the document at `path`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let bytes = self.whole(Method::GET, path, Bytes::new()).await?;
        self.parsed(&bytes)
    }

    /// Gets the text at `path`.
    pub async fn text(&self, path: &str) -> Result<String, ClientError> {
        let bytes = self.whole(Method::GET, path, Bytes::new()).await?;
        String::from_utf8(bytes.into()).map_err(|error| self.invalid_response(error.to_string()))
    }

    /// Posts the command at `path`.
    pub async fn post(&self, path: &str) -> Result<Done, ClientError> {
        let bytes = self.whole(Method::POST, path, Bytes::new()).await?;
        self.parsed(&bytes)
    }

    /// Sends a document to `path`.
    pub async fn send_json(&self, method: Method, path: &str, document: &impl Serialize) -> Result<Done, ClientError> {
        let body = serde_json::to_vec(document).expect("wire types always serialise");
        let bytes = self.whole(method, path, body.into()).await?;
        self.parsed(&bytes)
    }

    /// Opens the event stream; `query` as in `/v1/events?query`.
    pub async fn events(&self, query: &str, last_id: Option<&str>) -> Result<EventStream, ClientError> {
        let path = if query.is_empty() { "/v1/events".to_owned() } else { format!("/v1/events?{query}") };
        let response = self.within(self.send(Method::GET, &path, Bytes::new(), last_id)).await?;
        Ok(EventStream { body: response.into_body(), buffer: Vec::new(), client: self.clone(), last_id: None })
    }

    /// Opens a recording of the daemon's ticks from now on, in lines.
    pub async fn recording(&self) -> Result<LineStream, ClientError> {
        let response = self.within(self.send(Method::GET, "/v1/recording", Bytes::new(), None)).await?;
        Ok(LineStream { body: response.into_body(), buffer: Vec::new(), client: self.clone() })
    }

    async fn within<T>(&self, work: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        match tokio::time::timeout(self.timeout, work).await {
            Ok(result) => result,
            Err(_elapsed) => Err(ClientError::Timeout { socket: self.socket.clone(), after: self.timeout }),
        }
    }

    async fn whole(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, ClientError> {
        self.within(async { self.collected(self.send(method, path, body, None).await?).await }).await
    }

    async fn collected(&self, response: Response<Incoming>) -> Result<Bytes, ClientError> {
        match Limited::new(response.into_body(), MAX_ANSWER).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(self.invalid_response("the answer is too large".to_owned()))
            }
            Err(error) => Err(self.invalid_response(format!("the answer is incomplete: {error}"))),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        last_id: Option<&str>,
    ) -> Result<Response<Incoming>, ClientError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| self.unconnected(error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.invalid_response(error.to_string()))?;
        // The task ends with the response's body, whose reader gets the error.
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "flowcond");
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        let request = request.body(Full::new(body)).map_err(|error| self.invalid_response(error.to_string()))?;
        let response = sender.send_request(request).await.map_err(|error| self.unanswered(&error))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refused(response).await) }
    }

    async fn refused(&self, response: Response<Incoming>) -> ClientError {
        let status = response.status();
        match self.collected(response).await.map(|body| serde_json::from_slice::<Problem>(&body)) {
            Ok(Ok(problem)) => ClientError::Refused { status: status.as_u16(), problem: problem.error },
            Ok(Err(_)) => self.invalid_response(format!("HTTP status {status} without an error message")),
            Err(error) => error,
        }
    }

    fn unconnected(&self, source: io::Error) -> ClientError {
        let socket = self.socket.clone();
        match source.kind() {
            io::ErrorKind::PermissionDenied => ClientError::PermissionDenied { socket },
            io::ErrorKind::WouldBlock => ClientError::Busy { socket, what: "too many connections wait to be accepted" },
            _ => ClientError::Unreachable { socket, source },
        }
    }

    /// A daemon whose places are all taken, also those for rejections, closes a connection without an answer.
    fn unanswered(&self, error: &hyper::Error) -> ClientError {
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
        let is_closed = error.is_incomplete_message()
            || error.is_canceled()
            || error.is_closed()
            || matches!(source, Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe));
        if is_closed {
            let what =
                "the connection was closed without an answer; too many others are open, or the daemon is stopping";
            return ClientError::Busy { socket: self.socket.clone(), what };
        }
        self.invalid_response(error.to_string())
    }

    fn parsed<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(bytes).map_err(|error| self.invalid_response(error.to_string()))
    }

    fn invalid_response(&self, what: String) -> ClientError {
        ClientError::InvalidResponse { socket: self.socket.clone(), what }
    }
}

impl ClientError {
    /// The HTTP status of a refusal.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            ClientError::Refused { status, .. } => StatusCode::from_u16(*status).ok(),
            _ => None,
        }
    }
}

/// A message of the event stream.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamMessage {
    /// An event.
    Event(Event),
    /// Some events are no longer available.
    Gap(Gap),
}

/// An open event stream.
pub struct EventStream {
    body: Incoming,
    buffer: Vec<u8>,
    client: Client,
    last_id: Option<String>,
}

impl EventStream {
    /// The id to resume from with [`Client::events`].
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Returns the next message; `None` when the daemon ends the stream.
    pub async fn next(&mut self) -> Result<Option<StreamMessage>, ClientError> {
        loop {
            while let Some(message) = self.take_message() {
                if let Some(message) = self.read(&message)? {
                    return Ok(Some(message));
                }
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.keep(frame.data_ref().map_or(&[][..], |data| data))?,
                Some(Err(error)) => {
                    return Err(self.client.invalid_response(format!("the event stream was interrupted: {error}")));
                }
                None => return Ok(None),
            }
        }
    }

    fn keep(&mut self, data: &[u8]) -> Result<(), ClientError> {
        self.buffer.extend_from_slice(data);
        if self.buffer.len() > MAX_MESSAGE {
            return Err(self.client.invalid_response("an event is too large".to_owned()));
        }
        Ok(())
    }

    /// Messages end with an empty line.
    fn take_message(&mut self) -> Option<String> {
        let end = self.buffer.windows(2).position(|pair| pair == b"\n\n")?;
        let message = self.buffer.drain(..end + 2).collect::<Vec<u8>>();
        Some(String::from_utf8_lossy(&message).into_owned())
    }

    fn read(&mut self, message: &str) -> Result<Option<StreamMessage>, ClientError> {
        let (mut kind, mut data) = ("", String::new());
        for line in message.lines() {
            // A line that begins with a colon is a comment, sent to keep the connection alive.
            let Some((field, value)) = line.split_once(':') else { continue };
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => kind = value,
                "id" => self.last_id = Some(value.to_owned()),
                "data" => data.push_str(value),
                _ => {}
            }
        }
        match (kind, data.as_str()) {
            (_, "") => Ok(None),
            ("gap", data) => Ok(Some(StreamMessage::Gap(self.client.parsed(data.as_bytes())?))),
            (_, data) => Ok(Some(StreamMessage::Event(self.client.parsed(data.as_bytes())?))),
        }
    }
}

/// An open stream of lines.
pub struct LineStream {
    body: Incoming,
    buffer: Vec<u8>,
    client: Client,
}

impl LineStream {
    /// Returns the received complete lines, including line feeds; `None` when the daemon ends the stream.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            if let Some(end) = self.buffer.iter().rposition(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                return Ok(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            if self.buffer.len() > MAX_ANSWER {
                return Err(self.client.invalid_response("a line is too long".to_owned()));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
                Some(Err(error)) => {
                    return Err(self.client.invalid_response(format!("the recording was interrupted: {error}")));
                }
                None => return Ok(None),
            }
        }
    }
}

/// All characters except unreserved ones.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a container's name as a segment of a path.
pub fn segment(name: &str) -> String {
    utf8_percent_encode(name, RESERVED).to_string()
}
