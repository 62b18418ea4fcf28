//! What a tick allocates, counted: with a thousand jobs, each copy of a list takes longer than most of the rules.

use super::testing::{container, node};
use super::{Governor, diff};
use allocation_counter::{AllocationInfo, measure};
use model::{
    ContainerObservation, CpuTime, Curve, Estimate, Gain, Millis, NodeObservation, Phase, Place, PolicyName,
    PolicySettings, Progress, ProgressUnit,
};
use std::sync::Arc;

const INTERVAL: Millis = Millis::from_secs(20);

/// The job of that number after so many intervals: on one of two sets of processors that overlap, and learning.
fn job(number: u64, round: u64, now: Millis) -> ContainerObservation {
    let mut job = container(&format!("job-{number:04}"));
    let cpus = if number.is_multiple_of(2) { 0..40 } else { 24..64 };
    job.place = Arc::new(Place { cpus: Some(cpus.collect()), ..Place::default() });
    job.usage.cpu = Some(CpuTime((round + 1) * 1_280_000));
    let left = 10_000.0 - 40.0 * round as f64 - number as f64;
    let ahead = |units: f64| Estimate { low: units, likely: units, high: units };
    let learning = &mut job.learning;
    (learning.confidence, learning.evaluations) = (0.9, 20 * (round + 1));
    learning.gain = (round > 0).then(|| Gain { amount: 0.01, from: now.since(INTERVAL), to: now });
    learning.progress =
        Some(Progress { unit: ProgressUnit::Step, current: 10_000.0 - left, total: Some(10_000.0), at: now });
    learning.units_to_completion = Some(ahead(left));
    learning.curve = Some(Curve { phase: Phase::Improving, quality: 0.5, units_to_quality: Some(ahead(0.3 * left)) });
    job
}

fn observation(jobs: u64, round: u64) -> NodeObservation {
    let now = Millis(INTERVAL.0 * (round + 1));
    let containers = (0..jobs).map(|number| job(number, round, now)).collect();
    NodeObservation { now, cores: 64.0, idle: vec![CpuTime(round * 4_000_000); 64], ..node(containers) }
}

/// What the fifth tick allocates, and then the list of its changes.
fn allocated(jobs: u64) -> [AllocationInfo; 2] {
    let settings = PolicySettings { policy: PolicyName::Balanced, ..PolicySettings::default() };
    let mut governor = Governor::new(settings);
    (0..4).for_each(|round| drop(governor.tick(&observation(jobs, round))));
    let last = observation(jobs, 4);
    let mut plan = None;
    let tick = measure(|| plan = Some(governor.tick(&last)));
    let plan = plan.expect("it has ticked");
    [tick, measure(|| drop(diff(&plan, &last)))]
}

#[test]
fn a_tick_allocates_one_list_per_step_and_nothing_per_job() {
    let [[few, _], [many, changes]] = [100, 1000].map(allocated);
    let (tick, list) = (many.count_total, changes.count_total);
    // Lists that grow are allocated again when they double, and those of 1,000 jobs have doubled three or four times more.
    assert!(tick < 400 && tick < 2 * few.count_total, "{tick} blocks for 1,000 jobs, {} for 100", few.count_total);
    assert!(list < 40, "{list} blocks for the changes of 1,000 jobs");
}

#[test]
fn a_tick_allocates_at_most_1700_bytes_per_job() {
    let [tick, changes] = allocated(1000);
    assert!(tick.bytes_total < 1_700_000, "{} bytes", tick.bytes_total);
    assert!(changes.bytes_total < 500_000, "{} bytes for the changes", changes.bytes_total);
}
