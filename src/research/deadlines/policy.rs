//! The policies by name, and the parallel evaluation of random constructions.

use policy::cluster::deadlines::{
    Board, Draft, MOST_JOBS, Plan, Queue, Rule, Situation, baseline, exact, merge, split,
};
use std::str::FromStr;
use std::thread;

/// All policies: name and description.
pub const POLICIES: &[(&str, &str)] = &[
    ("greedy", "by pressure, each job in the configuration that costs least at the price of a scarce GPU"),
    ("random", "the best of many randomised greedy constructions"),
    ("random-thesis", "the same with the rule of greedy-thesis"),
    ("local", "local search from the best of these"),
    ("hierarchical", "randomised greedy by several controllers, each with a part of the jobs and nodes"),
    ("hierarchical-thesis", "the same with the rule of greedy-thesis"),
    (
        "greedy-thesis",
        "by pressure, each job in the cheapest configuration that meets its deadline, else in the fastest",
    ),
    ("fifo", "one job per node, first come, first served"),
    ("edf", "one job per node, earliest deadline first"),
    ("edf-packed", "jobs share nodes, earliest deadline first"),
    ("priority", "one job per node, largest weight first"),
    ("exact", "the optimum of each step, for at most ten jobs at a time"),
];

/// Number of plans from which local search starts.
const ELITE: usize = 2;

/// Number of constructions that justifies a thread, counted in jobs placed.
const WORTH_A_THREAD: u64 = 20_000;

/// Number of jobs from which on each search gets a thread.
const WORTH_A_THREAD_EACH: usize = 50;

/// A method of deciding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// One construction.
    Greedy(Rule),
    /// Many constructions.
    Random(Rule),
    /// Many constructions, then local search.
    Local,
    /// Many constructions by several controllers.
    Hierarchical(Rule),
    /// A baseline without forecasts.
    Baseline(Queue),
    /// The optimum of the step.
    Exact,
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(name: &str) -> Result<Policy, String> {
        Ok(match name {
            "greedy" => Policy::Greedy(Rule::Scarcity),
            "greedy-thesis" => Policy::Greedy(Rule::Thesis),
            "random" => Policy::Random(Rule::Scarcity),
            "random-thesis" => Policy::Random(Rule::Thesis),
            "local" => Policy::Local,
            "hierarchical" => Policy::Hierarchical(Rule::Scarcity),
            "hierarchical-thesis" => Policy::Hierarchical(Rule::Thesis),
            "fifo" => Policy::Baseline(Queue::Fifo),
            "edf" => Policy::Baseline(Queue::Edf),
            "edf-packed" => Policy::Baseline(Queue::PackedEdf),
            "priority" => Policy::Baseline(Queue::Priority),
            "exact" => Policy::Exact,
            _ => {
                let known: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
                return Err(format!("unknown policy `{name}`; expected one of {}", known.join(", ")));
            }
        })
    }
}

/// A policy with its parameters and its seed.
#[derive(Clone, Copy, Debug)]
pub struct Solver {
    /// The policy.
    pub policy: Policy,
    /// Random constructions per step.
    pub constructions: u64,
    /// Number of controllers of the hierarchical method.
    pub controllers: usize,
    /// Seed of all random draws.
    pub seed: u64,
    /// Maximum number of threads; results do not depend on it.
    pub threads: usize,
}

