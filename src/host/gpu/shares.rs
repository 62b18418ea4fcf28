//! Who had which part of a GPU's time, from the driver's samples. Pure.
//!
//! The driver keeps samples with timestamps of its own and gives those since the last one seen. Shares of one GPU never add up to more
//! than what the GPU was busy in all. Imports: std.

use std::collections::BTreeMap;

/// Readings in a row with only old timestamps after which the driver's clock is taken to have begun anew.
const CLOCK_BEGAN_ANEW_AFTER: u32 = 3;

/// One sample of the driver: how busy a process kept the GPU in the time before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Whose; nobody's on the whole GPU.
    pub pid: u32,
    /// On the driver's clock.
    pub at_us: u64,
    /// Part of the time in percent.
    pub percent: f64,
}

/// How far the driver's samples have been read.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    last_us: u64,
    backwards: u32,
}

impl Clock {
    /// The newest timestamp seen; 0 before the first.
    pub fn last_us(&self) -> u64 {
        self.last_us
    }

    /// The samples that are new and make sense; `None` where there are some and all are of the past.
    pub fn new_ones(&mut self, samples: Vec<Sample>) -> Option<Vec<Sample>> {
        let newest = samples.iter().map(|sample| sample.at_us).max();
        let last_us = self.last_us;
        let all = samples.len();
        let makes_sense = |sample: &Sample| sample.at_us > last_us && (0.0..=100.0).contains(&sample.percent);
        let fresh: Vec<Sample> = samples.into_iter().filter(makes_sense).collect();
        let Some(newest) = newest else { return Some(fresh) };
        if newest < last_us {
            self.backwards += 1;
            if self.backwards >= CLOCK_BEGAN_ANEW_AFTER {
                *self = Clock { last_us: newest, backwards: 0 };
            }
            return None;
        }
        *self = Clock { last_us: newest, backwards: 0 };
        if fresh.is_empty() && all > 0 && newest > last_us { None } else { Some(fresh) }
    }
}

/// Part of the time in which the GPU was busy, from samples of all of it.
pub(super) fn busy(samples: &[Sample]) -> Option<f64> {
    let sum: f64 = samples.iter().map(|sample| sample.percent).sum();
    (!samples.is_empty()).then(|| (sum / samples.len() as f64 / 100.0).clamp(0.0, 1.0))
}

/// Each process's part of the GPU's time. `busy`: what the whole GPU was, where that is known.
pub(super) fn shares(samples: &[Sample], busy: Option<f64>) -> BTreeMap<u32, f64> {
    let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    // The driver fills what it does not use with process 0.
    for sample in samples.iter().filter(|sample| sample.pid != 0) {
        let (sum, count) = sums.entry(sample.pid).or_default();
        *sum += sample.percent / 100.0;
        *count += 1.0;
    }
    let mut shares: BTreeMap<u32, f64> = sums.into_iter().map(|(pid, (sum, count))| (pid, sum / count)).collect();
    let all: f64 = shares.values().sum();
    let most = busy.unwrap_or(1.0);
    if all > most {
        shares.values_mut().for_each(|share| *share *= most / all);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pid: u32, at_us: u64, percent: f64) -> Sample {
        Sample { pid, at_us, percent }
    }

    #[test]
    fn shares_of_one_gpu_add_up_to_what_it_was_busy() {
        let samples = [sample(7, 10, 80.0), sample(8, 10, 40.0), sample(8, 20, 20.0), sample(0, 10, 100.0)];
        assert_eq!(shares(&samples, Some(1.0)).values().sum::<f64>(), 1.0);
        let half = shares(&samples, Some(0.55));
        assert!((half.values().sum::<f64>() - 0.55).abs() < 1e-9);
        assert!((half[&7] - 0.4).abs() < 1e-9 && (half[&8] - 0.15).abs() < 1e-9, "{half:?}");
    }

    #[test]
    fn what_the_gpu_did_for_nobody_known_is_given_to_nobody() {
        assert_eq!(shares(&[sample(7, 10, 30.0)], Some(0.9))[&7], 0.3);
    }

    #[test]
    fn a_sample_counts_once_and_none_of_the_past_does() {
        let mut clock = Clock::default();
        assert_eq!(clock.new_ones(vec![sample(7, 100, 50.0)]).map(|new| new.len()), Some(1));
        assert_eq!(clock.new_ones(vec![sample(7, 100, 50.0)]).map(|new| new.len()), Some(0));
        assert!(clock.new_ones(vec![sample(7, 90, 50.0)]).is_none());
        assert_eq!(clock.last_us(), 100);
        assert_eq!(clock.new_ones(Vec::new()).map(|new| new.len()), Some(0));
    }

    #[test]
    fn a_clock_that_began_anew_is_believed_after_a_while() {
        let mut clock = Clock::default();
        let _ = clock.new_ones(vec![sample(7, 5000, 50.0)]);
        for at in [10, 20, 30] {
            assert!(clock.new_ones(vec![sample(7, at, 50.0)]).is_none());
        }
        assert_eq!(clock.new_ones(vec![sample(7, 40, 50.0)]).map(|new| new.len()), Some(1));
    }

    #[test]
    fn a_percentage_above_a_hundred_is_no_reading() {
        assert!(Clock::default().new_ones(vec![sample(7, 10, 4_000_000.0)]).is_none());
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_driver_says_the_shares_fit_on_the_gpu(
            samples in proptest::collection::vec((0u32..9, 0u64..99, -50.0f64..500.0), 0..40),
            busy in proptest::option::of(0.0f64..1.0),
        ) {
            let samples = samples.into_iter().map(|(pid, at, percent)| sample(pid, at, percent)).collect();
            let new = Clock::default().new_ones(samples).unwrap_or_default();
            let shares = shares(&new, busy);
            proptest::prop_assert!(shares.values().all(|share| *share >= 0.0));
            proptest::prop_assert!(shares.values().sum::<f64>() <= busy.unwrap_or(1.0) + 1e-9);
        }
    }
}
