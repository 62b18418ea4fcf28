//! Whether a job keeps its promises.
//!
//! A job that is ranked by a milestone promises to reach it after so much work. When it has used [`SLACK`] times that work, and a few units'
//! worth more for the grain of its reports, and the milestone is still the one ahead, the promise is broken: its estimates are
//! worth less from then on, for good, and it is taken at its next word. An honest job breaks one or two promises while its curve is young, so
//! the first few are forgiven; a log that says "almost there" for ever soon has an equal share and no more.

use super::milestone::Milestone;
use super::work::Work;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Times the promised work that a job may take.
const SLACK: f64 = 2.0;

/// Progress units' worth of work on top.
const GRAIN: f64 = 2.0;

/// Broken promises that cost nothing.
const FORGIVEN: u32 = 2;

/// What is left of the trust after each further one.
const AFTER_A_BREACH: f64 = 0.7;

/// A milestone, when it was promised, and the work that it should have taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Promise {
    milestone: Cow<'static, str>,
    done: f64,
    work: f64,
}

/// What became of one container's promises.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Trust {
    promise: Option<Promise>,
    breaches: u32,
}

impl Trust {
    /// Trust in what the job says now, 0 ..= 1.
    pub(super) fn after(&mut self, work: &Work, milestone: &Milestone) -> f64 {
        match &self.promise {
            Some(promise) if promise.milestone == milestone.name && promise.done <= work.done => {
                if work.done - promise.done > SLACK * promise.work + GRAIN * work.per_unit {
                    self.breaches = self.breaches.saturating_add(1);
                    self.promise = Some(promise_of(work, milestone));
                }
            }
            _ => self.promise = Some(promise_of(work, milestone)),
        }
        AFTER_A_BREACH.powi(self.breaches.saturating_sub(FORGIVEN).min(64) as i32)
    }
}

/// What is late already was not promised.
fn promise_of(work: &Work, milestone: &Milestone) -> Promise {
    Promise { milestone: milestone.name.into(), done: work.done, work: (milestone.work - work.late()).max(0.0) }
}
