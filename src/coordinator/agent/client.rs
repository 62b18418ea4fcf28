//! Asks the agent of one node. Imports: connection, host, model.

use super::connection::{Connection, Kept, watch};
use super::wire::{ATTEST, AttestRequest, FETCH, FetchRequest, OFFER, Offer, REPORT, ReportRequest, SUM, Sum, VOLUME};
use crate::host::swarm::Identity;
use crate::model::Millis;
use crate::model::swarm::{Attestation, Carriage, CarriageOutcome, NodeId, NodeReport, ServiceId};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A report is never larger: a thousand jobs are a tenth of it.
const ANSWER_AT_MOST: usize = 8 * 1024 * 1024;
/// Of a refusal.
const WORDS_AT_MOST: usize = 4096;
/// A node that is off answers nothing at all.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A connection that was kept and brings no answer within this may be cut without a word: another one is tried.
const KEPT_ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// A fetch takes as long as it takes; so often it is asked for again, to notice a connection that is cut without a word.
const FETCH_ASKED_EVERY: Duration = Duration::from_secs(30);

/// Asks the agent of one node, as the node whose certificate it shows.
pub struct Client {
    identity: Arc<Identity>,
    node: NodeId,
    address: Arc<str>,
    kept: Option<Arc<Kept>>,
}

impl Client {
    /// A client of the agent of `node` at this address and port.
    pub fn new(identity: Arc<Identity>, node: NodeId, address: &str, port: u16) -> Client {
        let address = if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
        Client { identity, node, address: address.into(), kept: None }
    }

    /// The same, on a connection that stays open for the next client of this node.
    #[must_use]
    pub fn keeping(self, kept: Arc<Kept>) -> Client {
        Client { kept: Some(kept), ..self }
    }

    /// How the node is; renews leases.
    ///
    /// # Errors
    /// In words.
    pub async fn report(&self, leases: &[ServiceId], lease: Millis) -> Result<NodeReport, String> {
        self.ask_kept(REPORT, &ReportRequest { leases: leases.to_vec(), lease }).await
    }

    /// Whether a service has something alive there, and whether the state there is still what a carriage took. While something lives, the
    /// agent may wait so long for its end.
    ///
    /// # Errors
    /// In words.
    pub async fn attest(
        &self,
        service: &ServiceId,
        carried: Option<u64>,
        patience: Millis,
    ) -> Result<Attestation, String> {
        self.ask(ATTEST, &AttestRequest { service: service.clone(), carried, patience }).await
    }

    /// Lets the carriage's target fetch the volume.
    ///
    /// # Errors
    /// In words.
    pub async fn offer(&self, carriage: &Carriage) -> Result<Offer, String> {
        self.ask(OFFER, carriage).await
    }

    /// Has the node fetch a volume from another, and waits for its end.
    ///
    /// # Errors
    /// In words.
    pub async fn fetch(&self, carriage: &Carriage, from: &str) -> Result<CarriageOutcome, String> {
        let asked = FetchRequest { carriage: carriage.clone(), from: from.into() };
        loop {
            // The same carriage again waits for the same end.
            if let Ok(answered) = tokio::time::timeout(FETCH_ASKED_EVERY, self.ask(FETCH, &asked)).await {
                return answered;
            }
        }
    }

    /// The volume that was offered to this node.
    pub(super) async fn volume(&self, carriage: &Carriage) -> Result<Incoming, String> {
        let response = self.request(&mut self.connect().await?, VOLUME, carriage).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let words = Limited::new(response.into_body(), WORDS_AT_MOST).collect().await;
        Err(self.refused(status, &words.map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes)))
    }

    /// What was sent.
    pub(super) async fn sum(&self, carriage: &Carriage) -> Result<Sum, String> {
        self.ask(SUM, carriage).await
    }

    /// On the connection that was kept, or on a new one. What is asked so may be asked twice.
    async fn ask_kept<T: DeserializeOwned>(&self, path: &str, question: &impl Serialize) -> Result<T, String> {
        let Some(kept) = &self.kept else { return self.ask(path, question).await };
        let mut answered = None;
        if let Some(mut connection) = kept.take(&self.node, &self.address, &self.identity) {
            let asked = tokio::time::timeout(KEPT_ANSWERS_WITHIN, self.exchange(&mut connection, path, question)).await;
            answered = asked.ok().and_then(Result::ok).map(|answer| (answer, connection));
        }
        let ((status, body), connection) = match answered {
            Some(answered) => answered,
            None => {
                let mut connection = self.connect().await?;
                (self.exchange(&mut connection, path, question).await?, connection)
            }
        };
        kept.put(&self.node, connection);
        self.read(status, &body)
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str, question: &impl Serialize) -> Result<T, String> {
        let (status, body) = self.exchange(&mut self.connect().await?, path, question).await?;
        self.read(status, &body)
    }

    fn read<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> Result<T, String> {
        if !status.is_success() {
            return Err(self.refused(status, body));
        }
        serde_json::from_slice(body).map_err(|error| {
            self.said(&format!("does not speak this version: {error}; install the same flowcoord on all nodes"))
        })
    }

    /// A request, and its answer read whole.
    async fn exchange(
        &self,
        connection: &mut Connection,
        path: &str,
        question: &impl Serialize,
    ) -> Result<(StatusCode, Bytes), String> {
        let response = self.request(connection, path, question).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_AT_MOST).collect().await;
        let body = body.map_err(|error| self.said(&format!("broke its answer off: {error}")))?;
        Ok((status, body.to_bytes()))
    }

    async fn request(
        &self,
        connection: &mut Connection,
        path: &str,
        question: &impl Serialize,
    ) -> Result<Response<Incoming>, String> {
        let body = serde_json::to_vec(question).map_err(|error| error.to_string())?;
        let request = Request::builder().method(Method::POST).uri(path).header(header::HOST, self.node.0.as_ref());
        let request = request.header(header::CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| error.to_string())?;
        // A kept connection learns in a moment that its last answer was read whole; asked before that, it would refuse.
        connection.sender.ready().await.map_err(|error| self.said(&error.to_string()))?;
        connection.sender.send_request(request).await.map_err(|error| self.said(&error.to_string()))
    }

    async fn connect(&self) -> Result<Connection, String> {
        let config = self.identity.client().map_err(|error| error.to_string())?;
        let name = ServerName::try_from(self.node.0.to_string());
        let name = name.map_err(|_| format!("the node's id `{}` cannot be a name in a certificate", self.node))?;
        let connecting = async {
            let stream = TcpStream::connect(&*self.address).await?;
            watch(&stream)?;
            TlsConnector::from(config).connect(name, stream).await
        };
        let stream = match tokio::time::timeout(CONNECT_WITHIN, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                return Err(self.said(&format!("cannot be asked: {error}; `systemctl status flowcoord-agent` there")));
            }
            Err(_elapsed) => return Err(self.said("does not answer; is the node up, and the port open?")),
        };
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.said(&error.to_string()))?;
        // Ends with its sender and the answer's body, or with an error that reaches whoever reads that.
        tokio::spawn(connection);
        let (address, identity) = (self.address.clone(), self.identity.clone());
        Ok(Connection { sender, address, identity, made: Instant::now() })
    }

    fn refused(&self, status: StatusCode, words: &[u8]) -> String {
        self.said(&format!("refused: {status} {}", String::from_utf8_lossy(&words[..words.len().min(WORDS_AT_MOST)])))
    }

    fn said(&self, what: &str) -> String {
        format!("the agent at {} {what}", self.address)
    }
}
