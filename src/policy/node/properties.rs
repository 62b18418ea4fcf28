//! Properties of every plan, over sequences of random and often absurd observations: [`check`] finds no violation, and [`diff`] finds
//! nothing left to write once its changes are written.

use super::testing::{container, node};
use super::{Governor, check, diff};
use model::{
    Bounds, Bytes, ContainerId, ContainerObservation, CpuTime, CpuWeight, Curve, Direction, Enforcement, Estimate,
    FairBetween, Gain, GrowthThreshold, Hold, HoldbackBlock, Millis, NodeObservation, Phase, Place, PolicyName,
    PolicySettings, Pressure, PrintedMean, Progress, ProgressUnit, Quota, RunState, Share, Trial,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::sync::Arc;

/// Numbers as they occur in real logs and counters.
fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => -2.0..2.0f64,
        2 => 0.0..1e6f64,
        1 => Just(0.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(-1e300),
    ]
}

fn any_estimate() -> impl Strategy<Value = Estimate> {
    (any_number(), any_number(), any_number()).prop_map(|(low, likely, high)| Estimate { low, likely, high })
}

fn any_hold() -> impl Strategy<Value = Option<Hold>> {
    prop_oneof![
        6 => Just(None),
        1 => Just(Some(Hold::Released)),
        1 => Just(Some(Hold::Foreign("cpu.weight".to_owned()))),
        1 => Just(Some(Hold::Settling)),
    ]
}

fn any_curve() -> impl Strategy<Value = Curve> {
    let phase = prop_oneof![Just(Phase::Unknown), Just(Phase::Improving), Just(Phase::Plateau), Just(Phase::Diverging)];
    (phase, any_number(), option::of(any_estimate())).prop_map(|(phase, quality, units_to_quality)| Curve {
        phase,
        quality,
        units_to_quality,
    })
}

fn any_pressure() -> impl Strategy<Value = Pressure> {
    (option::of(0.0..1.0), option::of(0.0..0.1), option::of(0.0..1.0)).prop_map(|(cpu, memory, io)| Pressure {
        cpu,
        memory,
        io,
    })
}

fn any_place() -> impl Strategy<Value = Arc<Place>> {
    let cpus = prop_oneof![3 => Just(""), 1 => Just("0"), 1 => Just("0-1"), 1 => Just("1-3"), 1 => Just("2-70")];
    let parent = prop_oneof![3 => Just(None), 1 => Just(Some("/a")), 1 => Just(Some("/b"))];
    (cpus, parent, option::of(1..10_000u32), option::of(1..9000u64)).prop_map(|(cpus, parent, weight, quota)| {
        let cpus = Some(cpus).filter(|cpus| !cpus.is_empty()).map(|cpus| cpus.parse().expect("a list"));
        // The limits of a parent cgroup are the same for all of its children.
        let (parent_weight, quota) =
            if parent == Some("/a") { (weight.map(|_| 300), quota.map(|_| 1500)) } else { (None, None) };
        let parent = parent.map(Arc::from);
        Arc::new(Place { cpus, memory_nodes: None, parent, parent_weight, parent_quota: quota.map(Quota) })
    })
}

prop_compose! {
    fn any_container()(
        id in 0..12u32,
        (hold, paused, weight) in (any_hold(), prop::bool::weighted(0.15), any_number()),
        (min, max, standing) in (0.0..0.6f64, 0.2..1.2f64, 1.0..400.0f64),
        (cpu, memory, working_set) in (option::of(0..1u64 << 40), option::of(0..1u64 << 36), option::of(0..1u64 << 36)),
        (evaluations, gain, back) in (0..20u64, option::of(any_number()), 0..60_000u64),
        (curve, rate, left) in (option::of(any_curve()), option::of(any_number()), option::of(any_estimate())),
        (current, total) in (any_number(), option::of(any_number())),
        pressure in any_pressure(),
        (place, original) in (any_place(), 1.0..1000.0f64),
        floor in option::of(prop_oneof![6 => 0..1u64 << 36, 1 => Just(u64::MAX)]),
    ) -> (ContainerObservation, u64) {
        let mut c = container(&format!("{id:02}"));
        c.hold = hold;
        c.state = if paused { RunState::Paused } else { RunState::Running };
        c.weight = weight;
        c.user = Some(["alice", "bob"][id as usize % 2]).filter(|_| !id.is_multiple_of(3)).map(Arc::from);
        c.bounds = Bounds { min: Share::clamped(min - 0.3), max: Share::clamped(max) };
        c.place = place;
        c.original.cpu_weight = Some(CpuWeight::clamped(original));
        c.limits.cpu_weight = Some(CpuWeight::clamped(standing));
        c.usage.cpu = cpu.map(CpuTime);
        c.usage.memory = memory.map(Bytes);
        c.usage.working_set = working_set.map(Bytes);
        c.usage.pressure = pressure;
        c.memory_floor = floor.map(Bytes);
        c.learning.evaluations = evaluations;
        c.learning.gain = gain.map(|amount| Gain { amount, from: Millis(0), to: Millis(0) });
        c.learning.printed = gain.map(|mean| PrintedMean { mean, largest: mean.abs() });
        c.learning.confidence = 1.0;
        c.learning.direction = Some(if id % 4 < 3 { Direction::Down } else { Direction::Up });
        c.learning.metric = Some("loss".to_owned());
        c.trial = rate.zip(gain).map(|(x, y)| Trial {
            stop_at: u8::try_from(id % 5).ok(),
            ..Trial::new(format!("{}", id % 2).into(), vec![(x, y), (current, weight), (2.0 * current, min)])
        });
        c.learning.progress =
            Some(Progress { unit: ProgressUnit::Step, current, total, at: Millis(0) });
        c.learning.units_per_second = rate;
        c.learning.units_to_completion = left;
        c.learning.curve = curve;
        (c, back)
    }
}

