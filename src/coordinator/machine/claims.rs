//! Saved state has exactly one writer: before a job starts on a node, the agent there records it as the owner of its local checkpoint volume.
//!
//! - A job that has never started waits while another service uses its volume, or a node holds the state of a removed job in it. Which node
//!   holds whose state is in the agents' reports.
//! - A claim is valid for one version of the service on one node. It is repeated after a restart of the coordinator, and has no effect on a
//!   volume that the job owns already.
//! - A job that takes over the state of another gets the node of that state as its home first. So the state is transferred like its own.
//! - At the target of a transfer, the agent checks the owner when it fetches the volume.

use super::event::{At, Effect};
use super::job::Job;
use super::labels::{TAKE_OVER, UNOWNED, shown};
use super::record::Record;
use super::state::{ClaimState, Machine, Seen, SeenNode};
use super::volumes::{VolumeUse, has_ended, rank, written};
use super::writes::{Spec, Write};
use model::Refusal;
use model::cluster::{NodeState, Submission, WhyKind};
use model::swarm::{Claim, ClaimOutcome, NodeId, Owner, ServiceId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whether a job may start with the saved state on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claimed {
    /// It is recorded as the owner, or has no local checkpoint.
    Yes,
    /// The agent has not answered yet.
    Asked(String),
    /// The state is another job's, with the next step.
    No(String),
}

impl Machine {
    /// Returns the services that write to a volume to which other services write, too.
    pub(super) fn find_shared_volumes(&self) -> BTreeMap<Arc<str>, Vec<ServiceId>> {
        let mut users: BTreeMap<Arc<str>, Vec<ServiceId>> = BTreeMap::new();
        for (id, seen) in &self.seen {
            for volume in written(&seen.service) {
                users.entry(volume.clone()).or_default().push(id.clone());
            }
        }
        users.retain(|_, users| users.len() > 1);
        users
    }

    /// Returns why a waiting job must not start with its volumes, whatever the node. If it takes over the state of another job, its home is
    /// written instead, and true is returned.
    pub(super) fn waits_for_its_state(&mut self, id: &ServiceId, job: &Job, at: At) -> bool {
        if let Some(why) = self.why_volume_is_taken(id, job) {
            self.set_why(id, WhyKind::VolumeTaken, why);
            return true;
        }
        if job.record.home.is_none()
            && let Some(volume) = &job.carries
        {
            match self.left_state(id, job, volume) {
                Err((kind, why)) => {
                    self.set_why(id, kind, why);
                    return true;
                }
                Ok(Some(node)) => {
                    let text = format!("its saved state, which it takes over, is on node {}", self.name_of(&node));
                    let record = Record { home: Some(node), ..job.record.clone() };
                    self.write(id, Write { record, spec: Spec::Keep, text }, None, at);
                    return true;
                }
                Ok(None) => {}
            }
        }
        let asked = self.seen.get(id).and_then(|seen| {
            let claim = seen.memory.claim.as_ref().filter(|claim| claim.version == seen.service.version)?;
            claim.refused.is_some().then(|| claim.node.clone())
        });
        match asked.map(|node| self.claim(id, job, &node, at)) {
            Some(Claimed::No(why)) => {
                self.set_why(id, WhyKind::VolumeTaken, why);
                true
            }
            _ => false,
        }
    }

    /// Returns the conflict with another service by the names of their volumes. Local state of a job that has started is safe by its claims.
    fn why_volume_is_taken(&self, id: &ServiceId, job: &Job) -> Option<String> {
        let seen = self.seen.get(id)?;
        let is_claimed = job.record.home.is_some() && (job.carries.is_some() || job.options.checkpoint.is_none());
        let mut volumes = written(&seen.service).filter_map(|volume| self.shared_volumes.get(volume)).peekable();
        if is_claimed || volumes.peek().is_none() {
            return None;
        }
        let wanted = VolumeUse::of(&seen.service);
        let others = volumes.flatten().filter(|other| *other != id).filter_map(|other| self.seen.get(other));
        others
            .filter(|other| rank(&other.service) < rank(&seen.service))
            .find_map(|other| wanted.conflict(&other.service))
    }

    /// Returns the node with the state that a job takes over; `None` = there is none.
    fn left_state(&self, id: &ServiceId, job: &Job, volume: &str) -> Result<Option<NodeId>, (WhyKind, String)> {
        let ended = job.options.take_over.as_ref().and_then(|name| self.ended_job(name, volume));
        if let Some(node) = ended {
            return Ok(Some(node));
        }
        // The state of another job in the cluster is not in question: it was reported by its name, or is on a node that the job has left.
        let is_left = |owner: &Owner| owner.service != *id && !self.is_of_job(&owner.service);
        let (named, other): (Vec<_>, Vec<_>) =
            self.saved_in(volume).filter(|(_, owner)| is_left(owner)).partition(|(_, owner)| takes_over(job, owner));
        if let ([], Some((node, owner))) = (named.as_slice(), other.first()) {
            return Err((WhyKind::VolumeTaken, self.left_text(volume, node, owner)));
        }
        let latest = named.iter().map(|(_, owner)| owner.number).max();
        let newest: Vec<_> = named.into_iter().filter(|(_, owner)| Some(owner.number) == latest).collect();
        // A closed node is off for as long as no job needs it.
        let is_silent = |node: &&SeenNode| node.report.is_none() && self.state_of(node).0 != NodeState::Closed;
        if job.options.take_over.is_some()
            && let Some(silent) = self.nodes.values().find(is_silent)
        {
            let what = format!(
                "node {}, which may hold the newest of the state that it takes over, does not respond; if that node is lost for good, remove it with `docker node rm`; to start afresh, remove the label {TAKE_OVER}",
                silent.node.hostname
            );
            return Err((WhyKind::StateOutOfReach, what));
        }
        match newest.as_slice() {
            [] => Ok(None),
            [(node, _)] => Ok(Some((*node).clone())),
            several => {
                let names: Vec<Arc<str>> = several.iter().map(|(node, _)| self.name_of(node)).collect();
                let (volume, names) = (shown(volume), names.join(" and "));
                let what = format!(
                    "nodes {names} hold states in volume {volume} of which none is known to be the newest: keep one, and remove the others there with `docker volume rm {volume}`"
                );
                Err((WhyKind::VolumeTaken, what))
            }
        }
    }

    /// Returns the node with the state of a job that has ended, if its checkpoint is this volume.
    fn ended_job(&self, name: &str, volume: &str) -> Option<NodeId> {
        let is_it = |seen: &&Seen| *seen.service.name == *name || *seen.service.id.0 == *name;
        let seen = self.seen.values().filter(is_it).find(|seen| has_ended(&seen.service))?;
        let job = seen.job.as_ref().ok().filter(|job| job.carries.as_deref() == Some(volume))?;
        job.record.home.clone()
    }

    /// Returns the recorded owners of a volume by node, as last reported.
    fn saved_in<'a>(&'a self, volume: &'a str) -> impl Iterator<Item = (&'a NodeId, &'a Owner)> {
        self.nodes.iter().flat_map(move |(node, seen)| {
            let saved = seen.report.as_ref().map_or(&[][..], |(_, report)| report.saved.as_slice());
            let from = saved.partition_point(|state| *state.volume < *volume);
            saved[from..]
                .iter()
                .take_while(move |state| *state.volume == *volume)
                .map(move |state| (node, &state.owner))
        })
    }

    /// Whether a service is a job of this cluster now.
    fn is_of_job(&self, service: &ServiceId) -> bool {
        self.seen.contains_key(service)
    }

    fn is_in_gang(&self, service: &ServiceId, job: &Job) -> bool {
        let gang = self.seen.get(service).and_then(|seen| seen.job.as_ref().ok()?.options.gang.clone());
        gang.is_some() && gang == job.options.gang
    }

    /// Claims the checkpoint volume of a job on a node, unless that was granted already.
    pub(super) fn claim(&mut self, id: &ServiceId, job: &Job, node: &NodeId, at: At) -> Claimed {
        let (Some(volume), Some(seen)) = (&job.carries, self.seen.get(id)) else { return Claimed::Yes };
        let (version, name) = (seen.service.version, seen.service.name.clone());
        let mounted = seen.service.volumes.iter().find(|mounted| mounted.name == *volume);
        let known = seen.memory.claim.clone().filter(|claim| claim.node == *node && claim.version == version);
        let mut state = known.unwrap_or_else(|| ClaimState::new(volume.clone(), node.clone(), version, at.now));
        if state.is_granted {
            return Claimed::Yes;
        }
        if at.now >= state.next {
            state.next = at.now.after(self.settings.request_within);
            let claim = Claim {
                owner: Owner { service: id.clone(), name, number: job.record.number },
                volume: volume.clone(),
                labels: mounted.map(|mounted| mounted.labels.clone()).unwrap_or_default(),
                node: node.clone(),
                gang: self.rest_of_gang(id, job),
                replaces: self.replaceable(job, volume).chain(state.replaces.clone()).collect(),
                takes_unowned: job.record.home.as_ref() == Some(node)
                    || job.options.take_over.as_deref() == Some(UNOWNED),
            };
            self.effects.push(Effect::Claim { claim, version });
        }
        let claimed = match (&state.refused, &state.detail) {
            (Some(why), _) => Claimed::No(why.clone()),
            (None, Some(detail)) => Claimed::Asked(format!("node {}: {detail}", self.name_of(node))),
            (None, None) => Claimed::Asked(format!("asking node {} whose state its volume holds", self.name_of(node))),
        };
        if let Some(seen) = self.seen.get_mut(id) {
            seen.memory.claim = Some(state);
        }
        claimed
    }

    fn rest_of_gang(&self, id: &ServiceId, job: &Job) -> Vec<ServiceId> {
        if job.options.gang.is_none() {
            return Vec::new();
        }
        self.seen.keys().filter(|other| *other != id && self.is_in_gang(other, job)).cloned().collect()
    }

    /// Returns the owners whose state in this volume a job may take over: those named by its owner, if they have ended or were removed.
    fn replaceable<'a>(&'a self, job: &'a Job, volume: &'a str) -> impl Iterator<Item = ServiceId> + 'a {
        let named = self.saved_in(volume).map(|(_, owner)| owner.clone()).chain(self.seen.values().map(|seen| Owner {
            service: seen.service.id.clone(),
            name: seen.service.name.clone(),
            number: 0,
        }));
        let is_free = move |service: &ServiceId| self.seen.get(service).is_none_or(|seen| has_ended(&seen.service));
        let named = named.filter(move |owner| takes_over(job, owner) && is_free(&owner.service));
        named.map(|owner| owner.service)
    }

    /// Checks the volume of a running job once: it may have been started, or got the volume, by hand, or before owners were recorded.
    pub(super) fn claim_of_running(&mut self, id: &ServiceId, job: &Job, at: At) -> Option<String> {
        let home = job.record.home.as_ref()?;
        let is_about_it = |claim: &&ClaimState| claim.node == *home && Some(&claim.volume) == job.carries.as_ref();
        let known = self.seen.get(id)?.memory.claim.as_ref().filter(is_about_it);
        match known {
            Some(claim) if claim.is_granted => None,
            Some(claim) if claim.refused.is_some() => claim.refused.clone(),
            _ => match self.claim(id, job, home, at) {
                Claimed::No(why) => Some(why),
                Claimed::Yes | Claimed::Asked(_) => None,
            },
        }
    }

    pub(super) fn claimed(&mut self, of: &Claim, version: u64, outcome: ClaimOutcome, at: At) {
        let (volume, again) = (shown(&of.volume), at.now.after(self.settings.plan_every));
        let node = self.name_of(&of.node);
        let refused = match &outcome {
            ClaimOutcome::Granted | ClaimOutcome::Unknown(_) => None,
            ClaimOutcome::Owned { owner, .. } => Some(self.left_text(&of.volume, &of.node, owner)),
            ClaimOutcome::Unowned => Some(format!(
                "volume {volume} on node {node} has files, and no job is recorded as their owner: to start afresh, use another volume; to use them, set the label {TAKE_OVER}={UNOWNED}, and pin the job with --constraint node.hostname=={node}"
            )),
            ClaimOutcome::InUse(container) => Some(format!(
                "container {} on node {node} can write to volume {volume}, too: stop it, or use another volume",
                shown(container)
            )),
        };
        let is_removed = |owner: &ServiceId| !self.is_of_job(owner);
        // An owner that was removed before it saved anything.
        let replaces = match outcome {
            ClaimOutcome::Owned { ref owner, is_empty: true } if is_removed(&owner.service) => {
                Some(owner.service.clone())
            }
            _ => None,
        };
        let Some(seen) = self.seen.get_mut(&of.owner.service) else { return };
        let state = seen.memory.claim.as_mut().filter(|state| state.node == of.node && state.version == version);
        let Some(state) = state else { return };
        state.next = again;
        match outcome {
            ClaimOutcome::Granted => (state.is_granted, state.refused) = (true, None),
            ClaimOutcome::Unknown(why) => state.detail = Some(super::labels::bounded(&why, 400)),
            _ if replaces.is_some() && state.replaces != replaces => (state.replaces, state.next) = (replaces, at.now),
            _ => state.refused = refused,
        }
        // A plan is made after the next look.
        (self.has_news, self.looks.due) = (true, at.now);
    }

    /// Says whose state a volume holds, and what to do.
    fn left_text(&self, volume: &str, node: &NodeId, owner: &Owner) -> String {
        let (volume, node) = (shown(volume), self.name_of(node));
        let id = shown(&owner.service.0);
        let name = if owner.name.is_empty() { id.clone() } else { shown(&owner.name) };
        let seen = self.seen.get(&owner.service);
        let (state, then) = match seen {
            None => ("which was removed", ""),
            Some(seen) if has_ended(&seen.service) => ("which has ended", ""),
            Some(_) => ("which is still in the cluster", " once that job has ended or was removed"),
        };
        format!(
            "volume {volume} on node {node} holds the saved state of job {name} ({id}), {state}: to start afresh, use another volume, or remove this one there with `docker volume rm {volume}`; to continue from it, use --take-over {name} (label {TAKE_OVER}={name}){then}"
        )
    }

    /// Checks that no node holds the saved state of a removed job in the checkpoint volume of a new one, unless that takes it over.
    ///
    /// # Errors
    /// Names the volume, its node, whose state it holds, and the next step.
    pub fn check_saved_state(&self, submission: &Submission) -> Result<(), Refusal> {
        let label = |name: &str| submission.labels.get(name);
        let Some(volume) = label(super::labels::CHECKPOINT) else { return Ok(()) };
        let is_meant = |owner: &Owner| label(TAKE_OVER).is_some_and(|name| is_named(owner, name));
        let left = || self.saved_in(volume).filter(|(_, owner)| !self.is_of_job(&owner.service));
        match left().next() {
            Some((node, owner)) if !left().any(|(_, owner)| is_meant(owner)) => {
                Err(Refusal::Refused(self.left_text(volume, node, owner)))
            }
            _ => Ok(()),
        }
    }
}

fn is_named(owner: &Owner, name: &str) -> bool {
    *owner.service.0 == *name || *owner.name == *name
}

fn takes_over(job: &Job, owner: &Owner) -> bool {
    job.options.take_over.as_ref().is_some_and(|name| is_named(owner, name))
}
