//! Reference rules on one node: they divide the cores with perfect knowledge of the jobs.

use super::state::State;
use crate::job::Job;
use crate::variant::Rule;
use model::sharing::{Claim, water_fill};
use std::sync::Arc;

/// Every job keeps at least this part of the node under [`Rule::Oracle`].
const ORACLE_FLOOR: f64 = 0.03;

/// Attained services that differ by less than this (core-seconds) count as equal.
const EQUAL_SERVICE: f64 = 1e-6;

/// A reference rule and its buffer.
pub(super) struct Ruled {
    rule: Rule,
    order: Vec<usize>,
}

impl Ruled {
    pub(super) fn new(rule: Rule) -> Ruled {
        Ruled { rule, order: Vec::new() }
    }

    /// Divides `cores` among the `running` jobs; returns for how many seconds this division holds without another event.
    pub(super) fn share_out(
        &mut self,
        cores: f64,
        jobs: &[Arc<Job>],
        states: &[State],
        running: &[usize],
        claims: &mut [Claim],
        shares: &mut Vec<f64>,
    ) -> f64 {
        let job = |at: usize| &jobs[running[at]];
        let state = |at: usize| &states[running[at]];
        match self.rule {
            Rule::Fair => water_fill(cores, claims, shares),
            Rule::Fifo => self.first(cores, claims, shares, |at| job(at).plan.start_s),
            Rule::Srpt => self.first(cores, claims, shares, |at| job(at).whole_work() - state(at).done),
            Rule::Edf => self.first(cores, claims, shares, |at| {
                job(at).plan.deadline_s.map_or(f64::INFINITY, |deadline| job(at).plan.start_s + deadline)
            }),
            Rule::Las => return self.least_attained(cores, claims, shares, |at| state(at).cpu),
            Rule::Oracle(completion) => {
                self.first(cores, claims, shares, |at| -credit_per_work(job(at), state(at), completion));
                if let Some(&best) = self.order.first() {
                    favour(best, claims);
                    water_fill(cores, claims, shares);
                }
            }
        }
        f64::INFINITY
    }

    /// Strict priority by the least `key`; ties in order of start.
    fn first(&mut self, cores: f64, claims: &[Claim], shares: &mut Vec<f64>, key: impl Fn(usize) -> f64) {
        self.order.clear();
        self.order.extend(0..claims.len());
        self.order.sort_by(|a, b| key(*a).total_cmp(&key(*b)));
        in_order(cores, claims, &self.order, shares);
    }

    /// Least attained service first: jobs with the least service share evenly; what they cannot use goes to the jobs with the next least
    /// service, and so on. Holds until one job catches up with the next.
    fn least_attained(
        &mut self,
        cores: f64,
        claims: &[Claim],
        shares: &mut Vec<f64>,
        attained: impl Fn(usize) -> f64,
    ) -> f64 {
        self.order.clear();
        self.order.extend(0..claims.len());
        self.order.sort_by(|a, b| attained(*a).total_cmp(&attained(*b)));
        shares.clear();
        shares.resize(claims.len(), 0.0);
        let (mut left, mut begin) = (cores, 0);
        let mut level = Vec::new();
        while begin < self.order.len() {
            let least = attained(self.order[begin]);
            let end = self.order.partition_point(|at| attained(*at) <= least + EQUAL_SERVICE);
            let group: Vec<Claim> = self.order[begin..end].iter().map(|at| claims[*at]).collect();
            water_fill(left, &group, &mut level);
            for (at, share) in self.order[begin..end].iter().zip(&level) {
                shares[*at] = *share;
                left = (left - share).max(0.0);
            }
            begin = end;
        }
        let catch_up = self.order.windows(2).filter_map(|pair| {
            let closing = shares[pair[0]] - shares[pair[1]];
            let gap = attained(pair[1]) - attained(pair[0]);
            (closing > 0.0 && gap > EQUAL_SERVICE).then_some(gap / closing)
        });
        catch_up.fold(f64::INFINITY, f64::min)
    }
}

/// Divides `capacity` in the given order: each claim gets all that it can use before the next one gets any.
fn in_order(capacity: f64, claims: &[Claim], order: &[usize], shares: &mut Vec<f64>) {
    shares.clear();
    shares.resize(claims.len(), 0.0);
    let mut left = capacity;
    for &next in order {
        shares[next] = claims[next].cap.min(left);
        left -= shares[next];
    }
}

/// Smith's rule over milestones: the best credit per core-second of work to a milestone.
fn credit_per_work(job: &Job, state: &State, completion: f64) -> f64 {
    let to_end = 1.0 / (job.whole_work() - state.done).max(f64::MIN_POSITIVE);
    if !state.quality_at.is_nan() {
        return completion * to_end;
    }
    let to_quality = 1.0 / (job.quality_work - state.done).max(f64::MIN_POSITIVE);
    // Completion earns both credits, the one for quality on the way.
    (to_end).max((1.0 - completion) * to_quality)
}

/// Sets weights that give the floor to every job and the rest to the best.
fn favour(best: usize, claims: &mut [Claim]) {
    let others = claims.len() as f64 - 1.0;
    let floor = ORACLE_FLOOR.min(1.0 / claims.len() as f64);
    for (at, claim) in claims.iter_mut().enumerate() {
        claim.weight = if at == best { 1.0 - floor * others } else { floor };
    }
}
