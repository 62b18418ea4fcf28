//! Reliability of a job's forecasts.
//!
//! A job that is ranked by a milestone is forecast to reach it after some work. The forecast has failed (a misprediction) when the job has
//! used [`SLACK`] times that work plus a few units, for the granularity of its reports, and the milestone is still ahead. Each
//! misprediction lowers the reliability for good, and a new forecast begins. A normal job is mispredicted once or twice while its curve is
//! young, so the first few are forgiven; a log that says "almost there" for ever soon has an equal share and no more.

use super::milestone::Milestone;
use super::work::Work;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A job may use this multiple of the forecast work.
const SLACK: f64 = 2.0;

/// Additional units of work for the granularity of the reports.
const GRAIN: f64 = 2.0;

/// Mispredictions without effect.
const FORGIVEN: u32 = 2;

/// Factor on the reliability for each further misprediction.
const AFTER_A_MISPREDICTION: f64 = 0.7;

/// A forecast: the milestone, the work done when it was made, and the work that the milestone should take.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Forecast {
    milestone: Cow<'static, str>,
    done: f64,
    work: f64,
}

/// The current forecast and the failed ones of one container.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Reliability {
    #[serde(rename = "promise")]
    forecast: Option<Forecast>,
    #[serde(rename = "breaches")]
    mispredictions: u32,
}

impl Reliability {
    /// Takes the latest forecast and returns the reliability, 0 ..= 1.
    pub(super) fn after(&mut self, work: &Work, milestone: &Milestone) -> f64 {
        match &self.forecast {
            Some(forecast) if forecast.milestone == milestone.name && forecast.done <= work.done => {
                if work.done - forecast.done > SLACK * forecast.work + GRAIN * work.per_unit {
                    self.mispredictions = self.mispredictions.saturating_add(1);
                    self.forecast = Some(forecast_of(work, milestone));
                }
            }
            _ => self.forecast = Some(forecast_of(work, milestone)),
        }
        AFTER_A_MISPREDICTION.powi(self.mispredictions.saturating_sub(FORGIVEN).min(64) as i32)
    }
}

/// Work that is already overdue is not part of the forecast.
fn forecast_of(work: &Work, milestone: &Milestone) -> Forecast {
    Forecast { milestone: milestone.name.into(), done: work.done, work: (milestone.work - work.late()).max(0.0) }
}
