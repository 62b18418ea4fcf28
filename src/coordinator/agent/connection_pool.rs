//! Connection pool between managers and agents. Connections stay open between requests, because a handshake costs more than a report, and
//! use TCP keepalive, because a dead connection looks like an idle one.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use model::swarm::NodeId;
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use swarm::Identity;
use tokio::net::TcpStream;

/// Maximum age of a connection. Then both sides verify certificates again: one may have expired, or the authority may have changed.
pub(super) const RENEWED_AFTER: Duration = Duration::from_secs(600);
/// Maximum number of pooled connections; agents of further nodes get a connection per request.
const KEPT_AT_MOST: usize = 16_384;
/// Idle time before the first keepalive probe.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// Interval between keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Number of keepalive probes.
const KEEPALIVE_PROBES: u32 = 3;
/// Maximum time that sent data may remain unacknowledged.
const UNACKED_AT_MOST: Duration = Duration::from_secs(20);

/// Enables keepalive, so that the kernel closes dead connections.
pub(super) fn watch(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(stream, UNACKED_AT_MOST.as_millis() as u32)?;
    Ok(())
}

/// An open connection, with its peer's address and the identity used.
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    pub(super) address: Arc<str>,
    pub(super) identity: Arc<Identity>,
    pub(super) made: Instant,
}

/// Idle connections, one per node.
#[derive(Default)]
pub struct ConnectionPool(Mutex<BTreeMap<NodeId, Connection>>);

impl ConnectionPool {
    /// Drops the connections to nodes that no longer exist.
    pub fn retain(&self, is_there: impl Fn(&NodeId) -> bool) {
        self.open().retain(|node, _| is_there(node));
    }

    /// Takes the node's connection out of the pool. Drops it if it has another address or identity, is too old, or is closed.
    pub(super) fn take(&self, node: &NodeId, address: &str, identity: &Arc<Identity>) -> Option<Connection> {
        let kept = self.open().remove(node)?;
        let is_the_same = *kept.address == *address && Arc::ptr_eq(&kept.identity, identity);
        (is_the_same && kept.made.elapsed() < RENEWED_AFTER && !kept.sender.is_closed()).then_some(kept)
    }

    /// Returns a connection to the pool, after its response was read completely.
    pub(super) fn put(&self, node: &NodeId, connection: Connection) {
        let mut open = self.open();
        if open.len() < KEPT_AT_MOST {
            open.insert(node.clone(), connection);
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<NodeId, Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
