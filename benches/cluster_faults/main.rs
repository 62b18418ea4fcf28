//! Moves on a real Swarm while everything around them breaks: never two writers, nothing lost that was saved, each job runs once or says
//! why it waits. `integration/cluster/faults --moves 200 --json` runs it.
//!
//! ```text
//! swarm    three engines, all managers, each with flowcond, agent and coordinator, all of which can be killed and started again
//! jobs     trainings that save after each unit and write a heartbeat; some ignore SIGTERM, crash on one node, lack their image there
//! faults   what breaks, and how it is mended
//! moves    asks for moves, and follows what becomes of each
//! ```

#![allow(clippy::unwrap_used, reason = "a panic is how a trial fails")]

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

/// After everything was mended, jobs come to rest within this time.
const REST: Duration = Duration::from_secs(240);

fn number(name: &str, usual: u64) -> u64 {
    let given: Vec<String> = std::env::args().collect();
    let value = given.iter().position(|word| word == name).and_then(|at| given.get(at + 1));
    value.map_or(usual, |value| value.parse().unwrap_or_else(|_| panic!("{name} {value}: expected a number")))
}

fn main() -> ExitCode {
    let (wanted, seed) = (number("--moves", 20) as usize, number("--seed", 1));
    let swarm = Swarm::start();
    let trials = Trials::submit(&swarm);
    let (is_over, mut moves) = (AtomicBool::new(false), Moves::new(seed));
    std::thread::scope(|scope| {
        let breaking = scope.spawn(|| breaks(&swarm, &trials, seed, &is_over));
        // A panic must not leave the other thread breaking things for ever.
        let moved = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| moves.make(&swarm, &trials, wanted)));
        is_over.store(true, Ordering::Relaxed);
        let told = breaking.join().expect("the faults end");
        println!("faults: {}", told.join(", "));
        if let Err(panic) = moved {
            std::panic::resume_unwind(panic);
        }
    });

    let began = Instant::now();
    let mut restless = trials.restless(&swarm);
    while !restless.is_empty() && began.elapsed() < REST {
        moves.follow(&swarm.jobs());
        restless = trials.restless(&swarm);
    }
    let result = moves.result(&swarm.jobs());
    let (two_writers, lost) = trials.judge();
    for complaint in &restless {
        println!("not at rest after {} s: {complaint}", REST.as_secs());
    }
    println!(
        r#"{{"moves":{},"done":{},"rolled_back":{},"waiting_with_reason":{},"ended_by_a_person":{},"restless":{},"two_writers":{two_writers},"lost_units":{lost}}}"#,
        result.asked,
        result.done,
        result.rolled_back,
        result.waiting,
        result.ended_by_a_person,
        restless.len()
    );
    if two_writers + lost + restless.len() == 0 && result.is_complete() {
        return ExitCode::SUCCESS;
    }
    swarm.keep_logs();
    ExitCode::FAILURE
}

/// Breaks one thing after another, and mends each.
fn breaks(swarm: &Swarm, trials: &Trials, seed: u64, is_over: &AtomicBool) -> Vec<String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut counts = std::collections::BTreeMap::<&str, u32>::new();
    let pause = |rng: &mut ChaCha8Rng, millis: std::ops::Range<u64>| {
        std::thread::sleep(Duration::from_millis(rng.random_range(millis)));
    };
    while !is_over.load(Ordering::Relaxed) {
        pause(&mut rng, 500..3000);
        let fault = Fault::drawn(&mut rng);
        let broken = fault.begin(swarm, trials, &mut rng);
        *counts.entry(fault.name()).or_default() += 1;
        pause(&mut rng, 200..6000);
        broken.mend(swarm, trials);
    }
    counts.into_iter().map(|(name, count)| format!("{count} × {name}")).collect()
}
