//! The work that a job has left, as forecast by the governor of its node. Input of cluster decisions.

use super::Estimate;
use serde::{Deserialize, Serialize};

/// The work that a job has left, in CPU-seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkForecast {
    /// CPU-seconds to the end of the job.
    pub to_end: Estimate,
    /// CPU-seconds that the job had used when the forecast was made.
    pub used: f64,
    /// CPU-seconds per progress unit.
    pub per_unit: f64,
    /// Cores that the job can use, as measured; at most those that it may run on. `None` in forecasts of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable: Option<f64>,
    /// CPU per progress unit beside other jobs, as a multiple of that in its own turn, when it had nearly the whole node; `None` until both
    /// are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waste: Option<f64>,
    /// CPU-seconds that the job paid beside others in addition to what the same units cost in its own turn; `None` until both are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_s: Option<f64>,
}

/// A job whose units cost more than this multiple beside others wastes CPU: its threads wait for each other, spinning.
pub const WASTEFUL: f64 = 1.5;

impl WorkForecast {
    /// Returns the forecast once the job has used `used` CPU-seconds. A job that has used more than forecast has a tenth of a unit left.
    pub fn after(self, used: f64) -> WorkForecast {
        let done = (used - self.used).max(0.0);
        let left = |work: f64| (work - done).max(0.1 * self.per_unit);
        let Estimate { low, likely, high } = self.to_end;
        WorkForecast { to_end: Estimate { low: left(low), likely: left(likely), high: left(high) }, used, ..self }
    }
}
