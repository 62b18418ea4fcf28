//! Places that clients may take at once. Peers with full control have some of their own, and so has root, so that no other user can lock them
//! out.

use super::access::{Peer, Right};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places of one kind: connections, streams or rejections.
pub(super) struct Places {
    /// For everyone, for peers with full control, and for root.
    open: [Arc<Semaphore>; 3],
    total: [usize; 3],
}

impl Places {
    /// Creates so many places for everyone, for peers with full control, and for root.
    pub(super) fn new(total: [usize; 3]) -> Places {
        Places { open: total.map(|count| Arc::new(Semaphore::new(count))), total }
    }

    /// Takes a place that this peer may have, until the permit is dropped; `None` if there is none.
    pub(super) fn take(&self, peer: &Peer) -> Option<OwnedSemaphorePermit> {
        self.open[..kinds(peer)].iter().find_map(|places| Arc::clone(places).try_acquire_owned().ok())
    }

    /// Returns the number of places that are taken.
    pub(super) fn taken(&self) -> usize {
        let free: usize = self.open.iter().map(|places| places.available_permits()).sum();
        self.total.iter().sum::<usize>().saturating_sub(free)
    }

    /// Returns the number of places that this peer may have.
    pub(super) fn at_most(&self, peer: &Peer) -> usize {
        self.total[..kinds(peer)].iter().sum()
    }
}

/// How many of the three kinds of places are open to the peer.
fn kinds(peer: &Peer) -> usize {
    match peer.right {
        _ if peer.is_root => 3,
        Right::Change => 2,
        Right::Read | Right::Nothing => 1,
    }
}
