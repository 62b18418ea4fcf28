//! Mean GPU use of each job since the last tick: ticks may be minutes apart, and a single sample says little about that time.

use model::{ContainerId, GpuUse, Millis};
use std::collections::BTreeMap;

/// GPU time of the jobs since the last tick, by job, GPU and instance.
#[derive(Default)]
pub(super) struct GpuMeans {
    parts: BTreeMap<(ContainerId, u32, Option<u32>), Sum>,
}

#[derive(Default)]
struct Sum {
    /// Time of the last addition.
    at: Option<Millis>,
    /// GPU-seconds, and the seconds in which the share was known.
    used_s: f64,
    known_s: f64,
}

impl GpuMeans {
    /// Adds the shares as observed, each for the time since the observation before. `close`: for a tick; then each share becomes the mean
    /// since the last tick, if it is known.
    pub(crate) fn add<'node>(
        &mut self,
        uses: impl Iterator<Item = (&'node ContainerId, &'node mut [GpuUse])>,
        now: Millis,
        close: bool,
    ) {
        for (id, parts) in uses {
            for part in parts {
                let sum = self.parts.entry((id.clone(), part.gpu, part.instance)).or_default();
                sum.add(part.share, now);
                if close {
                    part.share = sum.mean().or(part.share);
                    *sum = Sum { at: Some(now), ..Sum::default() };
                }
            }
        }
        if close {
            self.parts.retain(|_, sum| sum.at == Some(now)); // the others have ended
        }
    }
}

impl Sum {
    fn add(&mut self, share: Option<f64>, now: Millis) {
        let before = self.at.replace(now);
        let Some((share, before)) = share.filter(|share| share.is_finite()).zip(before) else { return };
        let passed = now.since(before).as_secs_f64();
        self.used_s += share * passed;
        self.known_s += passed;
    }

    fn mean(&self) -> Option<f64> {
        (self.known_s > 0.0).then(|| self.used_s / self.known_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_tick_is_the_mean_since_the_last_one() {
        let (mut means, job) = (GpuMeans::default(), ContainerId::new("a"));
        let mut at = |seconds: u64, share: Option<f64>, close: bool| {
            let mut parts = [GpuUse { share, ..GpuUse::default() }];
            means.add(std::iter::once((&job, parts.as_mut_slice())), Millis::from_secs(seconds), close);
            parts[0].share
        };
        assert_eq!(at(0, Some(0.5), true), Some(0.5), "nothing else is known yet");
        assert_eq!(at(10, Some(0.0), false), Some(0.0));
        assert_eq!(at(50, Some(0.25), false), Some(0.25));
        assert_eq!(at(60, None, false), None, "unknown time does not count");
        assert_eq!(at(100, Some(1.0), true), Some(50.0 / 90.0));
        assert_eq!(at(110, Some(0.75), true), Some(0.75));
        means.add(std::iter::empty(), Millis::from_secs(120), true);
        assert!(means.parts.is_empty(), "a job that has ended is forgotten");
    }
}
