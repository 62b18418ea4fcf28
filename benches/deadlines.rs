//! The time of one decision of the policies for deadlines and cost, on 10 to 100 nodes.
//!
//! `cargo bench --bench deadlines` prints the time of a decision next to its target at 100 nodes: 0.4 ms for the greedy policy, 0.3 s for a
//! thousand randomised constructions, 0.3 s with local search (in the thesis: 3.8 ms, 3.04 s, 3.15 s). The instances are drawn as in its
//! evaluation: ten jobs per node, and a mean time between submissions of 30,000 s divided by the number of nodes. The decision measured
//! is the one with the most jobs. The last line of each size is a whole plan of the coordinator for these jobs, as many as it plans at a time,
//! with `queue = "deadlines"`: every second node has eight GPUs of one type, the others eight of the other, and no job runs yet.
//!
//! Measured at 100 nodes and 582 jobs on two cores that other work kept busy, the median of three runs: greedy 0.24 ms, randomised 99 ms,
//! local search 197 ms, hierarchical 138 ms, coordinator 25 ms.

use deadlines::{Drawn, GAP_S, Instance, Solver, TIGHT, simulate};
use flowcon::model::cluster::{
    Alternative, ClusterJob, ClusterNode, ClusterObservation, ClusterSettings, Constraint, NodeState, Priority,
    QueueRule, Resources, WorkerRange,
};
use flowcon::model::{Bytes, Millis};
use flowcon::policy::cluster::deadlines::{Situation, SubmittedJob, check};
use flowcon::policy::cluster::plan;
use std::collections::BTreeMap;
use std::time::Instant;

const TARGETS_MS: [(&str, f64); 4] = [("greedy", 0.4), ("random", 300.0), ("local", 300.0), ("hierarchical", 300.0)];

/// Of a plan of the coordinator, at 100 nodes.
const COORDINATOR_TARGET_MS: f64 = 300.0;

fn main() {
    for nodes in [10, 25, 50, 100] {
        let instance = Instance::drawn(Drawn { nodes, gap_s: GAP_S, slack: TIGHT, in_house: false }, 0);
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
            let times = (0..if policy == "greedy" { 200 } else { 5 }).map(|step| {
                let start = Instant::now();
                let plan = solver.plan(&situation, step).expect("a policy without a limit");
                let milliseconds = start.elapsed().as_secs_f64() * 1e3;
                assert_eq!(check(&situation, &plan), []);
                milliseconds
            });
            print(nodes, jobs.len(), policy, times, target);
        }
        let observation = observation(&instance, &active);
        let settings = ClusterSettings { queue: QueueRule::Deadlines, reclaim: true, ..ClusterSettings::default() };
        let times = (0..5).map(|_| {
            let start = Instant::now();
            let plan = plan(&observation, &settings);
            let milliseconds = start.elapsed().as_secs_f64() * 1e3;
            assert!(!plan.starts.is_empty(), "jobs start on empty nodes");
            milliseconds
        });
        print(nodes, jobs.len(), "coordinator", times, COORDINATOR_TARGET_MS);
    }
}

fn print(nodes: usize, jobs: usize, name: &str, times: impl Iterator<Item = f64>, target: f64) {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    println!(
        "{nodes:>3} nodes, {jobs:>3} jobs, {name:<12} median {median:>8.3} ms, worst {worst:>8.3} ms (target at 100 nodes {target} ms)"
    );
}

/// The same jobs as the coordinator observes them, each with an alternative for each number of GPUs of each type.
fn observation(instance: &Instance, active: &[(usize, f64)]) -> ClusterObservation {
    let types = instance.catalogue.gpu_types();
    let of_type = |gpu: usize| types[gpu].as_str().into();
    let node = |number: usize| ClusterNode {
        name: format!("node-{number}").into(),
        state: NodeState::Ready,
        capacity: Resources { cores: 64.0, memory: Bytes(64 << 30), gpus: 8 },
        used_cores: None,
        labels: BTreeMap::from([
            ("type".into(), of_type(number % types.len())),
            ("flowcon.price".into(), ["4.5", "4.96"][number % types.len()].into()),
        ]),
    };
    let now_s = instance.jobs[active[active.len() - 1].0].submit_s;
    let millis = |seconds: f64| Millis((seconds * 1e3) as u64);
    let job = |(job, left): &(usize, f64)| {
        let submitted = &instance.jobs[*job];
        let alternative = |(gpu, gpus, seconds): (usize, usize, f64)| Alternative {
            request: Resources { gpus: gpus as u32, ..Resources::default() },
            constraints: vec![Constraint { label: "type".into(), equal: true, value: of_type(gpu) }],
            takes_s: Some(seconds * left),
        };
        ClusterJob {
            name: submitted.id.as_str().into(),
            arrived: millis(submitted.submit_s),
            priority: Priority::default(),
            request: Resources::default(),
            workers: WorkerRange::ONE,
            constraints: Vec::new(),
            work: None,
            deadline: Some(millis(submitted.deadline_s)),
            takes_s: None,
            late_cost: Some(submitted.weight * 3600.0),
            alternatives: submitted.times.all().map(alternative).collect(),
            movable: true,
            moves: 0,
            placed: Vec::new(),
        }
    };
    ClusterObservation {
        now: millis(now_s),
        nodes: (0..instance.nodes).map(node).collect(),
        jobs: active.iter().map(job).collect(),
        ..ClusterObservation::default()
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
