//! Changes of services: what each phase writes. A phase is written in one update, conditional on the service version of the decision.

use super::event::{At, CommandId, Effect};
use super::job::{Job, NOWHERE};
use super::record::{Goal, JobPhase, Record};
use super::state::{Machine, Pending};
use model::Millis;
use model::cluster::WhyKind;
use model::swarm::{ChangeOutcome, NodeId, ServiceChange, ServiceId, ServiceMode};
use std::sync::Arc;

/// Effect of a change on replicas and pin.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Spec {
    /// None: labels only.
    Keep,
    /// Replicas 0, with a pin that matches no node: nothing starts, even if the service is scaled up.
    Fence,
    /// One replica, pinned to the node.
    Start(NodeId),
}

/// A decided change of a service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Write {
    pub record: Record,
    pub spec: Spec,
    /// Text of the emitted event.
    pub text: String,
}

impl Job {
    /// Phase 1: replicas 0 and the purpose, in one update.
    pub(super) fn fence(&self, goal: Goal, to: Option<NodeId>, why: &str, units: Option<f64>) -> Write {
        let mut record = self.record.clone();
        record.from = record.home.clone().filter(|_| goal == Goal::Move);
        (record.phase, record.goal, record.to) = (JobPhase::Stopping, Some(goal), to);
        record.why = Some(why.into());
        record.saved = units.or(record.saved);
        Write { record, spec: Spec::Fence, text: format!("stopping: {why}") }
    }

    /// Proven gone: it waits in the queue, or until it is resumed.
    pub(super) fn wait(&self, past: impl Iterator<Item = Arc<str>>) -> Write {
        let mut record = self.record.clone();
        record.suspended |= record.goal == Some(Goal::Suspend);
        (record.phase, record.goal, record.to, record.from) = (JobPhase::Waiting, None, None, None);
        record.placed.clear();
        record.past = past.collect();
        (record.leased, record.grace) = (None, None);
        let text =
            if record.suspended { "stopped and proven gone: suspended" } else { "stopped and proven gone: queued" };
        Write { record, spec: Spec::Fence, text: text.to_owned() }
    }

    /// Phase 3: its saved state is transferred to `to`. The nodes in `placed` are asked again before it starts.
    pub(super) fn carry(&self, to: &NodeId, past: impl Iterator<Item = Arc<str>>) -> Write {
        let mut record = self.record.clone();
        (record.phase, record.to) = (JobPhase::Carrying, Some(to.clone()));
        record.number += 1;
        record.past = past.collect();
        record.leased = None;
        Write { record, spec: Spec::Fence, text: "proven gone: transferring its saved state".to_owned() }
    }

    /// Phase 4: pin, one replica and the phase, in one update. From now on its newest saved state is on `node`.
    pub(super) fn start(&self, node: &NodeId, past: impl Iterator<Item = Arc<str>>) -> Write {
        let mut record = self.record.clone();
        let moved = record.goal == Some(Goal::Move) && record.home.as_ref() != Some(node);
        record.moves += u32::from(moved);
        if record.goal == Some(Goal::Move) && !moved {
            record.goal = Some(Goal::Return);
        }
        (record.phase, record.home, record.to) = (JobPhase::Starting, Some(node.clone()), None);
        record.placed = [node.clone()].into();
        record.past = past.collect();
        (record.leased, record.exit, record.suspended) = (None, None, false);
        Write { record, spec: Spec::Start(node.clone()), text: "starting".to_owned() }
    }

    /// Phase 5: it is training.
    pub(super) fn verified(&self) -> Write {
        let mut record = self.record.clone();
        if record.goal != Some(Goal::Return) {
            (record.tries, record.retry_at, record.mark) = (0, None, None);
            record.avoid.clear();
        }
        (record.phase, record.goal, record.from) = (JobPhase::Running, None, None);
        Write { record, spec: Spec::Keep, text: "running".to_owned() }
    }

    /// It has exited.
    pub(super) fn done(&self, exit: i64, past: impl Iterator<Item = Arc<str>>) -> Write {
        let mut record = self.record.clone();
        (record.phase, record.exit, record.goal) = (JobPhase::Done, Some(exit), None);
        (record.to, record.from, record.leased, record.grace) = (None, None, None, None);
        record.past = past.collect();
        let text = if exit == 0 { "done".to_owned() } else { format!("failed with exit code {exit}") };
        Write { record, spec: Spec::Fence, text }
    }

    /// It was cancelled, and is proven gone.
    pub(super) fn cancelled(&self, past: impl Iterator<Item = Arc<str>>) -> Write {
        let Write { mut record, spec, .. } = self.done(0, past);
        (record.exit, record.goal) = (None, Some(Goal::Cancel));
        Write { record, spec, text: "cancelled".to_owned() }
    }
}

