//! Learning state of a job: the metric with its trend, the progress, and details of log reading.

use super::{finite, finite_option, word};
use model::{Direction, Hints, JobStatus, Learning, LogOrigin, Millis, Phase};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Trend of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trend {
    /// Improving.
    Improving,
    /// No gain beyond the noise.
    Plateau,
    /// Getting worse, or not finite.
    Diverging,
    /// Too few evaluations.
    #[serde(other)]
    Unknown,
}

impl Trend {
    fn of(learning: &Learning, recent: &[f64]) -> Trend {
        match learning.curve.map(|curve| curve.phase) {
            Some(Phase::Improving) => Trend::Improving,
            Some(Phase::Plateau) => Trend::Plateau,
            Some(Phase::Diverging) => Trend::Diverging,
            Some(Phase::Unknown) | None => Trend::of_last_two(learning.direction, recent),
        }
    }

    fn of_last_two(direction: Option<Direction>, recent: &[f64]) -> Trend {
        let (Some(direction), [.., old, new]) = (direction, recent) else { return Trend::Unknown };
        match direction.improvement(*old, *new) {
            better if better > 0.0 => Trend::Improving,
            worse if worse < 0.0 => Trend::Diverging,
            0.0 => Trend::Plateau,
            _not_a_number => Trend::Unknown,
        }
    }
}

/// Summary of the evaluation function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Metric {
    /// Its name, if known.
    pub name: Option<String>,
    /// Direction of improvement: `down` or `up`.
    pub direction: Option<String>,
    /// The latest value; null if it is not finite.
    pub value: Option<f64>,
    /// Trend.
    pub trend: Trend,
    /// Confidence of the log reading, 0 to 1.
    pub confidence: f64,
    /// Recent values, oldest first.
    pub recent: Vec<Option<f64>>,
}

impl Metric {
    pub(super) fn of(job: &JobStatus) -> Option<Metric> {
        let learning = &job.observed.learning;
        let latest = learning.latest.as_ref()?;
        Some(Metric {
            name: learning.metric.clone(),
            direction: learning.direction.map(word),
            value: finite(latest.value),
            trend: Trend::of(learning, &job.recent),
            confidence: finite(learning.confidence).unwrap_or(0.0),
            recent: job.recent.iter().copied().map(finite).collect(),
        })
    }
}

/// An uncertain quantity: the range from low to high covers about 80 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Estimate {
    /// 10 % quantile.
    pub low: f64,
    /// Median.
    pub likely: f64,
    /// 90 % quantile; null if unbounded.
    pub high: Option<f64>,
}

impl From<Estimate> for model::Estimate {
    fn from(Estimate { low, likely, high }: Estimate) -> model::Estimate {
        model::Estimate { low, likely, high: high.unwrap_or(f64::INFINITY) }
    }
}

impl Estimate {
    pub(super) fn of(estimate: model::Estimate, scale: f64) -> Option<Estimate> {
        Some(Estimate {
            low: finite(estimate.low * scale)?.max(0.0),
            likely: finite(estimate.likely * scale)?.max(0.0),
            high: finite(estimate.high * scale).map(|high| high.max(0.0)),
        })
    }
}

/// Progress of a job, from its log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Unit: `epoch`, `step`, `iteration`, `percent`, `round`, `sample`.
    pub unit: String,
    /// Units done.
    pub current: Option<f64>,
    /// Total units, if the log prints it.
    pub total: Option<f64>,
    /// Total units claimed by the job's command or configuration, if the log does not print it.
    pub claimed_total: Option<f64>,
    /// current/total, 0 to 1.
    pub fraction: Option<f64>,
    /// Recent units per second.
    pub units_per_s: Option<f64>,
    /// Seconds to completion, with the range in which four of five ends are, as the plan for all jobs will develop; for jobs with a GPU, at
    /// the current rate.
    pub remaining_s: Option<Estimate>,
}

impl Progress {
    pub(super) fn of(learning: &Learning, seconds_left: Option<model::Estimate>) -> Option<Progress> {
        let progress = learning.progress.as_ref()?;
        let total = finite_option(progress.total).filter(|total| *total > 0.0);
        let rate = finite_option(learning.units_per_second).filter(|rate| *rate > 0.0);
        Some(Progress {
            unit: word(progress.unit),
            current: finite(progress.current),
            total,
            claimed_total: learning.claim.as_ref().and_then(|claim| finite(claim.total)),
            fraction: total.and_then(|total| finite(progress.current / total)).map(|fraction| fraction.clamp(0.0, 1.0)),
            units_per_s: rate,
            remaining_s: seconds_left.and_then(|left| Estimate::of(left, 1.0)),
        })
    }
}

