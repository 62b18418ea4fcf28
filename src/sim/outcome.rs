//! Result of one simulated schedule.

use model::RecordedTick;

/// Result of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOutcome {
    /// Its name.
    pub name: String,
    /// Start time, in seconds of the schedule.
    pub start_s: f64,
    /// End time, in seconds of the schedule.
    pub end_s: f64,
    /// Seconds from its start to 95 % of the true final improvement.
    pub quality_s: f64,
    /// Core-seconds that it occupied.
    pub cpu_s: f64,
    /// GPU-seconds used.
    pub gpu_s: f64,
}

impl JobOutcome {
    /// Seconds from start to end.
    pub fn completion_s(&self) -> f64 {
        self.end_s - self.start_s
    }
}

/// One simulated schedule.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// In the order of the schedule.
    pub jobs: Vec<JobOutcome>,
    /// Number of discrete events.
    pub events: u64,
    /// Number of governor ticks.
    pub ticks: u64,
    /// Data for a report's charts, if requested.
    pub history: Option<History>,
    /// Each tick's observation and plan, if requested.
    pub recording: Vec<RecordedTick>,
}

impl Outcome {
    /// Seconds from the first start to the last end.
    pub fn makespan_s(&self) -> f64 {
        let first = self.jobs.iter().map(|job| job.start_s).fold(f64::INFINITY, f64::min);
        let last = self.jobs.iter().map(|job| job.end_s).fold(0.0, f64::max);
        if self.jobs.is_empty() { 0.0 } else { last - first }
    }
}

/// Shares and evaluations over time, for charts.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Each job's cores from the given second on, until the next entry.
    pub shares: Vec<(f64, Vec<f64>)>,
    /// Printed evaluations: second, job, value.
    pub prints: Vec<(f64, usize, f64)>,
}
