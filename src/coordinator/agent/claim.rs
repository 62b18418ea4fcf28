//! Claims: a job is recorded as the owner of a checkpoint volume on this node before it starts here, unless another job is.
//!
//! One at a time, so that of two jobs that claim a volume at the same instant one is refused. Nothing but the record is written: the content
//! of a volume is not touched.

use super::owner;
use super::sandbox;
use model::swarm::{Claim, ClaimOutcome, NodeId, Owner, ServiceId, Transfer};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use swarm::{Engine, FoundVolume, VolumePlace};
use tokio::sync::{Mutex, MutexGuard};

/// The owners of the volumes on this node.
pub(super) struct Claims {
    engine: Engine,
    one_at_a_time: Mutex<()>,
}

impl Claims {
    pub(super) fn new(engine: Engine) -> Arc<Claims> {
        Arc::new(Claims { engine, one_at_a_time: Mutex::default() })
    }

    /// Keeps owners from changing while the guard lives.
    pub(super) async fn guard(&self) -> MutexGuard<'_, ()> {
        self.one_at_a_time.lock().await
    }

    /// Records a job as the owner of a volume, which is created if it does not exist.
    ///
    /// # Errors
    /// Unknown whose state the volume holds, with the reason.
    pub(super) async fn claim(&self, claim: &Claim, own: &NodeId) -> Result<ClaimOutcome, String> {
        if claim.node != *own {
            return Err(format!("the claim is for node {}, but this is node {own}", claim.node));
        }
        let _guard = self.guard().await;
        self.engine.make_volume(&claim.volume, &claim.labels).await?;
        match self.engine.volume(&claim.volume).await? {
            FoundVolume::Local(place) => decide(&place, claim)
                .map_err(|error| format!("volume {}: {}", claim.volume, sandbox::explained(&error))),
            // Shared storage that the service does not show: there is no place for a record.
            FoundVolume::Other | FoundVolume::Missing => Ok(ClaimOutcome::Granted),
        }
    }

    /// Records the job as the owner of the volume that a transfer leaves, unless one is recorded. Returns why its state is not the job's own.
    pub(super) async fn own_source(&self, data: &Path, carriage: &Transfer) -> io::Result<Option<String>> {
        let _guard = self.guard().await;
        match owner::read(data)? {
            Some(owner) if owner.service == carriage.service => Ok(None),
            Some(owner) => {
                let (volume, owner) = (&carriage.volume, named(&owner));
                Ok(Some(format!("volume {volume} on the source holds the saved state of {owner}")))
            }
            None => owner::write(data, &owner_of(carriage, carriage.number.saturating_sub(1))).map(|()| None),
        }
    }
}

fn decide(place: &VolumePlace, claim: &Claim) -> io::Result<ClaimOutcome> {
    let is_own = |service: &ServiceId| *service == claim.owner.service || claim.gang.contains(service);
    let is_other = |(service, _): &&(Option<ServiceId>, Arc<str>)| !service.as_ref().is_some_and(is_own);
    if let Some((_, name)) = place.writers.iter().find(is_other) {
        return Ok(ClaimOutcome::InUse(name.clone()));
    }
    let recorded = owner::read(&place.data)?;
    match recorded {
        // The first worker of a gang on this node is recorded.
        Some(recorded) if claim.gang.contains(&recorded.service) => return Ok(ClaimOutcome::Granted),
        Some(recorded) if recorded.service == claim.owner.service || claim.replaces.contains(&recorded.service) => {}
        Some(owner) => return Ok(ClaimOutcome::Owned { owner, is_empty: owner::is_empty(&place.data)? }),
        None if claim.takes_unowned || owner::is_empty(&place.data)? => {}
        None => return Ok(ClaimOutcome::Unowned),
    }
    owner::write(&place.data, &claim.owner)?;
    Ok(ClaimOutcome::Granted)
}

/// Returns why the volume at the target of a transfer must not be overwritten: it is another job's.
pub(super) fn other_owner(data: &Path, carriage: &Transfer) -> io::Result<Option<String>> {
    let other = owner::read(data)?.filter(|owner| owner.service != carriage.service);
    Ok(other.map(|owner| {
        format!(
            "the target's volume {} belongs to {}; use another volume name, or remove it there with `docker volume rm`",
            carriage.volume,
            named(&owner)
        )
    }))
}

/// Returns an error message if the volume has other users.
pub(super) fn shared_with_others(place: &VolumePlace, carriage: &Transfer) -> Option<String> {
    let own: BTreeSet<_> = BTreeSet::from([Some(carriage.service.clone())]);
    let others = place.users.difference(&own).count();
    (others > 0).then(|| {
        format!(
            "the volume {} is also used by {others} other services or containers; use a separate volume for the job",
            carriage.volume
        )
    })
}

