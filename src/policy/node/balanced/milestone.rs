//! What a job can reach, what that is worth, and what it costs: the index of Smith's rule over milestones.

use super::work::Work;
use crate::model::{ContainerObservation, Estimate, Objective, Phase, TotalClaim};
use crate::policy::node::importance;

/// Part of the whole work at which a job reaches 95 % quality: until its own curve says where that is, and, where the log does not say
/// what the whole is, the other way round.
pub(super) const TYPICAL_QUALITY_AT: f64 = 0.37;

/// How far a job is trusted that has printed nothing: its command alone says what it will do.
pub(super) const TRUST_BEFORE_THE_FIRST_LINE: f64 = 0.8;

/// A job without a total that is behind plain sharing by this part of what it has done lends nothing more.
pub(super) const LAG_AT_MOST: f64 = 0.19;

/// So far ahead of plain sharing, or behind it, in parts of [`LAG_AT_MOST`], counts towards its rank on the way to an end that nobody knows.
const LAG_THAT_COUNTS: f64 = 2.0;

/// A job without a total goes on for this part of what it has done already, at least.
const AGE_TO_COME: f64 = 0.33;

/// A claim of the end that is less sure than this leaves the job one whose end nobody knows.
const LEAST_SURE_CLAIM: f64 = 0.5;

/// What completion counts where its end is only claimed: claims are wrong now and then, and quality is read from the log.
const CLAIMED_END: f64 = 0.8;

/// Four fifths of the jobs whose log does not tell their end end within this factor of where it is expected.
const UNTOLD_END_WITHIN: f64 = 4.0;

/// A milestone without credit in the objective still ranks above nothing.
const LEAST_CREDIT: f64 = 0.02;

/// How far towards the late end of its interval a good model is expected that earlier runs foretell. Quality that is late was paid for by
/// everybody else, and quality that is early is seen when it comes.
const CAUTION: f64 = 0.3;

/// Readings of the log that are less sure than this name no quality.
const LEAST_CONFIDENCE: f64 = 0.5;

/// The milestone that pays best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Milestone {
    /// In the words of `flowctl explain`.
    pub(super) name: &'static str,
    /// CPU-seconds to it.
    pub(super) work: f64,
    /// Logarithm of weight · credit / work.
    pub(super) log_index: f64,
    /// How far the estimate itself can be trusted, 0 ..= 1.
    pub(super) trust: f64,
    /// CPU-seconds to the end, as far as that can be told.
    pub(super) to_end: Estimate,
}

/// What is known of a job, from which its milestones follow.
pub(super) struct Prospect<'a> {
    /// The container as observed.
    pub(super) container: &'a ContainerObservation,
    /// Work done, and the price of a unit.
    pub(super) work: Work,
    /// CPU-seconds from the start to a good model, as last foreseen.
    pub(super) good_at: Option<f64>,
    /// CPU-seconds behind plain sharing; negative = ahead.
    pub(super) behind: f64,
    /// Seconds until the owner's deadline, if there is one.
    pub(super) deadline: Option<f64>,
    /// Cores that it could use alone, and those of an equal share.
    pub(super) cores: f64,
    pub(super) equal: f64,
}

/// The best credit per work of a job; `None` if nothing ahead of it can be told.
pub(super) fn best(prospect: &Prospect<'_>, objective: Objective) -> Option<Milestone> {
    let Prospect { container, work, .. } = prospect;
    let completion = if objective.0.is_finite() { objective.0.clamp(0.0, 1.0) } else { Objective::BALANCED.0 };
    let quality = quality_ahead(container);
    let to_quality = match quality {
        Quality::After(units) | Quality::Typically(units) => Some(work.to(units)),
        Quality::WithTheEnd | Quality::Reached => None,
    };
    let units_to_end = units_to_end(container);
    let to_end = units_to_end.map(|units| work.to(units.likely));
    let trust = if to_end.is_some() { 1.0 } else { (1.0 - prospect.lag()).clamp(0.0, 1.0) };
    let prints = container.learning.progress.is_some() || container.learning.earlier_runs > 0;
    let trust = if prints { trust } else { TRUST_BEFORE_THE_FIRST_LINE * trust };
    let whole = units_to_end.map_or_else(
        || some_end(prospect.work_to_some_end()),
        |Estimate { low, likely, high }| Estimate { low: work.to(low), likely: work.to(likely), high: work.to(high) },
    );
    let weight = importance(container);
    let offer = |name, credit: f64, work: f64| {
        let log_index = (weight * credit.max(LEAST_CREDIT) / work).ln();
        log_index.is_finite().then_some(Milestone { name, work, log_index, trust, to_end: whole })
    };
    let good = to_quality.and_then(|work| offer("95 % quality", 1.0 - completion, work));
    let ahead = if matches!(quality, Quality::Reached) { completion } else { 1.0 };
    let ahead = if container.learning.claim.is_some() { CLAIMED_END * ahead } else { ahead };
    let end = match to_end {
        Some(work) => match prospect.urgency(work) {
            Some(urgency) => offer("the deadline", ahead * urgency, work),
            None => offer("completion", ahead, work),
        },
        None => offer("an end", ahead, prospect.work_to_some_end().max(to_quality.unwrap_or(0.0))).map(|end| {
            Milestone { log_index: end.log_index + prospect.lag().clamp(-LAG_THAT_COUNTS, LAG_THAT_COUNTS), ..end }
        }),
    };
    match (good, end) {
        (Some(quality), Some(end)) if end.log_index > quality.log_index => Some(end),
        (Some(quality), _) => Some(quality),
        (None, end) => end,
    }
}

