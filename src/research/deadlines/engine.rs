//! Virtual time: the policy decides at each arrival and each completion.
//!
//! Semantics of the published simulator: remaining work is a fraction of the job, so that type and number of GPUs may change; at most one
//! arrival is handled per event; without active jobs, time jumps to the next arrival. Costs: for each interval the price of each open node,
//! and at each end the weight for each second after the deadline. A job that is moved, stopped or resized makes no progress for the restart
//! cost.

use super::instance::Instance;
use super::policy::Solver;
use policy::cluster::deadlines::{Assignment, Plan, Situation, SubmittedJob, check};
use std::time::{Duration, Instant};

/// Times closer than this (in seconds) count as equal.
const SAME_TIME_S: f64 = 1e-6;

/// Result of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Price of the nodes while they were open.
    pub vm_cost: f64,
    /// Σ weight × seconds after the deadline.
    pub tardiness_cost: f64,
    /// Jobs that ended after their deadline.
    pub late_jobs: usize,
    /// End of each job in seconds, in the instance's order.
    pub ends_s: Vec<f64>,
    /// Number of times that a running job was moved, stopped or resized.
    pub restarts: u64,
    /// Number of decisions.
    pub steps: u64,
    /// Time spent on decisions on this machine.
    pub deciding: Duration,
}

/// A job that has been submitted.
struct Active {
    job: usize,
    left: f64,
    place: Option<Assignment>,
    started: bool,
    owed_s: f64,
}

/// The cluster between two decisions.
struct Cluster<'a> {
    instance: &'a Instance,
    restart_s: f64,
    now_s: f64,
    next: usize,
    active: Vec<Active>,
    nodes: Vec<Option<usize>>,
    outcome: Outcome,
}

/// Runs all jobs of an instance.
///
/// # Errors
/// A failure of the policy, or a plan that breaks a rule.
pub fn simulate(instance: &Instance, solver: &Solver, restart_s: f64) -> Result<Outcome, String> {
    let mut cluster = Cluster {
        instance,
        restart_s,
        now_s: 0.0,
        next: 0,
        active: Vec::new(),
        nodes: vec![None; instance.nodes],
        outcome: Outcome {
            vm_cost: 0.0,
            tardiness_cost: 0.0,
            late_jobs: 0,
            ends_s: vec![f64::NAN; instance.jobs.len()],
            restarts: 0,
            steps: 0,
            deciding: Duration::ZERO,
        },
    };
    while cluster.arrival() {
        let plan = cluster.decide(solver)?;
        cluster.carry_out(&plan);
        cluster.advance();
    }
    Ok(cluster.outcome)
}

impl Cluster<'_> {
    /// Handles the next arrival if it is due or no job is active; returns false when all jobs have ended.
    fn arrival(&mut self) -> bool {
        if let Some(job) = self.instance.jobs.get(self.next) {
            if self.active.is_empty() {
                self.now_s = self.now_s.max(job.submit_s);
            }
            if job.submit_s <= self.now_s + SAME_TIME_S {
                self.active.push(Active { job: self.next, left: 1.0, place: None, started: false, owed_s: 0.0 });
                self.next += 1;
            }
        }
        !self.active.is_empty()
    }

    fn decide(&mut self, solver: &Solver) -> Result<Plan, String> {
        let view = |active: &Active| {
            let job = &self.instance.jobs[active.job];
            SubmittedJob {
                times: &job.times,
                left: active.left,
                number: active.job,
                deadline_s: job.deadline_s,
                weight: job.weight,
                place: active.place,
                started: active.started,
                owed_s: active.owed_s,
            }
        };
        let jobs: Vec<SubmittedJob<'_>> = self.active.iter().map(view).collect();
        let situation = Situation {
            now_s: self.now_s,
            catalogue: &self.instance.catalogue,
            nodes: &self.nodes,
            fixed: &[],
            jobs: &jobs,
            restart_s: self.restart_s,
        };
        let start = Instant::now();
        let plan = solver.plan(&situation, self.outcome.steps)?;
        self.outcome.deciding += start.elapsed();
        self.outcome.steps += 1;
        match check(&situation, &plan).as_slice() {
            [] => Ok(plan),
            wrong => Err(format!("{}: the plan at {} s breaks a rule: {wrong:?}", self.instance.name, self.now_s)),
        }
    }

    fn carry_out(&mut self, plan: &Plan) {
        for (active, place) in self.active.iter_mut().zip(&plan.places) {
            let same_node = |place: Assignment| plan.nodes[place.node] == self.nodes[place.node];
            let is_unchanged = active.place.is_some() && active.place == *place && active.place.is_some_and(same_node);
            if !is_unchanged && active.place.is_some() {
                self.outcome.restarts += 1;
            }
            if !is_unchanged && place.is_some() {
                active.owed_s = if active.started { self.restart_s } else { 0.0 };
            }
            active.started |= place.is_some();
            active.place = *place;
        }
        self.nodes.clone_from(&plan.nodes);
    }

    /// Advances time to the first end or the next arrival.
    fn advance(&mut self) {
        let left: Vec<(f64, f64)> = self.active.iter().map(|active| self.seconds(active)).collect();
        let first_end = left.iter().map(|(owed, seconds)| owed + seconds).fold(f64::INFINITY, f64::min);
        let submitted = self.instance.jobs.get(self.next).map_or(f64::INFINITY, |job| job.submit_s);
        let passed = first_end.min((submitted - self.now_s).max(0.0));
        for node_type in self.nodes.iter().flatten() {
            self.outcome.vm_cost += self.instance.catalogue.price_per_s(*node_type) * passed;
        }
        self.now_s += passed;
        let mut still = Vec::with_capacity(self.active.len());
        for (mut active, (owed, seconds)) in self.active.drain(..).zip(left) {
            if owed + seconds > passed + SAME_TIME_S {
                if seconds.is_finite() {
                    active.owed_s = (owed - passed).max(0.0);
                    active.left *= 1.0 - (passed - owed).max(0.0) / seconds;
                }
                still.push(active);
                continue;
            }
            let job = &self.instance.jobs[active.job];
            let late_s = (self.now_s - job.deadline_s).max(0.0);
            self.outcome.ends_s[active.job] = self.now_s;
            self.outcome.tardiness_cost += job.weight * late_s;
            self.outcome.late_jobs += usize::from(late_s > 0.0);
        }
        self.active = still;
    }

    /// Seconds of restart and of work ahead of a job at its place; infinite if it waits.
    fn seconds(&self, active: &Active) -> (f64, f64) {
        let seconds = active.place.and_then(|place| {
            let gpu = self.instance.catalogue.nodes()[self.nodes[place.node]?].gpu;
            self.instance.jobs[active.job].times.seconds(gpu, place.gpus)
        });
        (active.owed_s, seconds.map_or(f64::INFINITY, |seconds| seconds * active.left))
    }
}
