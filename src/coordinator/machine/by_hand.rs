//! What people change by hand: a scale is a wish, and another pin is left alone until it is handed back.
//!
//! Imports: state, writes, event, job, record, model.

use super::event::At;
use super::job::{Job, NOWHERE};
use super::record::{Goal, JobPhase};
use super::state::{Machine, Seen};
use super::writes::{Spec, Write};
use crate::model::cluster::WhyKind;
use crate::model::swarm::{NodeId, ServiceId};

/// Nodes that are suspected at once.
const SUSPECTS_MOST: usize = 60;

impl Machine {
    /// It was started on the node that it is pinned to, before it was ever placed.
    pub(super) fn adopt(&mut self, id: &ServiceId, job: &Job, at: At) {
        let Some(seen) = self.seen.get(id) else { return };
        let mut record = job.record.clone();
        record.home = seen.service.pin.clone();
        record.placed.extend(record.home.clone());
        record.phase = JobPhase::Starting;
        let text = "it was started by hand on the node that it is pinned to".to_owned();
        self.write(id, Write { record, spec: Spec::Keep, text }, None, at);
    }

    /// Somebody pinned it elsewhere, or took its pin away: where it may be is remembered, and nothing else is touched.
    pub(super) fn leave_alone(&mut self, id: &ServiceId, job: &Job, at: At) {
        let Some(seen) = self.seen.get(id) else { return };
        let mut record = job.record.clone();
        record.placed.extend(seen.tasks.iter().filter_map(|task| task.node.clone()));
        record.placed.extend(seen.service.pin.clone());
        let name = seen.service.name.clone();
        let was_ours = job.record.home.is_some();
        if record.placed != job.record.placed && record.placed.len() <= SUSPECTS_MOST {
            let text = "it was started by hand, and is left alone: where it is, is remembered".to_owned();
            return self.write(id, Write { record, spec: Spec::Keep, text }, None, at);
        }
        let text = match was_ours {
            true => {
                format!("its pin was changed by hand: it is left alone; `docker service scale {name}=0` hands it back")
            }
            false => format!(
                "it runs without a pin: it is left alone; `docker service scale {name}=0` puts it into the queue"
            ),
        };
        self.set_why(id, WhyKind::Foreign, text);
    }

    /// A fenced service whose pin somebody changed: it may have been anywhere since.
    pub(super) fn fence_again(&mut self, id: &ServiceId, job: &Job, at: At) {
        let Some(seen) = self.seen.get(id) else { return };
        let mut write = job.fence(job.record.goal.unwrap_or(Goal::Queue), None, "its pin was changed by hand", None);
        (write.record.to, write.record.from) = (job.record.to.clone(), job.record.from.clone());
        if !matches!(write.record.goal, Some(Goal::Move | Goal::Return)) {
            write.record.to = None;
        }
        let nodes = self.where_it_may_be(seen);
        let room = SUSPECTS_MOST.saturating_sub(write.record.placed.len());
        write.record.placed.extend(nodes.into_iter().take(room));
        self.write(id, write, None, at);
    }

    /// Where a service may have tasks that no record tells of.
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

impl Job {
    /// Somebody scaled it to 1, and it is pinned nowhere: it wants to run.
    pub(super) fn wanted(&self) -> Write {
        let mut record = self.record.clone();
        (record.paused, record.tries, record.retry_at, record.exit) = (false, 0, None, None);
        record.avoid.clear();
        if record.phase == JobPhase::Done {
            record.phase = JobPhase::Waiting;
        }
        if record.goal == Some(Goal::Pause) {
            record.goal = Some(Goal::Queue);
        }
        let text = "it was scaled to 1 by hand: it goes on as soon as it can".to_owned();
        Write { record, spec: Spec::Fence, text }
    }
}
