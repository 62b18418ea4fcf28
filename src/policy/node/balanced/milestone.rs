//! Milestones ahead of a job, with their credit and work: the index of Smith's rule.

use super::work::Work;
use crate::node::importance;
use model::{Condition, ContainerObservation, Estimate, Objective, Phase, TotalClaim};

/// Part of the whole work at which a typical job reaches 95 % quality. Used until the job's own curve shows that point; and to estimate the
/// whole work from that point, where the log does not say it.
pub(super) const TYPICAL_QUALITY_AT: f64 = 0.37;

/// Confidence in a job that has reported no unit done: only its command, or a heading such as `Epoch 1/40`, says how much it will do.
pub(super) const CONFIDENCE_BEFORE_THE_FIRST_UNIT: f64 = 0.8;

/// A job with an unknown end stops lending once it is behind plain sharing by this part of its work done.
pub(super) const LAG_AT_MOST: f64 = 0.19;

/// Part of a job's lag behind plain sharing that is taken off its work to a known end: with 1, jobs come in the order in which plain
/// sharing would complete them.
const LAG_IN_WORK: f64 = 0.25;

/// The work to a known end counts for at least this part of itself, whatever the lag.
const LEAST_WORK: f64 = 0.1;

/// Maximum effect of the lag on the rank of a job with an unknown end, in multiples of [`LAG_AT_MOST`].
const LAG_IN_RANK: f64 = 2.0;

/// A job with an unknown end is expected to run for at least this part of its work done.
const LEAST_REMAINING: f64 = 0.33;

/// A job with an unknown end is expected to run for at most this multiple of its work done: a curve that has hardly bent yet forecasts
/// hours for a training of seconds.
const MOST_REMAINING: f64 = UNKNOWN_END_FACTOR;

/// Claims of a total with less confidence are ignored.
const LEAST_SURE_CLAIM: f64 = 0.5;

/// Factor on the credit of completion where the total is only claimed: claims are sometimes wrong, while quality is read from the log.
const CLAIMED_END: f64 = 0.88;

/// Four fifths of the jobs with an unknown end finish within this factor of the estimate.
const UNKNOWN_END_FACTOR: f64 = 4.0;

/// A milestone without credit in the objective still has this credit, so that it can be ranked.
const LEAST_CREDIT: f64 = 0.02;

/// Where in the upper half of its interval the point of quality is assumed that earlier runs forecast: 0 = most likely, 1 = upper end. CPU
/// for quality that comes late is lost for the other jobs, while quality that comes early is noticed when it comes.
const CAUTION: f64 = 0.3;

/// A good model is reached, in a forecast, once less than this part of the whole work is left to it.
const REACHED: f64 = 0.01;

/// Metrics that are read with less confidence do not count as quality.
const LEAST_CONFIDENCE: f64 = 0.5;

/// The milestone with the best credit per work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Milestone {
    /// Name shown by `flowctl explain`.
    pub(super) name: &'static str,
    /// CPU-seconds to the milestone.
    pub(super) work: f64,
    /// Logarithm of weight · credit / work.
    pub(super) log_index: f64,
    /// Confidence in the estimate, 0 ..= 1.
    pub(super) confidence: f64,
    /// CPU-seconds to the end; a rough estimate where the end is unknown.
    pub(super) to_end: Estimate,
}

/// What was measured of a job, from which its prospect follows.
pub(super) struct Measured<'a> {
    /// The container as observed.
    pub(super) container: &'a ContainerObservation,
    /// Work done, and cost per unit.
    pub(super) work: Work,
    /// CPU-seconds from the start to a good model, by the last forecast.
    pub(super) good_at: Option<f64>,
    /// CPU-seconds behind plain sharing; negative = ahead.
    pub(super) behind: f64,
    /// Seconds until the owner's deadline, if any.
    pub(super) deadline: Option<f64>,
    /// Cores that it could use alone, and cores of an equal share.
    pub(super) cores: f64,
    pub(super) equal: f64,
}

/// What is ahead of a job and what it is worth: all that its rank depends on, now and as it works.
#[derive(Clone, Copy, Debug)]
pub(in crate::node) struct Prospect {
    weight: f64,
    /// Credit of completion; the rest is that of quality.
    completion: f64,
    /// CPU-seconds to 95 % quality, while it is ahead.
    to_quality: Option<f64>,
    /// CPU-seconds to the end; a rough estimate where the end is unknown.
    to_end: Estimate,
    is_end_known: bool,
    /// Credit of all that is ahead, and of the end alone.
    ahead: f64,
    end: f64,
    /// Confidence in a known end.
    confidence: f64,
    /// CPU-seconds used since the start, and those behind plain sharing.
    done: f64,
    behind: f64,
    deadline: Option<f64>,
    cores: f64,
    equal: f64,
}

