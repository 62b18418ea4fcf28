//! Decides the phase of a job: improving, on a plateau or diverging; and detects the end of a plateau.

use crate::Phase;

/// Number of consecutive values that are not finite before a job counts as diverging.
pub(super) const NOT_FINITE: u32 = 3;

/// Weight of the newest value in the level, a decaying mean of about eight values.
pub(super) const LEVEL_WEIGHT: f64 = 0.12;

/// Standard error of the level, in standard deviations of one value.
const LEVEL_ERROR: f64 = 0.25;

/// Minimum number of evaluations; before, the phase is unknown.
const MIN_EVALUATIONS: u64 = 6;

/// Plateau: the expected improvement over the next quarter of the units done so far is at most this fraction of the range.
const FLAT: f64 = 0.01;

/// Divergence: a fall below the best by this fraction of the range, beyond the noise.
const FALL: f64 = 0.2;

/// End of a plateau: a rise by this fraction of the range, beyond the noise.
const JUMP: f64 = 0.05;

/// Inputs of the decision.
pub(super) struct Evidence {
    /// Number of latest consecutive values that are not finite.
    pub(super) not_finite: u32,
    /// Number of all evaluations.
    pub(super) evaluations: u64,
    /// Decaying mean of the latest improvements.
    pub(super) level: f64,
    /// Maximum of this mean so far.
    pub(super) best_level: f64,
    /// Range of improvements so far.
    pub(super) range: f64,
    /// Standard deviation of one value.
    pub(super) deviation: f64,
    /// Expected improvement over the next quarter of the units done so far; `None` without a fit.
    pub(super) ahead: Option<f64>,
    /// Number of points in the series.
    pub(super) points: usize,
}

/// Returns the phase of the job.
pub(super) fn phase(evidence: &Evidence) -> Phase {
    if is_diverging(evidence) {
        return Phase::Diverging;
    }
    if has_few_values(evidence) {
        return Phase::Unknown;
    }
    match evidence.ahead {
        Some(ahead) if ahead > FLAT * evidence.range => Phase::Improving,
        // No rising curve can be fitted, or it hardly rises.
        Some(_) | None => Phase::Plateau,
    }
}

/// Whether it is getting worse beyond the noise, or its latest values are not finite. Needs no fit, so it is known with each value.
pub(super) fn is_diverging(evidence: &Evidence) -> bool {
    let fallen = evidence.best_level - evidence.level;
    // The maximum of many noisy means lies a few standard errors above the curve.
    let has_fallen = fallen > FALL * evidence.range && fallen > 6.0 * LEVEL_ERROR * evidence.deviation;
    evidence.not_finite >= NOT_FINITE || (has_fallen && !has_few_values(evidence))
}

fn has_few_values(evidence: &Evidence) -> bool {
    evidence.evaluations < MIN_EVALUATIONS || evidence.points < 4
}

/// Whether a rise between two intervals, with this standard error, ends a plateau.
pub(super) fn is_jump(rise: f64, error: f64, range: f64) -> bool {
    rise > JUMP * range && rise > 4.0 * error
}
