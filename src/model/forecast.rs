//! How much work a job has ahead, as the governor of its node foresees it: what a cluster decides with.

use super::Estimate;
use serde::{Deserialize, Serialize};

/// CPU-seconds that a job has ahead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkForecast {
    /// CPU-seconds to its end.
    pub to_end: Estimate,
    /// CPU-seconds that it had used when this was foreseen.
    pub used: f64,
    /// CPU-seconds of a progress unit.
    pub per_unit: f64,
}

impl WorkForecast {
    /// The same once the job has used `used` CPU-seconds. A job that has used more than was foreseen goes on for a part of a unit.
    pub fn after(self, used: f64) -> WorkForecast {
        let done = (used - self.used).max(0.0);
        let left = |work: f64| (work - done).max(0.1 * self.per_unit);
        let Estimate { low, likely, high } = self.to_end;
        WorkForecast { to_end: Estimate { low: left(low), likely: left(likely), high: left(high) }, used, ..self }
    }
}
