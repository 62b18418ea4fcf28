//! Moves jobs on a real Swarm while faults are injected, and checks that a job never has two writers, that no saved work is lost, and that
//! each job runs once or gives a reason for waiting. `integration/cluster/faults --moves 200 --json` runs it.
//!
//! ```text
//! swarm    three engines, all managers, each with flowcond, agent and coordinator, all of which can be killed and restarted
//! jobs     training jobs that save and write a heartbeat after each unit; some ignore SIGTERM, some cannot run on one of the nodes
//! faults   the faults, and how each is repaired
//! moves    requests moves and records the outcome of each
//! ```

#![allow(clippy::unwrap_used, reason = "a trial fails by panicking")]

mod faults;
mod jobs;
mod moves;
mod swarm;

use faults::Fault;
use jobs::Trials;
use moves::Moves;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use swarm::Swarm;

/// After the last repair, all jobs must settle within this time.
const SETTLE_WITHIN: Duration = Duration::from_secs(240);

fn number(name: &str, default: u64) -> u64 {
    let arguments: Vec<String> = std::env::args().collect();
    let value = arguments.iter().position(|word| word == name).and_then(|at| arguments.get(at + 1));
    value.map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} {value}: expected a number")))
}

fn main() -> ExitCode {
    let (wanted, seed) = (number("--moves", 20) as usize, number("--seed", 1));
    let swarm = Swarm::start();
    let trials = Trials::submit(&swarm);
    let (is_over, mut moves) = (AtomicBool::new(false), Moves::new(seed));
    std::thread::scope(|scope| {
        let injecting = scope.spawn(|| inject_faults(&swarm, &trials, seed, &is_over));
        // After a panic, the other thread must not go on injecting faults.
        let moved =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| moves.request_all(&swarm, &trials, wanted)));
        is_over.store(true, Ordering::Relaxed);
        let counts = injecting.join().expect("the thread that injects faults ends");
        println!("faults: {}", counts.join(", "));
        if let Err(panic) = moved {
            std::panic::resume_unwind(panic);
        }
    });

    let began = Instant::now();
    let mut unsettled = trials.unsettled(&swarm);
    while !unsettled.is_empty() && began.elapsed() < SETTLE_WITHIN {
        moves.follow(&swarm.jobs());
        unsettled = trials.unsettled(&swarm);
    }
    let result = moves.result(&swarm.jobs());
    let (two_writers, lost) = trials.judge();
    for job in &unsettled {
        println!("not settled after {} s: {job}", SETTLE_WITHIN.as_secs());
    }
    println!(
        r#"{{"moves":{},"done":{},"rolled_back":{},"waiting_with_reason":{},"ended_by_a_person":{},"restless":{},"two_writers":{two_writers},"lost_units":{lost}}}"#,
        result.asked,
        result.done,
        result.rolled_back,
        result.waiting,
        result.ended_by_a_person,
        unsettled.len()
    );
    if two_writers + lost + unsettled.len() == 0 && result.is_complete() {
        return ExitCode::SUCCESS;
    }
    swarm.keep_logs();
    ExitCode::FAILURE
}

/// Injects one fault after another and repairs each; returns the counts.
fn inject_faults(swarm: &Swarm, trials: &Trials, seed: u64, is_over: &AtomicBool) -> Vec<String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut counts = std::collections::BTreeMap::<&str, u32>::new();
    let pause = |rng: &mut ChaCha8Rng, millis: std::ops::Range<u64>| {
        std::thread::sleep(Duration::from_millis(rng.random_range(millis)));
    };
    while !is_over.load(Ordering::Relaxed) {
        pause(&mut rng, 500..3000);
        let fault = Fault::random(&mut rng);
        let active = fault.inject(swarm, trials, &mut rng);
        *counts.entry(fault.name()).or_default() += 1;
        pause(&mut rng, 200..6000);
        active.repair(swarm, trials);
    }
    counts.into_iter().map(|(name, count)| format!("{count} × {name}")).collect()
}
