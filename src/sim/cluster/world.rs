//! Simulation of one schedule of submissions on one cluster, from the first submission to the last end.
//!
//! Order of simultaneous events: those of nodes, submissions, ends of moves and stops, the plan. A plan follows each submission, each end
//! and each finished move, and comes once per interval otherwise; never more often than [`Costs::plan_every_s`].

use super::fleet::{Fleet, Starting};
use super::job::{JobRun, Slot, SlotActivity, Training};
use super::submission::Submission;
use super::variant::ClusterVariant;
use super::view::View;
use crate::random::Stream;
use crate::scenario::NodeShape;
use model::cluster::{ClusterPlan, Move, Start, Stop};
use policy::cluster::{check, plan};
use std::collections::{BTreeMap, BTreeSet};

/// Cost of the cluster's actions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Seconds from a job's stop on one node to its start on another: stop, transfer and start.
    pub move_s: f64,
    /// Seconds for which a stopping worker keeps its resources.
    pub stop_s: f64,
    /// Least seconds between two plans.
    pub plan_every_s: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Costs { move_s: 10.0, stop_s: 5.0, plan_every_s: 0.0 }
    }
}

/// Result of one schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterOutcome {
    /// Seconds from each submission to its end.
    pub completions_s: Vec<f64>,
    /// Seconds from each submission to 95 % of its true final improvement.
    pub qualities_s: Vec<f64>,
    /// Seconds from the first submission to the last end.
    pub makespan_s: f64,
    /// Number of moves.
    pub moves: usize,
    /// Number of plans.
    pub plans: u64,
    /// Stays of workers on nodes, in the order of their starts.
    pub stays: Vec<Stay>,
}

/// A worker's uninterrupted training on one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Stay {
    /// Index of its submission.
    pub job: usize,
    /// The job's worker.
    pub worker: u32,
    /// The node.
    pub node: usize,
    /// Start and end, in seconds.
    pub span_s: (f64, f64),
}

/// Runs the submissions, which must be sorted by time.
///
/// # Errors
/// A plan that breaks a rule, or jobs that can never start.
pub fn simulate(
    nodes: usize,
    shape: NodeShape,
    submissions: &[Submission],
    variant: &ClusterVariant,
    costs: Costs,
    seed: u64,
) -> Result<ClusterOutcome, String> {
    let mut world = World {
        fleet: Fleet::new(nodes, shape, &variant.node),
        view: View::new(nodes, shape),
        jobs: submissions.iter().map(JobRun::new).collect(),
        active: BTreeSet::new(),
        submissions,
        next: 0,
        endings: BTreeSet::new(),
        variant,
        costs,
        plan_at: f64::INFINITY,
        planned_at: f64::NEG_INFINITY,
        now: 0.0,
        draws: Stream::new(seed, REDRAWN),
        moves: 0,
        plans: 0,
        last_end: 0.0,
        stays: Vec::new(),
        training: BTreeMap::new(),
    };
    world.run()?;
    Ok(world.outcome())
}

/// The random stream for the parts of resized jobs.
const REDRAWN: u64 = 1 << 48;

struct World<'a> {
    fleet: Fleet,
    view: View,
    jobs: Vec<JobRun<'a>>,
    /// Jobs that are submitted and have not ended.
    active: BTreeSet<usize>,
    submissions: &'a [Submission],
    next: usize,
    /// Moves and stops in progress, in order of their ends: (microsecond, job, worker).
    endings: BTreeSet<(u64, usize, u32)>,
    variant: &'a ClusterVariant,
    costs: Costs,
    plan_at: f64,
    planned_at: f64,
    now: f64,
    draws: Stream,
    moves: usize,
    plans: u64,
    last_end: f64,
    stays: Vec<Stay>,
    /// The last stay, by job and worker.
    training: BTreeMap<(usize, u32), usize>,
}

