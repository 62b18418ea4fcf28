//! One step of the policies for deadlines and cost, at 10 to 100 nodes.
//!
//! `cargo bench --bench deadlines` prints the time of a decision beside its target: at 100 nodes the greedy policy in 0.4 ms, a thousand
//! randomised constructions in 0.3 s, with local search in 0.3 s (the thesis: 3.8 ms, 3.04 s, 3.15 s). The instances are drawn as in its
//! evaluation: ten jobs a node, mean time between submissions 30,000 s divided by the nodes; the step is the one with the most jobs.

use flowcon::policy::cluster::deadlines::{Catalogue, Job, RunTimes, Situation, check};
use flowcon::sim::deadlines::{Instance, InstanceJob, Solver, simulate};
use std::time::Instant;

const TARGETS_MS: [(&str, f64); 4] = [("greedy", 0.4), ("random", 300.0), ("local", 300.0), ("hierarchical", 300.0)];

fn main() {
    for nodes in [10, 25, 50, 100] {
        let instance = drawn(nodes);
        let active = busiest(&instance);
        let open = vec![None; nodes];
        let jobs: Vec<Job<'_>> = active
            .iter()
            .enumerate()
            .map(|(number, (job, left))| Job {
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
        let situation = Situation { now_s, catalogue: &instance.catalogue, nodes: &open, jobs: &jobs, restart_s: 0.0 };
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

/// The jobs at the step with the most of them, and what is left of each, from a run of the greedy policy.
fn busiest(instance: &Instance) -> Vec<(usize, f64)> {
    let ends = simulate(instance, &solver("greedy"), 0.0).expect("a run").ends_s;
    let at = |now: f64| {
        let there = instance
            .jobs
            .iter()
            .zip(&ends)
            .enumerate()
            .filter(move |(_, (job, end))| job.submit_s <= now && **end > now);
        there.map(move |(job, (submitted, end))| (job, (end - now) / (end - submitted.submit_s)))
    };
    let busiest = instance.jobs.iter().max_by_key(|job| at(job.submit_s).count()).expect("jobs");
    at(busiest.submit_s).collect()
}

/// Jobs on nodes of 1, 2, 4 or 8 GPUs of two types; speed-ups and deadlines as those of the published instances.
fn drawn(nodes: usize) -> Instance {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let rows: Vec<(String, &str, usize, f64)> = [("K", 0.56), ("M", 0.62)]
        .iter()
        .flat_map(|(gpu, price)| [1, 2, 4, 8].map(|gpus| (format!("{gpu}{gpus}"), *gpu, gpus, price * gpus as f64)))
        .collect();
    let rows: Vec<_> = rows.iter().map(|(name, gpu, gpus, price)| (name.as_str(), *gpu, *gpus, *price)).collect();
    let catalogue = Catalogue::new(&rows).expect("a valid catalogue");
    let mut submit_s = 0.0;
    let jobs = (0..nodes * 10).map(|number| {
        submit_s -= (1.0 - uniform()).ln() * 30_000.0 / nodes as f64;
        let (one, most, other) = (70_000.0 + 270_000.0 * uniform(), 1.2 + 1.2 * uniform(), 0.9 + 0.3 * uniform());
        let time = |gpus: usize| one / (1.0 + (most - 1.0) * (gpus - 1) as f64 / 7.0);
        let rows: Vec<_> = (1..=8).flat_map(|gpus| [(0, gpus, time(gpus)), (1, gpus, other * time(gpus))]).collect();
        let times = RunTimes::new(&catalogue, &rows).expect("valid times");
        let deadline_s = submit_s + times.fastest_s() * (1.0 + 1.5 * uniform());
        InstanceJob { id: number.to_string(), submit_s, deadline_s, weight: 0.005 + 0.01 * uniform(), times }
    });
    let jobs = jobs.collect();
    Instance { name: format!("1-{nodes}"), nodes, catalogue, jobs }
}
