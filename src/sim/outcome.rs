//! Result of one simulated schedule.

use model::RecordedTick;

/// Result of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOutcome {
    /// Its name.
    pub name: String,
    /// Whether something went wrong with it.
    pub is_broken: bool,
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
    /// The jobs with which nothing went wrong.
    pub fn healthy(&self) -> impl Iterator<Item = &JobOutcome> {
        self.jobs.iter().filter(|job| !job.is_broken)
    }

    /// Seconds from the first start of a healthy job to the last end of one.
    pub fn makespan_s(&self) -> f64 {
        let first = self.healthy().map(|job| job.start_s).fold(f64::INFINITY, f64::min);
        let last = self.healthy().map(|job| job.end_s).fold(0.0, f64::max);
        (last - first).max(0.0)
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
