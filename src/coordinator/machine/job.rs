//! A service as a job: its options and record, or why it cannot be a job.

use super::constraints::{NODE_ID, constraint};
use super::known_work::Program;
use super::labels::{self, JobOptions};
use super::record::{JobPhase, Record};
use model::Millis;
use model::cluster::Constraint;
use model::swarm::{NodeId, RestartCondition, ServiceMode, SwarmService, SwarmTask, TaskState};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A pin that matches no node. A fenced service is pinned there, so that scaling it up by hand cannot start a second writer.
pub(super) const NOWHERE: &str = "flowcon-nowhere";

/// A service that is a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Options set by its owner.
    pub options: JobOptions,
    /// Durable state.
    pub record: Record,
    /// The volume to transfer when it moves: its checkpoint, if that is local to the node.
    pub carries: Option<Arc<str>>,
    /// Whether it has other local volumes, which are not transferred and tie it to its node.
    pub is_tied: bool,
    /// Placement constraints.
    pub constraints: Vec<Constraint>,
    /// What its containers run.
    pub program: Program,
}

/// Why a service cannot be a job, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection(pub String);

impl Job {
    /// Parses a service with the label `flowcon.queue`.
    ///
    /// # Errors
    /// Names what is invalid and what is expected.
    pub fn of(service: &SwarmService) -> Result<Job, Rejection> {
        fits(service).map_err(Rejection)?;
        let options = labels::options(&service.labels).map_err(Rejection)?;
        let record = record_of(service).map_err(Rejection)?;
        let checkpoint = options.checkpoint.as_ref();
        let mounted = checkpoint.map(|name| service.volumes.iter().find(|volume| volume.name == *name));
        if let (Some(None), Some(name)) = (mounted, checkpoint) {
            let (label, name) = (labels::CHECKPOINT, labels::shown(name));
            return Err(Rejection(format!("label {label}={name}: expected a volume that the service mounts")));
        }
        let carries = mounted.flatten().filter(|volume| volume.is_local).map(|volume| volume.name.clone());
        let is_other = |name: &Arc<str>| carries.as_ref() != Some(name);
        let is_tied = service.volumes.iter().any(|volume| volume.is_local && is_other(&volume.name));
        let constraints = constraints(service, &record);
        let program = Program::of(&service.command);
        Ok(Job { is_tied: is_tied && options.movable != Some(true), options, record, carries, constraints, program })
    }

    /// Whether it may be moved: it saves its state, or its owner allows it.
    pub fn is_movable(&self) -> bool {
        !self.is_tied && self.options.movable.unwrap_or(self.options.checkpoint.is_some())
    }

    /// Whether it needs state that is only on its node.
    pub(super) fn has_local_state(&self) -> bool {
        self.carries.is_some() || self.is_tied
    }

    /// Returns why it may not be moved.
    pub fn why_unmovable(&self) -> &'static str {
        match self.options.movable {
            Some(false) => "its label flowcon.movable=false forbids it",
            _ if self.is_tied => {
                "it has local volumes that are not its checkpoint; set flowcon.movable=true if it does not need them"
            }
            _ => {
                "it has no volume for its saved state; set flowcon.checkpoint=VOLUME, or flowcon.movable=true if it has no state to lose"
            }
        }
    }

    /// Returns the stop grace period to set on the service so that the job can save its state; `None` if that is long enough already. A
    /// configured grace period is never shortened.
    pub(super) fn lacks_grace(&self, service: &SwarmService) -> Option<Millis> {
        match (self.options.stop_grace, service.stop_grace) {
            (Some(wanted), set) => set.is_none_or(|set| set < wanted).then_some(wanted),
            (None, None) => self.options.checkpoint.is_some().then_some(labels::GRACE),
            (None, Some(_)) => None,
        }
    }

    /// Whether its saved state must be transferred before it starts on node `to`.
    pub(super) fn needs_carriage(&self, to: &NodeId) -> bool {
        self.carries.is_some() && self.record.home.as_ref().is_some_and(|home| home != to)
    }
}

fn fits(service: &SwarmService) -> Result<(), String> {
    let name = labels::shown(&service.name);
    match &service.mode {
        ServiceMode::Other(mode) => {
            return Err(format!(
                "its mode is {}: expected a replicated service; recreate it with --mode replicated --replicas 0",
                labels::shown(mode)
            ));
        }
        ServiceMode::Replicated(0 | 1) => {}
        ServiceMode::Replicated(replicas) => {
            return Err(format!(
                "it has {replicas} replicas: expected 0 or 1; run `docker service scale {name}=0`, and create one service per worker with the same label {}",
                labels::GANG
            ));
        }
    }
    if service.restart.condition == RestartCondition::Any {
        return Err(format!(
            "its restart condition is any, so Swarm would restart it for ever; run `docker service update --restart-condition on-failure --restart-max-attempts 3 {name}`"
        ));
    }
    Ok(())
}

fn record_of(service: &SwarmService) -> Result<Record, String> {
    let mut record = match Record::lost(&service.labels, &service.previous_labels) {
        Some(lost) => lost,
        None => Record::parse(&service.labels)?,
    };
    // A pin on a job that was never placed is a wish of its owner.
    let is_nowhere = service.pin.as_ref().is_some_and(|pin| &*pin.0 == NOWHERE);
    if record.home.is_none() && !is_nowhere {
        record.pin = service.pin.clone();
    }
    Ok(record)
}