impl Prospect<'_> {
    /// Work to an end that the log does not tell: who learns slowly is trained for long, and who has run for long will run on.
    fn work_to_some_end(&self) -> f64 {
        let done = self.work.done;
        let typical = self.good_at.map_or(0.0, |good_at| good_at / TYPICAL_QUALITY_AT - done);
        typical.max(AGE_TO_COME * done)
    }

    /// How many times an equal share it takes to end in time; `None` if no more than that is needed, or the whole node were too little.
    fn urgency(&self, work_to_end: f64) -> Option<f64> {
        let needed = work_to_end / self.deadline.filter(|seconds| *seconds > 0.0)?;
        (needed > self.equal && needed <= self.cores).then_some(needed / self.equal)
    }

    /// How far it is behind plain sharing, in parts of what it may be; negative = ahead. With unknown ends the order of ends is a guess, so what
    /// a job is given on the way to a good model is lent: who is behind lends less and less, and comes first once nobody's model is near, until
    /// all are where plain sharing would have them.
    fn lag(&self) -> f64 {
        let lag = self.behind / (LAG_AT_MOST * self.work.done);
        if lag.is_nan() { 1.0 } else { lag }
    }
}

/// The claim of the end, if it is sure enough to be planned with.
fn sure_claim(container: &ContainerObservation) -> Option<&TotalClaim> {
    container.learning.claim.as_ref().filter(|claim| claim.confidence >= LEAST_SURE_CLAIM)
}

/// Units to the end that the log tells, an earlier run foretells, or the job's command claims surely enough.
fn units_to_end(container: &ContainerObservation) -> Option<Estimate> {
    let learning = &container.learning;
    let is_told = learning.claim.is_none() || sure_claim(container).is_some();
    learning.units_to_completion.filter(|_| is_told)
}

/// An end that nobody tells may be near, and it may be far.
fn some_end(likely: f64) -> Estimate {
    Estimate { low: likely / UNTOLD_END_WITHIN, likely, high: likely * UNTOLD_END_WITHIN }
}

/// CPU-seconds from the start to a good model: as the curve foresees it now, or as it was last foreseen.
pub(super) fn good_at(work: &Work, container: &ContainerObservation, before: Option<f64>) -> Option<f64> {
    match quality_ahead(container) {
        Quality::After(units) => Some(work.done + work.to(units)),
        Quality::Reached => Some(before.unwrap_or(work.done).min(work.done)),
        Quality::Typically(_) | Quality::WithTheEnd => before,
    }
}

/// Where a job's quality stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quality {
    /// 95 % of the improvement comes after so many units: its curve says so.
    After(f64),
    /// The same, as for a typical job.
    Typically(f64),
    /// The log does not tell it: the model is good when it is done.
    WithTheEnd,
    /// There, or given up: only completion is ahead.
    Reached,
}

fn quality_ahead(container: &ContainerObservation) -> Quality {
    let learning = &container.learning;
    let is_foretold = learning.evaluations == 0 && learning.earlier_runs > 0;
    let is_read = learning.evaluations > 0 && learning.confidence >= LEAST_CONFIDENCE;
    if !is_foretold && !is_read {
        return Quality::WithTheEnd;
    }
    if learning.curve.is_some_and(|curve| curve.phase == Phase::Diverging) {
        return Quality::Reached;
    }
    match learning.curve.and_then(|curve| curve.units_to_quality) {
        // Sure to be there only when the unlucky end of the interval is there too.
        Some(units) if units.high <= 0.0 => Quality::Reached,
        Some(units) => Quality::After(if learning.earlier_runs > 0 { cautious(units) } else { units.likely }.max(0.0)),
        None => typical_units(container).map_or(Quality::WithTheEnd, Quality::Typically),
    }
}

/// What earlier runs foretell is believed with [`CAUTION`]: their interval is narrow and was seen, that of a formula is mostly a guess.
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
