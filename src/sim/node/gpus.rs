//! Division of a GPU's time: the processes with a kernel in the queue get equal slices in turn.
//!
//! Slices are short (some milliseconds), so kernels in the queue are modelled as running side by side. Imports: nothing of this crate but
//! the job.

use super::state::{Stage, State};
use crate::sim::job::Job;
use std::sync::Arc;

/// Sets each queued kernel's part of the GPU's time. The states must be settled up to now.
pub(super) fn share_out(jobs: &[Arc<Job>], states: &mut [State], present: &[usize]) {
    let device = |number: usize| jobs[number].plan.gpu.map(|load| load.device);
    for &number in present.iter().filter(|&&number| device(number).is_some()) {
        let is_queued = |state: &State| matches!(state.stage, Stage::Queued { .. });
        let others = present.iter().filter(|&&other| device(other) == device(number) && is_queued(&states[other]));
        let rate = 1.0 / others.count().max(1) as f64;
        states[number].set_gpu_rate(rate);
    }
}
