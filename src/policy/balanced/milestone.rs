//! What a job can reach, what that is worth, and what it costs: the index of Smith's rule over milestones.

use super::work::Work;
use crate::model::{ContainerObservation, Objective, Phase};
use crate::policy::sane_weight;

/// Part of the whole work at which a job reaches 95 % quality, until its own curve says.
pub(super) const TYPICAL_QUALITY_AT: f64 = 0.4;

/// How far an end is trusted that the log does not tell.
pub(super) const TRUST_WITHOUT_TOTAL: f64 = 0.32;

/// A job without a total goes on for this part of what it has done already.
const AGE_TO_COME: f64 = 0.5;

/// Whole work of a job without a total, in parts of what it has done, before it has a curve.
const YOUNG: f64 = 3.0;

/// A milestone without credit in the objective still ranks above nothing.
const LEAST_CREDIT: f64 = 0.02;

/// Readings of the log that are less sure than this name no quality.
const LEAST_CONFIDENCE: f64 = 0.3;

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
}

/// The best credit per work of a container; `None` if nothing ahead of it can be told.
pub(super) fn best(work: &Work, container: &ContainerObservation, objective: Objective) -> Option<Milestone> {
    let completion = if objective.0.is_finite() { objective.0.clamp(0.0, 1.0) } else { 0.5 };
    let quality = quality_ahead(container);
    let to_quality = match quality {
        Quality::After(units) => Some(work.to(units)),
        Quality::WithTheEnd | Quality::Reached => None,
    };
    let to_end = container.learning.units_to_completion.map(|units| work.to(units.likely));
    let trust = if to_end.is_some() { 1.0 } else { TRUST_WITHOUT_TOTAL };
    let weight = sane_weight(container.weight);
    let offer = |name, credit: f64, work: f64| {
        let log_index = (weight * credit.max(LEAST_CREDIT) / work).ln();
        log_index.is_finite().then_some(Milestone { name, work, log_index, trust })
    };
    let good = to_quality.and_then(|work| offer("95 % quality", 1.0 - completion, work));
    let ahead = if matches!(quality, Quality::Reached) { completion } else { 1.0 };
    let end = match to_end {
        Some(work) => offer("completion", ahead, work),
        None => offer("an end", ahead, (AGE_TO_COME * work.done).max(to_quality.unwrap_or(0.0))),
    };
    match (good, end) {
        (Some(quality), Some(end)) if end.log_index > quality.log_index => Some(end),
        (Some(quality), _) => Some(quality),
        (None, end) => end,
    }
}

/// Where a job's quality stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quality {
    /// 95 % of the improvement comes after so many units.
    After(f64),
    /// The log does not tell it: the model is good when it is done.
    WithTheEnd,
    /// There, or given up: only completion is ahead.
    Reached,
}

fn quality_ahead(container: &ContainerObservation) -> Quality {
    let learning = &container.learning;
    if learning.evaluations == 0 || learning.confidence.is_nan() || learning.confidence < LEAST_CONFIDENCE {
        return Quality::WithTheEnd;
    }
    if learning.curve.is_some_and(|curve| curve.phase == Phase::Diverging) {
        return Quality::Reached;
    }
    match learning.curve.and_then(|curve| curve.units_to_quality) {
        // Sure to be there only when the unlucky end of the interval is there too.
        Some(units) if units.high <= 0.0 => Quality::Reached,
        Some(units) => Quality::After(units.likely.max(0.0)),
        None => typical_units(container).map_or(Quality::WithTheEnd, Quality::After),
    }
}

fn typical_units(container: &ContainerObservation) -> Option<f64> {
    let progress = container.learning.progress?;
    let whole = progress.total.filter(|total| *total >= progress.current).unwrap_or(YOUNG * progress.current);
    let left = TYPICAL_QUALITY_AT * whole - progress.current;
    left.is_finite().then_some(left.max(0.0))
}
