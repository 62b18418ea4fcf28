//! What a log says about its training: evaluations, progress, and the shape of the learning curve.

use crate::Millis;
use crate::claim::TotalClaim;
use serde::{Deserialize, Serialize};

/// The direction in which the evaluation function improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// A loss or an error: smaller is better.
    Down,
    /// An accuracy or a reward: larger is better.
    Up,
}

impl Direction {
    /// Returns by how much `new` is better than `old`, in the metric's unit (negative = worse).
    pub fn improvement(self, old: f64, new: f64) -> f64 {
        match self {
            Direction::Down => old - new,
            Direction::Up => new - old,
        }
    }
}

/// One printed value of the evaluation function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Time at which the line was read.
    pub at: Millis,
    /// The value as printed; may be NaN or infinite.
    #[serde(with = "crate::number")]
    pub value: f64,
    /// The progress counter that belongs to the value, as printed.
    pub current: Option<f64>,
    /// The total of the counter, as printed.
    pub total: Option<f64>,
}

/// The unit of the progress counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgressUnit {
    /// A pass over the data.
    Epoch,
    /// An optimiser step or batch.
    Step,
    /// An iteration of an algorithm.
    Iteration,
    /// A percentage of the whole.
    Percent,
    /// A boosting round.
    Round,
    /// A training sample.
    Sample,
}

/// The progress that the job reports.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The unit.
    pub unit: ProgressUnit,
    /// Units done, with nested counters combined (epoch 3 of 10 and batch 50 of 100 is 2.5).
    pub current: f64,
    /// Total units; `None` if the log does not state it.
    pub total: Option<f64>,
    /// Time at which this was read.
    pub at: Millis,
}

/// A quantity that is not known exactly: low ≤ likely ≤ high, an interval that covers about 80 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// 10 % quantile.
    pub low: f64,
    /// Median.
    pub likely: f64,
    /// 90 % quantile.
    pub high: f64,
}

impl Estimate {
    /// Returns the estimate of a quantity that is known exactly.
    pub fn exactly(value: f64) -> Estimate {
        Estimate { low: value, likely: value, high: value }
    }
}

/// The phase of the learning curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Too few evaluations.
    Unknown,
    /// Improving beyond the noise.
    Improving,
    /// No improvement beyond the noise for a while.
    Plateau,
    /// Worsening beyond the noise, or no longer a number.
    Diverging,
}

/// Improvement between the last two intervals that had evaluations.
///
/// The evaluations of an interval are averaged; the difference of the averages, positive when better, is divided by the
/// range of values seen so far, so that 300 → 290 and 2.3 → 0.1 compare. Earlier gains are not rewritten when the range grows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Improvement as a fraction of the range, −1 ..= 1.
    pub amount: f64,
    /// End of the earlier of the two intervals.
    pub from: Millis,
    /// End of the later interval: the current tick.
    pub to: Millis,
}

/// The values that were printed in an interval, neither filtered nor fitted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrintedMean {
    /// Their mean.
    pub mean: f64,
    /// The largest absolute value printed so far.
    pub largest: f64,
}

/// The fitted learning curve over progress units (or over printed evaluations, if the log counts nothing).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The current phase.
    pub phase: Phase,
    /// Fraction of the final improvement reached, 0 ..= 1.
    pub quality: f64,
    /// Units left until 95 % of the final improvement; zero once it is reached.
    pub units_to_quality: Option<Estimate>,
}

/// The latest values, which have something in common that the one before had not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Streak {
    /// Number of them.
    pub values: u64,
    /// When the first of them was read.
    pub since: Millis,
    /// The progress counter at the first of them, as printed.
    pub units: Option<f64>,
}

/// The latest values are worse than the best ones. Means of five values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decline {
    /// The best mean of five consecutive values, in the metric's unit.
    pub best: f64,
    /// Progress units at the last of these; `None` if the log has no counter.
    pub units: Option<f64>,
    /// Evaluations since then.
    pub evaluations: u64,
    /// How much worse the mean of the latest five values is, as a part of the range of values so far; at most [`Decline::AT_MOST`].
    pub of_range: f64,
    /// How much worse it is than the best, in standard errors of the difference; at most [`Decline::AT_MOST`].
    pub errors: f64,
}

impl Decline {
    /// Upper bound of [`Decline::of_range`] and [`Decline::errors`], where the range or the noise is zero.
    pub const AT_MOST: f64 = 1000.0;
}

/// What is known about a training at one instant, mostly from its log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learning {
    /// Name of the evaluation function, if one was found.
    pub metric: Option<String>,
    /// Direction in which it improves.
    pub direction: Option<Direction>,
    /// Confidence of the reading, 0 ..= 1.
    pub confidence: f64,
    /// The latest value, as printed.
    pub latest: Option<Evaluation>,
    /// Evaluations read, plus those of the [`LearningRecord`](crate::LearningRecord) or [`Checkpoint`](crate::Checkpoint) that the tracker
    /// continues from.
    pub evaluations: u64,
    /// Gain since the previous interval with data; `None` = no data in this interval, which is unknown and not zero.
    pub gain: Option<Gain>,
    /// The values printed in the interval that ended last; `None` = none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<PrintedMean>,
    /// The progress counter.
    pub progress: Option<Progress>,
    /// Progress units per second, observed recently.
    pub units_per_second: Option<f64>,
    /// Units left until completion, by the log's total or else by the claimed total; `None` if both are unknown. Before the first line of
    /// the log: the total of a prior run, or the claimed total in the unit that the prior run counted.
    pub units_to_completion: Option<Estimate>,
    /// The fitted curve, once there are enough evaluations; until then, the curve forecast from prior runs.
    pub curve: Option<Curve>,
    /// Number of prior runs of the same training that the curve is based on.
    #[serde(default, alias = "earlier_runs")]
    pub prior_runs: usize,
    /// CPU-seconds per progress unit in the latest prior run, start-up included. A caller may set another known cost, such as
    /// [`LearningRecord::cpu_per_unit`](crate::LearningRecord::cpu_per_unit).
    #[serde(default, alias = "earlier_price")]
    pub prior_cost_per_unit: Option<f64>,
    /// The total claimed by the job's command, if the log does not state one and the job has not run past it.
    #[serde(default)]
    pub claim: Option<TotalClaim>,
    /// Whether all of this comes from a [`LearningRecord`](crate::LearningRecord): nothing has been read here yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_carried: bool,
    /// When the log last grew here, be it by lines without a value; `None` = not since this tracker was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_grew: Option<Millis>,
    /// The latest values, if they are not finite: NaN or infinite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_finite: Option<Streak>,
    /// The latest values that were not finite, two or more, once finite ones have followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was_not_finite: Option<Streak>,
    /// The latest values, if they are worse than all before, by about the whole range of those or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exploded: Option<Streak>,
    /// Set while the latest values are worse than the best ones, be it by noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline: Option<Decline>,
    /// Whether the metric is measured on data that the job does not train on, as its name or its place in the log says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_held_out: bool,
}

impl Learning {
    /// Returns the seconds to completion at the recent speed; `None` if the end or the speed is unknown.
    pub fn seconds_left(&self) -> Option<Estimate> {
        let rate = self.units_per_second.filter(|rate| rate.is_finite() && *rate > 0.0)?;
        let Estimate { low, likely, high } = self.units_to_completion?;
        Some(Estimate { low: low / rate, likely: likely / rate, high: high / rate })
    }
}
