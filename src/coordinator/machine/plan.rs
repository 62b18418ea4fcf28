//! Observes, plans, checks the plan, and begins its actions: starts and fences.

use super::claims::Claimed;
use super::event::At;
use super::observe::Observed;
use super::record::{Goal, JobPhase};
use super::state::Machine;
use super::step::past_of;
use super::writes::{Spec, Write};
use model::cluster::{ClusterPlan, ClusterReason, Move, Start, Stop, Wait, WhyKind};
use model::swarm::{NodeId, NodeReport, ServiceId, WorkerReport};
use policy::cluster::{Monitor, check, plan};

impl Machine {
    /// Plans the whole cluster, and begins the planned actions.
    pub(super) fn plan(&mut self, at: At) {
        if !self.has_first_reports(at) {
            return;
        }
        let observed = self.observe(at);
        let plan = plan(&observed.observation, &self.settings.cluster);
        let violations = check(&observed.observation, &self.settings.cluster, &plan);
        if !violations.is_empty() {
            return self.emit(None, format!("invalid plan, not executed: {violations:?}; please report this bug"));
        }
        self.note_ends(&observed, &plan);
        self.note_choices(&observed, &plan);
        self.rent(&observed, &plan, at);
        self.carry_out(&observed, plan, at);
    }

    /// Whether the first poll of every node has ended, or had time to: a new coordinator must not put all jobs on the first nodes that report.
    fn has_first_reports(&self, at: At) -> bool {
        let is_open =
            |node: &super::state::SeenNode| node.node.is_up && node.report.is_none() && node.poll_error.is_none();
        let patience = self.swarm.as_ref().map_or(at.now, |swarm| swarm.acts_since.after(self.settings.heard_within));
        at.now >= patience || !self.nodes.values().any(is_open)
    }

    fn note_ends(&mut self, observed: &Observed, plan: &ClusterPlan) {
        self.seen.values_mut().for_each(|seen| seen.memory.expected_end = None);
        for (job, end) in &plan.ends {
            for id in &observed.jobs[*job] {
                if let Some(seen) = self.seen.get_mut(id) {
                    seen.memory.expected_end = Some(*end);
                }
            }
        }
    }

    fn carry_out(&mut self, observed: &Observed, plan: ClusterPlan, at: At) {
        let mut room = self.settings.changes_most.saturating_sub(self.in_flight());
        self.tell_spare_workers(observed);
        for Wait { job, reason } in plan.waits {
            for id in observed.jobs[job].clone() {
                let text = self.after_failures(&id, self.in_words(&reason, observed), at);
                self.set_why(&id, WhyKind::NoPlace, text);
            }
        }
        // The workers of a gang start or stop together: an incomplete gang would only be completed or stopped later.
        for stops in plan.stops.chunk_by(|a, b| a.job == b.job) {
            if stops.len() > room && room < self.settings.changes_most {
                continue;
            }
            for Stop { job, worker, reason } in stops {
                room = room.saturating_sub(1);
                self.begin_stop(&observed.jobs[*job][*worker as usize].clone(), reason, at);
            }
        }
        for starts in plan.starts.chunk_by(|a, b| a.job == b.job) {
            if starts.len() > room && room < self.settings.changes_most {
                continue;
            }
            room = room.saturating_sub(starts.len());
            let claimed = |start: &Start| {
                self.claim_for_start(&observed.jobs[start.job][start.worker as usize], &observed.nodes[start.node], at)
            };
            if starts.iter().map(claimed).filter(|is_claimed| !is_claimed).count() > 0 {
                continue;
            }
            for Start { job, worker, node, alternative, reason } in starts.iter().cloned() {
                let id = observed.jobs[job][worker as usize].clone();
                self.begin_start(&id, &observed.nodes[node], alternative, &reason, at);
            }
        }
        for Move { job, worker, to, reason, .. } in plan.moves {
            if room == 0 {
                break;
            }
            room -= 1;
            let id = observed.jobs[job][worker as usize].clone();
            let why = self.in_words(&reason, observed);
            self.begin_move(&id, &observed.nodes[to], &why, at);
        }
        for id in plan.settled.into_iter().flat_map(|job| observed.jobs[job].clone()) {
            self.count_as_moved(&id, at);
        }
    }

    fn begin_start(
        &mut self,
        id: &ServiceId,
        node: &NodeId,
        alternative: Option<usize>,
        reason: &ClusterReason,
        at: At,
    ) {
        let Some(seen) = self.seen.get(id).filter(|seen| seen.memory.pending.is_none()) else { return };
        let Ok(job) = &seen.job else { return };
        if job.record.phase != JobPhase::Waiting || !seen.memory.is_startable {
            return;
        }
        let past = past_of(&seen.tasks).into_iter();
        let mut write = if job.needs_carriage(node) { job.carry(node, past) } else { job.start(node, past) };
        write.record.why = Some(reason.to_string().into());
        write.record.alternative = alternative;
        self.write(id, write, None, at);
    }

