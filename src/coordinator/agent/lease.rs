//! Leases: a job that may be started elsewhere once its node is lost must stop here when the agent loses contact to the managers.
//!
//! A manager renews leases when it requests the node's report. The clock counts suspended time. A lease is on disk before the response, so a
//! restarted agent still enforces it. An expired lease remains until a manager renews or releases it: a task that is still preparing would
//! otherwise run without a lease. The tasks that were stopped are remembered, because Swarm reports a job that saves and exits with code 0
//! on SIGTERM as complete.

use super::wire::ReportRequest;
use model::Millis;
use model::swarm::{HeldLease, SWARMS_GRACE, ServiceId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of stopped tasks that are remembered.
const STOPPED_MOST: usize = 256;

/// The leases of this node and the tasks that were stopped, stored in a file.
#[derive(Debug)]
pub(super) struct Leases {
    file: PathBuf,
    kept: LeaseFile,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct LeaseFile {
    /// Boot id: leases of another boot are void, since their jobs no longer run.
    boot: String,
    /// Expiry of each service's lease, on CLOCK_BOOTTIME.
    until: BTreeMap<ServiceId, Millis>,
    /// Their stop grace periods, if they are not that of Swarm.
    #[serde(default)]
    graces: BTreeMap<ServiceId, Millis>,
    /// Tasks that were stopped because their lease had expired, oldest first.
    #[serde(default)]
    stopped: Vec<Arc<str>>,
}

impl Leases {
    /// Loads the leases of the previous agent process.
    pub(super) fn open(file: PathBuf) -> Leases {
        let boot = node::boot_id().unwrap_or_default();
        let kept = fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str::<LeaseFile>(&text).ok());
        let mut kept = kept.unwrap_or_default();
        if kept.boot != boot {
            kept.until.clear();
            kept.graces.clear();
            kept.boot = boot;
        }
        Leases { file, kept }
    }

    /// Renews the leases of these services, and removes the released leases that were not renewed since.
    ///
    /// # Errors
    /// This cannot be written to disk, so nothing has changed.
    pub(super) fn update(&mut self, request: &ReportRequest, now: Millis) -> Result<(), String> {
        let mut next = self.kept.clone();
        for HeldLease { service, until } in &request.release {
            if next.until.get(service) == Some(until) {
                next.until.remove(service);
            }
        }
        let until = now.after(request.lease);
        next.until.extend(request.leases.iter().map(|service| (service.clone(), until)));
        let is_renewed = |service: &ServiceId| request.leases.contains(service);
        next.graces.retain(|service, _| next.until.contains_key(service) && !is_renewed(service));
        next.graces.extend(request.graces.clone());
        if next != self.kept {
            self.write(&next)?;
            self.kept = next;
        }
        Ok(())
    }

    /// Whether there are no leases.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.until.is_empty()
    }

    /// Whether the service has a lease that has expired.
    pub(super) fn has_expired(&self, service: &ServiceId, now: Millis) -> bool {
        self.kept.until.get(service).is_some_and(|until| *until <= now)
    }

    /// Returns how long a service may take to save and stop.
    pub(super) fn grace(&self, service: &ServiceId) -> Millis {
        self.kept.graces.get(service).copied().unwrap_or(SWARMS_GRACE)
    }

    /// Returns all leases, including expired ones.
    pub(super) fn held(&self) -> Vec<HeldLease> {
        let lease = |(service, until): (&ServiceId, &Millis)| HeldLease { service: service.clone(), until: *until };
        self.kept.until.iter().map(lease).collect()
    }

    /// Returns the latest tasks that were stopped.
    pub(super) fn stopped(&self) -> Vec<Arc<str>> {
        self.kept.stopped.clone()
    }

    /// Remembers tasks that are about to be stopped; they are stopped even if this cannot be written to disk.
    pub(super) fn remember(&mut self, tasks: impl Iterator<Item = Arc<str>>) {
        let before = self.kept.stopped.len();
        for task in tasks.filter(|task| !task.is_empty()) {
            if !self.kept.stopped.contains(&task) {
                self.kept.stopped.push(task);
            }
        }
        if self.kept.stopped.len() == before {
            return;
        }
        let excess = self.kept.stopped.len().saturating_sub(STOPPED_MOST);
        self.kept.stopped.drain(..excess);
        if let Err(error) = self.write(&self.kept) {
            tracing::warn!(%error, "cannot record which jobs are stopped because their lease has expired");
        }
    }

    fn write(&self, kept: &LeaseFile) -> Result<(), String> {
        let message = |error: &dyn std::fmt::Display| format!("{}: cannot write leases: {error}", self.file.display());
        let text = serde_json::to_string(kept).map_err(|error| message(&error))?;
        let new = self.file.with_extension("new");
        let written = fs::File::create(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&new, &self.file)).map_err(|error| message(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Millis = Millis::from_secs(60);

    fn at(seconds: u64) -> Millis {
        Millis::from_secs(seconds)
    }

    fn service() -> ServiceId {
        ServiceId("s".into())
    }

    /// A request that renews a lease of [`service`] with this stop grace period, and releases others.
    fn request(grace: Option<Millis>, release: &[HeldLease]) -> ReportRequest {
        let graces = grace.map(|grace| (service(), grace)).into_iter().collect();
        ReportRequest { leases: vec![service()], lease: LEASE, graces, release: release.to_vec() }
    }

    fn releasing(release: &[HeldLease]) -> ReportRequest {
        ReportRequest { leases: Vec::new(), ..request(None, release) }
    }

    /// Leases with one of [`service`] that is renewed at 100 s, and their file.
    fn renewed(folder: &tempfile::TempDir) -> (Leases, PathBuf) {
        let file = folder.path().join("leases.json");
        let mut leases = Leases::open(file.clone());
        leases.update(&request(Some(at(90)), &[]), at(100)).expect("written");
        (leases, file)
    }

    #[test]
    fn a_lease_survives_a_restart_of_the_agent_and_expires_on_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let (_, file) = renewed(&folder);
        let again = Leases::open(file);
        assert!(!again.has_expired(&service(), at(159)) && again.has_expired(&service(), at(160)));
        assert_eq!(again.grace(&service()), at(90));
    }

    #[test]
    fn the_stop_grace_of_a_lease_is_that_of_its_last_renewal() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut leases, _) = renewed(&folder);
        leases.update(&releasing(&[]), at(101)).expect("written");
        assert_eq!(leases.grace(&service()), at(90));
        leases.update(&request(None, &[]), at(102)).expect("written");
        assert_eq!(leases.grace(&service()), SWARMS_GRACE);
    }

    #[test]
    fn an_expired_lease_remains_until_it_is_renewed_or_released() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut leases, file) = renewed(&folder);
        let first = leases.held();
        assert!(Leases::open(file.clone()).has_expired(&service(), at(100_000)));
        leases.update(&request(None, &[]), at(200)).expect("written");
        assert!(!leases.has_expired(&service(), at(201)));
        leases.update(&releasing(&first), at(202)).expect("written");
        assert!(!leases.is_empty(), "a release from before the renewal has no effect");
        leases.update(&releasing(&leases.held()), at(203)).expect("written");
        assert!(leases.is_empty() && Leases::open(file).is_empty());
    }

    #[test]
    fn the_stopped_tasks_are_remembered_across_restarts_and_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut leases, file) = renewed(&folder);
        let last = (STOPPED_MOST + 2).to_string();
        let tasks = (0..STOPPED_MOST + 3).map(|task| -> Arc<str> { task.to_string().into() });
        leases.remember(tasks.chain([Arc::<str>::from("")]));
        leases.remember([Arc::<str>::from(last.as_str())].into_iter());
        let stopped = Leases::open(file).stopped();
        assert_eq!(stopped.len(), STOPPED_MOST);
        assert_eq!(stopped.last().map(AsRef::as_ref), Some(last.as_str()));
    }

    #[test]
    fn leases_of_another_boot_are_void_but_its_stopped_tasks_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("leases.json");
        fs::write(&file, "{\"boot\":\"before\",\"until\":{\"s\":5},\"stopped\":[\"t\"]}").expect("written");
        let leases = Leases::open(file.clone());
        assert!(leases.is_empty());
        assert_eq!(leases.stopped(), [Arc::<str>::from("t")]);
        fs::write(&file, "{\"boot\":\"before\",\"until\":{\"s\":5}}").expect("of an older agent");
        assert!(Leases::open(file).stopped().is_empty());
    }
}
