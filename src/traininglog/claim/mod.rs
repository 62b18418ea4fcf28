//! Total work of a job as claimed by its command, environment or configuration files.
//!
//! Problem: most logs never print a total, and without one the time to completion is unknown. The command nearly always contains the
//! number, under a few dozen names, among hundreds of numbers that mean something else. Approach: a name counts only if *every* word of it
//! is known: a unit and words such as `num` or `max`. This excludes `--warmup-epochs`, `--save-steps` and `--patience` without a
//! list of such names. It also means that a claim contains only known words and one number of a command, never arbitrary text. If several
//! names claim different totals, the likeliest one is used with reduced confidence.
//!
//! A [`Tracker`](crate::Tracker) matches a claim with the log's counter: epochs with epochs; iterations, steps and rounds with each other
//! at lower confidence. It drops the claim when the job runs past it. Pure, bounded, and it never fails.
//!
//! ```
//! use traininglog::claim::{gathered, of_command, of_config};
//! use traininglog::{Hints, Millis, Tracker};
//!
//! let mut tracker = Tracker::new(&Hints::default());
//! let command = of_command(&["python", "train.py", "--epochs", "50", "--warmup-epochs", "5"]);
//! let config = of_config("train.yaml", "trainer:\n  max_epochs: 90\n");
//! tracker.claims(gathered(command.into_iter().chain(config)));
//! (1..=4).for_each(|epoch| tracker.push(format!("epoch {epoch} loss 0.{epoch}5\n").as_bytes(), Millis(0)));
//!
//! let learning = tracker.peek(Millis(0));
//! assert_eq!(learning.claim.map(|claim| claim.key).as_deref(), Some("--epochs"));
//! assert_eq!(learning.units_to_completion.map(|left| left.likely), Some(46.0));
//! ```

mod code;
mod command_line;
mod config;
mod key;
mod number;
#[cfg(test)]
mod tests;
mod total;
mod yaml;

pub use command_line::{config_files, of_command, of_environment};
pub use config::of_config;
pub use total::{ClaimOrigin, TotalClaim};

use crate::ProgressUnit;

/// Maximum claims kept per job.
pub(super) const MAX_CLAIMS: usize = 24;

/// Minimum confidence of a claim.
const MIN_CONFIDENCE: f64 = 0.15;

/// Minimum confidence of a claim that is used as the end of fitted curves.
pub(super) const SURE: f64 = 0.5;

/// Confidence factor for a claim in a related unit, such as iterations where the log counts steps.
const NEAR: f64 = 0.75;

/// Confidence factor for a claim of epochs where evaluations are counted: one evaluation per epoch is a guess.
const EVALUATIONS: f64 = 0.4;

/// Minimum relative confidence of a claim of another total, from an origin of equal or higher precedence, that disputes the best claim.
const RIVAL: f64 = 0.93;
/// Confidence factor for a disputed claim.
const DISPUTED: f64 = 0.6;

/// A total that was found outside of the log; one of several that may contradict each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Total units: positive, at most 10¹².
    pub total: f64,
    /// The unit; `None` if the name does not tell.
    pub unit: Option<ProgressUnit>,
    /// Whether a related unit may be meant: iterations where the log counts steps.
    pub near: bool,
    /// The option or variable, made of known words only: `--epochs`, `trainer.max_epochs`.
    pub key: String,
    /// Where it was found.
    pub origin: ClaimOrigin,
    /// Confidence that this is the total, 0 ..= 1.
    pub confidence: f64,
}

/// The measure of a job's progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Counted {
    /// The log's counter.
    Unit(ProgressUnit),
    /// Printed evaluations, if the log has no counter.
    Evaluations,
}

/// Returns the best claim for a job that has done `done` units, with its confidence.
pub(super) fn choose(claims: &[Claim], counted: Counted, done: f64) -> Option<(&Claim, f64)> {
    let fitting: Vec<(&Claim, f64)> = claims
        .iter()
        .map(|claim| (claim, claim.confidence * likeness(claim, counted)))
        .filter(|(claim, confidence)| *confidence >= MIN_CONFIDENCE && claim.total >= done)
        .collect();
    let (best, confidence) =
        fitting.iter().copied().max_by(|(a, x), (b, y)| x.total_cmp(y).then(a.total.total_cmp(&b.total)))?;
    let is_rival = |claim: &Claim| claim.total != best.total && precedence(claim.origin) >= precedence(best.origin);
    let disputed = fitting.iter().any(|(claim, other)| is_rival(claim) && *other >= RIVAL * confidence);
    // Frameworks that accept both stop at the first limit, or use the steps only.
    let other_end = |claim: &Claim| claim.unit == Some(ProgressUnit::Step) && claim.confidence > 0.8;
    let ends_otherwise = best.unit == Some(ProgressUnit::Epoch) && claims.iter().any(other_end);
    let confidence = if disputed || ends_otherwise { DISPUTED * confidence } else { confidence };
    (confidence >= MIN_CONFIDENCE).then_some((best, confidence))
}

/// Returns the claim for a job that has printed nothing: the smallest of the sure ones, which expects the first line the latest.
pub(super) fn least(claims: &[Claim]) -> Option<(&Claim, f64)> {
    let sure = claims.iter().filter(|claim| claim.confidence >= SURE);
    sure.min_by(|a, b| a.total.total_cmp(&b.total)).map(|claim| (claim, claim.confidence))
}

/// An option overrides a configuration file, which overrides an environment variable.
fn precedence(origin: ClaimOrigin) -> u8 {
    match origin {
        ClaimOrigin::Command => 2,
        ClaimOrigin::ConfigFile => 1,
        ClaimOrigin::Environment => 0,
    }
}

/// Returns how well a claim's unit fits the counter, 0 ..= 1.
fn likeness(claim: &Claim, counted: Counted) -> f64 {
    use ProgressUnit::{Epoch, Iteration, Percent, Round, Sample, Step};
    let counted = match counted {
        Counted::Evaluations if claim.unit == Some(Epoch) => return EVALUATIONS,
        Counted::Evaluations => return 0.0,
        Counted::Unit(unit) => unit,
    };
    match (claim.unit, counted) {
        (_, Percent) | (None, Sample) => 0.0,
        (None, _) => 1.0,
        (Some(unit), counted) if unit == counted => 1.0,
        (Some(Iteration | Step | Round), Iteration | Step | Round) if claim.near => NEAR,
        _ => 0.0,
    }
}

/// Builds a claim. `None` if the total is fractional in a unit other than epochs.
fn claim(key: key::Key, total: f64, origin: ClaimOrigin, weight: f64) -> Option<Claim> {
    let whole = key.unit == ProgressUnit::Epoch || total.fract() == 0.0;
    let claim =
        Claim { total, unit: Some(key.unit), near: key.near, key: key.shown, origin, confidence: key.weight * weight };
    whole.then_some(claim)
}

/// Merges the claims of a job's processes and files: without duplicates, highest confidence first, bounded.
pub fn gathered(claims: impl IntoIterator<Item = Claim>) -> Vec<Claim> {
    let mut kept: Vec<Claim> = Vec::new();
    for claim in claims {
        if !kept.contains(&claim) {
            kept.push(claim);
        }
    }
    kept.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    kept.truncate(MAX_CLAIMS);
    kept
}
