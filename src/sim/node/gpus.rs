//! Who has how much of a GPU: each process that has a kernel in the queue gets a slice in turn, and all slices are alike.
//!
//! Slices are short (some milliseconds), so kernels in the queue are served side by side. Imports: nothing of this crate but the job.

use super::state::{Stage, State};
use crate::sim::job::Job;
use std::sync::Arc;

/// Gives each kernel in a queue its part of the GPU's time. What has happened up to now is settled.
pub(super) fn share_out(jobs: &[Arc<Job>], states: &mut [State], present: &[usize]) {
    let device = |number: usize| jobs[number].plan.gpu.map(|load| load.device);
    for &number in present.iter().filter(|&&number| device(number).is_some()) {
        let is_queued = |state: &State| matches!(state.stage, Stage::Queued { .. });
        let others = present.iter().filter(|&&other| device(other) == device(number) && is_queued(&states[other]));
        let rate = 1.0 / others.count().max(1) as f64;
        states[number].set_gpu_rate(rate);
    }
}
