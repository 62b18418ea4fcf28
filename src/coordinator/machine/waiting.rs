//! The step of a waiting job: whether it waits for the plan alone, or for what.

use super::event::At;
use super::job::Job;
use super::labels::shown;
use super::proof::Needs;
use super::record::{Goal, JobPhase};
use super::state::{Machine, Seen};
use model::cluster::{NodeState, WhyKind};
use model::swarm::ServiceId;
use std::sync::Arc;

impl Machine {
    /// Marks the job as startable if it waits for the plan alone, else sets the reason.
    pub(super) fn step_waiting(&mut self, id: &ServiceId, job: &Job, was_startable: bool, at: At) {
        let record = &job.record;
        if record.suspended {
            return self.set_why(id, WhyKind::Suspended, "suspended; run `flowctl cluster resume` to continue");
        }
        if record.tries >= self.settings.tries_most {
            let mark = record.mark.as_deref().unwrap_or("unknown reason");
            let text = format!(
                "it failed to start {} times, last: {mark}; fix this, then run `flowctl cluster resume`",
                record.tries
            );
            return self.set_why(id, WhyKind::GaveUp, text);
        }
        if let Some(why) = job.options.after.iter().find_map(|name| self.not_done(name)) {
            return self.set_why(id, WhyKind::After, why);
        }
        let home = record.home.clone().filter(|_| job.has_local_state());
        if let Some(home) = home.filter(|home| self.state_at(home) == NodeState::Unreachable) {
            let name = self.name_of(&home);
            let text = format!(
                "its saved state is on node {name}, which is unreachable; if the node is lost for good, run `flowctl cluster node-is-off` to start without that state"
            );
            return self.set_why(id, WhyKind::StateOutOfReach, text);
        }
        if self.waits_for_its_state(id, job, at) {
            return;
        }
        match self.prove(id, Needs::Last(None), at) {
            Err(why) => self.set_why(id, why.kind, why.text),
            Ok(()) => {
                if let Some(seen) = self.seen.get_mut(id) {
                    seen.memory.is_startable = true;
                }
                self.has_news |= !was_startable;
                if !was_startable {
                    self.set_why(id, WhyKind::InProgress, "waiting for the next plan");
                }
            }
        }
    }

    /// Returns why a job that depends on `name` must wait; `None` if that is done.
    fn not_done(&self, name: &str) -> Option<String> {
        let is_it = |seen: &&Seen| {
            let gang = seen.job.as_ref().ok().and_then(|job| job.options.gang.as_deref());
            *seen.service.name == *name || gang == Some(name)
        };
        let shown = shown(name);
        let mut there = self.seen.values().filter(is_it).peekable();
        if there.peek().is_none() {
            return Some(format!(
                "it depends on {shown}, which is not in the cluster; submit that job, or remove the label flowcon.after"
            ));
        }
        let end = |job: &Arc<Job>| (job.record.phase, job.record.exit, job.record.goal);
        there.find_map(|seen| match seen.job.as_ref().map(end) {
            Ok((JobPhase::Done, _, Some(Goal::Cancel))) => Some(format!("it depends on {shown}, which was cancelled")),
            Ok((JobPhase::Done, None | Some(0), _)) => None,
            Ok((JobPhase::Done, Some(exit), _)) => {
                Some(format!("it depends on {shown}, which failed with exit code {exit}"))
            }
            _ => Some(format!("it depends on {shown}, which is not done")),
        })
    }
}
