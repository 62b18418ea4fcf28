//! Requests moves and records the outcome of each.

use super::jobs::{Trials, node_of};
use super::swarm::{NODES, Swarm};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Faults may delay a single move; the bench fails when no move at all was accepted for this long.
const STUCK: Duration = Duration::from_secs(600);

pub struct Moves {
    rng: ChaCha8Rng,
    under_way: BTreeMap<String, Move>,
    result: Outcome,
}

struct Move {
    to: usize,
    requested: Instant,
}

/// How the moves ended, as counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub asked: usize,
    /// The job runs on the requested node.
    pub done: usize,
    /// It runs on another node, and its mark gives the reason.
    pub rolled_back: usize,
    /// It waits with a reason.
    pub waiting: usize,
    /// A user deleted, stopped or moved it in the meantime.
    pub ended_by_a_person: usize,
}

impl Outcome {
    pub fn is_complete(&self) -> bool {
        self.asked == self.done + self.rolled_back + self.waiting + self.ended_by_a_person
    }
}

impl Moves {
    pub fn new(seed: u64) -> Moves {
        Moves { rng: ChaCha8Rng::seed_from_u64(seed ^ 0x5eed), under_way: BTreeMap::new(), result: Outcome::default() }
    }

    /// Requests `wanted` moves, at most one per job at a time.
    pub fn request_all(&mut self, swarm: &Swarm, trials: &Trials, wanted: usize) {
        let (began, mut latest) = (Instant::now(), Instant::now());
        while self.result.asked < wanted {
            std::thread::sleep(Duration::from_millis(300));
            swarm.restart_ended();
            let jobs = swarm.jobs();
            self.follow(&jobs);
            for name in trials.names() {
                let Some(node) = jobs.get(&name).filter(|job| job["state"] == "running").and_then(node_of) else {
                    continue;
                };
                if self.under_way.contains_key(&name) || self.result.asked >= wanted {
                    continue;
                }
                let others: Vec<usize> = NODES.into_iter().filter(|&other| other != node).collect();
                let to = others[self.rng.random_range(0..others.len())];
                if swarm.succeeds(&["move", &name, &format!("node-{to}")]) {
                    latest = Instant::now();
                    self.under_way.insert(name, Move { to, requested: latest });
                    self.result.asked += 1;
                    if self.result.asked.is_multiple_of(10) {
                        println!("{:>5.0} s  {:?}", began.elapsed().as_secs_f64(), self.result);
                    }
                }
            }
            assert!(latest.elapsed() < STUCK, "no job can be moved any more: {jobs:?}");
        }
    }

    /// Records the moves that have ended.
    pub fn follow(&mut self, jobs: &BTreeMap<String, Value>) {
        if jobs.is_empty() {
            return;
        }
        let result = &mut self.result;
        self.under_way.retain(|name, pending| {
            let Some(job) = jobs.get(name) else {
                result.ended_by_a_person += 1;
                return false;
            };
            // Until the coordinator has started the move, the status still shows the job running on the old node.
            if job["state"] != "running" || pending.requested.elapsed() < Duration::from_secs(3) {
                return true;
            }
            match node_of(job) {
                Some(node) if node == pending.to => result.done += 1,
                _ if job["mark"].as_str().is_some_and(|mark| !mark.is_empty()) => result.rolled_back += 1,
                _ => result.ended_by_a_person += 1,
            }
            false
        });
    }

    /// The final counts, after all jobs have settled.
    pub fn result(&mut self, jobs: &BTreeMap<String, Value>) -> Outcome {
        self.follow(jobs);
        let mut result = self.result;
        result.waiting = self
            .under_way
            .keys()
            .filter(|name| {
                jobs.get(*name).is_some_and(|job| job["why"]["text"].as_str().is_some_and(|why| !why.is_empty()))
            })
            .count();
        result
    }
}
