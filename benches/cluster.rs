//! The time of one plan of the cluster coordinator, on 10 to 10,000 nodes with ten jobs each.
//!
//! `cargo bench --bench cluster` prints the time of a plan and of its check next to the target: 250 ms and 1 GiB at 10,000 nodes. The
//! last column is the time divided by n·log n; where it stays constant, the cost grows as n·log n. Most jobs have a forecast, about one
//! in ten has converged. One job waits for every ten nodes, and every thousandth node is draining. To simulate a day of 10,000 nodes, run
//! `flowsim cluster scale-10000 --policy default --seeds 1`.

use flowcon::model::cluster::{
    Category, ClusterJob, ClusterNode, ClusterObservation, ClusterSettings, Convergence, MoveRule, NodeState, Phase,
    PlacementRule, Priority, Report, Resources, Worker, WorkerRange,
};
use flowcon::model::{Bytes, Estimate, Millis};
use flowcon::policy::cluster::{check, plan};
use std::collections::BTreeMap;
use std::time::Instant;

const JOBS_PER_NODE: usize = 10;
const TARGET_MS: f64 = 250.0;
const TARGET_MIB: f64 = 1024.0;

fn main() {
    let rules = [
        ("default", PlacementRule::LeastAdded, MoveRule::Forecast),
        ("procon", PlacementRule::ProCon, MoveRule::Never),
        ("specon", PlacementRule::Spread, MoveRule::SpeCon),
    ];
    for nodes in [10, 30, 100, 300, 1_000, 3_000, 10_000] {
        let observation = random_observation(nodes);
        for (name, placement, moves) in rules {
            let settings = ClusterSettings { placement, moves, moves_at_once: 1_000, ..ClusterSettings::default() };
            let repeats = if nodes > 1_000 { 7 } else { 31 };
            let mut times: Vec<(f64, f64)> = (0..repeats).map(|_| time(&observation, &settings)).collect();
            times.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (median, checked) = times[times.len() / 2];
            let worst = times[times.len() - 1].0;
            let n = (nodes * JOBS_PER_NODE) as f64;
            println!(
                "{nodes:>6} nodes, {name:<8} plan median {median:>8.3} ms, worst {worst:>8.3} ms, check {checked:>7.3} ms, \
                 {:>6.2} ns per n log n (target at 10,000 nodes {TARGET_MS} ms)",
                median * 1e6 / (n * n.log2()),
            );
        }
    }
    if let Some(peak) = peak_mib() {
        println!("peak memory {peak:.0} MiB (target {TARGET_MIB} MiB)");
    }
}

/// The milliseconds that the plan takes, and its check.
fn time(observation: &ClusterObservation, settings: &ClusterSettings) -> (f64, f64) {
    let start = Instant::now();
    let planned = plan(observation, settings);
    let planned_ms = start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    assert_eq!(check(observation, settings, &planned), []);
    assert!(planned.starts.len() + planned.waits.len() >= observation.nodes.len() / 10);
    (planned_ms, start.elapsed().as_secs_f64() * 1e3)
}

/// The peak resident memory of this process.
fn peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok().map(|kib| kib / 1024.0)
}

fn random_observation(nodes: usize) -> ClusterObservation {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let node = |number: usize| ClusterNode {
        name: format!("node-{number}").into(),
        state: if number % 1_000 == 9 { NodeState::Draining } else { NodeState::Ready },
        capacity: Resources { cores: 16.0, memory: Bytes(64 << 30), gpus: 0 },
        used_cores: Some(16.0),
        labels: BTreeMap::new(),
    };
    let mut jobs: Vec<ClusterJob> = Vec::new();
    for number in 0..nodes * JOBS_PER_NODE {
        let likely = 600.0 * (4.0 * uniform()).exp();
        let category = if uniform() < 0.1 { Category::Converged } else { Category::Progressing };
        let asks = category == Category::Converged;
        let worker = Worker {
            number: 0,
            node: number / JOBS_PER_NODE,
            phase: Phase::Running,
            cores: Some(1.6),
            work_left: Some(Estimate { low: 0.8 * likely, likely, high: 1.3 * likely }),
            report: Some(Report { unit_s: 10.0 * uniform(), units_left: likely / 10.0 }),
            convergence: Some(Convergence { category, asks, since: Millis(number as u64) }),
            move_s: 10.0 + 20.0 * uniform(),
        };
        jobs.push(job(number, vec![worker], 1.0));
    }
    for number in 0..nodes / 10 {
        jobs.push(job(nodes * JOBS_PER_NODE + number, Vec::new(), 1.0 + (4.0 * uniform()).floor()));
    }
    ClusterObservation {
        now: Millis::from_secs(100_000),
        quiet_since: Millis::from_secs(99_000),
        usual_work: Some(20_000.0),
        ended: Vec::new(),
        nodes: (0..nodes).map(node).collect(),
        jobs,
    }
}

fn job(number: usize, placed: Vec<Worker>, cores: f64) -> ClusterJob {
    ClusterJob {
        name: format!("job-{number}").into(),
        arrived: Millis::from_secs(number as u64 / 10),
        priority: Priority::default(),
        request: Resources { cores, memory: Bytes(1 << 30), gpus: 0 },
        workers: WorkerRange::ONE,
        constraints: Vec::new(),
        work: None,
        deadline: None,
        takes_s: None,
        late_cost: None,
        alternatives: Vec::new(),
        movable: true,
        moves: 0,
        placed,
    }
}
