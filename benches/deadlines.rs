//! The time of one decision of the policies for deadlines and cost, on 10 to 100 nodes.
//!
//! `cargo bench --bench deadlines` prints the time of a decision next to its target at 100 nodes: 0.4 ms for the greedy policy, 0.3 s for a
//! thousand randomised constructions, 0.3 s with local search (in the thesis: 3.8 ms, 3.04 s, 3.15 s). The instances are drawn as in its
//! evaluation: ten jobs per node, and a mean time between submissions of 30,000 s divided by the number of nodes. The decision measured
//! is the one with the most jobs.

use deadlines::{Instance, Solver, simulate};
use flowcon::policy::cluster::deadlines::{Situation, SubmittedJob, check};
use std::time::Instant;

const TARGETS_MS: [(&str, f64); 4] = [("greedy", 0.4), ("random", 300.0), ("local", 300.0), ("hierarchical", 300.0)];

fn main() {
    for nodes in [10, 25, 50, 100] {
        let instance = Instance::drawn(nodes, 0);
        let active = busiest_step(&instance);
        let open = vec![None; nodes];
        let jobs: Vec<SubmittedJob<'_>> = active
            .iter()
            .enumerate()
            .map(|(number, (job, left))| SubmittedJob {
                times: &instance.jobs[*job].times,
                left: *left,
                number,
                deadline_s: instance.jobs[*job].deadline_s,
                weight: instance.jobs[*job].weight,
                place: None,
                started: false,
                owed_s: 0.0,
            })
            .collect();
        let now_s = instance.jobs[active[active.len() - 1].0].submit_s;
        let situation =
            Situation { now_s, catalogue: &instance.catalogue, nodes: &open, fixed: &[], jobs: &jobs, restart_s: 0.0 };
        for (policy, target) in TARGETS_MS {
            let solver = solver(policy);
            let mut times: Vec<f64> = (0..if policy == "greedy" { 200 } else { 5 })
                .map(|step| {
                    let start = Instant::now();
                    let plan = solver.plan(&situation, step).expect("a policy without a limit");
                    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
                    assert_eq!(check(&situation, &plan), []);
                    milliseconds
                })
                .collect();
            times.sort_by(f64::total_cmp);
            let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
            let jobs = jobs.len();
            println!(
                "{nodes:>3} nodes, {jobs:>3} jobs, {policy:<12} median {median:>8.3} ms, worst {worst:>8.3} ms (target at 100 nodes {target} ms)"
            );
        }
    }
}

fn solver(policy: &str) -> Solver {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Solver { policy: policy.parse().expect("a known policy"), constructions: 1000, controllers: 4, seed: 1, threads }
}

/// The jobs at the decision that has the most of them, and the part of each that is left, from a run of the greedy policy.
fn busiest_step(instance: &Instance) -> Vec<(usize, f64)> {
    let ends = simulate(instance, &solver("greedy"), 0.0).expect("a run").ends_s;
    let active_at = |now: f64| {
        let active = instance
            .jobs
            .iter()
            .zip(&ends)
            .enumerate()
            .filter(move |(_, (job, end))| job.submit_s <= now && **end > now);
        active.map(move |(job, (submitted, end))| (job, (end - now) / (end - submitted.submit_s)))
    };
    let busiest = instance.jobs.iter().max_by_key(|job| active_at(job.submit_s).count()).expect("jobs");
    active_at(busiest.submit_s).collect()
}
