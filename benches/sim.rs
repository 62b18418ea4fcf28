//! Speed of the simulator: events per second on one core, and the time for a trace of 82,000 jobs on 64 nodes with 8 GPUs each.
//!
//! `cargo bench --bench sim` prints both next to their targets: one million events per second, and sixty seconds. With
//! `FLOWSIM_TRACE=FILE` the trace is that file, otherwise a synthetic one.

use flowcon::model::PolicySettings;
use flowcon::sim::scenario::Scenario;
use flowcon::sim::variant::Variant;
use flowcon::sim::{Keep, simulate};
use std::time::Instant;
use traces::{DISCIPLINES, Gpus, TraceJob};

/// Ten jobs that print 100,000 lines each.
const BUSY: &str = "[[job]]\nwork = [50, 200]\nstart_s = [0, 200]\ncount = 10\nunits = 100000\n";

fn main() {
    for policy in ["fair", "srpt", "flowcon", "balanced"] {
        measure_event_rate(policy);
    }
    let jobs = trace_jobs();
    for discipline in DISCIPLINES {
        measure_trace(&jobs, discipline);
    }
}

fn measure_event_rate(policy: &str) {
    let scenario = Scenario::parse("busy", BUSY).expect("a valid scenario");
    let jobs = scenario.draw(1);
    let variant = Variant::named(policy, &PolicySettings::default()).expect("a known policy");
    let start = Instant::now();
    let outcome = simulate(&scenario.node, &jobs, &variant, Keep::default());
    let seconds = start.elapsed().as_secs_f64();
    let rate = outcome.events as f64 / seconds / 1e6;
    println!(
        "node, {policy:<9} {:>8} events, {:>4} ticks in {seconds:.3} s: {rate:.2} million events/s (target 1)",
        outcome.events, outcome.ticks
    );
}

fn measure_trace(jobs: &[TraceJob], discipline: &str) {
    let gpus: Gpus = "64x8".parse().expect("a valid cluster");
    let start = Instant::now();
    let outcome = traces::run(jobs, &gpus, discipline.parse().expect("a known discipline"), 0);
    let seconds = start.elapsed().as_secs_f64();
    println!("trace, {discipline:<12} {} jobs, {} events in {seconds:.2} s (target 60)", jobs.len(), outcome.events);
}

fn trace_jobs() -> Vec<TraceJob> {
    let gpus: Gpus = "64x8".parse().expect("a valid cluster");
    if let Ok(path) = std::env::var("FLOWSIM_TRACE") {
        let text = std::fs::read_to_string(&path).expect("FLOWSIM_TRACE names a readable file");
        return traces::read(&path, &text, &gpus, None).expect("FLOWSIM_TRACE names a trace");
    }
    synthetic_trace()
}

/// 82,000 jobs that keep 512 GPUs 90 % busy. Most jobs use one GPU; durations range from a minute to about three weeks.
fn synthetic_trace() -> Vec<TraceJob> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut now = 0.0;
    let job = |number: usize| {
        let gpus = [1, 1, 1, 1, 1, 1, 2, 4, 8, 16][(uniform() * 10.0) as usize];
        let duration = (60.0f64.ln() + uniform() * (2_000_000.0f64 / 60.0).ln()).exp();
        now += -(1.0 - uniform()).ln() * 1440.0;
        TraceJob { id: number.to_string(), submit_s: now as u64, gpus, durations_s: vec![Some(duration as u64)] }
    };
    (0..82_000).map(job).collect()
}
