//! Leases: a job that may start elsewhere once its node is lost must not outlive the managers' word here.
//!
//! A manager renews them when it asks how the node is. The clock counts suspended time, and what is promised is on disk before it is
//! answered, so that an agent that starts again keeps to it. Imports: host, model.

use crate::host::swarm::{Engine, LocalWorker};
use crate::model::Millis;
use crate::model::swarm::ServiceId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// After SIGTERM, before SIGKILL: less than any sensible margin of the coordinator's.
const GRACE_S: u64 = 10;
/// An engine that does not stop a container within this is gone, and processes are killed without it.
const STOP_WITHIN: Duration = Duration::from_secs(GRACE_S + 5);

/// Until when each service may run, on CLOCK_BOOTTIME.
#[derive(Debug)]
pub(super) struct Leases {
    file: PathBuf,
    kept: Kept,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Kept {
    /// Of another boot nothing runs any more.
    boot: String,
    until: BTreeMap<ServiceId, Millis>,
}

impl Leases {
    /// Those that an agent before this one promised to keep.
    pub(super) fn open(file: PathBuf) -> Leases {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        let kept = fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str::<Kept>(&text).ok());
        let kept = kept.filter(|kept| kept.boot == boot).unwrap_or(Kept { boot, until: BTreeMap::new() });
        Leases { file, kept }
    }

    /// Renews these.
    ///
    /// # Errors
    /// They cannot be written down, so that nothing is promised.
    pub(super) fn renew(&mut self, services: &[ServiceId], lease: Millis, now: Millis) -> Result<(), String> {
        if services.is_empty() {
            return Ok(());
        }
        let until = now.after(lease);
        self.kept.until.extend(services.iter().map(|service| (service.clone(), until)));
        self.write()
    }

    /// Nothing was promised.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.until.is_empty()
    }

    /// Those that have ended.
    pub(super) fn ended(&self, now: Millis) -> Vec<ServiceId> {
        self.kept.until.iter().filter(|(_, until)| **until <= now).map(|(service, _)| service.clone()).collect()
    }

    /// Nothing of it runs here any more.
    pub(super) fn forget(&mut self, service: &ServiceId) {
        self.kept.until.remove(service);
        if let Err(error) = self.write() {
            tracing::warn!(%error, "leases cannot be written");
        }
    }

    fn write(&self) -> Result<(), String> {
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", self.file.display());
        let text = serde_json::to_string(&self.kept).map_err(|error| said(&error))?;
        let new = self.file.with_extension("new");
        let written = fs::File::create(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&new, &self.file)).map_err(|error| said(&error))
    }
}

/// Stops everything of a service here, with the engine or without it. Whether nothing is left.
pub(super) async fn stop(engine: &Engine, service: &ServiceId, known: &[LocalWorker]) -> bool {
    let workers = tokio::time::timeout(STOP_WITHIN, engine.workers()).await;
    let workers = workers.ok().and_then(Result::ok);
    let is_told = workers.is_some();
    let workers = workers.unwrap_or_else(|| known.to_vec());
    let mut all_gone = is_told;
    for worker in workers.iter().filter(|worker| worker.service == *service && !worker.has_ended) {
        let stopped = tokio::time::timeout(STOP_WITHIN, engine.stop(&worker.container, GRACE_S)).await;
        if !matches!(stopped, Ok(Ok(()))) {
            tracing::warn!(container = %worker.container, "the engine does not stop it: killing its processes");
            all_gone &= engine.kill_processes(&worker.container);
        }
    }
    all_gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_outlives_its_agent_and_ends_when_it_says() {
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
    fn leases_of_another_boot_are_no_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("leases.json");
        fs::write(&file, "{\"boot\":\"before\",\"until\":{\"s\":5}}").expect("written");
        assert_eq!(Leases::open(file).ended(Millis::from_secs(1000)), []);
    }
}