impl Prospect {
    pub(super) fn of(measured: &Measured<'_>, objective: Objective) -> Prospect {
        let Measured { container, work, behind, deadline, cores, equal, .. } = *measured;
        let completion = if objective.0.is_finite() { objective.0.clamp(0.0, 1.0) } else { Objective::BALANCED.0 };
        let quality = quality_ahead(container);
        let to_quality = match quality {
            Quality::After(units) | Quality::Typically(units) => Some(work.to(units)),
            Quality::WithTheEnd | Quality::Reached => None,
        };
        let units_to_end = units_to_end(container);
        let learning = &container.learning;
        let has_units = learning.progress.is_some_and(|progress| progress.current > 0.0) || learning.prior_runs > 0;
        let to_end = units_to_end.map_or_else(
            || unknown_end(work_to_unknown_end(&work, measured.good_at)),
            |Estimate { low, likely, high }| Estimate {
                low: work.to(low),
                likely: work.to(likely),
                high: work.to(high),
            },
        );
        let is_overfitting = container.health.condition == Condition::Overfitting;
        let ahead = match quality {
            // Who knows when it ends? Not for quality, in any case.
            Quality::Reached if is_overfitting && units_to_end.is_none() => 0.0,
            Quality::Reached => completion,
            _ => 1.0,
        };
        let claimed = if learning.claim.is_some() { CLAIMED_END } else { 1.0 };
        Prospect {
            weight: importance(container),
            completion,
            to_quality,
            to_end,
            is_end_known: units_to_end.is_some(),
            ahead: claimed * ahead,
            end: claimed * completion,
            confidence: if has_units { 1.0 } else { CONFIDENCE_BEFORE_THE_FIRST_UNIT },
            done: work.done,
            behind,
            deadline,
            cores,
            equal,
        }
    }

    /// Returns the milestone with the best credit per work; `None` if no milestone can be estimated.
    pub(super) fn best(&self) -> Option<Milestone> {
        let doubt = if self.is_end_known { 1.0 } else { (1.0 - self.lag()).clamp(0.0, 1.0) };
        let (confidence, to_end) = (self.confidence * doubt, self.to_end);
        let offer = |name, credit: f64, work: f64| {
            let log_index = (self.weight * credit.max(LEAST_CREDIT) / work).ln();
            log_index.is_finite().then_some(Milestone { name, work, log_index, confidence, to_end })
        };
        let good = self.to_quality.and_then(|work| offer("95 % quality", 1.0 - self.completion, work));
        let work = to_end.likely;
        let end = if self.is_end_known {
            let ahead = self.ahead * self.lateness();
            match self.urgency() {
                Some(urgency) => offer("the deadline", ahead * urgency, work),
                None => offer("completion", ahead, work),
            }
        } else {
            offer("an end", self.ahead, work.max(at_most(self.to_quality.unwrap_or(0.0), self.done)))
                .map(|end| Milestone { log_index: end.log_index + self.lag().clamp(-LAG_IN_RANK, LAG_IN_RANK), ..end })
        };
        match (good, end) {
            (Some(quality), Some(end)) if end.log_index > quality.log_index => Some(end),
            (Some(quality), _) => Some(quality),
            (None, end) => end,
        }
    }

    /// Factor on the credit of a known end, as if part of the lag were taken off the work; less than 1 for a job that is ahead.
    fn lateness(&self) -> f64 {
        let work = self.to_end.likely;
        work / (work - LAG_IN_WORK * self.behind).max(LEAST_WORK * work)
    }

    /// Equal shares that the job needs to meet its deadline; `None` if one is enough or the whole node is not.
    fn urgency(&self) -> Option<f64> {
        let needed = self.to_end.likely / self.deadline.filter(|seconds| *seconds > 0.0)?;
        (needed > self.equal && needed <= self.cores).then_some(needed / self.equal)
    }

    /// Lag behind plain sharing, as a fraction of the maximum; negative = ahead. While ends are unknown their order is a guess, so CPU on
    /// the way to a good model is only lent: a job that is behind lends less and less, and comes first once no good model is near, until
    /// all jobs are where plain sharing would have them.
    fn lag(&self) -> f64 {
        let lag = self.behind / (LAG_AT_MOST * self.done);
        if lag.is_nan() { 1.0 } else { lag }
    }

    /// CPU-seconds to 95 % quality, while it is ahead.
    pub(in crate::node) fn work_to_quality(&self) -> Option<f64> {
        self.to_quality
    }

    /// Takes the work of some seconds, in which it used `cpu` CPU-seconds and was due `due` cores.
    pub(in crate::node) fn pass(&mut self, seconds: f64, cpu: f64, due: f64) {
        self.done += cpu;
        self.behind += due * seconds - cpu;
        self.equal = due;
        self.deadline = self.deadline.map(|deadline| deadline - seconds);
        let left = (self.to_end.likely - cpu).max(f64::MIN_POSITIVE);
        self.to_end = Estimate { likely: left, ..self.to_end };
        self.to_quality = self.to_quality.map(|work| work - cpu).filter(|work| *work > REACHED * (self.done + left));
        if self.to_quality.is_none() {
            self.ahead = self.ahead.min(self.end);
        }
    }
}