fn any_settings() -> impl Strategy<Value = PolicySettings> {
    let policy = prop::sample::select(PolicyName::ALL.as_slice());
    let drawn = (policy, any::<[bool; 2]>(), 0.0..0.3f64, 0.0..0.9f64, 1..60u64);
    drawn.prop_map(|(policy, [quota, by_user], threshold, floor, secs)| {
        let mut settings = PolicySettings {
            policy,
            fair_between: if by_user { FairBetween::Users } else { FairBetween::Jobs },
            enforcement: if quota { Enforcement::Quota } else { Enforcement::Weight },
            interval: Millis::from_secs(secs),
            floor: Share::clamped(floor),
            quota_floor: Quota(200),
            ..PolicySettings::default()
        };
        settings.flowcon.growth_threshold = GrowthThreshold::PerSecond(threshold);
        settings
    })
}

/// Sorted by id without duplicates, as [`NodeObservation`] requires; gains reach back to an earlier instant.
fn observation(
    now: u64,
    containers: Vec<(ContainerObservation, u64)>,
    pressure: Pressure,
    cores: f64,
) -> NodeObservation {
    let mut containers: Vec<ContainerObservation> = containers
        .into_iter()
        .map(|(mut c, back)| {
            c.learning.gain =
                c.learning.gain.map(|gain| Gain { from: Millis(now.saturating_sub(back)), to: Millis(now), ..gain });
            c
        })
        .collect();
    containers.sort_by(|a, b| a.id.cmp(&b.id));
    containers.dedup_by(|a, b| a.id == b.id);
    let idle = vec![CpuTime(now.wrapping_mul(400)); 4];
    NodeObservation { now: Millis(now), cores, idle, pressure, ..node(containers) }
}

/// No block, a governed block or a control period.
fn any_block(now: u64) -> Option<HoldbackBlock> {
    let until = Millis(now ^ 0x1234); // before or after now
    (!now.is_multiple_of(3)).then_some(HoldbackBlock {
        plain: now % 3 == 2,
        from_unix_ms: 0,
        washed_unix_ms: 0,
        until_unix_ms: now,
        until,
    })
}

fn write_all(observation: &mut NodeObservation, changes: Vec<model::LimitChange>) {
    for change in changes {
        let id: &ContainerId = &change.id;
        let job =
            observation.containers.iter_mut().find(|job| job.id == *id).expect("a change names an observed container");
        job.limits.set(change.to);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_observation_leads_to_a_plan_that_breaks_a_rule(
        settings in any_settings(),
        rounds in vec((0..100_000u64, vec(any_container(), 0..12), any_pressure(), prop_oneof![9 => 0.5..64.0f64, 1 => any_number()]), 1..6),
    ) {
        let mut governor = Governor::new(settings);
        for (now, containers, pressure, cores) in rounds {
            let mut seen = observation(now, containers, pressure, cores);
            seen.holdback = any_block(now);
            let plan = governor.tick(&seen);
            prop_assert_eq!(check(&plan, &seen), vec![]);
            for planned in &plan.containers {
                prop_assert!(planned.reason.to_string().chars().count() <= 40);
            }
            let changes = diff(&plan, &seen);
            write_all(&mut seen, changes);
            prop_assert_eq!(diff(&plan, &seen), vec![]);
        }
    }

    #[test]
    fn the_same_observations_give_the_same_plans(
        settings in any_settings(),
        rounds in vec((vec(any_container(), 0..8), any_pressure()), 1..5),
    ) {
        let (mut one, mut other) = (Governor::new(settings), Governor::new(settings));
        for (round, (containers, pressure)) in rounds.into_iter().enumerate() {
            let seen = observation(20_000 * (round as u64 + 1), containers, pressure, 4.0);
            prop_assert_eq!(format!("{:?}", one.tick(&seen)), format!("{:?}", other.tick(&seen)));
        }
    }

    #[test]
    fn missing_evaluations_never_change_a_weight(seed in vec(any_container(), 1..8), ticks in 1..6u64) {
        let settings = PolicySettings { policy: PolicyName::Flowcon, ..PolicySettings::default() };
        let mut governor = Governor::new(settings);
        let mut seen = observation(20_000, seed, Pressure::default(), 4.0);
        governor.tick(&seen);
        let before = governor.tick(&seen);
        for _ in 0..ticks {
            seen.now = seen.now.after(Millis::from_secs(20));
            for container in &mut seen.containers {
                container.learning.gain = None;
            }
            let after = governor.tick(&seen);
            let weights = |plan: &model::NodePlan| -> Vec<_> {
                plan.containers.iter().map(|c| c.limits.map(|limits| limits.cpu_weight)).collect()
            };
            prop_assert_eq!(weights(&before), weights(&after));
        }
    }
}
