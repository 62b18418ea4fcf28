//! Computes each process's share of a GPU's time from the driver's samples. Pure.
//!
//! The driver keeps samples with its own timestamps, and returns those since a given timestamp. The shares of one GPU never add up to more
//! than its total busy time.

use std::collections::BTreeMap;

/// After this number of readings with only old timestamps, or without a sample of a busy GPU, the driver's clock may have been reset.
const CLOCK_RESET_AFTER: u32 = 3;

/// One sample of the driver: how busy a process kept the GPU in the preceding interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Process id; 0 for the whole GPU.
    pub pid: u32,
    /// Time on the driver's clock, in microseconds.
    pub at_us: u64,
    /// Fraction of time, in percent.
    pub percent: f64,
}

/// Read position in the driver's samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    last_us: u64,
    backwards: u32,
    /// Readings without a sample although the GPU was busy.
    missing: u32,
}

impl Clock {
    /// Returns the timestamp after which samples should be read: the newest one seen; 0 before the first, and if samples are missing: a
    /// driver whose clock was set back has none after the newest one seen.
    pub(crate) fn since_us(&self) -> u64 {
        if self.missing >= CLOCK_RESET_AFTER { 0 } else { self.last_us }
    }

    /// Returns the samples that are new and valid; `None` if there are samples but all of them are old or invalid. `is_busy`: there should
    /// be samples, because the GPU was busy.
    pub(crate) fn new_ones(&mut self, samples: Vec<Sample>, is_busy: bool) -> Option<Vec<Sample>> {
        if samples.is_empty() {
            self.missing = self.missing.saturating_add(u32::from(is_busy));
            return Some(samples);
        }
        let is_valid = |sample: &Sample| (0.0..=100.0).contains(&sample.percent);
        let valid: Vec<Sample> = samples.into_iter().filter(is_valid).collect();
        let newest = valid.iter().map(|sample| sample.at_us).max()?;
        let last_us = self.last_us;
        if newest < last_us {
            self.backwards += 1;
            if self.backwards >= CLOCK_RESET_AFTER {
                *self = Clock { last_us: newest, ..Clock::default() };
            }
            return None;
        }
        *self = Clock { last_us: newest, ..Clock::default() };
        Some(valid.into_iter().filter(|sample| sample.at_us > last_us).collect())
    }
}

/// Returns the fraction of time in which the GPU was busy, from samples of the whole GPU.
pub(super) fn busy(samples: &[Sample]) -> Option<f64> {
    let sum: f64 = samples.iter().map(|sample| sample.percent).sum();
    (!samples.is_empty()).then(|| (sum / samples.len() as f64 / 100.0).clamp(0.0, 1.0))
}

/// Returns each process's fraction of the GPU's time. `busy`: that of the whole GPU, if known.
pub(super) fn shares(samples: &[Sample], busy: Option<f64>) -> BTreeMap<u32, f64> {
    let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    // The driver pads its buffer with process 0.
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
    fn shares_of_one_gpu_add_up_to_its_busy_time() {
        let samples = [sample(7, 10, 80.0), sample(8, 10, 40.0), sample(8, 20, 20.0), sample(0, 10, 100.0)];
        assert_eq!(shares(&samples, Some(1.0)).values().sum::<f64>(), 1.0);
        let half = shares(&samples, Some(0.55));
        assert!((half.values().sum::<f64>() - 0.55).abs() < 1e-9);
        assert!((half[&7] - 0.4).abs() < 1e-9 && (half[&8] - 0.15).abs() < 1e-9, "{half:?}");
    }

    #[test]
    fn busy_time_without_a_known_process_is_not_attributed() {
        assert_eq!(shares(&[sample(7, 10, 30.0)], Some(0.9))[&7], 0.3);
    }

    #[test]
    fn a_sample_counts_once_and_an_old_one_does_not_count() {
        let mut clock = Clock::default();
        assert_eq!(clock.new_ones(vec![sample(7, 100, 50.0)], true).map(|new| new.len()), Some(1));
        assert_eq!(clock.new_ones(vec![sample(7, 100, 50.0)], true).map(|new| new.len()), Some(0));
        assert!(clock.new_ones(vec![sample(7, 90, 50.0)], true).is_none());
        assert_eq!(clock.since_us(), 100);
        assert_eq!(clock.new_ones(Vec::new(), true).map(|new| new.len()), Some(0));
    }

    #[test]
    fn a_reset_clock_is_accepted_after_a_while() {
        let mut clock = Clock::default();
        let _ = clock.new_ones(vec![sample(7, 5000, 50.0)], true);
        for at in [10, 20, 30] {
            assert!(clock.new_ones(vec![sample(7, at, 50.0)], true).is_none());
        }
        assert_eq!(clock.new_ones(vec![sample(7, 40, 50.0)], true).map(|new| new.len()), Some(1));
    }

    #[test]
    fn a_driver_that_has_nothing_newer_about_a_busy_gpu_is_asked_for_everything() {
        let mut clock = Clock::default();
        let _ = clock.new_ones(vec![sample(7, 5000, 50.0)], true);
        for _ in 0..3 {
            let _ = clock.new_ones(Vec::new(), false);
        }
        for _ in 0..3 {
            assert_eq!(clock.since_us(), 5000, "none is expected of an idle GPU");
            let _ = clock.new_ones(Vec::new(), true);
        }
        assert_eq!(clock.since_us(), 0);
        for at in [10, 20, 30] {
            assert!(clock.new_ones(vec![sample(7, at, 50.0)], true).is_none());
        }
        assert_eq!(clock.since_us(), 30);
        assert_eq!(clock.new_ones(vec![sample(7, 40, 50.0)], true).map(|new| new.len()), Some(1));
    }

    #[test]
    fn a_percentage_above_a_hundred_is_invalid_and_its_timestamp_does_not_count() {
        let mut clock = Clock::default();
        assert!(clock.new_ones(vec![sample(7, 10, 4_000_000.0)], true).is_none());
        let samples = vec![sample(7, u64::MAX, 4_000_000.0), sample(7, 100, 50.0)];
        assert_eq!(clock.new_ones(samples, true).map(|new| new.len()), Some(1));
        assert_eq!(clock.since_us(), 100);
    }

    proptest::proptest! {
        #[test]
        fn shares_never_exceed_the_gpu_for_any_samples(
            samples in proptest::collection::vec((0u32..9, 0u64..99, -50.0f64..500.0), 0..40),
            busy in proptest::option::of(0.0f64..1.0),
        ) {
            let samples = samples.into_iter().map(|(pid, at, percent)| sample(pid, at, percent)).collect();
            let new = Clock::default().new_ones(samples, true).unwrap_or_default();
            let shares = shares(&new, busy);
            proptest::prop_assert!(shares.values().all(|share| *share >= 0.0));
            proptest::prop_assert!(shares.values().sum::<f64>() <= busy.unwrap_or(1.0) + 1e-9);
        }
    }
}
