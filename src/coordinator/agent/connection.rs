//! Connections between managers and agents: kept open from one request to the next, because a handshake costs more than a report, and
//! watched, because one that is cut without a word looks like one that is quiet. Imports: host, model.

use crate::host::swarm::Identity;
use crate::model::swarm::NodeId;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Then both sides show their certificates again: one may have expired, or another authority may be trusted.
pub(super) const RENEWED_AFTER: Duration = Duration::from_secs(600);
/// Open at once; agents of further nodes get a connection for each request.
const KEPT_AT_MOST: usize = 16_384;
/// Nothing came for so long: the other side's kernel is asked whether it is there.
const QUIET: Duration = Duration::from_secs(10);
const ASK_AGAIN: Duration = Duration::from_secs(5);
const QUESTIONS: u32 = 3;
/// What was sent and not received by the other side's kernel for so long is lost.
const UNHEARD: Duration = Duration::from_secs(20);

/// Has the kernel end a connection whose other side has gone without a word.
pub(super) fn watch(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, QUIET)?;
    sockopt::set_tcp_keepintvl(stream, ASK_AGAIN)?;
    sockopt::set_tcp_keepcnt(stream, QUESTIONS)?;
    sockopt::set_tcp_user_timeout(stream, UNHEARD.as_millis() as u32)?;
    Ok(())
}

/// One that is open: to whom, and as whom.
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    pub(super) address: Arc<str>,
    pub(super) identity: Arc<Identity>,
    pub(super) made: Instant,
}

/// Connections that nobody uses at the moment, one a node.
#[derive(Default)]
pub struct Kept(Mutex<BTreeMap<NodeId, Connection>>);

impl Kept {
    /// Forgets the nodes that are none any more.
    pub fn retain(&self, is_there: impl Fn(&NodeId) -> bool) {
        self.open().retain(|node, _| is_there(node));
    }

    /// The one to this address, as this identity; others are of no use any more.
    pub(super) fn take(&self, node: &NodeId, address: &str, identity: &Arc<Identity>) -> Option<Connection> {
        let kept = self.open().remove(node)?;
        let is_the_same = *kept.address == *address && Arc::ptr_eq(&kept.identity, identity);
        (is_the_same && kept.made.elapsed() < RENEWED_AFTER && !kept.sender.is_closed()).then_some(kept)
    }

    /// Its answer was read whole: the next request may have it.
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
