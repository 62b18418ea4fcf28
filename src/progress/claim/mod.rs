//! How long a job will train, as its command, its environment or a configuration file claims it.
//!
//! Problem: most logs never print a total, and without one nothing can be said of the time until completion. The number stands in
//! the command nearly always, under a few dozen names, among hundreds of numbers that mean something else. Approach: a name counts
//! only if *every* word of it is known ([`key`]): a unit and words such as `num` or `max`. So `--warmup-epochs`, `--save-steps` and
//! `--patience` are left out without a list of what they are called, and what is shown of a command is made of our own words and one
//! number, never of what its owner wrote. Where several names claim different totals, the likelier one counts, and less.
//!
//! A claim is matched with what the log counts ([`choose`]): epochs with epochs; iterations, steps and rounds with each other, less
//! surely. It ends when the job runs past it. Pure, bounded, and it never fails. Imports: model.

mod code;
mod command;
mod config;
mod key;
mod number;
#[cfg(test)]
mod tests;
mod yaml;

pub use command::{config_files, of_command, of_environment};
pub use config::of_config;

use crate::model::{ClaimOrigin, ProgressUnit};

/// Claims kept of one job.
pub(super) const CLAIMS_AT_MOST: usize = 24;

/// What is less sure than this is no claim.
const LEAST: f64 = 0.15;

/// From here on a claim is the end that curves are judged by.
pub(super) const SURE: f64 = 0.5;

/// How much less sure a claim of iterations is where steps are counted, and so on.
const NEAR: f64 = 0.75;

/// One evaluation an epoch is a guess.
const EVALUATIONS: f64 = 0.4;

/// A rival with another total that is so nearly as sure, and at no weaker place,
const RIVAL: f64 = 0.93;
/// leaves so much of the surer one.
const DISPUTED: f64 = 0.6;

/// A total that was found outside of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Units to do: positive, at most 10¹².
    pub total: f64,
    /// What is counted; `None` where the name does not say it.
    pub unit: Option<ProgressUnit>,
    /// Whether a related unit may be meant: iterations where the log counts steps.
    pub near: bool,
    /// The option or variable, made of known words only: `--epochs`, `trainer.max_epochs`.
    pub key: String,
    /// Where it stands.
    pub origin: ClaimOrigin,
    /// How sure it is that this is the total, 0 ..= 1.
    pub confidence: f64,
}

/// What a job's progress is counted in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Counted {
    /// The log's counter.
    Unit(ProgressUnit),
    /// Printed evaluations: the log counts nothing.
    Evaluations,
}

/// The claim that counts for a job that has done `done` units, and how sure it is.
pub(super) fn choose(claims: &[Claim], counted: Counted, done: f64) -> Option<(&Claim, f64)> {
    let fitting: Vec<(&Claim, f64)> = claims
        .iter()
        .map(|claim| (claim, claim.confidence * likeness(claim, counted)))
        .filter(|(claim, confidence)| *confidence >= LEAST && claim.total >= done)
        .collect();
    let (best, confidence) =
        fitting.iter().copied().max_by(|(a, x), (b, y)| x.total_cmp(y).then(a.total.total_cmp(&b.total)))?;
    let rivals = |claim: &Claim| claim.total != best.total && place(claim.origin) >= place(best.origin);
    let disputed = fitting.iter().any(|(claim, other)| rivals(claim) && *other >= RIVAL * confidence);
    // Frameworks that take both stop at whichever comes first, or heed the steps alone.
    let other_end = |claim: &Claim| claim.unit == Some(ProgressUnit::Step) && claim.confidence > 0.8;
    let ends_otherwise = best.unit == Some(ProgressUnit::Epoch) && claims.iter().any(other_end);
    let confidence = if disputed || ends_otherwise { DISPUTED * confidence } else { confidence };
    (confidence >= LEAST).then_some((best, confidence))
}

/// The claim that counts for a job that has printed nothing: of the sure ones the least, for it promises the first line the latest.
pub(super) fn least(claims: &[Claim]) -> Option<(&Claim, f64)> {
    let sure = claims.iter().filter(|claim| claim.confidence >= SURE);
    sure.min_by(|a, b| a.total.total_cmp(&b.total)).map(|claim| (claim, claim.confidence))
}

/// An option overrides a configuration file, and that a variable.
fn place(origin: ClaimOrigin) -> u8 {
    match origin {
        ClaimOrigin::Command => 2,
        ClaimOrigin::ConfigFile => 1,
        ClaimOrigin::Environment => 0,
    }
}

/// How well a claim's unit fits what is counted, 0 ..= 1.
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

/// A claim, if such a unit can have such a total.
fn claim(key: key::Key, total: f64, origin: ClaimOrigin, weight: f64) -> Option<Claim> {
    let whole = key.unit == ProgressUnit::Epoch || total.fract() == 0.0;
    let claim =
        Claim { total, unit: Some(key.unit), near: key.near, key: key.shown, origin, confidence: key.weight * weight };
    whole.then_some(claim)
}

/// The claims of all of a job's processes and files: each once, the surest first, a bounded number.
pub fn gathered(claims: impl IntoIterator<Item = Claim>) -> Vec<Claim> {
    let mut kept: Vec<Claim> = Vec::new();
    for claim in claims {
        if !kept.contains(&claim) {
            kept.push(claim);
        }
    }
    kept.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    kept.truncate(CLAIMS_AT_MOST);
    kept
}
