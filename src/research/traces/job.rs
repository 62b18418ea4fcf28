//! A job of a trace: its demand, and the time for which it ran.

/// One job of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceJob {
    /// Id as in the trace.
    pub id: String,
    /// Submission time in seconds.
    pub submit_s: u64,
    /// Number of GPUs that it needs at once.
    pub gpus: u64,
    /// Running time in seconds on the GPUs of each group of the cluster; `None` where it cannot run.
    pub durations_s: Vec<Option<u64>>,
}

impl TraceJob {
    /// The groups on which it can run, fastest first.
    pub(super) fn places(&self) -> Vec<usize> {
        let mut places: Vec<usize> =
            (0..self.durations_s.len()).filter(|place| self.durations_s[*place].is_some()).collect();
        places.sort_by_key(|place| self.durations_s[*place]);
        places
    }
}

/// The time for which a job ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// First start, in seconds of the trace.
    pub start_s: u64,
    /// End, in seconds of the trace.
    pub end_s: u64,
}
