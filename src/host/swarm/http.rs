//! JSON over HTTP on a Unix socket: one connection per request, and a response of limited size.

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tokio::net::UnixStream;

/// Maximum size of a response in bytes: ten thousand services need a tenth of it.
const RESPONSE_AT_MOST: usize = 256 * 1024 * 1024;
/// Maximum length of an engine's error message, in characters.
const MESSAGE_AT_MOST: usize = 500;

/// A response: status and document.
#[derive(Debug)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl HttpResponse {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the engine's error message.
    pub(super) fn message(&self) -> String {
        let words = self.body["message"].as_str().unwrap_or_default();
        match words.is_empty() {
            true => format!("the engine responded with status {}", self.status),
            false => words.chars().take(MESSAGE_AT_MOST).collect(),
        }
    }

    /// Returns the document, or the error message.
    pub(super) fn succeeded(self) -> Result<Value, String> {
        if self.is_success() { Ok(self.body) } else { Err(self.message()) }
    }
}

/// A client of one socket.
#[derive(Clone, Debug)]
pub(super) struct Http {
    socket: PathBuf,
}

impl Http {
    pub(super) fn new(socket: PathBuf) -> Http {
        Http { socket }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) async fn get(&self, path: &str) -> Result<HttpResponse, String> {
        self.request(Method::GET, path, Bytes::new()).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<HttpResponse, String> {
        self.request(Method::POST, path, body.to_string().into()).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<HttpResponse, String> {
        self.request(Method::DELETE, path, Bytes::new()).await
    }

    async fn request(&self, method: Method, path: &str, body: Bytes) -> Result<HttpResponse, String> {
        let (status, bytes) = self.exchange(method, path, body).await?;
        let body = match bytes.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&bytes).map_err(|error| {
                format!("incomplete response from the engine at {}: {error}", self.socket.display())
            })?,
        };
        Ok(HttpResponse { status, body })
    }

    /// Sends a request, and returns the status and the body of the response.
    pub(super) async fn exchange(&self, method: Method, path: &str, body: Bytes) -> Result<(u16, Bytes), String> {
        let socket = self.socket.display();
        let unreachable = |error: &dyn std::fmt::Display| {
            format!("cannot reach the engine at {socket}: {error}; check `systemctl status docker`")
        };
        let incomplete =
            |error: &dyn std::fmt::Display| format!("incomplete response from the engine at {socket}: {error}");
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| unreachable(&error))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(&error))?;
        // Ends with the body of the response, whose reader sees its error.
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header(header::HOST, "docker");
        let request = request.header(header::CONTENT_TYPE, "application/json").body(Full::new(body));
        let request = request.map_err(|error| unreachable(&error))?;
        let response = sender.send_request(request).await.map_err(|error| incomplete(&error))?;
        let status = response.status().as_u16();
        let collected =
            Limited::new(response.into_body(), RESPONSE_AT_MOST).collect().await.map_err(|error| incomplete(&error))?;
        Ok((status, collected.to_bytes()))
    }
}

/// Encodes text for a path or a query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