impl Record {
    /// Records a failure to start on a node: that node is avoided until `retry_at`; other nodes may be tried at once.
    pub(super) fn mark_failure(&mut self, node: &NodeId, what: &str, retry_at: Millis) {
        self.tries += 1;
        self.retry_at = Some(retry_at);
        self.avoid.insert(node.clone());
        self.mark = Some(what.into());
    }
}

impl Machine {
    /// Requests a change and updates the local state as if it had succeeded. The service is not changed again until a look shows the outcome.
    pub(super) fn write(&mut self, id: &ServiceId, mut write: Write, command_id: Option<CommandId>, at: At) {
        let until = at.now.after(self.settings.request_within);
        let text = self.in_full(&write);
        write.record.note(at.unix, &text);
        self.count_costs(id, &mut write.record, at);
        let Some(seen) = self.seen.get_mut(id) else { return };
        let service = &mut seen.service;
        let (replicas, pin) = match &write.spec {
            Spec::Keep => (None, None),
            Spec::Fence => (Some(0), Some(Some(NodeId(NOWHERE.into())))),
            Spec::Start(node) => (Some(1), Some(Some(node.clone()))),
        };
        // Only while no task runs: Swarm would replace the running task.
        let changes_spec = write.spec != Spec::Keep;
        let job = seen.job.as_ref().ok().filter(|_| changes_spec);
        let stop_grace = job.and_then(|job| job.lacks_grace(service));
        if let Ok(job) = &seen.job
            && write.record.phase == JobPhase::Starting
            && job.record.phase != JobPhase::Starting
        {
            // Swarm applies the period that is set when it creates the task, and so do the agent and the wait for a lost node.
            write.record.grace = stop_grace.or(service.stop_grace).filter(|_| job.is_leasable());
        }
        let labels = write.record.changes(&service.labels);
        let (of, version) = (id.clone(), service.version);
        let alternative = write.record.alternative.and_then(|at| job?.options.alternatives.get(at));
        let starts = matches!(write.record.phase, JobPhase::Carrying | JobPhase::Starting);
        let request = alternative.filter(|_| starts).map(|alternative| alternative.request(service.request));
        let request = request.filter(|request| *request != service.request);
        service.request = request.unwrap_or(service.request);
        let change = ServiceChange { service: of, version, replicas, pin: pin.clone(), stop_grace, request, labels };
        service.stop_grace = stop_grace.or(service.stop_grace);
        for (label, value) in &change.labels {
            match value {
                Some(value) => drop(service.labels.insert(label.clone(), value.clone())),
                None => drop(service.labels.remove(label)),
            }
        }
        if let Some(replicas) = replicas {
            service.mode = ServiceMode::Replicated(replicas);
        }
        if let Some(pin) = pin {
            service.pin = pin;
        }
        if let Ok(job) = &mut seen.job {
            Arc::make_mut(job).record = write.record;
        }
        if changes_spec {
            seen.memory.renewed = None;
        }
        seen.memory.pending = Some(Pending { version: service.version, until, command_id, answered: None });
        (self.quiet_since, self.has_news) = (at.now, true);
        self.emit(Some(id), text);
        self.effects.push(Effect::Change(change));
    }

    /// Returns the text of a change with the name of the node where the job goes.
    fn in_full(&self, write: &Write) -> String {
        let (record, text) = (&write.record, &write.text);
        match (record.phase, &record.to, &record.home) {
            (JobPhase::Stopping, Some(to), _) => match text.strip_prefix("stopping: ") {
                Some(why) => format!("stopping, then to {}: {why}", self.name_of(to)),
                None => text.clone(),
            },
            (JobPhase::Carrying, Some(to), _) => format!("{text}, to {}", self.name_of(to)),
            (JobPhase::Starting, _, Some(home)) if matches!(write.spec, Spec::Start(_)) => {
                let why = record.why.as_ref().filter(|_| record.from.is_none() && record.goal.is_none());
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                format!("{text} on {}{why}", self.name_of(home))
            }
            _ => text.clone(),
        }
    }

    /// Handles the reply to a change. Only a look shows the resulting state of the service.
    pub(super) fn changed(&mut self, id: &ServiceId, version: u64, outcome: &ChangeOutcome, at: At) {
        self.looks.due = at.now;
        let last = self.looks.last;
        let Some(seen) = self.seen.get_mut(id) else { return };
        let Some(pending) = &mut seen.memory.pending else { return };
        if pending.version != version || pending.answered.is_some() {
            return;
        }
        pending.answered = Some(last);
        let command_id = pending.command_id;
        match outcome {
            ChangeOutcome::Done => self.command_done(id, command_id),
            ChangeOutcome::Refused(why) => {
                let why = super::labels::bounded(why, 200);
                self.set_why(id, WhyKind::InProgress, format!("Swarm rejected the change: {why}"));
                self.emit(Some(id), format!("Swarm rejected the change: {why}"));
            }
            ChangeOutcome::OutOfDate | ChangeOutcome::Gone | ChangeOutcome::Unknown(_) => {}
        }
    }
}