    /// Whether a job is recorded as the owner of its saved state, from which it starts on a node; requests that if not.
    fn claim_for_start(&mut self, id: &ServiceId, node: &NodeId, at: At) -> bool {
        let Some(seen) = self.seen.get(id).filter(|seen| seen.memory.pending.is_none()) else { return true };
        let Ok(job) = seen.job.clone() else { return true };
        let home = job.record.home.clone().filter(|_| job.needs_carriage(node));
        match self.claim(id, &job, home.as_ref().unwrap_or(node), at) {
            Claimed::Yes => return true,
            Claimed::Asked(why) => self.set_why(id, WhyKind::InProgress, why),
            Claimed::No(why) => self.set_why(id, WhyKind::VolumeTaken, why),
        }
        false
    }

    fn begin_stop(&mut self, id: &ServiceId, reason: &ClusterReason, at: At) {
        let Some(seen) = self.seen.get(id).filter(|seen| seen.memory.pending.is_none()) else { return };
        let Ok(job) = &seen.job else { return };
        if !matches!(job.record.phase, JobPhase::Starting | JobPhase::Running) {
            return;
        }
        let write = job.fence(Goal::Queue, None, &reason.to_string(), self.units_of(id, job));
        self.write(id, write, None, at);
    }

    fn begin_move(&mut self, id: &ServiceId, to: &NodeId, why: &str, at: At) {
        let Some(seen) = self.seen.get(id).filter(|seen| seen.memory.pending.is_none()) else { return };
        let Ok(job) = &seen.job else { return };
        if job.record.phase != JobPhase::Running {
            return;
        }
        let write = job.fence(Goal::Move, Some(to.clone()), why, self.units_of(id, job));
        self.write(id, write, None, at);
    }

    /// SpeCon: counts a job that asked to move, but is best where it is, as moved.
    fn count_as_moved(&mut self, id: &ServiceId, at: At) {
        let Some(seen) = self.seen.get(id).filter(|seen| seen.memory.pending.is_none()) else { return };
        let Ok(job) = &seen.job else { return };
        let mut record = job.record.clone();
        record.moves += 1;
        let text = "converged; stays because its node is the best".to_owned();
        self.write(id, Write { record, spec: Spec::Keep, text }, None, at);
    }

    /// Adds to the reason why a job waits that it failed to start on some nodes, which it avoids for a time.
    fn after_failures(&self, id: &ServiceId, text: String, at: At) -> String {
        let Some(seen) = self.seen.get(id) else { return text };
        let Some(job) = seen.job.as_ref().ok().filter(|job| self.is_held(seen, job, at)) else { return text };
        let (Some(mark), Some(retry_at)) = (&job.record.mark, job.record.retry_at) else { return text };
        let seconds = retry_at.since(at.unix).as_secs_f64();
        format!("it {mark}; that node is tried again in {seconds:.0} s; meanwhile {text}")
    }

    /// Says of the waiting workers of running jobs that their jobs run without them.
    fn tell_spare_workers(&mut self, observed: &Observed) {
        for (job, workers) in observed.observation.jobs.iter().zip(&observed.jobs) {
            let is_placed = |number: usize| job.placed.iter().any(|worker| worker.number as usize == number);
            for (_, id) in
                workers.iter().enumerate().filter(|(number, _)| !job.placed.is_empty() && !is_placed(*number))
            {
                let (running, all) = (job.placed.len(), workers.len());
                let text = format!(
                    "its gang runs with {running} of {all} workers; it starts when no waiting job needs the room"
                );
                self.set_why(id, WhyKind::Gang, text);
            }
        }
    }

    /// Formats a reason with the names that it refers to.
    fn in_words(&self, reason: &ClusterReason, observed: &Observed) -> String {
        let about = match reason {
            ClusterReason::NotOvertaking { ahead } => observed.observation.jobs.get(*ahead),
            _ => None,
        };
        match about {
            Some(job) => format!("{reason}: {}", job.name),
            None => reason.to_string(),
        }
    }

    /// Ends SpeCon's interval when it is due, and categorises all jobs.
    pub(super) fn categorise(&mut self, at: At) {
        if at.now.since(self.categorised) < self.settings.cluster.specon_interval {
            return;
        }
        self.categorised = at.now;
        let threshold = self.settings.cluster.specon_threshold;
        for monitor in self.seen.values_mut().filter_map(|seen| seen.memory.monitor.as_mut()) {
            monitor.categorise(at.unix, threshold);
            // It asks until the next interval ends: a later plan may be too late.
            self.has_news |= monitor.convergence().asks;
        }
    }

    /// Passes new evaluations of a report to SpeCon's monitors.
    pub(super) fn evaluate(&mut self, node: &NodeId, report: &NodeReport, at: At) {
        let before = self.nodes.get(node).and_then(|seen| seen.report.as_ref()).map(|(_, before)| before);
        let is_news = |worker: &&WorkerReport| {
            let known = before.and_then(|before| before.workers.iter().find(|known| known.service == worker.service));
            known.is_none_or(|known| (known.units, known.value) != (worker.units, worker.value))
        };
        let news: Vec<(ServiceId, f64)> = report
            .workers
            .iter()
            .filter(is_news)
            .filter_map(|worker| Some((worker.service.clone(), worker.value?)))
            .collect();
        for (id, value) in news {
            if let Some(seen) = self.seen.get_mut(&id) {
                seen.memory.monitor.get_or_insert_with(|| Monitor::new(at.unix)).evaluate(value);
            }
        }
    }
}
