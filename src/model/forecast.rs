//! The work that a job has left, as forecast by the governor of its node, which is input of cluster decisions; and how right forecasts were.

use super::Estimate;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The work that a job has left, in CPU-seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkForecast {
    /// CPU-seconds to the end of the job.
    pub to_end: Estimate,
    /// CPU-seconds that the job had used when the forecast was made.
    pub used: f64,
    /// CPU-seconds per progress unit.
    pub per_unit: f64,
    /// Whether that cost is known. Before that, it is a guess that lets a new job come first on its node, and says little about its work.
    #[serde(default)]
    pub is_known: bool,
    /// Cores that the job can use, as measured; at most those that it may run on. `None` in forecasts of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable: Option<f64>,
    /// CPU per progress unit beside other jobs, as a multiple of that in its own turn, when it had nearly the whole node; `None` until both
    /// are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waste: Option<f64>,
    /// CPU-seconds that the job paid beside others in addition to what the same units cost in its own turn; `None` until both are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_s: Option<f64>,
}

/// A job whose units cost more than this multiple beside others wastes CPU: its threads wait for each other, spinning.
pub const WASTEFUL: f64 = 1.5;

/// A forecast of the seconds to the end of a job, beside those that it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedForecast {
    /// Part of the job's time that had passed, 0 ..= 1.
    pub at: f64,
    /// The forecast.
    pub forecast: Estimate,
    /// What it took.
    pub left_s: f64,
}

impl JudgedForecast {
    /// |forecast / time left − 1|.
    pub fn error(&self) -> f64 {
        (self.forecast.likely / self.left_s - 1.0).abs()
    }

    /// Whether it was made within a twentieth of half of the job's time.
    pub fn is_at_half(&self) -> bool {
        (0.45..0.55).contains(&self.at)
    }
}

/// How right forecasts were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// Number of forecasts.
    pub forecasts: usize,
    /// Part of them with the end inside the range.
    pub inside: f64,
    /// Median error of those made at half of each job's time; `None` if there are none.
    pub error_at_half: Option<f64>,
}

impl Accuracy {
    /// Judges the forecasts; `None` if there are none.
    pub fn of(all: &[JudgedForecast]) -> Option<Accuracy> {
        let is_inside =
            |judged: &&JudgedForecast| (judged.forecast.low..=judged.forecast.high).contains(&judged.left_s);
        let mut errors: Vec<f64> = all.iter().filter(|judged| judged.is_at_half()).map(JudgedForecast::error).collect();
        errors.sort_by(f64::total_cmp);
        (!all.is_empty()).then(|| Accuracy {
            forecasts: all.len(),
            inside: all.iter().filter(is_inside).count() as f64 / all.len() as f64,
            error_at_half: errors.get(errors.len() / 2).copied(),
        })
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = self.error_at_half.map_or_else(String::new, |error| {
            format!("; at half of a job's time they were wrong by {:.0} % (median)", 100.0 * error)
        });
        let Accuracy { forecasts, inside, .. } = self;
        write!(
            f,
            "{:.0} % of {forecasts} forecasts of the time left had the end in their 80 % range{error}",
            100.0 * inside
        )
    }
}

impl WorkForecast {
    /// Returns the forecast once the job has used `used` CPU-seconds. A job that has used more than forecast has a tenth of a unit left.
    pub fn after(self, used: f64) -> WorkForecast {
        let done = (used - self.used).max(0.0);
        let left = |work: f64| (work - done).max(0.1 * self.per_unit);
        let Estimate { low, likely, high } = self.to_end;
        WorkForecast { to_end: Estimate { low: left(low), likely: left(likely), high: left(high) }, used, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forecasts_are_judged_by_their_range_and_by_their_error_at_half() {
        let judged = |at: f64, likely: f64| JudgedForecast {
            at,
            forecast: Estimate { low: 0.8 * likely, likely, high: 1.5 * likely },
            left_s: 100.0,
        };
        let all = [judged(0.1, 300.0), judged(0.5, 90.0), judged(0.46, 130.0), judged(0.54, 110.0)];
        let accuracy = Accuracy::of(&all).unwrap();
        assert_eq!((accuracy.forecasts, accuracy.inside), (4, 0.5));
        assert!((accuracy.error_at_half.unwrap() - 0.1).abs() < 1e-9, "{accuracy:?}");
        let words = "50 % of 4 forecasts of the time left had the end in their 80 % range; at half of a job's time they were wrong by 10 % (median)";
        assert_eq!(accuracy.to_string(), words);
        assert_eq!(Accuracy::of(&[]), None);
        assert_eq!(Accuracy::of(&all[..1]).unwrap().error_at_half, None);
    }
}
