//! Asks the agent of one node. Imports: host, model.

use super::wire::{ATTEST, AttestRequest, FETCH, FetchRequest, OFFER, Offer, REPORT, ReportRequest, SUM, Sum, VOLUME};
use crate::host::swarm::Identity;
use crate::model::Millis;
use crate::model::swarm::{Attestation, Carriage, CarriageOutcome, NodeId, NodeReport, ServiceId};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A report is never larger: a thousand jobs are a tenth of it.
const ANSWER_AT_MOST: usize = 8 * 1024 * 1024;
/// A node that is off answers nothing at all.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Asks the agent of one node, as the node whose certificate it shows.
pub struct Client {
    identity: Arc<Identity>,
    node: NodeId,
    address: String,
}

impl Client {
    /// A client of the agent of `node` at this address and port.
    pub fn new(identity: Arc<Identity>, node: NodeId, address: &str, port: u16) -> Client {
        let address = if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
        Client { identity, node, address }
    }

    /// How the node is; renews leases.
    ///
    /// # Errors
    /// In words.
    pub async fn report(&self, leases: &[ServiceId], lease: Millis) -> Result<NodeReport, String> {
        self.ask(REPORT, &ReportRequest { leases: leases.to_vec(), lease }).await
    }

    /// Whether a service has something alive there.
    ///
    /// # Errors
    /// In words.
    pub async fn attest(&self, service: &ServiceId) -> Result<Attestation, String> {
        self.ask(ATTEST, &AttestRequest { service: service.clone() }).await
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
        self.ask(FETCH, &FetchRequest { carriage: carriage.clone(), from: from.into() }).await
    }

    /// The volume that was offered to this node.
    pub(super) async fn volume(&self, carriage: &Carriage) -> Result<Incoming, String> {
        Ok(self.send(VOLUME, carriage).await?.into_body())
    }

    /// What was sent.
    pub(super) async fn sum(&self, carriage: &Carriage) -> Result<Sum, String> {
        self.ask(SUM, carriage).await
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str, question: &impl Serialize) -> Result<T, String> {
        let response = self.send(path, question).await?;
        let body = Limited::new(response.into_body(), ANSWER_AT_MOST).collect().await;
        let body = body.map_err(|error| self.said(&format!("broke its answer off: {error}")))?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| {
            self.said(&format!("does not speak this version: {error}; install the same flowcoord on all nodes"))
        })
    }

    async fn send(&self, path: &str, question: &impl Serialize) -> Result<Response<Incoming>, String> {
        let config = self.identity.client().map_err(|error| error.to_string())?;
        let name = ServerName::try_from(self.node.0.to_string());
        let name = name.map_err(|_| format!("the node's id `{}` cannot be a name in a certificate", self.node))?;
        let connecting = async {
            let stream = TcpStream::connect(&self.address).await?;
            stream.set_nodelay(true)?;
            TlsConnector::from(config).connect(name, stream).await
        };
        let stream = match tokio::time::timeout(CONNECT_WITHIN, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                return Err(self.said(&format!("cannot be asked: {error}; `systemctl status flowcoord-agent` there")));
            }
            Err(_elapsed) => return Err(self.said("does not answer; is the node up, and the port open?")),
        };
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.said(&error.to_string()))?;
        // Ends with the answer's body; its error reaches whoever reads that.
        tokio::spawn(connection);
        let body = serde_json::to_vec(question).map_err(|error| error.to_string())?;
        let request = Request::builder().method(Method::POST).uri(path).header(header::HOST, self.node.0.as_ref());
        let request = request.header(header::CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| self.said(&error.to_string()))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let words = Limited::new(response.into_body(), 4096).collect().await.map(http_body_util::Collected::to_bytes);
        let words = words.map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
        Err(self.said(&format!("refused: {status} {words}")))
    }

    fn said(&self, what: &str) -> String {
        format!("the agent at {} {what}", self.address)
    }
}
