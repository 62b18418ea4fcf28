//! When the working set of a job will reach its limit.
//!
//! The line through the samples of the last two minutes is continued. It counts only if nearly all steps rise: a working set that goes up
//! and down with batches, or fills once at the start and stays, is not on its way to the limit.

use model::{Bytes, ContainerObservation, Millis};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Samples that are kept, and the least time between two of them.
const SAMPLES: usize = 12;
const EVERY: Millis = Millis::from_secs(10);

/// Samples that are needed for a trend.
const LEAST_SAMPLES: usize = 4;

/// Part of the steps that must rise.
const RISING: f64 = 0.75;

/// Nothing is short below this part of the limit.
const LEAST_FULL: f64 = 0.5;

/// The limit is near if it is reached within this time, until it is further away than the second.
const NEAR_S: f64 = 120.0;
const FAR_S: f64 = 300.0;

/// The working set over the last two minutes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct MemoryTrend {
    samples: VecDeque<(Millis, Bytes)>,
}

impl MemoryTrend {
    pub(super) fn look(&mut self, now: Millis, job: &ContainerObservation) {
        let (Some(used), Some(_)) = (job.usage.working_set, job.memory_limit) else {
            self.samples.clear();
            return;
        };
        if self.samples.back().is_some_and(|(at, _)| now.since(*at) < EVERY) {
            return;
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((now, used));
    }

    /// Returns the seconds until the limit is reached, if that is soon. `was_near`: it was found to be near already.
    pub(super) fn seconds_to(&self, limit: Bytes, was_near: bool) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let steps = self.samples.iter().zip(self.samples.iter().skip(1));
        let rising = steps.filter(|((_, before), (_, after))| after > before).count();
        let is_trend = self.samples.len() >= LEAST_SAMPLES && rising as f64 >= RISING * (self.samples.len() - 1) as f64;
        let seconds = last.0.since(first.0).as_secs_f64();
        let rate = (last.1.0 as f64 - first.1.0 as f64) / seconds;
        let is_full = last.1.0 as f64 >= LEAST_FULL * limit.0 as f64;
        let left = limit.0.saturating_sub(last.1.0) as f64 / rate;
        let near = if was_near { FAR_S } else { NEAR_S };
        (is_trend && is_full && rate > 0.0 && left <= near).then_some(left)
    }
}
