//! One schedule of submissions on one cluster, from the first to the last end.
//!
//! Order within one instant: what happens on nodes, submissions, ends of moves and stops, the plan. A plan follows each submission, each end
//! and each finished move, and comes once in an interval besides; never more often than [`Costs::plan_every_s`]. Imports: model, policy.

use super::fleet::{Fleet, Starting};
use super::job::{JobRun, Seat, Stage, Training};
use super::submission::Submission;
use super::variant::ClusterVariant;
use super::view::View;
use crate::model::cluster::{ClusterPlan, Move, Start, Stop};
use crate::policy::cluster::{check, plan};
use crate::sim::random::Stream;
use crate::sim::scenario::NodeShape;
use std::collections::{BTreeMap, BTreeSet};

/// What acts of the cluster cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Seconds from a job's stop on one node to its start on another: stop, carry and start.
    pub move_s: f64,
    /// Seconds for which a worker that stops keeps its room.
    pub stop_s: f64,
    /// Least seconds between two plans.
    pub plan_every_s: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Costs { move_s: 10.0, stop_s: 5.0, plan_every_s: 0.0 }
    }
}

/// What came of one schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterOutcome {
    /// Seconds from each submission to its end.
    pub completions_s: Vec<f64>,
    /// Seconds from each submission to 95 % of its true final improvement.
    pub qualities_s: Vec<f64>,
    /// Seconds from the first submission to the last end.
    pub makespan_s: f64,
    /// Moves begun.
    pub moves: usize,
    /// Plans made.
    pub plans: u64,
    /// Where workers trained, in the order of their starts.
    pub stays: Vec<Stay>,
}

/// A worker's training on one node, without interruption.
#[derive(Clone, Debug, PartialEq)]
pub struct Stay {
    /// The number of its submission.
    pub job: usize,
    /// Which of the job's workers.
    pub worker: u32,
    /// Where.
    pub node: usize,
    /// From when to when, in seconds.
    pub span_s: (f64, f64),
}

/// Runs the submissions, which are ordered by their time.
///
/// # Errors
/// A plan that must not be carried out, or jobs that wait for ever.
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

/// The stream from which parts of resized jobs are drawn.
const REDRAWN: u64 = 1 << 48;

struct World<'a> {
    fleet: Fleet,
    view: View,
    jobs: Vec<JobRun<'a>>,
    /// Jobs that were submitted and have not ended.
    active: BTreeSet<usize>,
    submissions: &'a [Submission],
    next: usize,
    /// Moves and stops under way, in order of their ends: (microsecond, job, worker).
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
    /// By job and worker: the last stay.
    training: BTreeMap<(usize, u32), usize>,
}

