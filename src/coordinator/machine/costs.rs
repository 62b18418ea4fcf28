//! What jobs with deadlines cost: the price of their part of a node while they run there, and their lateness.
//!
//! What earlier runs cost, and since when the current one runs, is in the labels. What the plan compared is not: the next plan compares again.

use super::alternatives::Alternative;
use super::event::At;
use super::job::Job;
use super::observe::Observed;
use super::record::{JobPhase, Record};
use super::state::{Machine, Seen};
use model::Millis;
use model::cluster::{AlternativeStatus, ClusterPlan, QueueRule};
use model::swarm::ServiceId;
use policy::cluster::rent_of_part;

const HOUR_MS: f64 = 3_600_000.0;

impl Machine {
    /// Remembers what a plan has compared.
    pub(super) fn note_choices(&mut self, observed: &Observed, plan: &ClusterPlan) {
        for choice in &plan.choices {
            for id in &observed.jobs[choice.job] {
                if let Some(seen) = self.seen.get_mut(id) {
                    seen.memory.compared = Some(choice.clone());
                }
            }
        }
    }

    /// Counts the cost of a run when it ends, and of the lateness of the job when that has ended.
    pub(super) fn count_costs(&self, id: &ServiceId, record: &mut Record, at: At) {
        if self.settings.cluster.queue != QueueRule::Deadlines {
            return;
        }
        let Some(seen) = self.seen.get(id) else { return };
        let Ok(job) = &seen.job else { return };
        let is_up = |phase: JobPhase| matches!(phase, JobPhase::Starting | JobPhase::Running);
        match (is_up(job.record.phase), is_up(record.phase)) {
            (false, true) => record.since = Some(at.unix),
            (true, false) => (record.cost, record.since) = (Some(self.rent_so_far(seen, job, at)), None),
            _ => {}
        }
        if record.phase == JobPhase::Done && job.record.phase != JobPhase::Done {
            record.cost = record.cost.map(|cost| cost + lateness_so_far(seen, job, at));
        }
    }

    /// Returns what a job has cost so far; `None` if costs are not counted, or it has not started yet.
    pub(super) fn cost_so_far(&self, seen: &Seen, job: &Job, at: At) -> Option<f64> {
        let record = &job.record;
        match record.phase {
            _ if record.cost.is_none() && record.since.is_none() => None,
            JobPhase::Done => record.cost,
            _ => Some(self.rent_so_far(seen, job, at) + lateness_so_far(seen, job, at)),
        }
    }

    fn rent_so_far(&self, seen: &Seen, job: &Job, at: At) -> f64 {
        let node = job.record.home.as_ref().and_then(|home| self.nodes.get(home));
        let current = job.record.since.zip(node).map(|(since, node)| {
            rent_of_part(&self.node(node), seen.service.request) * at.unix.since(since).0 as f64 / HOUR_MS
        });
        job.record.cost.unwrap_or(0.0) + current.unwrap_or(0.0)
    }

    /// Returns the alternatives of a job as the last plan compared them; none if no plan has, or if it is done.
    pub(super) fn compared(&self, seen: &Seen, job: &Job) -> Vec<AlternativeStatus> {
        let compared = seen.memory.compared.as_ref().filter(|_| job.record.phase != JobPhase::Done);
        let Some(choice) = compared else { return Vec::new() };
        let chosen = job.record.alternative.filter(|_| job.record.phase != JobPhase::Waiting).unwrap_or(choice.chosen);
        let of = |(at, alternative): (usize, &Alternative)| {
            let cost = choice.costs.get(at).copied().flatten();
            AlternativeStatus { text: alternative.text.clone(), is_chosen: chosen == at, cost }
        };
        job.options.alternatives.iter().enumerate().map(of).collect()
    }

    /// Returns the alternative in which a job runs: as it is recorded, else what its service reserves.
    pub(super) fn ran_as(&self, id: &ServiceId, job: &Job) -> Option<Alternative> {
        let recorded = job.record.alternative.and_then(|at| job.options.alternatives.get(at)).cloned();
        recorded.or_else(|| Some(Alternative::of(self.seen.get(id)?.service.request)))
    }
}

fn lateness_so_far(seen: &Seen, job: &Job, at: At) -> f64 {
    let Some(deadline) = job.options.deadline.map(|deadline| deadline.of(seen.service.created)) else { return 0.0 };
    let late_cost = job.options.late_cost.or(seen.memory.compared.as_ref().map(|choice| choice.late_cost));
    let Millis(late) = at.unix.since(deadline);
    late_cost.unwrap_or(0.0) * late as f64 / HOUR_MS
}
