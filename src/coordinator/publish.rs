//! Publishes the latest status and recent events of the coordinator.

use api::Request;
use api::cluster::{ClusterEvent, ClusterFeed, Wanted};
use model::Millis;
use model::cluster::{ClusterJobStatus, ClusterStatus, JobState};
use model::swarm::ServiceId;
use std::collections::{BTreeMap, VecDeque};
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
        let moved = moves_between(&self.status.borrow(), &status);
        self.moves.send_modify(|total| *total += moved);
        self.status.send_replace(Arc::new(status));
    }

    pub(super) fn emit(&mut self, job: Option<Arc<str>>, text: String) {
        tracing::info!(job = job.as_deref(), "{text}");
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.add(u64::try_from(unix.as_millis()).unwrap_or(u64::MAX), job, text);
    }

    /// Adds an event of an earlier coordinator.
    pub(super) fn recall(&mut self, at: Millis, job: Arc<str>, text: &str) {
        self.add(at.0, Some(job), text.to_owned());
    }

    fn add(&mut self, unix_ms: u64, job: Option<Arc<str>>, text: String) {
        self.emitted += 1;
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(ClusterEvent { number: self.emitted, unix_ms, job, text });
        while recent.len() > EVENTS_AT_MOST {
            recent.pop_front();
        }
    }
}

/// Returns the moves completed between two statuses, both of an active coordinator: a standby sees the moves of the one that acts, which
/// counts them. The moves of a service that is new, or was refused, are its past.
fn moves_between(before: &ClusterStatus, now: &ClusterStatus) -> u64 {
    if !(before.acts && now.acts) {
        return 0;
    }
    let known = before.jobs.iter().filter(|job| job.state != JobState::Refused);
    let known: BTreeMap<&ServiceId, u32> = known.map(|job| (&job.service, job.moves)).collect();
    let moved = |job: &ClusterJobStatus| known.get(&job.service).map_or(0, |before| job.moves.saturating_sub(*before));
    now.jobs.iter().map(|job| u64::from(moved(job))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, state: JobState, moves: u32) -> ClusterJobStatus {
        ClusterJobStatus { moves, ..ClusterJobStatus::new(ServiceId(name.into()), name.into(), state) }
    }

    /// Publishes these statuses, `(acts, jobs)`, and returns the number of moves after each.
    fn counted<const N: usize>(statuses: [(bool, Vec<ClusterJobStatus>); N]) -> [u64; N] {
        let publisher = Publisher::new(mpsc::channel(1).0);
        let feed = publisher.feed();
        statuses.map(|(acts, jobs)| {
            publisher.publish(ClusterStatus { acts, jobs, ..ClusterStatus::default() });
            *feed.moves.borrow()
        })
    }

    #[test]
    fn a_move_is_counted_once_by_the_coordinator_that_acts() {
        let after = |moves| vec![job("a", JobState::Running, moves), job("b", JobState::Running, 4)];
        let acting = [(false, vec![]), (true, after(7)), (true, after(8)), (true, after(10))];
        assert_eq!(counted(acting), [0, 0, 1, 3], "moves of earlier runs are not counted");
        let standby = [(false, after(7)), (false, after(9)), (true, after(10)), (true, after(11))];
        assert_eq!(counted(standby), [0, 0, 0, 1], "nor those of another manager");
    }

    #[test]
    fn a_service_that_is_refused_for_a_while_adds_no_moves() {
        let a = |state, moves| (true, vec![job("a", state, moves)]);
        let statuses =
            [a(JobState::Running, 3), a(JobState::Refused, 0), a(JobState::Running, 3), a(JobState::Running, 4)];
        assert_eq!(counted(statuses), [0, 0, 0, 1]);
    }

    #[test]
    fn a_removed_service_does_not_hide_moves_of_others() {
        let before = (true, vec![job("a", JobState::Running, 1), job("b", JobState::Running, 5)]);
        assert_eq!(counted([before, (true, vec![job("a", JobState::Running, 2)])]), [0, 1]);
    }
}
