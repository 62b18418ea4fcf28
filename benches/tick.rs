//! The time of a tick and its diff for 1,000 containers: the part of a decision that is pure policy. The target is at most 0.7 ms.

use criterion::{BatchSize, Criterion};
use flowcon::model::{
    Bytes, ContainerObservation, CpuTime, CpuWeight, Curve, Direction, Estimate, Gain, Learning, Limits, Millis,
    NodeObservation, Phase, Place, PolicyName, PolicySettings, Pressure, Progress, ProgressUnit, Usage,
};
use flowcon::policy::{Governor, diff};
use std::hint::black_box;
use std::sync::Arc;

const CONTAINERS: u64 = 1000;

/// A node with 1,000 training jobs after `round` intervals of 20 s.
fn observation(round: u64) -> NodeObservation {
    let now = Millis::from_secs(20 * (round + 1));
    NodeObservation {
        now,
        cores: 64.0,
        idle: vec![CpuTime(round * 4_000_000); 64],
        memory: Bytes(1 << 40),
        pressure: Pressure { cpu: Some(0.4), memory: Some(0.0), io: Some(0.0) },
        holdback: None,
        gpus: Vec::new(),
        users: Vec::new(),
        containers: (0..CONTAINERS).map(|number| container(number, round, now)).collect(),
    }
}

fn container(number: u64, round: u64, now: Millis) -> ContainerObservation {
    let cpu_weight = Some(CpuWeight::clamped(50.0 + ((number * 37 + round * 11) % 100) as f64));
    let limits = Limits { cpu_weight, ..Limits::KERNEL_DEFAULTS };
    // 64 hexadecimal digits that differ at the front, like an engine's ids.
    let id = format!("{:016x}{number:048x}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    ContainerObservation {
        name: format!("train-{number}"),
        // Two overlapping sets of CPUs, in one parent cgroup.
        place: Arc::new(Place {
            cpus: Some(if number.is_multiple_of(2) { (0..40).collect() } else { (24..64).collect() }),
            parent: Some(Arc::from("/sys/fs/cgroup/system.slice")),
            ..Place::default()
        }),
        usage: Usage {
            cpu: Some(CpuTime((round + 1) * 1_280_000)),
            memory: Some(Bytes(700 << 20)),
            working_set: Some(Bytes(500 << 20)),
            block_io: Some(Bytes((round + 1) << 20)),
            pressure: Pressure { cpu: None, memory: Some(0.0), io: None },
            ..Usage::default()
        },
        limits,
        original: limits,
        learning: learning(number, round, now),
        ..ContainerObservation::new(&id)
    }
}

fn learning(number: u64, round: u64, now: Millis) -> Learning {
    let left = 10_000.0 - 40.0 * round as f64 - number as f64;
    Learning {
        metric: Some("loss".to_owned()),
        direction: Some(Direction::Down),
        confidence: 0.9,
        evaluations: 20 * (round + 1),
        gain: (round > 0).then(|| Gain {
            amount: 0.02 / (1 + (number + round) % 7) as f64,
            from: now.since(Millis::from_secs(20)),
            to: now,
        }),
        progress: Some(Progress { unit: ProgressUnit::Step, current: 10_000.0 - left, total: Some(10_000.0), at: now }),
        units_per_second: Some(2.0),
        units_to_completion: Some(Estimate { low: left, likely: left, high: left }),
        curve: Some(Curve {
            phase: Phase::Improving,
            quality: 0.5,
            units_to_quality: Some(Estimate { low: 0.2 * left, likely: 0.3 * left, high: 0.6 * left }),
        }),
        ..Learning::default()
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut rounds: Vec<NodeObservation> = (0..8).map(observation).collect();
    rounds.iter_mut().for_each(|round| round.containers.sort_by(|a, b| a.id.cmp(&b.id)));
    for policy in [PolicyName::Fair, PolicyName::Flowcon, PolicyName::Balanced] {
        let settings = PolicySettings { policy, ..PolicySettings::default() };
        criterion.bench_function(&format!("tick and diff of {CONTAINERS} containers, {policy:?}"), |bencher| {
            bencher.iter_batched(
                || {
                    let mut governor = Governor::new(settings);
                    rounds[..7].iter().for_each(|round| drop(governor.tick(round)));
                    governor
                },
                |mut governor| {
                    let plan = governor.tick(&rounds[7]);
                    let changes = diff(&plan, &rounds[7]);
                    (black_box(plan), black_box(changes), governor)
                },
                BatchSize::LargeInput,
            );
        });
    }
    criterion.final_summary();
}
