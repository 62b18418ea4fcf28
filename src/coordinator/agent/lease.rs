//! Leases: a job that may be started elsewhere once its node is lost must stop here when the agent loses contact to the managers.
//!
//! A manager renews leases when it requests the node's report. The clock counts suspended time. A lease is on disk before the response, so a
//! restarted agent still enforces it. Imports: host, model.

use crate::host::swarm::{Engine, LocalWorker};
use crate::model::Millis;
use crate::model::swarm::ServiceId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Seconds between SIGTERM and SIGKILL: less than any sensible `lease-margin` of the coordinator.
const GRACE_S: u64 = 10;
/// Timeout of the engine for stopping a container; after that its processes are killed directly.
const STOP_WITHIN: Duration = Duration::from_secs(GRACE_S + 5);

/// Expiry of each service's lease, on CLOCK_BOOTTIME.
#[derive(Debug)]
pub(super) struct Leases {
    file: PathBuf,
    kept: ConnectionPool,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct ConnectionPool {
    /// Boot id: leases of another boot are void, since their jobs no longer run.
    boot: String,
    until: BTreeMap<ServiceId, Millis>,
}

impl Leases {
    /// Loads the leases of the previous agent process.
    pub(super) fn open(file: PathBuf) -> Leases {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        let kept = fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str::<ConnectionPool>(&text).ok());
        let kept = kept.filter(|kept| kept.boot == boot).unwrap_or(ConnectionPool { boot, until: BTreeMap::new() });
        Leases { file, kept }
    }

    /// Renews the leases of these services.
    ///
    /// # Errors
    /// They cannot be written to disk, so the lease is not granted.
    pub(super) fn renew(&mut self, services: &[ServiceId], lease: Millis, now: Millis) -> Result<(), String> {
        if services.is_empty() {
            return Ok(());
        }
        let until = now.after(lease);
        self.kept.until.extend(services.iter().map(|service| (service.clone(), until)));
        self.write()
    }

    /// Whether there are no leases.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.until.is_empty()
    }

    /// Returns the services whose lease has expired.
    pub(super) fn ended(&self, now: Millis) -> Vec<ServiceId> {
        self.kept.until.iter().filter(|(_, until)| **until <= now).map(|(service, _)| service.clone()).collect()
    }

    /// Removes the lease of a service that no longer runs here.
    pub(super) fn forget(&mut self, service: &ServiceId) {
        self.kept.until.remove(service);
        if let Err(error) = self.write() {
            tracing::warn!(%error, "cannot remove the lease of a stopped job");
        }
    }

    fn write(&self) -> Result<(), String> {
        let message = |error: &dyn std::fmt::Display| format!("{}: cannot write leases: {error}", self.file.display());
        let text = serde_json::to_string(&self.kept).map_err(|error| message(&error))?;
        let new = self.file.with_extension("new");
        let written = fs::File::create(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&new, &self.file)).map_err(|error| message(&error))
    }
}

/// Stops all containers of a service here, by the engine or by killing their processes. Returns whether certainly none is left.
pub(super) async fn stop(engine: &Engine, service: &ServiceId, known: &[LocalWorker]) -> bool {
    let workers = tokio::time::timeout(STOP_WITHIN, engine.workers()).await;
    let workers = workers.ok().and_then(Result::ok);
    let is_listed = workers.is_some();
    let workers = workers.unwrap_or_else(|| known.to_vec());
    let mut all_gone = is_listed;
    for worker in workers.iter().filter(|worker| worker.service == *service && !worker.has_ended) {
        let stopped = tokio::time::timeout(STOP_WITHIN, engine.stop(&worker.container, GRACE_S)).await;
        if !matches!(stopped, Ok(Ok(()))) {
            tracing::warn!(container = %worker.container, "the engine did not stop the container; killing its processes");
            all_gone &= engine.kill_processes(&worker.container);
        }
    }
    all_gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_survives_a_restart_of_the_agent_and_expires_on_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("leases.json");
        let service = ServiceId("s".into());
        let mut leases = Leases::open(file.clone());
        leases.renew(std::slice::from_ref(&service), Millis::from_secs(60), Millis::from_secs(100)).expect("written");
        let mut again = Leases::open(file.clone());
        assert_eq!(again.ended(Millis::from_secs(159)), []);
        assert_eq!(again.ended(Millis::from_secs(160)), std::slice::from_ref(&service));
        again.forget(&service);
        assert_eq!(Leases::open(file).ended(Millis::from_secs(1000)), []);
    }

    #[test]
    fn leases_of_another_boot_are_void() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("leases.json");
        fs::write(&file, "{\"boot\":\"before\",\"until\":{\"s\":5}}").expect("written");
        assert_eq!(Leases::open(file).ended(Millis::from_secs(1000)), []);
    }
}
