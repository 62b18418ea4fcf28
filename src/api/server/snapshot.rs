//! The latest snapshot with its serialised documents: each is serialised once per snapshot and shared.

use super::problem::Fault;
use crate::Feed;
use crate::wire::{ContainerDetail, ContainerList, Policy, Status};
use hyper::body::Bytes;
use model::{EndedJob, JobName, JobStatus, NodeStatus, named};
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::watch;

/// A published snapshot and its documents serialised so far.
pub(super) struct Snapshot {
    pub(super) status: Arc<NodeStatus>,
    hostname: Arc<str>,
    status_json: OnceLock<Bytes>,
    containers_json: OnceLock<Bytes>,
}

impl Snapshot {
    /// The body of `/v1/status`.
    pub(super) fn status_json(&self) -> Bytes {
        self.status_json.get_or_init(|| json(&Status::of(&self.status, &self.hostname))).clone()
    }

    /// The body of `/v1/containers`.
    pub(super) fn containers_json(&self) -> Bytes {
        let list = || ContainerList { containers: Status::of(&self.status, &self.hostname).containers };
        self.containers_json.get_or_init(|| json(&list())).clone()
    }

    /// The body of `/v1/containers/{id}`, also of a job that ended lately.
    pub(super) fn container_json(&self, name: &str) -> Result<Bytes, Fault> {
        let job = self.job(name);
        match self.ended(name).filter(|_| matches!(job, Err(Fault::NoContainer(_)))) {
            Some(ended) => Ok(json(&ContainerDetail::of_ended(ended, &self.status))),
            None => Ok(json(&ContainerDetail::of(job?, &self.status))),
        }
    }

    /// The body of `GET /v1/policy`.
    pub(super) fn policy_json(&self) -> Bytes {
        json(&Policy::of(&self.status.settings))
    }

    /// Finds a job by its id, name or beginning of its id, with the rule of [`named`].
    pub(super) fn job(&self, asked: &str) -> Result<&JobStatus, Fault> {
        let jobs = &self.status.jobs;
        let found = named(jobs.iter().map(|job| JobName::of(job.observed.id.as_str(), &job.observed.name)), asked);
        match found.as_slice() {
            [] => Err(Fault::NoContainer(asked.to_owned())),
            [only] => Ok(&jobs[*only]),
            several => {
                let ids: Vec<String> = several.iter().map(|at| jobs[*at].observed.id.to_string()).collect();
                Err(Fault::Ambiguous { name: asked.to_owned(), ids: ids.join(", ") })
            }
        }
    }

    /// Finds a job that ended lately, as [`Snapshot::job`] does; the latest of several.
    pub(super) fn ended(&self, asked: &str) -> Option<&EndedJob> {
        let observed = self.status.ended.iter().map(|ended| &ended.job.observed);
        let found = named(observed.map(|job| JobName::of(job.id.as_str(), &job.name)), asked);
        found.first().map(|at| &self.status.ended[*at])
    }
}

/// Serialises a document. This cannot fail: wire types have only string keys and finite or null numbers.
pub(super) fn json<T: Serialize>(document: &T) -> Bytes {
    serde_json::to_vec(document).expect("wire types always serialise").into()
}

/// Provides the snapshot of the latest published status.
pub(super) struct Snapshots {
    feed: Feed,
    hostname: Arc<str>,
    /// The last requested snapshot, while it is the newest.
    latest: Arc<Mutex<Option<Arc<Snapshot>>>>,
}

impl Snapshots {
    /// Must be called within a tokio runtime.
    pub(super) fn new(feed: Feed) -> Snapshots {
        let hostname: Arc<str> = rustix::system::uname().nodename().to_string_lossy().into();
        let latest = Arc::default();
        tokio::spawn(drop_outdated(feed.status.clone(), Arc::clone(&latest)));
        Snapshots { feed, hostname, latest }
    }

    pub(super) fn latest(&self) -> Arc<Snapshot> {
        let published = self.feed.status.borrow().clone();
        let mut latest = locked(&self.latest);
        match &*latest {
            Some(snapshot) if Arc::ptr_eq(&snapshot.status, &published) => Arc::clone(snapshot),
            _ => Arc::clone(latest.insert(Arc::new(unrendered(published, &self.hostname)))),
        }
    }
}

/// Drops the cached snapshot when a newer status is published: with hundreds of jobs it has a megabyte, and the next request may come late.
async fn drop_outdated(mut published: watch::Receiver<Arc<NodeStatus>>, latest: Arc<Mutex<Option<Arc<Snapshot>>>>) {
    while published.changed().await.is_ok() {
        let newest = published.borrow_and_update().clone();
        locked(&latest).take_if(|snapshot| !Arc::ptr_eq(&snapshot.status, &newest));
    }
}

/// Locks the snapshot. It is valid even if a holder of the lock panicked, because it is replaced by one assignment.
fn locked<T>(latest: &Mutex<T>) -> MutexGuard<'_, T> {
    latest.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unrendered(status: Arc<NodeStatus>, hostname: &Arc<str>) -> Snapshot {
    Snapshot { status, hostname: hostname.clone(), status_json: OnceLock::new(), containers_json: OnceLock::new() }
}
