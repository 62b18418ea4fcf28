//! The daemon's client: one request, one connection, one deadline; the event stream, and recordings. Imports: wire types, hyper.

use super::wire::{AdoptionRequest, Done, Event, Gap, PolicyChange, Problem, ProblemDetail, Submission};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;

/// A daemon's answer is never larger; what is, is not a daemon's.
const ANSWER_AT_MOST: usize = 64 * 1024 * 1024;

/// A line of the event stream is never longer.
const LINE_AT_MOST: usize = 1024 * 1024;

/// Why there is no answer, or a refusal as the answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("no daemon answers at {socket}: {source}")]
    Unreachable {
        /// The socket's path.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The socket's mode keeps this user out.
    #[error("{socket}: this user may not connect")]
    PermissionDenied {
        /// The socket's path.
        socket: PathBuf,
    },
    /// No answer within the time.
    #[error("the daemon at {socket} did not answer within {} s", .after.as_secs_f64())]
    Timeout {
        /// The socket's path.
        socket: PathBuf,
        /// How long was waited.
        after: Duration,
    },
    /// The daemon said no.
    #[error("{}", .problem.message)]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it said.
        problem: ProblemDetail,
    },
    /// Whoever listens there does not speak as a daemon does.
    #[error("what answers at {socket} does not speak this version of the daemon's API: {what}")]
    InvalidResponse {
        /// The socket's path.
        socket: PathBuf,
        /// What was not understood.
        what: String,
    },
}

/// Talks to the daemon at one socket.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    timeout: Duration,
}

impl Client {
    /// A client of the daemon at `socket` that waits for an answer for `timeout` at most.
    pub fn new(socket: &Path, timeout: Duration) -> Client {
        Client { socket: socket.to_owned(), timeout }
    }

    /// Where the daemon is asked.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The same, waiting for `at_most` where it would wait longer.
    pub fn hurried(&self, at_most: Duration) -> Client {
        Client { socket: self.socket.clone(), timeout: self.timeout.min(at_most) }
    }

