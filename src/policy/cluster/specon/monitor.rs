//! Algorithm 1: categorises a job by its evaluation function.
//!
//! E is normalised by the range of the values seen so far and averaged over the interval. An interval without a value changes nothing:
//! missing data is not convergence.

use model::Millis;
use model::cluster::{Category, Convergence};
use serde::{Deserialize, Serialize};

/// Tracks the evaluation function of one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Monitor {
    lowest: f64,
    highest: f64,
    /// Sum and number of the values in the current interval.
    interval: (f64, u32),
    /// [E(t_{m−1})] Mean of the previous interval.
    before: Option<f64>,
    /// [G(t_{m−1})]
    gain: Option<f64>,
    category: Category,
    asks: bool,
    since: Millis,
}

impl Monitor {
    /// Returns the monitor of a job that starts: Progressing.
    pub fn new(now: Millis) -> Monitor {
        Monitor {
            lowest: f64::INFINITY,
            highest: f64::NEG_INFINITY,
            interval: (0.0, 0),
            before: None,
            gain: None,
            category: Category::Progressing,
            asks: false,
            since: now,
        }
    }

    /// Records a value that the job printed.
    pub fn evaluate(&mut self, value: f64) {
        if value.is_finite() {
            self.lowest = self.lowest.min(value);
            self.highest = self.highest.max(value);
            self.interval = (self.interval.0 + value, self.interval.1 + 1);
        }
    }

    /// Ends a categorisation interval; `threshold` is α.
    pub fn categorise(&mut self, now: Millis, threshold: f64) {
        self.asks = false;
        let (sum, count) = std::mem::take(&mut self.interval);
        if count == 0 {
            return;
        }
        let mean = sum / f64::from(count);
        let range = self.highest - self.lowest;
        if let Some(before) = self.before.replace(mean)
            && range > 0.0
        {
            let gain = (mean - before).abs() / range;
            if let Some(last) = self.gain.replace(gain) {
                self.judge(gain, last, threshold, now);
            }
        }
    }

    fn judge(&mut self, gain: f64, last: f64, threshold: f64, now: Millis) {
        let next = match self.category {
            _ if gain > threshold => Category::Progressing,
            Category::Progressing if gain < last && gain < threshold => Category::Watching,
            Category::Watching if gain < last && gain < threshold => Category::Converged,
            unchanged => unchanged,
        };
        if next != self.category {
            (self.category, self.since) = (next, now);
        } else {
            self.asks = next == Category::Converged && gain < last && gain < threshold;
        }
    }

    /// Returns the current category of the job.
    pub fn convergence(&self) -> Convergence {
        Convergence { category: self.category, asks: self.asks, since: self.since }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the category after each interval of one value; NaN = no value.
    fn categories(values: &[f64]) -> Vec<(Category, bool)> {
        let mut monitor = Monitor::new(Millis(0));
        let mut at = Millis(0);
        let mut after = |value: &f64| {
            at = at.after(Millis::from_secs(30));
            monitor.evaluate(*value);
            monitor.categorise(at, 0.05);
            (monitor.convergence().category, monitor.convergence().asks)
        };
        values.iter().map(&mut after).collect()
    }

    #[test]
    fn a_job_that_slows_down_is_watched_then_converged_then_asks_for_a_move() {
        use Category::{Converged, Progressing, Watching};
        let seen = categories(&[100.0, 50.0, 20.0, 16.0, 13.0, 11.0, 10.0]);
        let names: Vec<Category> = seen.iter().map(|(category, _)| *category).collect();
        assert_eq!(names, [Progressing, Progressing, Progressing, Watching, Converged, Converged, Converged]);
        assert_eq!(seen.iter().map(|(_, asks)| *asks).collect::<Vec<_>>()[4..], [false, true, true]);
    }

    #[test]
    fn a_job_that_grows_again_is_progressing_and_one_that_bounces_keeps_its_category() {
        use Category::{Progressing, Watching};
        let seen = categories(&[100.0, 50.0, 20.0, 16.0, 12.5, 40.0]);
        assert_eq!(seen[3].0, Watching);
        assert_eq!(seen[4].0, Category::Converged);
        assert_eq!(seen[5].0, Progressing);
        let bouncing = categories(&[100.0, 50.0, 20.0, 18.0, 15.0]);
        assert_eq!((bouncing[3].0, bouncing[4].0), (Watching, Watching), "3.5 % is more than 2.4 %");
    }

    #[test]
    fn an_interval_without_a_value_changes_nothing() {
        let seen = categories(&[100.0, 50.0, f64::NAN, f64::NAN, f64::NAN]);
        assert!(seen.iter().all(|(category, asks)| *category == Category::Progressing && !asks));
    }
}
