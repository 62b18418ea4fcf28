//! GPU time of a container: its share of its GPUs, accumulated over ticks. Imports: model.

use crate::model::{ContainerObservation, CpuTime, Millis};
use serde::{Deserialize, Serialize};

/// GPU time of one container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct GpuTime {
    /// Time of the last known share.
    at: Option<Millis>,
    seconds: f64,
}

impl GpuTime {
    /// Adds one tick's observation, whose shares are means since the last tick. Returns the GPU-seconds since the first observation, the mean over its GPUs if it has several; `None`
    /// while unknown.
    pub(super) fn after(&mut self, now: Millis, container: &ContainerObservation) -> Option<CpuTime> {
        let shares: Vec<f64> = container.gpus.iter().filter_map(|part| part.share).filter(|s| s.is_finite()).collect();
        let before = self.at.take();
        if shares.is_empty() {
            return None;
        }
        self.at = Some(now);
        let share = (shares.iter().sum::<f64>() / shares.len() as f64).clamp(0.0, 1.0);
        let passed = before.map_or(0.0, |before| now.since(before).as_secs_f64());
        self.seconds += share * passed;
        Some(CpuTime((self.seconds * 1e6) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GpuUse;
    use crate::policy::node::testing::container;

    #[test]
    fn shares_add_up_and_unknown_ones_count_for_nothing() {
        let mut time = GpuTime::default();
        let mut after = |seconds: u64, shares: &[Option<f64>]| {
            let mut job = container("a");
            job.gpus = shares.iter().map(|share| GpuUse { share: *share, ..GpuUse::default() }).collect();
            time.after(Millis::from_secs(seconds), &job).map(|used| used.as_secs_f64())
        };
        assert_eq!(after(0, &[Some(0.5)]), Some(0.0));
        assert_eq!(after(20, &[Some(0.5)]), Some(10.0));
        assert_eq!(after(30, &[Some(0.4), Some(0.6)]), Some(15.0));
        assert_eq!(after(40, &[None]), None);
        assert_eq!(after(50, &[Some(1.0)]), Some(15.0), "it is unknown since when the share has been 1");
        assert_eq!(after(60, &[]), None);
    }
}