/// Estimated work to an unknown end: slow learning suggests long training, and a job that has run for long is expected to continue for
/// long.
fn work_to_unknown_end(work: &Work, good_at: Option<f64>) -> f64 {
    let typical = good_at.map_or(0.0, |good_at| good_at / TYPICAL_QUALITY_AT - work.done);
    at_most(typical, work.done).max(LEAST_REMAINING * work.done)
}

fn at_most(work: f64, done: f64) -> f64 {
    work.min(MOST_REMAINING * done)
}

/// The claim of the total, if its confidence is high enough.
fn sure_claim(container: &ContainerObservation) -> Option<&TotalClaim> {
    container.learning.claim.as_ref().filter(|claim| claim.confidence >= LEAST_SURE_CLAIM)
}

/// Units to the end, from the log, an earlier run, or a claim with enough confidence.
fn units_to_end(container: &ContainerObservation) -> Option<Estimate> {
    let learning = &container.learning;
    let is_usable = learning.claim.is_none() || sure_claim(container).is_some();
    learning.units_to_completion.filter(|_| is_usable)
}

/// The wide interval around an estimate of an unknown end.
fn unknown_end(likely: f64) -> Estimate {
    Estimate { low: likely / UNKNOWN_END_FACTOR, likely, high: likely * UNKNOWN_END_FACTOR }
}

/// CPU-seconds from the start to a good model: by the current curve, otherwise by the last forecast.
pub(super) fn good_at(work: &Work, container: &ContainerObservation, before: Option<f64>) -> Option<f64> {
    match quality_ahead(container) {
        Quality::After(units) => Some(work.done + work.to(units)),
        Quality::Reached => Some(before.unwrap_or(work.done).min(work.done)),
        Quality::Typically(_) | Quality::WithTheEnd => before,
    }
}

/// Distance of a job to 95 % quality.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quality {
    /// So many units remain, by its own curve.
    After(f64),
    /// So many units remain, for a typical job.
    Typically(f64),
    /// Unknown: the model counts as good when the job completes.
    WithTheEnd,
    /// Reached, or given up: only completion is ahead.
    Reached,
}

fn quality_ahead(container: &ContainerObservation) -> Quality {
    let learning = &container.learning;
    let is_forecast = learning.evaluations == 0 && learning.prior_runs > 0;
    let is_read = learning.evaluations > 0 && learning.confidence >= LEAST_CONFIDENCE;
    if !is_forecast && !is_read {
        return Quality::WithTheEnd;
    }
    let is_diverging = learning.curve.is_some_and(|curve| curve.phase == Phase::Diverging);
    if is_diverging || container.health.condition == Condition::Overfitting {
        return Quality::Reached;
    }
    match learning.curve.and_then(|curve| curve.units_to_quality) {
        // Reached only when the upper end of the interval is reached too.
        Some(units) if units.high <= 0.0 => Quality::Reached,
        Some(units) => Quality::After(if learning.prior_runs > 0 { cautious(units) } else { units.likely }.max(0.0)),
        None => typical_units(container).map_or(Quality::WithTheEnd, Quality::Typically),
    }
}

/// Applies [`CAUTION`] to the forecast of earlier runs: their interval is narrow and observed, that of a formula is mostly a guess.
fn cautious(units: Estimate) -> f64 {
    let later = units.likely + CAUTION * (units.high - units.likely);
    if later.is_finite() { later } else { units.likely }
}

fn typical_units(container: &ContainerObservation) -> Option<f64> {
    let progress = container.learning.progress?;
    let total = progress.total.or(sure_claim(container).map(|claim| claim.total))?;
    let left = TYPICAL_QUALITY_AT * total - progress.current;
    (total >= progress.current && left.is_finite()).then_some(left.max(0.0))
}

#[cfg(test)]
impl Prospect {
    /// Only a known end is ahead.
    pub(super) fn to_an_end(work: f64) -> Prospect {
        let completion = Objective::BALANCED.0;
        Prospect {
            weight: 1.0,
            completion,
            to_quality: None,
            to_end: Estimate::exactly(work),
            is_end_known: true,
            ahead: completion,
            end: completion,
            confidence: 1.0,
            done: 1.0,
            behind: 0.0,
            deadline: None,
            cores: 1.0,
            equal: 1.0,
        }
    }

    /// The same with a good model after so many CPU-seconds.
    pub(super) fn good_after(self, work: f64) -> Prospect {
        Prospect { to_quality: Some(work), ahead: 1.0, ..self }
    }
}
