//! What a job said and when: its whole output, understood as the daemon understands a log, each value at the instant at which it came.
//!
//! The governor's status tells the latest value only; whoever looks at it twice a second misses the first epochs of a job that has a core
//! to itself, and what they brought is part of what "95 % of the improvement" is measured by. Imports: config, model, progress.

use super::job::Job;
use crate::config;
use crate::progress::Survey;
use std::time::Duration;

/// Listens to one job.
pub struct LogCollector {
    survey: Survey,
    newlines: u64,
    /// How many newlines had come at an instant.
    heard: Vec<(u64, Duration)>,
}

impl LogCollector {
    /// Nothing heard yet; what `job`'s labels ask of the reading is obeyed.
    pub fn of(job: &Job) -> LogCollector {
        let (directives, _) = config::directives(&job.labels.iter().cloned().collect());
        LogCollector { survey: Survey::new(&directives), newlines: 0, heard: Vec::new() }
    }

    /// The next bytes, cut anywhere, which came at `at`.
    pub fn collect(&mut self, bytes: &[u8], at: Duration) {
        self.survey.push(bytes);
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.heard.push((self.newlines, at));
    }

    /// The evaluations that were printed: (seconds, value), each when its line ended.
    pub fn curve(mut self) -> Vec<(f64, f64)> {
        self.survey.finish();
        let heard = self.heard;
        let when = |line: u64| {
            let first = heard.partition_point(|(newlines, _)| *newlines < line);
            heard.get(first).or(heard.last()).map(|(_, at)| at.as_secs_f64())
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
    fn every_value_is_heard_when_its_line_ends() {
        let work = Work::Training(Kind::Mlp, Amount { epochs: 9, size: 64, threads: 1, seed: 1 });
        let job = Job { name: "a".into(), start: Duration::ZERO, labels: Vec::new(), work };
        let mut collector = LogCollector::of(&job);
        let second = Duration::from_secs;
        collector.collect(b"begin\nEpoch [1/9] loss: 8.0\nEpoch [2/9] lo", second(1));
        collector.collect(b"ss: 4.0\n", second(2));
        collector.collect(b"Epoch [3/9] loss: nan\nEpoch [4/9] loss: 1.0\n", second(5));
        collector.collect(b"Epoch [5/9] loss: 0.5", second(7));
        assert_eq!(collector.curve(), [(1.0, 8.0), (2.0, 4.0), (5.0, 1.0), (7.0, 0.5)]);
    }
}