    /// The document at `path`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let bytes = self.within(self.whole(Method::GET, path, Bytes::new())).await?;
        self.understood(&bytes)
    }

    /// The text at `path`, as it stands.
    pub async fn text(&self, path: &str) -> Result<String, ClientError> {
        let bytes = self.within(self.whole(Method::GET, path, Bytes::new())).await?;
        String::from_utf8(bytes.into()).map_err(|error| self.invalid_response(error.to_string()))
    }

    /// Gives the command at `path`.
    pub async fn post(&self, path: &str) -> Result<Done, ClientError> {
        let bytes = self.within(self.whole(Method::POST, path, Bytes::new())).await?;
        self.understood(&bytes)
    }

    /// Has a running container without the label governed.
    pub async fn adopt(&self, name: &str, request: &AdoptionRequest) -> Result<Done, ClientError> {
        let path = format!("/v1/containers/{}/adopt", segment(name));
        let bytes = self.within(self.whole(Method::POST, &path, encoded(request))).await?;
        self.understood(&bytes)
    }

    /// Has a coordinator queue a training.
    pub async fn submit(&self, submission: &Submission) -> Result<Done, ClientError> {
        let bytes = self.within(self.whole(Method::POST, "/v1/cluster/jobs", encoded(submission))).await?;
        self.understood(&bytes)
    }

    /// Changes the policy.
    pub async fn set_policy(&self, change: &PolicyChange) -> Result<Done, ClientError> {
        self.put("/v1/policy", change).await
    }

    /// Puts a document at `path`.
    pub async fn put(&self, path: &str, document: &impl Serialize) -> Result<Done, ClientError> {
        let bytes = self.within(self.whole(Method::PUT, path, encoded(document))).await?;
        self.understood(&bytes)
    }

    /// Opens the event stream; `query` as in `/v1/events?query`.
    pub async fn events(&self, query: &str, last_id: Option<&str>) -> Result<EventStream, ClientError> {
        let path = if query.is_empty() { "/v1/events".to_owned() } else { format!("/v1/events?{query}") };
        let response = self.within(self.send(Method::GET, &path, Bytes::new(), last_id)).await?;
        Ok(EventStream { body: response.into_body(), buffer: Vec::new(), client: self.clone(), last_id: None })
    }

    /// Opens a recording: the daemon's ticks from now on, line by line.
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
        self.collected(self.send(method, path, body, None).await?).await
    }

    async fn collected(&self, response: Response<Incoming>) -> Result<Bytes, ClientError> {
        match Limited::new(response.into_body(), ANSWER_AT_MOST).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(self.invalid_response("the answer has no end".to_owned()))
            }
            Err(error) => Err(self.invalid_response(format!("the answer broke off: {error}"))),
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
        // Ends with the response's body; its error reaches whoever reads that.
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "flowcond");
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        let request = request.body(Full::new(body)).map_err(|error| self.invalid_response(error.to_string()))?;
        let response = sender.send_request(request).await.map_err(|error| self.invalid_response(error.to_string()))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refused(response).await) }
    }

    async fn refused(&self, response: Response<Incoming>) -> ClientError {
        let status = response.status();
        match self.collected(response).await.map(|body| serde_json::from_slice::<Problem>(&body)) {
            Ok(Ok(problem)) => ClientError::Refused { status: status.as_u16(), problem: problem.error },
            Ok(Err(_)) => self.invalid_response(format!("it answered {status}")),
            Err(error) => error,
        }
    }

    fn unconnected(&self, source: io::Error) -> ClientError {
        let socket = self.socket.clone();
        match source.kind() {
            io::ErrorKind::PermissionDenied => ClientError::PermissionDenied { socket },
            _ => ClientError::Unreachable { socket, source },
        }
    }

    fn understood<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, ClientError> {
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

fn encoded<T: Serialize>(document: &T) -> Bytes {
    serde_json::to_vec(document).expect("wire types always serialise").into()
}

/// One message of the event stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Something happened.
    Event(Event),
    /// Some events can no longer be told.
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

    /// The next message; `None` when the daemon ended the stream.
    pub async fn next(&mut self) -> Result<Option<Told>, ClientError> {
        loop {
            while let Some(message) = self.take_message() {
                if let Some(told) = self.read(&message)? {
                    return Ok(Some(told));
                }
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.keep(frame.data_ref().map_or(&[][..], |data| data))?,
                Some(Err(error)) => {
                    return Err(self.client.invalid_response(format!("the event stream broke off: {error}")));
                }
                None => return Ok(None),
            }
        }
    }

    fn keep(&mut self, data: &[u8]) -> Result<(), ClientError> {
        self.buffer.extend_from_slice(data);
        if self.buffer.len() > LINE_AT_MOST {
            return Err(self.client.invalid_response("an event has no end".to_owned()));
        }
        Ok(())
    }

    /// Messages end with an empty line.
    fn take_message(&mut self) -> Option<String> {
        let end = self.buffer.windows(2).position(|pair| pair == b"\n\n")?;
        let message = self.buffer.drain(..end + 2).collect::<Vec<u8>>();
        Some(String::from_utf8_lossy(&message).into_owned())
    }

    fn read(&mut self, message: &str) -> Result<Option<Told>, ClientError> {
        let (mut kind, mut data) = ("", String::new());
        for line in message.lines() {
            // A line that begins with a colon is a comment that keeps the connection alive.
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
            ("gap", data) => Ok(Some(Told::Gap(self.client.understood(data.as_bytes())?))),
            (_, data) => Ok(Some(Told::Event(self.client.understood(data.as_bytes())?))),
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
    /// What has arrived up to the last whole line, line feeds included; `None` when the daemon ended the stream.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            if let Some(end) = self.buffer.iter().rposition(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                return Ok(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            if self.buffer.len() > ANSWER_AT_MOST {
                return Err(self.client.invalid_response("a line has no end".to_owned()));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
                Some(Err(error)) => {
                    return Err(self.client.invalid_response(format!("the recording broke off: {error}")));
                }
                None => return Ok(None),
            }
        }
    }
}

/// A container's name as one segment of a path.
pub fn segment(name: &str) -> String {
    name.bytes().fold(String::with_capacity(name.len()), |mut path, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
        path
    })
}
