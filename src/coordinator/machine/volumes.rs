//! Which services write to the checkpoint volume of another job, by the names of volumes alone.
//!
//! A checkpoint volume belongs to one job. The workers of a gang are one job: they may name the same volume, which each has on its own node,
//! or which those on one node share. Another service may read a checkpoint volume if its mount is read-only, and use it once its job has
//! ended. Binds are not compared: they cannot be checkpoints.

use super::labels::{CHECKPOINT, GANG, INTERNAL_PREFIX, Labels, QUEUE, TAKE_OVER, WORKERS_MIN, options, shown};
use model::cluster::Submission;
use model::swarm::{ServiceId, ServiceMode, SwarmService};
use model::{Millis, Refusal};
use std::sync::Arc;

/// What a service does with volumes.
#[derive(Clone, Debug)]
pub(super) struct VolumeUse<'a> {
    gang: Option<&'a str>,
    checkpoint: Option<&'a str>,
    take_over: Option<&'a str>,
    writes: Vec<&'a str>,
}

impl<'a> VolumeUse<'a> {
    fn new(labels: &'a Labels, writes: impl Iterator<Item = &'a Arc<str>>) -> VolumeUse<'a> {
        let label = |name: &str| labels.get(name).map(AsRef::as_ref);
        let (gang, checkpoint, take_over) = (label(GANG), label(CHECKPOINT), label(TAKE_OVER));
        VolumeUse { gang, checkpoint, take_over, writes: writes.map(AsRef::as_ref).collect() }
    }

    pub(super) fn of(service: &'a SwarmService) -> VolumeUse<'a> {
        VolumeUse::new(&service.labels, written(service))
    }

    /// Returns the volume that is a checkpoint of one of both and written by the other.
    fn shared_with(&self, other: &VolumeUse<'a>) -> Option<&'a str> {
        if self.gang.is_some() && self.gang == other.gang {
            return None;
        }
        let both = |volume: &&str| self.writes.contains(volume) && other.writes.contains(volume);
        self.checkpoint.filter(both).or(other.checkpoint.filter(both))
    }

    /// Whether its owner has named the other service as the one whose state it continues.
    fn names(&self, other: &SwarmService) -> bool {
        self.take_over.is_some_and(|name| *name == *other.id.0 || *name == *other.name)
    }

    /// Returns why it must not start: the other service is, or was, the only writer of a volume of both.
    pub(super) fn conflict(&self, other: &SwarmService) -> Option<String> {
        let theirs = VolumeUse::of(other);
        let volume = self.shared_with(&theirs)?;
        let has_ended = has_ended(other);
        let is_meant = self.names(other) || theirs.checkpoint != self.checkpoint;
        (!(has_ended && is_meant)).then(|| explained(self, volume, other, has_ended))
    }
}

/// Returns the volumes to which a service can write.
pub(super) fn written(service: &SwarmService) -> impl Iterator<Item = &Arc<str>> {
    service.volumes.iter().filter(|volume| !volume.is_read_only).map(|volume| &volume.name)
}

/// Whether a service is a job that has ended, and cannot start without being claimed again.
pub(super) fn has_ended(service: &SwarmService) -> bool {
    let phase = service.labels.get(format!("{INTERNAL_PREFIX}phase").as_str());
    phase.is_some_and(|phase| **phase == *"done") && service.mode == ServiceMode::Replicated(0)
}

/// Orders services by their right to a volume of both: those that have started, then by age.
pub(super) fn rank(service: &SwarmService) -> (bool, Millis, &ServiceId) {
    let has_started = service.labels.contains_key(format!("{INTERNAL_PREFIX}home").as_str()) || has_ended(service);
    (!has_started, service.created, &service.id)
}

fn explained(wanted: &VolumeUse, volume: &str, other: &SwarmService, has_ended: bool) -> String {
    let (theirs, is_own) = (VolumeUse::of(other).checkpoint == Some(volume), wanted.checkpoint == Some(volume));
    let (volume, name) = (shown(volume), shown(&other.name));
    if !theirs {
        return format!(
            "service {name} can write to volume {volume}, too: use another volume for the saved state, or mount it read-only in {name}"
        );
    }
    if !is_own {
        return format!(
            "volume {volume} holds the saved state of job {name}: mount it read-only, use another volume, or wait for the end of {name}"
        );
    }
    if wanted.names(other) {
        return format!("it continues from the saved state of job {name} in volume {volume}, and {name} has not ended");
    }
    let (state, flags) = match has_ended {
        true => (", which has ended", String::new()),
        false => ("", format!("--after {name} ")),
    };
    format!(
        "volume {volume} holds the saved state of job {name}{state}: to start afresh, use another volume; to continue from it, submit with {flags}--take-over {name} (label {TAKE_OVER}={name})"
    )
}

/// Checks the labels and the name of a new job, and that no other service of the Swarm writes to its saved state, and it to none of theirs.
///
/// # Errors
/// Names the label with the expected value, or the volume with the other service and the next step.
pub fn check_submission(submission: &Submission, services: &[SwarmService]) -> Result<(), Refusal> {
    let queued = [(QUEUE.into(), "true".into())];
    let labels: Labels = submission.labels.clone().into_iter().chain(queued).collect();
    let options = options(&labels).map_err(Refusal::Invalid)?;
    if let (Some(gang), None) = (&options.gang, options.workers_min) {
        let gang = shown(gang);
        return Err(Refusal::Invalid(format!(
            "label {GANG}={gang} needs {WORKERS_MIN}=N, without which its first worker would start alone"
        )));
    }
    if services.iter().any(|other| other.name == submission.name) {
        let name = shown(&submission.name);
        return Err(Refusal::Refused(format!(
            "there is a service called {name} already: use another name, or remove it"
        )));
    }
    let written = submission.volumes.iter().map(|(name, _)| name).filter(|name| !submission.read_only.contains(name));
    let wanted = VolumeUse::new(&submission.labels, written);
    // What it takes over need not be free yet: the job waits for that.
    let conflict = |other: &SwarmService| wanted.conflict(other).filter(|_| !wanted.names(other));
    let others = services.iter().filter_map(|other| Some((rank(other), conflict(other)?)));
    match others.min() {
        Some((_, why)) => Err(Refusal::Refused(why)),
        None => Ok(()),
    }
}