/// Where a log can be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogAddress {
    /// `file`: on this machine; `inside`: in the container; `output`: output of a command of `flowctl run`, while it runs; `engine`: from
    /// the engine at a socket.
    pub kind: String,
    /// The file, or the engine's socket.
    pub path: String,
    /// For `inside`, a process of the container; for `output`, the process of `flowctl run`.
    pub pid: Option<u32>,
}

impl LogAddress {
    fn of(origin: &LogOrigin) -> LogAddress {
        let (kind, path, pid) = match origin {
            LogOrigin::File(path) => ("file", path.clone(), None),
            LogOrigin::Inside { pid, path } => ("inside", path.clone(), Some(*pid)),
            LogOrigin::Output { pid, fd } => ("output", format!("/proc/{pid}/fd/{fd}").into(), Some(*pid)),
            LogOrigin::Engine(socket) => ("engine", socket.clone(), None),
        };
        LogAddress { kind: kind.to_owned(), path: path.to_string_lossy().into_owned(), pid }
    }
}

/// Returns the labels that affect log reading.
fn labels(hints: &Hints) -> BTreeMap<String, String> {
    let ignore = (!hints.ignore.is_empty()).then(|| hints.ignore.join(","));
    let labels = [
        ("flowcon.metric", hints.metric.clone()),
        ("flowcon.direction", hints.direction.map(word)),
        ("flowcon.pattern", hints.pattern.as_ref().map(|pattern| pattern.expression().to_owned())),
        ("flowcon.total", hints.total.map(|total| total.to_string())),
        ("flowcon.unit", hints.unit.map(word)),
        ("flowcon.ignore", ignore),
    ];
    labels.into_iter().filter_map(|(label, value)| Some((label.to_owned(), value?))).collect()
}

/// Total claimed by the job's command or configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Claim {
    /// Total units.
    pub total: f64,
    /// Unit; null if the log has no counter and printed evaluations are counted.
    pub unit: Option<String>,
    /// The option or variable, as written.
    pub key: String,
    /// Origin: `command`, `environment` or `config-file`.
    pub origin: String,
    /// Confidence that this is the total, 0 to 1.
    pub confidence: f64,
}

impl Claim {
    fn of(learning: &Learning) -> Option<Claim> {
        let claim = learning.claim.as_ref()?;
        Some(Claim {
            total: finite(claim.total)?,
            unit: learning.progress.as_ref().map(|progress| word(progress.unit)),
            key: claim.key.clone(),
            origin: word(claim.origin),
            confidence: finite(claim.confidence)?,
        })
    }
}

/// Details of log reading.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reading {
    /// Source of the log.
    pub source: String,
    /// Where the whole log can be read; null if it is not kept.
    pub log: Option<LogAddress>,
    /// The labels that affect log reading.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The line of the latest evaluation, truncated.
    pub line: Option<String>,
    /// Number of evaluations read since the container was found, including those on the node from which it moved.
    pub evaluations: u64,
    /// Age of the latest evaluation.
    pub latest_age_s: Option<f64>,
    /// Improvement over the last measured interval as a fraction of the range of values; null without data.
    pub gain: Option<f64>,
    /// Length of the interval of the gain.
    pub gain_over_s: Option<f64>,
    /// `unknown`, `improving`, `plateau` or `diverging`, from the fitted curve.
    pub phase: Option<String>,
    /// Fraction of the final improvement reached, 0 to 1, from the fitted curve.
    pub quality: Option<f64>,
    /// Seconds to 95 % of the final improvement at the current rate.
    pub to_quality_s: Option<Estimate>,
    /// Number of earlier runs of the same training used for the forecast.
    #[serde(default)]
    pub prior_runs: usize,
    /// The claimed total that is used if the log prints none.
    pub claim: Option<Claim>,
}

impl Reading {
    pub(super) fn of(job: &JobStatus, now: Millis) -> Reading {
        let learning = &job.observed.learning;
        let rate = finite_option(learning.units_per_second).filter(|rate| *rate > 0.0);
        let curve = learning.curve.as_ref();
        Reading {
            source: job.log_source.clone(),
            log: job.log_origin.as_ref().map(LogAddress::of),
            labels: labels(&job.directives.hints),
            line: job.line.clone(),
            evaluations: learning.evaluations,
            latest_age_s: learning.latest.map(|latest| now.since(latest.at).as_secs_f64()),
            gain: learning.gain.and_then(|gain| finite(gain.amount)),
            gain_over_s: learning.gain.map(|gain| gain.to.since(gain.from).as_secs_f64()),
            phase: curve.map(|curve| word(curve.phase)),
            quality: curve.and_then(|curve| finite(curve.quality)),
            to_quality_s: curve
                .and_then(|curve| curve.units_to_quality)
                .zip(rate)
                .and_then(|(units, rate)| Estimate::of(units, 1.0 / rate)),
            prior_runs: learning.prior_runs,
            claim: Claim::of(learning),
        }
    }
}