impl Solver {
    /// Returns the plan of step number `step`.
    ///
    /// # Errors
    /// More jobs at a time than the exact policy supports.
    pub fn plan(&self, situation: &Situation<'_>, step: u64) -> Result<Plan, String> {
        let seed = self.seed.wrapping_mul(0x9E37_79B9).wrapping_add(step);
        Ok(match self.policy {
            Policy::Baseline(queue) => baseline(situation, queue),
            Policy::Greedy(rule) => {
                let board = Board::new(situation, rule);
                board.plan(&board.greedy())
            }
            Policy::Random(rule) => self.random(situation, rule, seed),
            Policy::Local => {
                let board = Board::new(situation, Rule::Scarcity);
                let elite = self.elite(&board, seed, ELITE);
                let improve = |(_, draft): &(f64, Draft)| {
                    let draft = board.improve(draft);
                    (board.cost(&draft), draft)
                };
                let costs = if self.threads > 1 && situation.jobs.len() > WORTH_A_THREAD_EACH {
                    thread::scope(|scope| {
                        let running: Vec<_> = elite.iter().map(|one| scope.spawn(move || improve(one))).collect();
                        running.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>()
                    })
                } else {
                    elite.iter().map(improve).collect()
                };
                let best = costs.into_iter().min_by(|(one, _), (other, _)| one.total_cmp(other));
                best.map_or_else(|| board.plan(&board.greedy()), |(_, draft)| board.plan(&draft))
            }
            Policy::Hierarchical(rule) => self.hierarchical(situation, rule, seed),
            Policy::Exact => {
                let board = Board::new(situation, Rule::Scarcity);
                let draft = exact(&board).ok_or_else(|| {
                    let jobs = situation.jobs.len();
                    format!(
                        "exact: {jobs} jobs at a time, but at most {MOST_JOBS} are supported; leave it out of --policy"
                    )
                })?;
                board.plan(&draft)
            }
        })
    }

    fn random(&self, situation: &Situation<'_>, rule: Rule, seed: u64) -> Plan {
        let board = Board::new(situation, rule);
        let best = self.elite(&board, seed, 1).into_iter().next();
        best.map_or_else(|| board.plan(&board.greedy()), |(_, draft)| board.plan(&draft))
    }

    fn hierarchical(&self, situation: &Situation<'_>, rule: Rule, seed: u64) -> Plan {
        let parts = split(situation, self.controllers).into_iter().map(|part| {
            let (nodes, fixed, jobs) = (part.nodes_of(situation), part.fixed_of(situation), part.jobs_of(situation));
            let own = Situation { nodes: &nodes, fixed: &fixed, jobs: &jobs, ..situation.clone() };
            let plan = self.random(&own, rule, seed);
            (part, plan)
        });
        merge(situation, &parts.collect::<Vec<_>>())
    }

    /// Returns the cheapest constructions with their costs, including the greedy one; independent of the number of threads.
    fn elite(&self, board: &Board<'_>, seed: u64, count: usize) -> Vec<(f64, Draft)> {
        let greedy = board.greedy();
        let work = self.constructions * greedy.places.len() as u64;
        let threads = (self.threads as u64).min(1 + work / WORTH_A_THREAD).max(1);
        let mut elite = vec![(board.cost(&greedy), 0, greedy)];
        if threads == 1 {
            elite.extend(best_of(board, seed, count, 0..self.constructions));
        } else {
            let share = self.constructions.div_ceil(threads);
            let ranges = (0..threads)
                .map(|part| (part * share).min(self.constructions)..((part + 1) * share).min(self.constructions));
            elite.extend(thread::scope(|scope| {
                let running: Vec<_> =
                    ranges.map(|range| scope.spawn(move || best_of(board, seed, count, range))).collect();
                running.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect::<Vec<_>>()
            }));
        }
        elite.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        elite.truncate(count);
        elite.into_iter().map(|(cost, _, draft)| (cost, draft)).collect()
    }
}

/// Returns the cheapest of some constructions: cost, number (the greedy one is 0), draft.
fn best_of(board: &Board<'_>, seed: u64, count: usize, range: std::ops::Range<u64>) -> Vec<(f64, u64, Draft)> {
    let mut best: Vec<(f64, u64, Draft)> = Vec::with_capacity(count + 1);
    for number in range {
        let draft = board.construction(seed, number);
        let cost = board.cost(&draft);
        if best.len() < count || best.last().is_some_and(|(worst, ..)| cost < *worst) {
            let at = best.partition_point(|(other, ..)| *other <= cost);
            best.insert(at, (cost, number + 1, draft));
            best.truncate(count);
        }
    }
    best
}
