//! Collects the evaluations in a job's output, parsed like a log in the daemon, with the time at which each was printed.
//!
//! The governor's status has only the latest value; polled twice a second, it misses the first epochs of a job that has a core to itself,
//! and their improvement is part of "95 % of the improvement". Imports: config, model, progress.

use super::job::Job;
use crate::config;
use crate::progress::Survey;
use std::time::Duration;

/// Collects the output of one job.
pub struct LogCollector {
    survey: Survey,
    newlines: u64,
    /// (Number of newlines received so far, time).
    received: Vec<(u64, Duration)>,
}

impl LogCollector {
    /// Creates a collector that follows the job's labels.
    pub fn new(job: &Job) -> LogCollector {
        let (directives, _) = config::directives(&job.labels.iter().cloned().collect());
        LogCollector { survey: Survey::new(&directives), newlines: 0, received: Vec::new() }
    }

    /// Adds the next bytes, which may be split anywhere, received at `at`.
    pub fn collect(&mut self, bytes: &[u8], at: Duration) {
        self.survey.push(bytes);
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.received.push((self.newlines, at));
    }

    /// Returns the printed evaluations: (seconds, value), each with the time at which its line ended.
    pub fn curve(mut self) -> Vec<(f64, f64)> {
        self.survey.finish();
        let received = self.received;
        let when = |line: u64| {
            let first = received.partition_point(|(newlines, _)| *newlines < line);
            received.get(first).or(received.last()).map(|(_, at)| at.as_secs_f64())
        };
        let observations = self.survey.reading().observations.into_iter().filter(|seen| seen.value.is_finite());
        observations.filter_map(|seen| Some((when(seen.line)?, seen.value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::Work;
    use super::*;
    use crate::lab::workload::{Amount, Kind};

    #[test]
    fn every_value_has_the_time_at_which_its_line_ended() {
        let work = Work::Training(Kind::Mlp, Amount { epochs: 9, size: 64, threads: 1, seed: 1 });
        let job = Job { name: "a".into(), start: Duration::ZERO, labels: Vec::new(), work };
        let mut collector = LogCollector::new(&job);
        let second = Duration::from_secs;
        collector.collect(b"begin\nEpoch [1/9] loss: 8.0\nEpoch [2/9] lo", second(1));
        collector.collect(b"ss: 4.0\n", second(2));
        collector.collect(b"Epoch [3/9] loss: nan\nEpoch [4/9] loss: 1.0\n", second(5));
        collector.collect(b"Epoch [5/9] loss: 0.5", second(7));
        assert_eq!(collector.curve(), [(1.0, 8.0), (2.0, 4.0), (5.0, 1.0), (7.0, 0.5)]);
    }
}
