//! Where on its curve a job is: improving, on a plateau, diverging; and what ends a plateau. Imports: model only.

use crate::model::Phase;

/// Values in a row that are no numbers before the job counts as diverging.
pub(super) const NOT_FINITE: u32 = 3;

/// Weight of the newest value in the level, a decaying mean of about eight values.
pub(super) const LEVEL_WEIGHT: f64 = 0.12;

/// Standard error of the level, in deviations of one value.
const LEVEL_ERROR: f64 = 0.25;

/// Evaluations before anything is said.
const LEAST_EVALUATIONS: u64 = 6;

/// Less than this part of the range still to come within a quarter of the way gone is a plateau.
const FLAT: f64 = 0.01;

/// A fall below the best by this part of the range, beyond the noise, is divergence.
const FALL: f64 = 0.2;

/// A rise by this part of the range, beyond the noise, ends a plateau.
const JUMP: f64 = 0.05;

/// What is known when a phase is told.
pub(super) struct Evidence {
    /// Latest values in a row that are no numbers.
    pub(super) not_finite: u32,
    /// Evaluations in all.
    pub(super) evaluations: u64,
    /// Decaying mean of the latest improvements.
    pub(super) level: f64,
    /// The best that this mean ever was.
    pub(super) best_level: f64,
    /// Range of improvements so far.
    pub(super) range: f64,
    /// Noise of one value.
    pub(super) deviation: f64,
    /// What the curves expect within another quarter of the way gone; `None` without a fit.
    pub(super) ahead: Option<f64>,
    /// Points in the series.
    pub(super) points: usize,
}

/// Where the job is on its curve.
pub(super) fn phase(evidence: &Evidence) -> Phase {
    if evidence.not_finite >= NOT_FINITE {
        return Phase::Diverging;
    }
    if evidence.evaluations < LEAST_EVALUATIONS || evidence.points < 4 {
        return Phase::Unknown;
    }
    let fallen = evidence.best_level - evidence.level;
    // The best of many noisy means lies some errors above the curve.
    if fallen > FALL * evidence.range && fallen > 6.0 * LEVEL_ERROR * evidence.deviation {
        return Phase::Diverging;
    }
    match evidence.ahead {
        Some(ahead) if ahead > FLAT * evidence.range => Phase::Improving,
        // Nothing rises that could be fitted, or hardly anything.
        Some(_) | None => Phase::Plateau,
    }
}

/// Whether a rise between two intervals, with this standard error, is more than a plateau allows.
pub(super) fn is_jump(rise: f64, error: f64, range: f64) -> bool {
    rise > JUMP * range && rise > 4.0 * error
}
