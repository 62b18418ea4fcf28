//! A service as a job: what people say of it, what is remembered of it, and what makes it no job at all.
//!
//! Imports: labels, record, model.

use super::labels::{self, Wishes};
use super::record::{JobPhase, Record};
use crate::model::Millis;
use crate::model::cluster::Constraint;
use crate::model::swarm::{NodeId, RestartCondition, ServiceMode, SwarmService, SwarmTask, TaskState};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A pin that no node has. A fenced service is pinned there, so that nobody who scales it up by hand starts a second writer.
pub const NOWHERE: &str = "flowcon-nowhere";

/// Attributes of nodes that constraints may name besides labels.
pub(super) const NODE_ID: &str = "node.id";
pub(super) const NODE_HOSTNAME: &str = "node.hostname";
pub(super) const NODE_ROLE: &str = "node.role";

/// A service that is a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// What people say of it.
    pub wishes: Wishes,
    /// What is remembered of it.
    pub record: Record,
    /// The volume to be carried when it moves: its checkpoint, where that lies on the node's own disk.
    pub carries: Option<Arc<str>>,
    /// It has other volumes on its node's disk, which are not carried: it stays where it began.
    pub is_tied: bool,
    /// Where it may run.
    pub constraints: Vec<Constraint>,
}

/// Why a service cannot be a job, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit(pub String);

impl Job {
    /// Reads a service that wants to be a job.
    ///
    /// # Errors
    /// Names what is odd and what is expected.
    pub fn of(service: &SwarmService) -> Result<Job, Unfit> {
        fits(service).map_err(Unfit)?;
        let wishes = labels::wishes(&service.labels).map_err(Unfit)?;
        let record = Record::parse(&service.labels).map_err(Unfit)?;
        let checkpoint = wishes.checkpoint.as_ref();
        let mounted = checkpoint.map(|name| service.volumes.iter().find(|volume| volume.name == *name));
        if let (Some(None), Some(name)) = (mounted, checkpoint) {
            let (label, name) = (labels::CHECKPOINT, labels::shown(name));
            return Err(Unfit(format!("label {label}={name}: expected a volume that the service mounts")));
        }
        let carries = mounted.flatten().filter(|volume| volume.is_local).map(|volume| volume.name.clone());
        let is_other = |name: &Arc<str>| carries.as_ref() != Some(name);
        let is_tied = service.volumes.iter().any(|volume| volume.is_local && is_other(&volume.name));
        let constraints = constraints(service, &record);
        Ok(Job { is_tied: is_tied && wishes.movable != Some(true), wishes, record, carries, constraints })
    }

    /// Whether it may be moved at all: it saves its state, or its owner says so.
    pub fn is_movable(&self) -> bool {
        !self.is_tied && self.wishes.movable.unwrap_or(self.wishes.checkpoint.is_some())
    }

    /// Why it may not be moved.
    pub fn why_unmovable(&self) -> &'static str {
        match self.wishes.movable {
            Some(false) => "its label flowcon.movable=false forbids it",
            _ if self.is_tied => {
                "it has local volumes that are not its checkpoint; set flowcon.movable=true if it can do without them"
            }
            _ => {
                "it names no volume for its saved state: set flowcon.checkpoint=VOLUME, or flowcon.movable=true if nothing is lost"
            }
        }
    }

    /// What its service must say so that Swarm waits until it is saved; `None` = it says that, or more. What somebody said is never shortened.
    pub(super) fn lacks_grace(&self, service: &SwarmService) -> Option<Millis> {
        match (self.wishes.stop_grace, service.stop_grace) {
            (Some(wanted), said) => said.is_none_or(|said| said < wanted).then_some(wanted),
            (None, None) => self.wishes.checkpoint.is_some().then_some(labels::GRACE),
            (None, Some(_)) => None,
        }
    }

    /// Whether its saved state must be carried before it starts there.
    pub(super) fn needs_carriage(&self, to: &NodeId) -> bool {
        self.carries.is_some() && self.record.home.as_ref().is_some_and(|home| home != to)
    }
}

