//! The latest snapshot with its renderings: each document is serialised once per snapshot and its bytes are shared.
//!
//! Imports: wire types and the feed.

use super::Feed;
use super::problem::Fault;
use super::wire::{ContainerDetail, ContainerList, Policy, Status};
use crate::model::{JobStatus, NodeStatus};
use hyper::body::Bytes;
use serde::Serialize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// One published snapshot and what was rendered of it so far.
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

    /// The body of `/v1/containers/{id}`.
    pub(super) fn container_json(&self, name: &str) -> Result<Bytes, Fault> {
        Ok(json(&ContainerDetail::of(self.job(name)?, &self.status)))
    }

    /// The body of `GET /v1/policy`.
    pub(super) fn policy_json(&self) -> Bytes {
        json(&Policy::of(&self.status.settings))
    }

    /// The job that answers to a whole id, a name, or the beginning of an id, in this order of preference.
    pub(super) fn job(&self, asked: &str) -> Result<&JobStatus, Fault> {
        let jobs = &self.status.jobs;
        if let Some(job) = jobs.iter().find(|job| job.observed.id.as_str() == asked) {
            return Ok(job);
        }
        let named: Vec<&JobStatus> = jobs.iter().filter(|job| job.observed.name == asked).collect();
        let found = if named.is_empty() {
            jobs.iter().filter(|job| !asked.is_empty() && job.observed.id.as_str().starts_with(asked)).collect()
        } else {
            named
        };
        match found.as_slice() {
            [] => Err(Fault::NoContainer(asked.to_owned())),
            [job] => Ok(job),
            several => {
                Err(Fault::Ambiguous(asked.to_owned(), several.iter().map(|job| job.observed.id.to_string()).collect()))
            }
        }
    }
}

/// Wire types have string keys and finite or null numbers only, so that serialising them cannot fail.
pub(super) fn json<T: Serialize>(document: &T) -> Bytes {
    serde_json::to_vec(document).expect("wire types always serialise").into()
}

/// Hands out the snapshot that belongs to what the daemon published last.
pub(super) struct Snapshots {
    feed: Feed,
    hostname: Arc<str>,
    latest: Mutex<Arc<Snapshot>>,
}

impl Snapshots {
    pub(super) fn new(feed: Feed) -> Snapshots {
        let hostname: Arc<str> = rustix::system::uname().nodename().to_string_lossy().into();
        let published = feed.status.borrow().clone();
        let latest = Mutex::new(Arc::new(unrendered(published, &hostname)));
        Snapshots { feed, hostname, latest }
    }

    pub(super) fn latest(&self) -> Arc<Snapshot> {
        let published = self.feed.status.borrow().clone();
        // A panic while the lock was held cannot leave half a snapshot: replacing it is one assignment.
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&latest.status, &published) {
            *latest = Arc::new(unrendered(published, &self.hostname));
        }
        latest.clone()
    }
}

fn unrendered(status: Arc<NodeStatus>, hostname: &Arc<str>) -> Snapshot {
    Snapshot { status, hostname: hostname.clone(), status_json: OnceLock::new(), containers_json: OnceLock::new() }
}
