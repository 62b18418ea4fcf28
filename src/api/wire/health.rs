//! The health of a job.

use super::{finite, word};
use model::{JobStatus, Millis};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Health of a running job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `starting`, `learning`, `plateau`, `done`, `starving-gpu`, `overfitting`, `late`, `short-of-memory`, `stalled`, `diverging` or `nan`:
    /// the worst that applies.
    pub condition: String,
    /// `ok`, `trouble`, or `broken`: the policy gives it the floor.
    pub severity: String,
    /// The condition in a few words, such as `NaN since epoch 11`.
    pub words: String,
    /// Time for which it has held.
    pub for_s: f64,
    /// Confidence in it, 0 to 1.
    pub confidence: f64,
}

impl Health {
    pub(super) fn of(job: &JobStatus, now: Millis) -> Health {
        let health = job.observed.health;
        let severity = match health.condition {
            condition if condition.is_broken() => "broken",
            condition if condition.is_trouble() => "trouble",
            _ => "ok",
        };
        Health {
            condition: word(health.condition),
            severity: severity.to_owned(),
            words: health.words(unit(job)),
            for_s: now.since(health.since).as_secs_f64(),
            confidence: finite(health.confidence).unwrap_or(0.0),
        }
    }
}

/// The evidence for a job's health and the next step, in sentences.
pub(super) fn evidence(job: &JobStatus) -> String {
    job.observed.health.explanation(unit(job))
}

fn unit(job: &JobStatus) -> Option<model::ProgressUnit> {
    job.observed.learning.progress.map(|progress| progress.unit)
}