fn fits(service: &SwarmService) -> Result<(), String> {
    let name = labels::shown(&service.name);
    match &service.mode {
        ServiceMode::Other(mode) => {
            return Err(format!(
                "its mode is {}: expected a replicated service; create it again with --mode replicated --replicas 0",
                labels::shown(mode)
            ));
        }
        ServiceMode::Replicated(0 | 1) => {}
        ServiceMode::Replicated(replicas) => {
            return Err(format!(
                "it has {replicas} replicas: expected 0 or 1; run `docker service scale {name}=0`, and create a service for each worker with the same {}",
                labels::GANG
            ));
        }
    }
    if service.restart.condition == RestartCondition::Any {
        return Err(format!(
            "its restart condition is any, with which it would never end; run `docker service update --restart-condition on-failure --restart-max-attempts 3 {name}`"
        ));
    }
    Ok(())
}

fn constraints(service: &SwarmService, record: &Record) -> Vec<Constraint> {
    let mut constraints = service.constraints.clone();
    constraints.extend(service.other_constraints.iter().filter_map(|text| attribute(text)));
    // Whoever pins a job that was never placed means it.
    if record.home.is_none()
        && let Some(pin) = service.pin.as_ref().filter(|pin| &*pin.0 != NOWHERE)
    {
        constraints.push(Constraint { label: NODE_ID.into(), equal: true, value: pin.0.clone() });
    }
    constraints
}

/// A constraint on an attribute of nodes that the coordinator knows; others are left to Swarm.
fn attribute(text: &str) -> Option<Constraint> {
    let (equal, at) = match (text.find("=="), text.find("!=")) {
        (Some(at), _) => (true, at),
        (None, at) => (false, at?),
    };
    let label = text[..at].trim();
    let known = [NODE_ID, NODE_HOSTNAME, NODE_ROLE].contains(&label);
    known.then(|| Constraint { label: label.into(), equal, value: text[at + 2..].trim().into() })
}

/// What Swarm says of a job's present start.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Run<'a> {
    /// No task yet.
    None,
    /// Swarm tries.
    Trying {
        /// What it said of the last failure.
        error: Option<&'a str>,
    },
    /// A task runs.
    Runs(&'a SwarmTask),
    /// It ended with code 0.
    Complete,
    /// It failed, and Swarm does not try again.
    Failed {
        /// Its exit code; `None` = it never ran.
        exit: Option<i64>,
        error: Option<&'a str>,
    },
    /// Swarm gave it up, and it has not failed: it was stopped, or its node is lost.
    Stopped,
}

impl<'a> Run<'a> {
    /// Of the tasks that are not past.
    pub(super) fn of(tasks: &'a [SwarmTask], past: &BTreeSet<Arc<str>>) -> Run<'a> {
        let present = || tasks.iter().filter(|task| !past.contains(&task.id));
        if present().any(|task| task.state == TaskState::Complete) {
            return Run::Complete;
        }
        let error = || present().max_by_key(|task| task.changed).and_then(|task| task.error.as_deref());
        if let Some(task) = present().find(|task| task.is_wanted && task.state == TaskState::Running) {
            return Run::Runs(task);
        }
        if present().any(|task| task.is_wanted) {
            return Run::Trying { error: error() };
        }
        let failed = present().filter(|task| task.state == TaskState::Failed).max_by_key(|task| task.changed);
        match failed {
            Some(task) => Run::Failed { exit: task.exit_code, error: task.error.as_deref() },
            None if present().next().is_some() => Run::Stopped,
            None => Run::None,
        }
    }
}

/// What the spec says against the record: whether somebody changed it by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hand {
    /// Nobody.
    Off,
    /// Scaled to 0 while it should run.
    Stopped,
    /// Scaled to 1 while it should not run: it cannot start, for it is pinned nowhere; or it has never been ours and is pinned.
    Wanted,
    /// Scaled to 1 with its own pin, before it was ever placed: it runs there.
    Began,
    /// It may run somewhere that is not recorded.
    Strayed,
}

impl Hand {
    pub(super) fn of(service: &SwarmService, record: &Record) -> Hand {
        let is_up = service.mode == ServiceMode::Replicated(1);
        let pin = service.pin.as_ref();
        let is_nowhere = pin.is_some_and(|pin| &*pin.0 == NOWHERE);
        match record.phase {
            JobPhase::Starting | JobPhase::Running => match is_up {
                true if pin == record.home.as_ref() => Hand::Off,
                true if is_nowhere => Hand::Stopped,
                true => Hand::Strayed,
                false => Hand::Stopped,
            },
            _ if !is_up => Hand::Off,
            _ if is_nowhere => Hand::Wanted,
            JobPhase::Waiting if record.home.is_none() && pin.is_some() => Hand::Began,
            _ => Hand::Strayed,
        }
    }
}
