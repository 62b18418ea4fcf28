//! Client of the agent of one node.

use super::connection_pool::{Connection, ConnectionPool, watch};
use super::wire::{
    ATTEST, AttestRequest, CLAIM, FETCH, FetchRequest, OFFER, OUTPUT, Offer, OutputRequest, REPORT, ReportRequest, SUM,
    Sum, VOLUME,
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use model::Millis;
use model::swarm::{
    Attestation, Claim, ClaimOutcome, HeldLease, NodeId, NodeReport, ServiceId, Transfer, TransferOutcome,
};
use rustls::pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use swarm::Identity;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Maximum size of a response. The report of a thousand jobs takes a tenth of it.
const RESPONSE_AT_MOST: usize = 8 * 1024 * 1024;
/// Maximum size of an error message.
const ERROR_AT_MOST: usize = 4096;
/// Connection timeout: a node that is off never replies.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Response timeout on a pooled connection: it may be dead. After that a new connection is tried.
const POOLED_RESPONSE_WITHIN: Duration = Duration::from_secs(5);
/// A fetch has no time limit; it is requested again at this interval to detect a dead connection.
const FETCH_REPEATED_EVERY: Duration = Duration::from_secs(30);

/// Client of the agent of one node; authenticates with this node's certificate.
pub struct Client {
    identity: Arc<Identity>,
    node: NodeId,
    address: Arc<str>,
    kept: Option<Arc<ConnectionPool>>,
}

impl Client {
    /// Creates a client of the agent of `node` at this address and port.
    pub fn new(identity: Arc<Identity>, node: NodeId, address: &str, port: u16) -> Client {
        let address = if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
        Client { identity, node, address: address.into(), kept: None }
    }

    /// Uses a connection pool.
    #[must_use]
    pub fn with_pool(self, kept: Arc<ConnectionPool>) -> Client {
        Client { kept: Some(kept), ..self }
    }

    /// Requests the node's report and renews leases.
    ///
    /// # Errors
    /// A message for the operator.
    pub async fn report(&self, leases: &[ServiceId], lease: Millis) -> Result<NodeReport, String> {
        self.report_and_release(leases, BTreeMap::new(), lease, &[]).await
    }

    /// As [`Client::report`], with the stop grace periods of the jobs, and releases leases.
    ///
    /// # Errors
    /// A message for the operator.
    pub async fn report_and_release(
        &self,
        leases: &[ServiceId],
        graces: BTreeMap<ServiceId, Millis>,
        lease: Millis,
        release: &[HeldLease],
    ) -> Result<NodeReport, String> {
        let request = ReportRequest { leases: leases.to_vec(), lease, graces, release: release.to_vec() };
        self.ask_kept(REPORT, &request).await
    }

    /// Asks whether any container of a service is alive there, and whether the state there is still the transferred one. While a container
    /// lives, the agent may wait up to `patience` for its exit.
    ///
    /// # Errors
    /// A message for the operator.
    pub async fn attest(
        &self,
        service: &ServiceId,
        carried: Option<u64>,
        patience: Millis,
    ) -> Result<Attestation, String> {
        self.ask(ATTEST, &AttestRequest { service: service.clone(), carried, patience }).await
    }

    /// Claims a checkpoint volume for a job.
    ///
    /// # Errors
    /// A message for the operator.
    pub async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, String> {
        self.ask(CLAIM, claim).await
    }

    /// Requests the last lines of a service's output; each begins with its time.
    ///
    /// # Errors
    /// A message for the operator.
    pub async fn output(&self, service: &ServiceId, after: Option<String>, tail: u32) -> Result<String, String> {
        let request = OutputRequest { service: service.clone(), after, tail };
        self.ask::<Result<String, String>>(OUTPUT, &request).await?
    }

    /// Allows the target of a transfer to fetch the volume.
    ///
    /// # Errors
    /// A message for the operator.
    pub async fn offer(&self, carriage: &Transfer) -> Result<Offer, String> {
        self.ask(OFFER, carriage).await
    }

    /// Has the node fetch a volume from another, and waits for completion.
    ///
    /// # Errors
    /// A message for the operator.
    pub async fn fetch(&self, carriage: &Transfer, from: &str) -> Result<TransferOutcome, String> {
        let asked = FetchRequest { carriage: carriage.clone(), from: from.into() };
        loop {
            // A repeated request joins the transfer in flight.
            if let Ok(answered) = tokio::time::timeout(FETCH_REPEATED_EVERY, self.ask(FETCH, &asked)).await {
                return answered;
            }
        }
    }

    /// Downloads the volume that was offered to this node; `None` = the source has no saved state.
    pub(super) async fn volume(&self, carriage: &Transfer) -> Result<Option<Incoming>, String> {
        let response = self.request(&mut self.connect().await?, VOLUME, carriage).await?;
        let status = response.status();
        if status == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        if status.is_success() {
            return Ok(Some(response.into_body()));
        }
        let words = Limited::new(response.into_body(), ERROR_AT_MOST).collect().await;
        Err(self.rejection(status, &words.map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes)))
    }

    /// Requests the checksum of the sent volume.
    pub(super) async fn sum(&self, carriage: &Transfer) -> Result<Sum, String> {
        self.ask(SUM, carriage).await
    }

    /// Sends a request on the pooled connection, or on a new one. The request may be sent twice, so it must be idempotent.
    async fn ask_kept<T: DeserializeOwned>(&self, path: &str, question: &impl Serialize) -> Result<T, String> {
        let Some(kept) = &self.kept else { return self.ask(path, question).await };
        let mut answered = None;
        if let Some(mut connection) = kept.take(&self.node, &self.address, &self.identity) {
            let asked =
                tokio::time::timeout(POOLED_RESPONSE_WITHIN, self.exchange(&mut connection, path, question)).await;
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
            return Err(self.rejection(status, body));
        }
        serde_json::from_slice(body).map_err(|error| {
            self.message(&format!(
                "sent an invalid response: {error}; install the same version of flowcoord on all nodes"
            ))
        })
    }

    /// Sends a request and reads the whole response.
    async fn exchange(
        &self,
        connection: &mut Connection,
        path: &str,
        question: &impl Serialize,
    ) -> Result<(StatusCode, Bytes), String> {
        let response = self.request(connection, path, question).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), RESPONSE_AT_MOST).collect().await;
        let body =
            body.map_err(|error| self.message(&format!("closed the connection during its response: {error}")))?;
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
        // A pooled connection may not have noticed yet that its last response was read; sending before that would fail.
        connection.sender.ready().await.map_err(|error| self.message(&error.to_string()))?;
        connection.sender.send_request(request).await.map_err(|error| self.message(&error.to_string()))
    }

    async fn connect(&self) -> Result<Connection, String> {
        let config = self.identity.client().map_err(|error| error.to_string())?;
        let name = ServerName::try_from(self.node.0.to_string());
        let name = name.map_err(|_| format!("node id `{}` is not a valid name in a certificate", self.node))?;
        let connecting = async {
            let stream = TcpStream::connect(&*self.address).await?;
            watch(&stream)?;
            TlsConnector::from(config).connect(name, stream).await
        };
        let stream = match tokio::time::timeout(CONNECT_WITHIN, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                return Err(self.message(&format!(
                    "cannot be reached: {error}; run `systemctl status flowcoord-agent` on that node"
                )));
            }
            Err(_elapsed) => {
                return Err(self.message("does not respond; check that the node is up and the port is open"));
            }
        };
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.message(&error.to_string()))?;
        // Ends once its sender and the response body are dropped. Errors also reach the reader of the body.
        tokio::spawn(connection);
        let (address, identity) = (self.address.clone(), self.identity.clone());
        Ok(Connection { sender, address, identity, made: Instant::now() })
    }

    fn rejection(&self, status: StatusCode, words: &[u8]) -> String {
        if status == StatusCode::NOT_FOUND {
            return self.message("does not know this request; install the same version of flowcoord on all nodes");
        }
        let words = String::from_utf8_lossy(&words[..words.len().min(ERROR_AT_MOST)]);
        self.message(&format!("rejected the request: {status} {words}"))
    }

    fn message(&self, what: &str) -> String {
        format!("the agent at {} {what}", self.address)
    }
}
