//! What becomes of a job's progress: the last of a job that has ended, and what a lost node may cost.

use super::event::At;
use super::job::Job;
use super::labels::Role;
use super::record::JobPhase;
use super::state::{Machine, Seen};
use super::writes::{Spec, Write};
use model::swarm::{EndedWorker, ServiceId};
use std::sync::Arc;

impl Machine {
    /// Records the last progress of a job that has ended, which its node may report only after the end.
    pub(super) fn step_done(&mut self, id: &ServiceId, job: &Job, at: At) {
        if let Some(seen) = self.seen.get_mut(id) {
            seen.memory.why = None;
        }
        let Some(EndedWorker { units, total, .. }) = self.last_of(job) else { return };
        let mut record = job.record.clone();
        (record.saved, record.total) = (units.or(record.saved), total.or(record.total));
        if record.saved != job.record.saved || record.total != job.record.total {
            let of = total.map_or_else(String::new, |total| format!(" of {total:.0}"));
            let text = format!("its last progress: {:.0}{of} units", record.saved.unwrap_or_default());
            self.write(id, Write { record, spec: Spec::Keep, text }, None, at);
        }
    }

    /// Whether it is a parameter server all of whose workers have ended: it would wait for them for ever.
    pub(super) fn serves_nobody(&self, job: &Job) -> bool {
        let in_gang = |other: &&Arc<Job>| job.options.gang.is_some() && other.options.gang == job.options.gang;
        let mut workers = self
            .seen
            .values()
            .filter_map(|seen| seen.job.as_ref().ok())
            .filter(in_gang)
            .filter(|other| other.options.role == Role::Worker)
            .peekable();
        job.options.role == Role::ParameterServer
            && workers.peek().is_some()
            && workers.all(|worker| worker.record.phase == JobPhase::Done)
    }

    /// Returns what the job's node reports on the task with the most progress.
    fn last_of(&self, job: &Job) -> Option<EndedWorker> {
        let (_, report) = self.nodes.get(job.record.home.as_ref()?)?.report.as_ref()?;
        let own = report.ended.iter().filter(|ended| job.record.past.contains(&ended.task));
        let own = own.filter(|ended| ended.units.is_some_and(f64::is_finite) && ended.total.is_none_or(f64::is_finite));
        own.max_by(|a, b| a.units.partial_cmp(&b.units).unwrap_or(std::cmp::Ordering::Equal)).cloned()
    }

    /// Returns how much a job had done when its node was lost, and what of it may be lost.
    pub(super) fn at_stake(&self, seen: &Seen, job: &Job) -> String {
        let Some(units) = seen.last_units(job) else { return String::new() };
        let total = seen.memory.last_report.as_ref().and_then(|report| report.total);
        let of = total.map_or_else(String::new, |total| format!(" of {total:.0}"));
        let fate = match (job.options.checkpoint.is_some(), job.has_local_state()) {
            (false, _) => "without a checkpoint, all of them are lost if it starts again",
            (true, true) => "those since its last save are lost, and its saved state is there",
            (true, false) => "those since its last save are lost",
        };
        format!(" after {units:.0}{of} units; {fate}")
    }
}
