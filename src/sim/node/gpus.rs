//! Division of a GPU's time: the processes with a kernel in the queue get equal slices in turn.
//!
//! Slices are short (some milliseconds), so kernels in the queue are modelled as running side by side. The driver's figures are samples, as
//! on an H200 with driver 580: five times a second it notes the process whose kernel runs.

use super::state::{Activity, State};
use crate::job::Job;
use crate::random::Stream;
use model::{ContainerObservation, GpuUse};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

const SAMPLES_PER_SECOND: f64 = 5.0;

/// Sets each queued kernel's part of the GPU's time. The states must be settled up to now.
pub(super) fn share_out(jobs: &[Arc<Job>], states: &mut [State], present: &[usize]) {
    let device = |number: usize| jobs[number].plan.gpu.map(|load| load.device);
    for &number in present.iter().filter(|&&number| device(number).is_some()) {
        let is_queued = |state: &State| matches!(state.stage, Activity::Queued { .. });
        let others = present.iter().filter(|&&other| device(other) == device(number) && is_queued(&states[other]));
        let rate = 1.0 / others.count().max(1) as f64;
        states[number].set_gpu_rate(rate);
    }
}

/// Replaces the true shares of the time `from .. now` by the driver's: parts of the samples taken in that time. They stay exact if there was
/// no sample. Returns the busy time of each GPU.
pub(super) fn sample(containers: &mut [ContainerObservation], from: f64, now: f64) -> BTreeMap<u32, f64> {
    let number = |at: f64| (at * SAMPLES_PER_SECOND) as u64;
    let samples = number(from) + 1..=number(now);
    let mut gpus: BTreeMap<u32, Vec<&mut GpuUse>> = BTreeMap::new();
    for part in containers.iter_mut().flat_map(|container| &mut container.gpus) {
        gpus.entry(part.gpu).or_default().push(part);
    }
    let busy = |(gpu, mut parts): (u32, Vec<&mut GpuUse>)| {
        let mut shares: Vec<f64> = parts.iter().map(|part| part.share.unwrap_or(0.0)).collect();
        if !samples.is_empty() {
            shares = sampled(gpu, &shares, samples.clone());
            parts.iter_mut().zip(&shares).for_each(|(part, share)| part.share = Some(*share));
        }
        (gpu, shares.iter().sum())
    };
    gpus.into_iter().map(busy).collect()
}

/// Returns the part of the samples that each share has.
fn sampled(gpu: u32, shares: &[f64], samples: RangeInclusive<u64>) -> Vec<f64> {
    let (mut taken, mut counts) = (0.0, vec![0.0; shares.len()]);
    for sample in samples {
        taken += 1.0;
        let mut at = Stream::new(u64::from(gpu), sample).uniform(0.0, 1.0);
        let running = shares.iter().position(|share| {
            at -= share;
            at < 0.0
        });
        if let Some(running) = running {
            counts[running] += 1.0;
        }
    }
    counts.iter().map(|count| count / taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_add_up_to_the_busy_time_and_scatter_around_the_truth() {
        for (samples, off) in [(20_u64, 0.4), (20_000, 0.02)] {
            let shares = sampled(0, &[0.5, 0.3], 1..=samples);
            assert!((shares[0] - 0.5).abs() < off && (shares[1] - 0.3).abs() < off, "{shares:?}");
            assert_ne!(shares, [0.5, 0.3]);
        }
        let all = sampled(0, &[0.5, 0.5], 1..=20);
        assert!((all[0] + all[1] - 1.0).abs() < 1e-9, "{all:?}");
    }
}