impl World<'_> {
    fn run(&mut self) -> Result<(), String> {
        while self.next < self.submissions.len() || !self.active.is_empty() {
            let node = self.fleet.next_s();
            let submitted = self.submissions.get(self.next).map_or(f64::INFINITY, |next| next.job.plan.start_s);
            let ending = self.endings.first().map_or(f64::INFINITY, |(at, _, _)| *at as f64 / 1e6);
            let at = node.min(submitted).min(ending).min(self.plan_at);
            if at.is_infinite() || (self.fleet_is_idle() && submitted.is_infinite() && self.is_waiting_in_vain()) {
                return Err(self.in_vain());
            }
            self.now = at.max(self.now);
            if node <= at {
                self.step();
            } else if submitted <= at {
                self.submit();
            } else if ending <= at {
                self.end_act();
            } else {
                self.decide()?;
            }
        }
        Ok(())
    }

    fn step(&mut self) {
        let Some(((job, worker), node, number)) = self.fleet.step() else { return };
        let state = self.fleet.node(node).state(number);
        let (quality_at, work) = (state.quality_at, self.submissions[job].job.whole_work());
        self.leaves(job, worker);
        self.jobs[job].note_quality(quality_at);
        if self.jobs[job].worker_ended(worker) {
            self.jobs[job].end(self.now);
            self.view.ended(work, self.now);
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

    /// A move has arrived, or a worker that was stopped is gone.
    fn end_act(&mut self) {
        let Some((_, job, worker)) = self.endings.pop_first() else { return };
        if let Some((node, carried)) = self.jobs[job].arrive(worker) {
            let number = self.fleet.start(node, (job, worker), Starting::Carried(Box::new(carried)), self.now);
            self.trains_at(job, worker, node, number);
        }
        self.view.changed(self.now);
        self.plan_soon();
    }

    fn trains_at(&mut self, job: usize, worker: u32, node: usize, number: usize) {
        self.jobs[job].is_at(worker, node, number);
        let last = self.training.get(&(job, worker)).map(|stay| &mut self.stays[*stay]);
        // It was paused for this instant only, to divide what is left.
        if let Some(stay) = last.filter(|stay| stay.node == node && stay.span_s.1 == self.now) {
            stay.span_s.1 = f64::INFINITY;
            return;
        }
        self.training.insert((job, worker), self.stays.len());
        self.stays.push(Stay { job, worker, node, span_s: (self.now, f64::INFINITY) });
    }

    /// It trains no more where it did.
    fn leaves(&mut self, job: usize, worker: u32) {
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
            return Err(format!("the plan at {} s must not be carried out: {violation:?}", self.now));
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
        // What the workers of a resized job have left is divided anew.
        scaled.iter().for_each(|job| self.pause(*job));
        plan.stops.iter().for_each(|stop| self.stop(stop));
        plan.starts.iter().for_each(|start| self.seat(start));
        scaled.iter().for_each(|job| self.resume(*job));
        plan.moves.iter().for_each(|moved| self.begin_move(moved));
        plan.settled.iter().for_each(|job| self.jobs[self.view.job(*job)].moves += 1);
        if !scaled.is_empty() {
            self.view.changed(self.now);
        }
    }

    /// Stops all workers of a job and counts what is left of it.
    fn pause(&mut self, job: usize) {
        let mut left = 0.0;
        let workers = self.jobs[job].workers();
        for (worker, seat) in self.jobs[job].seats() {
            let Seat { node, stage: Stage::Training(Training { number, .. }) } = seat else { continue };
            let Some(carried) = self.fleet.stop(node, number, self.now) else { continue };
            left += carried.left();
            self.jobs[job].note_quality(carried.quality_at());
            self.jobs[job].idle(worker);
            self.leaves(job, worker);
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

    fn seat(&mut self, start: &Start) {
        self.jobs[self.view.job(start.job)].seat(start.worker, start.node);
    }

    /// Starts all seated workers of a job with their parts of what is left.
    fn resume(&mut self, job: usize) {
        let workers = self.jobs[job].workers();
        let left = self.jobs[job].left;
        for (worker, seat) in self.jobs[job].seats() {
            if let Seat { node, stage: Stage::Idle } = seat {
                let part = self.submissions[job].part(left, workers, &mut self.draws);
                let number = self.fleet.start(node, (job, worker), Starting::Anew(part), self.now);
                self.trains_at(job, worker, node, number);
            }
        }
    }

    fn begin_move(&mut self, moved: &Move) {
        let job = self.view.job(moved.job);
        let seat = self.jobs[job].seats().into_iter().find(|(worker, _)| *worker == moved.worker);
        let Some((_, Seat { node, stage: Stage::Training(Training { number, .. }) })) = seat else { return };
        let Some(carried) = self.fleet.stop(node, number, self.now) else { return };
        self.jobs[job].leave(moved.worker, moved.to, carried);
        self.leaves(job, moved.worker);
        self.jobs[job].moves += 1;
        self.moves += 1;
        self.endings.insert((micros(self.now + self.costs.move_s), job, moved.worker));
    }

    fn fleet_is_idle(&mut self) -> bool {
        self.fleet.next_s().is_infinite() && self.endings.is_empty()
    }

    /// Whether a plan has been made since anything changed, and started nothing.
    fn is_waiting_in_vain(&self) -> bool {
        self.now > self.view.changed_s() + IN_VAIN_S && self.jobs.iter().all(|job| job.workers() == 0)
    }

    fn in_vain(&self) -> String {
        let waiting: Vec<&str> =
            self.active.iter().take(3).map(|job| self.submissions[*job].job.plan.name.as_str()).collect();
        format!(
            "{} jobs wait for ever ({}): what they reserve is more than any node has; give them less, or larger nodes",
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

/// Nothing happens any more after so many seconds without a change.
const IN_VAIN_S: f64 = 86_400.0;

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).ceil() as u64
}