fn constraints(service: &SwarmService, record: &Record) -> Vec<Constraint> {
    let mut constraints = service.constraints.clone();
    constraints.extend(service.other_constraints.iter().filter_map(|text| constraint(text)));
    let on = |pin: &NodeId| Constraint { label: NODE_ID.into(), equal: true, value: pin.0.clone() };
    constraints.extend(record.pin.iter().map(on));
    constraints
}

/// State of a job's current start, from its Swarm tasks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Run<'a> {
    /// No task yet.
    None,
    /// Swarm is starting a task.
    Trying {
        /// Error of the last attempt.
        error: Option<&'a str>,
    },
    /// A task is running.
    Runs(&'a SwarmTask),
    /// It exited with code 0.
    Complete(&'a SwarmTask),
    /// It failed, and Swarm does not retry. Without an exit code it never ran.
    Failed(&'a SwarmTask),
    /// Its node's agent stopped it because its lease had expired, whatever its exit code, and Swarm does not retry.
    Lapsed,
    /// Its tasks are gone without failure: it was stopped, or its node is lost.
    Stopped,
}

impl<'a> Run<'a> {
    /// Determines the state from the tasks that are not past. `stopped`: tasks that agents stopped because their lease had expired.
    pub(super) fn of(tasks: &'a [SwarmTask], past: &BTreeSet<Arc<str>>, stopped: &BTreeSet<Arc<str>>) -> Run<'a> {
        let present = || tasks.iter().filter(|task| !past.contains(&task.id));
        let is_complete = |task: &&SwarmTask| task.state == TaskState::Complete && !stopped.contains(&task.id);
        if let Some(task) = present().find(is_complete) {
            return Run::Complete(task);
        }
        let error = || present().max_by_key(|task| task.changed).and_then(|task| task.error.as_deref());
        if let Some(task) = present().find(|task| task.is_wanted && task.state == TaskState::Running) {
            return Run::Runs(task);
        }
        if present().any(|task| task.is_wanted) {
            return Run::Trying { error: error() };
        }
        let has_exited = |task: &&SwarmTask| matches!(task.state, TaskState::Complete | TaskState::Failed);
        match present().filter(has_exited).max_by_key(|task| task.changed) {
            Some(task) if stopped.contains(&task.id) => Run::Lapsed,
            Some(task) => Run::Failed(task),
            None if present().next().is_some() => Run::Stopped,
            None => Run::None,
        }
    }

    /// Returns the error of the last attempt, to be appended to a message; empty without one.
    pub(super) fn error_text(&self) -> String {
        match self {
            Run::Trying { error: Some(error) } => format!(": {}", labels::bounded(error, 140)),
            _ => String::new(),
        }
    }
}

/// Manual change of a service, detected by comparing its spec with the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ManualChange {
    /// No manual change.
    None,
    /// Scaled to 0 while it should run.
    ScaledDown,
    /// Scaled to 1 while it should not run. It cannot start because its pin matches no node.
    ScaledUp,
    /// Scaled to 1 with a pin before it was ever placed: it runs on that node.
    StartedPinned,
    /// It may run on a node that is not recorded.
    Untracked,
}

impl ManualChange {
    pub(super) fn of(service: &SwarmService, record: &Record) -> ManualChange {
        let is_up = service.mode == ServiceMode::Replicated(1);
        let pin = service.pin.as_ref();
        let is_nowhere = pin.is_some_and(|pin| &*pin.0 == NOWHERE);
        match record.phase {
            JobPhase::Starting | JobPhase::Running => match is_up {
                true if pin == record.home.as_ref() => ManualChange::None,
                true if is_nowhere => ManualChange::ScaledDown,
                true => ManualChange::Untracked,
                false => ManualChange::ScaledDown,
            },
            _ if !is_up => ManualChange::None,
            _ if is_nowhere => ManualChange::ScaledUp,
            JobPhase::Waiting if record.home.is_none() && pin.is_some() => ManualChange::StartedPinned,
            _ => ManualChange::Untracked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::swarm::ServiceId;

    fn task(id: &str, state: TaskState, changed: u64) -> SwarmTask {
        let exit_code = (state == TaskState::Complete).then_some(0);
        let (id, service, node) = (id.into(), ServiceId("s".into()), Some(NodeId("a".into())));
        SwarmTask { id, service, node, state, is_wanted: false, exit_code, error: None, changed: Millis(changed) }
    }

    #[test]
    fn a_task_that_its_agent_stopped_has_not_ended_by_itself() {
        let (past, none, stopped) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::from([Arc::<str>::from("one")]));
        for state in [TaskState::Complete, TaskState::Failed] {
            let mut tasks = vec![task("one", state, 1)];
            assert_ne!(Run::of(&tasks, &past, &none), Run::Lapsed);
            assert_eq!(Run::of(&tasks, &past, &stopped), Run::Lapsed);
            // Swarm restarts a failed task, and that fails or ends by itself.
            tasks.push(task("two", TaskState::Failed, 2));
            assert_eq!(Run::of(&tasks, &past, &stopped), Run::Failed(&tasks[1]));
            tasks[1].state = TaskState::Complete;
            assert_eq!(Run::of(&tasks, &past, &stopped), Run::Complete(&tasks[1]));
            (tasks[1].state, tasks[1].is_wanted) = (TaskState::Running, true);
            assert_eq!(Run::of(&tasks, &past, &stopped), Run::Runs(&tasks[1]));
        }
    }
}