/// The owner that a transfer records at its target, and with the number before it at its source.
pub(super) fn owner_of(carriage: &Transfer, number: u64) -> Owner {
    Owner { service: carriage.service.clone(), name: carriage.name.clone(), number }
}

/// How an owner is named in messages.
fn named(owner: &Owner) -> String {
    match owner.name.is_empty() {
        true => owner.service.to_string(),
        false => format!("{} ({})", owner.name, owner.service),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn service(name: &str) -> ServiceId {
        ServiceId(name.into())
    }

    fn claim(name: &str) -> Claim {
        let owner = Owner { service: service(name), name: name.into(), number: 0 };
        let (gang, replaces) = (Vec::new(), Vec::new());
        let (volume, labels, node) = ("saved".into(), Default::default(), NodeId("n".into()));
        Claim { owner, volume, labels, node, gang, replaces, takes_unowned: false }
    }

    /// A volume with the state of `of`, if given, and with these live containers of services.
    fn place(folder: &Path, of: Option<&str>, writers: &[Option<&str>]) -> VolumePlace {
        let data = folder.join("saved/_data");
        fs::create_dir_all(&data).expect("made");
        if let Some(of) = of {
            owner::write(&data, &claim(of).owner).expect("written");
            fs::write(data.join("model"), of).expect("written");
        }
        let writers = writers.iter().map(|of| (of.map(service), Arc::from(of.unwrap_or("by-hand")))).collect();
        VolumePlace { data, users: Default::default(), writers }
    }

    fn owned(by: &str, is_empty: bool) -> ClaimOutcome {
        ClaimOutcome::Owned { owner: claim(by).owner, is_empty }
    }

    #[test]
    fn the_first_claim_is_recorded_and_that_of_another_job_is_refused_and_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(folder.path(), None, &[]);
        let recorded = || owner::read(&place.data).expect("readable").map(|owner| owner.service);
        for _again in 0..2 {
            assert_eq!(decide(&place, &claim("p1")).expect("readable"), ClaimOutcome::Granted);
        }
        assert_eq!(decide(&place, &claim("p4")).expect("readable"), owned("p1", true));
        fs::write(place.data.join("model"), "92").expect("written");
        assert_eq!(decide(&place, &claim("p4")).expect("readable"), owned("p1", false));
        assert_eq!(recorded(), Some(service("p1")));
        let takes_over = Claim { replaces: vec![service("p1")], ..claim("p4") };
        assert_eq!(decide(&place, &takes_over).expect("readable"), ClaimOutcome::Granted);
        assert_eq!(recorded(), Some(service("p4")));
        assert_eq!(decide(&place, &claim("p1")).expect("readable"), owned("p4", false), "it is no longer p1's");
        assert_eq!(fs::read_to_string(place.data.join("model")).expect("there"), "92");
    }

    #[test]
    fn files_of_unknown_origin_are_taken_only_if_the_job_ran_here_or_its_owner_allows_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(folder.path(), None, &[]);
        fs::write(place.data.join("model"), "by hand").expect("written");
        assert_eq!(decide(&place, &claim("a")).expect("readable"), ClaimOutcome::Unowned);
        assert_eq!(owner::read(&place.data).expect("readable"), None);
        let takes = Claim { takes_unowned: true, ..claim("a") };
        assert_eq!(decide(&place, &takes).expect("readable"), ClaimOutcome::Granted);
    }

    #[test]
    fn a_live_container_of_another_service_or_of_none_refuses_every_claim_but_those_of_its_gang() {
        for (writer, is_free) in [(Some("w1"), true), (Some("w2"), true), (Some("other"), false), (None, false)] {
            let folder = tempfile::tempdir().expect("a folder");
            let place = place(folder.path(), Some("w2"), &[writer]);
            let of_gang = Claim { gang: vec![service("w2")], replaces: vec![service("other")], ..claim("w1") };
            let expected = match is_free {
                true => ClaimOutcome::Granted,
                false => ClaimOutcome::InUse(writer.unwrap_or("by-hand").into()),
            };
            assert_eq!(decide(&place, &of_gang).expect("readable"), expected, "{writer:?}");
            let recorded = owner::read(&place.data).expect("readable").map(|owner| owner.service);
            assert_eq!(recorded, Some(service("w2")), "the first worker stays the owner");
        }
    }

    #[test]
    fn a_damaged_record_is_an_error_and_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(folder.path(), Some("a"), &[]);
        let file = folder.path().join("saved").join(owner::FILE);
        fs::write(&file, "{").expect("written");
        assert!(decide(&place, &claim("a")).is_err());
        assert_eq!(fs::read_to_string(file).expect("there"), "{");
    }
}