impl World<'_> {
    fn run(&mut self) -> Result<(), String> {
        while self.next < self.submissions.len() || !self.active.is_empty() {
            let node = self.fleet.next_s();
            let submitted = self.submissions.get(self.next).map_or(f64::INFINITY, |next| next.job.plan.start_s);
            let ending = self.endings.first().map_or(f64::INFINITY, |(at, _, _)| *at as f64 / 1e6);
            let at = node.min(submitted).min(ending).min(self.plan_at);
            if at.is_infinite() || (self.fleet_is_idle() && submitted.is_infinite() && self.is_stuck()) {
                return Err(self.stuck_error());
            }
            self.now = at.max(self.now);
            if node <= at {
                self.step();
            } else if submitted <= at {
                self.submit();
            } else if ending <= at {
                self.finish_action();
            } else {
                self.decide()?;
            }
        }
        Ok(())
    }

    fn step(&mut self) {
        let Some(((job, worker), node, number)) = self.fleet.step() else { return };
        let state = self.fleet.node(node).state(number);
        let quality_at = state.quality_at;
        self.end_stay(job, worker);
        self.jobs[job].note_quality(quality_at);
        if self.jobs[job].worker_ended(worker) {
            self.jobs[job].end(self.now);
            self.view.ended(&self.submissions[job], self.now);
            self.last_end = self.now;
            self.active.remove(&job);
        }
        self.plan_soon();
    }

    fn submit(&mut self) {
        self.active.insert(self.next);
        self.next += 1;
        self.view.changed(self.now);
        self.plan_soon();
    }

    /// Handles the end of a move or of a stop.
    fn finish_action(&mut self) {
        let Some((_, job, worker)) = self.endings.pop_first() else { return };
        if let Some((node, carried)) = self.jobs[job].arrive(worker) {
            let number = self.fleet.start(node, (job, worker), Starting::Carried(Box::new(carried)), self.now);
            self.begin_stay(job, worker, node, number);
        }
        self.view.changed(self.now);
        self.plan_soon();
    }

    fn begin_stay(&mut self, job: usize, worker: u32, node: usize, number: usize) {
        self.jobs[job].is_at(worker, node, number);
        let last = self.training.get(&(job, worker)).map(|stay| &mut self.stays[*stay]);
        // It was only paused at this instant, to divide the remaining work.
        if let Some(stay) = last.filter(|stay| stay.node == node && stay.span_s.1 == self.now) {
            stay.span_s.1 = f64::INFINITY;
            return;
        }
        self.training.insert((job, worker), self.stays.len());
        self.stays.push(Stay { job, worker, node, span_s: (self.now, f64::INFINITY) });
    }

    /// Ends the current stay of a worker.
    fn end_stay(&mut self, job: usize, worker: u32) {
        let Some(stay) = self.training.get(&(job, worker)) else { return };
        let end = &mut self.stays[*stay].span_s.1;
        *end = end.min(self.now);
    }

    fn plan_soon(&mut self) {
        let at = self.now.max(self.planned_at + self.costs.plan_every_s);
        self.plan_at = self.plan_at.min(at);
    }

    fn decide(&mut self) -> Result<(), String> {
        self.view.observe(self.now, &mut self.fleet, &mut self.jobs, &self.active, self.variant, self.costs.move_s);
        let observation = self.view.observation();
        let settings = &self.variant.cluster;
        let plan = plan(observation, settings);
        let violations = check(observation, settings, &plan);
        if let Some(violation) = violations.first() {
            return Err(format!("the plan at {} s breaks a rule: {violation:?}", self.now));
        }
        self.plans += 1;
        self.planned_at = self.now;
        let again = self.now + self.variant.interval.as_secs_f64().max(self.costs.plan_every_s);
        self.plan_at = if self.active.is_empty() { f64::INFINITY } else { again };
        self.carry_out(plan);
        Ok(())
    }

    fn carry_out(&mut self, plan: ClusterPlan) {
        let scaled = plan.starts.iter().map(|start| start.job).chain(plan.stops.iter().map(|stop| stop.job));
        let mut scaled: Vec<usize> = scaled.map(|job| self.view.job(job)).collect();
        scaled.sort_unstable();
        scaled.dedup();
        // The remaining work of a resized job is divided again among its workers.
        scaled.iter().for_each(|job| self.pause(*job));
        plan.stops.iter().for_each(|stop| self.stop(stop));
        plan.starts.iter().for_each(|start| self.reserve(start));
        scaled.iter().for_each(|job| self.resume(*job));
        plan.moves.iter().for_each(|moved| self.begin_move(moved));
        plan.settled.iter().for_each(|job| self.jobs[self.view.job(*job)].moves += 1);
        if !scaled.is_empty() {
            self.view.changed(self.now);
        }
    }

    /// Stops all workers of a job and computes its remaining work.
    fn pause(&mut self, job: usize) {
        let mut left = 0.0;
        let workers = self.jobs[job].workers();
        for (worker, slot) in self.jobs[job].slots() {
            let Slot { node, stage: SlotActivity::Training(Training { number, .. }) } = slot else { continue };
            let Some(carried) = self.fleet.stop(node, number, self.now) else { continue };
            left += carried.left();
            self.jobs[job].note_quality(carried.quality_at());
            self.jobs[job].idle(worker);
            self.end_stay(job, worker);
        }
        if workers > 0 {
            self.jobs[job].left = left / self.submissions[job].work(1.0, workers).max(f64::MIN_POSITIVE);
        }
    }

    fn stop(&mut self, stop: &Stop) {
        let job = self.view.job(stop.job);
        self.jobs[job].stop(stop.worker);
        self.endings.insert((micros(self.now + self.costs.stop_s), job, stop.worker));
    }

    fn reserve(&mut self, start: &Start) {
        self.jobs[self.view.job(start.job)].reserve(start.worker, start.node);
    }

    /// Starts all reserved workers of a job with their parts of the remaining work.
    fn resume(&mut self, job: usize) {
        let workers = self.jobs[job].workers();
        let left = self.jobs[job].left;
        for (worker, slot) in self.jobs[job].slots() {
            if let Slot { node, stage: SlotActivity::Idle } = slot {
                let part = self.submissions[job].part(left, workers, &mut self.draws);
                let number = self.fleet.start(node, (job, worker), Starting::Anew(part), self.now);
                self.begin_stay(job, worker, node, number);
            }
        }
    }

    fn begin_move(&mut self, moved: &Move) {
        let job = self.view.job(moved.job);
        let slot = self.jobs[job].slots().into_iter().find(|(worker, _)| *worker == moved.worker);
        let Some((_, Slot { node, stage: SlotActivity::Training(Training { number, .. }) })) = slot else { return };
        let Some(carried) = self.fleet.stop(node, number, self.now) else { return };
        self.jobs[job].leave(moved.worker, moved.to, carried);
        self.end_stay(job, moved.worker);
        self.jobs[job].moves += 1;
        self.moves += 1;
        self.endings.insert((micros(self.now + self.costs.move_s), job, moved.worker));
    }

    fn fleet_is_idle(&mut self) -> bool {
        self.fleet.next_s().is_infinite() && self.endings.is_empty()
    }

    /// Whether nothing can start any more: no change for a long time, and no job has workers.
    fn is_stuck(&self) -> bool {
        self.now > self.view.changed_s() + STUCK_AFTER_S && self.jobs.iter().all(|job| job.workers() == 0)
    }

    fn stuck_error(&self) -> String {
        let waiting: Vec<&str> =
            self.active.iter().take(3).map(|job| self.submissions[*job].job.plan.name.as_str()).collect();
        format!(
            "{} jobs can never start ({}): they reserve more than any node has; reduce their reservations or \
             use larger nodes",
            self.active.len(),
            waiting.join(", ")
        )
    }

    fn outcome(self) -> ClusterOutcome {
        let first = self.submissions.first().map_or(0.0, |first| first.job.plan.start_s);
        let since = |at: f64, submission: &Submission| at - submission.job.plan.start_s;
        let each = || self.jobs.iter().zip(self.submissions);
        ClusterOutcome {
            completions_s: each().map(|(job, submission)| since(job.end_s, submission)).collect(),
            qualities_s: each().map(|(job, submission)| since(job.quality_s, submission)).collect(),
            makespan_s: self.last_end - first,
            moves: self.moves,
            plans: self.plans,
            stays: self.stays,
        }
    }
}

/// The simulation counts as stuck after this many seconds without a change.
const STUCK_AFTER_S: f64 = 86_400.0;

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).ceil() as u64
}
