//! What a job's log says about its learning: evaluations, progress, and the shape of its curve.

use super::Millis;
use serde::{Deserialize, Serialize};

/// Which way the evaluation function improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// A loss or an error: smaller is better.
    Down,
    /// An accuracy or a reward: larger is better.
    Up,
}

impl Direction {
    /// How much better `new` is than `old`, in the metric's own unit (negative = worse).
    pub fn improvement(self, old: f64, new: f64) -> f64 {
        match self {
            Direction::Down => old - new,
            Direction::Up => new - old,
        }
    }
}

/// One printed value of the evaluation function [E].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// When the line was read.
    pub at: Millis,
    /// The value as printed; may be NaN or infinite.
    #[serde(with = "super::number")]
    pub value: f64,
    /// The progress counter that belongs to this value, as printed.
    pub current: Option<f64>,
    /// The counter's total, as printed.
    pub total: Option<f64>,
}

/// What one step of the progress counter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgressUnit {
    /// A pass over the data.
    Epoch,
    /// An optimiser step or batch.
    Step,
    /// An iteration of an algorithm.
    Iteration,
    /// Hundredths of the whole.
    Percent,
    /// A boosting round.
    Round,
    /// A training sample.
    Sample,
}

/// How far the job says it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What is counted.
    pub unit: ProgressUnit,
    /// Units done, nested counters folded in (epoch 3 of 10 and batch 50 of 100 is 2.5).
    pub current: f64,
    /// Units to do; `None` where the log does not say.
    pub total: Option<f64>,
    /// When this was read.
    pub at: Millis,
}

/// A quantity that is not known exactly: low ≤ likely ≤ high covers about 80 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// 10 % quantile.
    pub low: f64,
    /// Median.
    pub likely: f64,
    /// 90 % quantile.
    pub high: f64,
}

/// Where the job is on its learning curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Too few evaluations to say.
    Unknown,
    /// Getting better.
    Improving,
    /// No gain beyond the noise for a while.
    Plateau,
    /// Getting worse beyond the noise, or no longer a number.
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
    /// End of the later one: the present tick.
    pub to: Millis,
}

/// The fitted learning curve, against progress units (or printed evaluations, where the log counts nothing).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Where the job is.
    pub phase: Phase,
    /// Share of the final improvement already had, 0 ..= 1.
    pub quality: f64,
    /// Units still to do until 95 % of the final improvement; zero when there.
    pub units_to_quality: Option<Estimate>,
}

/// Where a total is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimOrigin {
    /// The command line of one of the job's processes.
    Command,
    /// The environment of one of them.
    Environment,
    /// A configuration file that a command line names.
    ConfigFile,
}

/// How long the job will train, as its command or its configuration has it, where the log does not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TotalClaim {
    /// Units to do, in the units of [`Learning::progress`]; in printed evaluations, where the log counts nothing.
    pub total: f64,
    /// The option or variable that says so, as written: `--epochs`.
    pub key: String,
    /// Where it stands.
    pub origin: ClaimOrigin,
    /// How sure it is that the key means this total, 0 ..= 1.
    pub confidence: f64,
}

/// All that is known of the learning of one container at one instant, nearly all of it from its log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learning {
    /// The evaluation function's name, where one was found.
    pub metric: Option<String>,
    /// Which way it improves.
    pub direction: Option<Direction>,
    /// How sure the reading is, 0 ..= 1.
    pub confidence: f64,
    /// The latest value, as printed.
    pub latest: Option<Evaluation>,
    /// Evaluations read since the container was found, and before on another node, if it moved with what was known of it.
    pub evaluations: u64,
    /// Gain since the previous interval with data; `None` = no data in this interval, which is unknown and not zero.
    pub gain: Option<Gain>,
    /// The progress counter.
    pub progress: Option<Progress>,
    /// Progress units a second, observed lately.
    pub units_per_second: Option<f64>,
    /// Units still to do until completion, by the log's total or else by the claimed one; `None` where both are unknown. Before the
    /// first line: as many as an earlier run did, or as are claimed in the unit that it counted.
    pub units_to_completion: Option<Estimate>,
    /// The fitted curve, once there are enough evaluations; what earlier runs foretell, while there are none.
    pub curve: Option<Curve>,
    /// Earlier runs of the same training that the curve leans on.
    #[serde(default)]
    pub earlier_runs: usize,
    /// CPU-seconds of a progress unit in the latest of them, what the start cost included; or else on the node from which it moved.
    #[serde(default)]
    pub earlier_price: Option<f64>,
    /// The total that the job's command claims, where its log does not say one and the job has not run past it.
    #[serde(default)]
    pub claim: Option<TotalClaim>,
    /// All of it is as another node's daemon knew it when the job left there: nothing was read here yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_carried: bool,
}
