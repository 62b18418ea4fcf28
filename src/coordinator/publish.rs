//! Publishes the latest status and recent events of the coordinator. Imports: api, model.

use crate::api::Request;
use crate::api::cluster::{ClusterEvent, ClusterFeed, Wanted};
use crate::model::cluster::ClusterStatus;
use crate::model::swarm::ServiceId;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tokio::sync::{mpsc, watch};

/// Number of events that are kept.
const EVENTS_AT_MOST: usize = 1000;

/// The writing side of a [`ClusterFeed`].
pub(super) struct Publisher {
    status: watch::Sender<Arc<ClusterStatus>>,
    moves: watch::Sender<u64>,
    recent: Arc<Mutex<VecDeque<ClusterEvent>>>,
    commands: mpsc::Sender<Request<Wanted>>,
    emitted: u64,
}

impl Publisher {
    pub(super) fn new(commands: mpsc::Sender<Request<Wanted>>) -> Publisher {
        let (status, _) = watch::channel(Arc::default());
        let (moves, _) = watch::channel(0);
        Publisher { status, moves, recent: Arc::default(), commands, emitted: 0 }
    }

    /// Returns the reading side, for the API.
    pub(super) fn feed(&self) -> ClusterFeed {
        ClusterFeed {
            status: self.status.subscribe(),
            recent: self.recent.clone(),
            moves: self.moves.subscribe(),
            commands: self.commands.clone(),
        }
    }

    pub(super) fn publish(&self, status: ClusterStatus) {
        let moves = |status: &ClusterStatus| status.jobs.iter().map(|job| u64::from(job.moves)).sum::<u64>();
        let (before, now) = (moves(&self.status.borrow()), moves(&status));
        self.moves.send_modify(|total| *total += now.saturating_sub(before));
        self.status.send_replace(Arc::new(status));
    }

    pub(super) fn emit(&mut self, service: Option<&ServiceId>, text: String) {
        let status = self.status.borrow().clone();
        let named = |service: &ServiceId| {
            let job = status.jobs.iter().find(|job| job.service == *service);
            job.map_or_else(|| service.0.clone(), |job| job.name.clone())
        };
        let job = service.map(named);
        tracing::info!(job = job.as_deref(), "{text}");
        self.emitted += 1;
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let unix_ms = u64::try_from(unix.as_millis()).unwrap_or(u64::MAX);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(ClusterEvent { number: self.emitted, unix_ms, job, text });
        while recent.len() > EVENTS_AT_MOST {
            recent.pop_front();
        }
    }
}
