//! Manual changes of services: scaling counts as a command; a service with another pin is left alone until it is scaled to 0; removed
//! internal labels are restored.

use super::event::At;
use super::job::{Job, NOWHERE};
use super::record::{Goal, JobPhase};
use super::state::{Machine, Seen};
use super::writes::{Spec, Write};
use model::cluster::WhyKind;
use model::swarm::{NodeId, ServiceId, ServiceMode, SwarmTask, TaskState};

/// Maximum number of nodes that are recorded as possible places.
const SUSPECTS_MOST: usize = 60;

impl Machine {
    /// Takes over a job that was started manually on the node that it is pinned to.
    pub(super) fn adopt(&mut self, id: &ServiceId, job: &Job, at: At) {
        let Some(seen) = self.seen.get(id) else { return };
        let mut record = job.record.clone();
        record.home = seen.service.pin.clone();
        record.placed.extend(record.home.clone());
        (record.phase, record.suspended) = (JobPhase::Starting, false);
        let text = "started manually on the node that it is pinned to".to_owned();
        self.write(id, Write { record, spec: Spec::Keep, text }, None, at);
    }

    /// Handles a job that was pinned elsewhere or unpinned: only the nodes where it may run are recorded. If it was never placed and has run
    /// on a single node, its saved state is there.
    pub(super) fn leave_alone(&mut self, id: &ServiceId, job: &Job, at: At) {
        let Some(seen) = self.seen.get(id) else { return };
        let (name, pin) = (seen.service.name.clone(), seen.service.pin.clone());
        let mut record = job.record.clone();
        record.placed.extend(seen.tasks.iter().filter_map(|task| task.node.clone()));
        record.placed.extend(pin.clone());
        if record.home.is_none() && seen.ran_on_a_node() && record.placed.len() == 1 {
            record.home = record.placed.first().cloned();
        }
        // Its owner has pinned it to the node where it runs.
        if record.phase == JobPhase::Waiting && pin.is_some() && pin == record.home && record.placed.len() == 1 {
            return self.adopt(id, job, at);
        }
        if record != job.record && record.placed.len() <= SUSPECTS_MOST {
            let text = "started manually: it is not managed, but its node is recorded".to_owned();
            return self.write(id, Write { record, spec: Spec::Keep, text }, None, at);
        }
        let text = match pin {
            Some(_) => {
                format!(
                    "its pin was changed manually: it is not managed; run `docker service scale {name}=0` to hand it back"
                )
            }
            None => format!(
                "it runs without a pin: it is not managed; run `docker service scale {name}=0` to put it into the queue"
            ),
        };
        self.set_why(id, WhyKind::Foreign, text);
    }

    /// Fences a service whose pin was changed, or that had none: it may have run on other nodes since.
    pub(super) fn fence_again(&mut self, id: &ServiceId, job: &Job, at: At) {
        let Some(seen) = self.seen.get(id) else { return };
        let why = if seen.service.pin.is_some() { "its pin was changed manually" } else { "it had no pin" };
        let mut write = job.fence(job.record.goal.unwrap_or(Goal::Queue), None, why, None);
        (write.record.to, write.record.from) = (job.record.to.clone(), job.record.from.clone());
        if !matches!(write.record.goal, Some(Goal::Move | Goal::Return)) {
            write.record.to = None;
        }
        let nodes = self.where_it_may_be(seen);
        let room = SUSPECTS_MOST.saturating_sub(write.record.placed.len());
        write.record.placed.extend(nodes.into_iter().take(room));
        self.write(id, write, None, at);
    }

    /// Writes back the internal labels that an update has removed. If it has also stopped the job, that goes back to the queue: nobody
    /// wanted to suspend it.
    pub(super) fn restore_labels(&mut self, id: &ServiceId, job: &Job, at: At) {
        let Some(seen) = self.seen.get(id) else { return };
        let is_up = seen.service.mode != ServiceMode::Replicated(0);
        let why = "an update, such as `docker stack deploy`, removed its labels flowcon.cluster.*";
        let restored = |spec: Spec| Write { record: job.record.clone(), spec, text: format!("{why}; restored") };
        let write = match job.record.phase {
            JobPhase::Starting | JobPhase::Running if !is_up => {
                job.fence(Goal::Queue, None, why, self.units_of(id, job))
            }
            JobPhase::Done if !is_up => restored(Spec::Fence),
            _ => restored(Spec::Keep),
        };
        self.write(id, write, None, at);
    }

    /// Returns the nodes where a service may have unrecorded tasks.
    fn where_it_may_be(&self, seen: &Seen) -> Vec<NodeId> {
        let tasks = seen.tasks.iter().filter_map(|task| task.node.clone());
        match seen.service.pin.as_ref().filter(|pin| &*pin.0 != NOWHERE) {
            Some(pin) => tasks.chain([pin.clone()]).collect(),
            None => tasks
                .chain(self.nodes.values().filter(|node| node.node.is_up).map(|node| node.node.id.clone()))
                .collect(),
        }
    }
}

impl Seen {
    /// Whether all of its tasks have a node, and one of them has run.
    fn ran_on_a_node(&self) -> bool {
        let has_run = |task: &SwarmTask| {
            task.exit_code.is_some()
                || matches!(task.state, TaskState::Running | TaskState::Complete | TaskState::Shutdown)
        };
        self.tasks.iter().all(|task| task.node.is_some()) && self.tasks.iter().any(has_run)
    }
}

impl Job {
    /// Returns the change for a job that was scaled to 1 without starting: it is resumed.
    pub(super) fn resumed(&self) -> Write {
        let mut record = self.record.clone();
        (record.suspended, record.tries, record.retry_at, record.exit) = (false, 0, None, None);
        record.avoid.clear();
        if record.phase == JobPhase::Done {
            (record.phase, record.saved, record.total) = (JobPhase::Waiting, None, None);
        }
        match (record.goal, record.phase) {
            (Some(Goal::Cancel), JobPhase::Waiting) => record.goal = None,
            (Some(Goal::Suspend | Goal::Cancel), _) => record.goal = Some(Goal::Queue),
            _ => {}
        }
        let text = "scaled to 1 manually: it starts as soon as possible".to_owned();
        Write { record, spec: Spec::Fence, text }
    }
}
