//! Collects the evaluations in a job's output, parsed like a log in the daemon, with the time at which each was printed.
//!
//! The governor's status has only the latest value; polled twice a second, it misses the first epochs of a job that has a core to itself,
//! and their improvement is part of "95 % of the improvement".

use super::job::TrialJob;
use std::time::Duration;
use traininglog::survey::{Observation, Survey};

/// Collects the output of one job.
pub(super) struct LogCollector {
    survey: Survey,
    /// Whether the evaluations are in a file (label `flowcon.log`), where they are not followed, instead of the output.
    is_in_file: bool,
    newlines: u64,
    /// (Number of newlines received so far, time).
    received: Vec<(u64, Duration)>,
    /// When the latest text was received. It is read later: when its line ends or is redrawn.
    text_at: Duration,
    /// (Number of values read so far, when the text of the latest was received).
    read: Vec<(u64, Duration)>,
}

impl LogCollector {
    /// Creates a collector that follows the job's labels.
    pub(super) fn new(job: &TrialJob) -> LogCollector {
        let (directives, _) = config::directives(&job.labels.iter().cloned().collect());
        LogCollector {
            survey: Survey::new(&directives.hints),
            is_in_file: directives.log.is_some(),
            newlines: 0,
            received: Vec::new(),
            text_at: Duration::ZERO,
            read: Vec::new(),
        }
    }

    /// Adds the next bytes, which may be split anywhere, received at `at`.
    pub(super) fn collect(&mut self, bytes: &[u8], at: Duration) {
        for piece in bytes.chunk_by(|one, next| is_text(*one) == is_text(*next)) {
            self.survey.push(piece);
            self.note_values();
            if piece.first().is_some_and(|byte| is_text(*byte)) {
                self.text_at = at;
            }
        }
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.received.push((self.newlines, at));
    }

    fn note_values(&mut self) {
        let count = self.survey.values_read();
        if self.read.last().is_none_or(|(noted, _)| *noted < count) {
            self.read.push((count, self.text_at));
        }
    }

    /// Returns the printed evaluations: (seconds, value), each with the time at which its text was complete. Empty if these times are
    /// unknown: the evaluations are in a file, or all were received at once (an engine passes on the redraws of a bar with its line's end).
    pub(super) fn curve(mut self) -> Vec<(f64, f64)> {
        self.survey.finish();
        self.note_values();
        let LogCollector { survey, is_in_file, received, read, .. } = self;
        let time = |seen: &Observation| {
            let text = first_with(&read, seen.number)?;
            // The first lines may be read again, after their end.
            let line = first_with(&received, seen.line).unwrap_or(text);
            Some(text.min(line).as_secs_f64())
        };
        let observations = survey.reading().observations.into_iter().filter(|seen| seen.value.is_finite());
        let curve: Vec<(f64, f64)> = observations.filter_map(|seen| Some((time(&seen)?, seen.value))).collect();
        let is_at_once = curve.first().map(|(at, _)| at) == curve.last().map(|(at, _)| at);
        if is_in_file || is_at_once { Vec::new() } else { curve }
    }
}

/// Whether the byte is part of a text; the others end its line or begin a redraw.
fn is_text(byte: u8) -> bool {
    !matches!(byte, b'\n' | b'\r' | 0x08)
}

/// The time of the first entry whose count is at least `number`.
fn first_with(entries: &[(u64, Duration)], number: u64) -> Option<Duration> {
    let first = entries.partition_point(|(count, _)| *count < number);
    entries.get(first).map(|(_, at)| *at)
}

#[cfg(test)]
mod tests {
    use super::super::job::Work;
    use super::*;
    use crate::workload::{Amount, Kind};

    fn collector(labels: &[(&str, &str)]) -> LogCollector {
        let work = Work::Training(Kind::Mlp, Amount { epochs: 9, size: 64, threads: 1, seed: 1 });
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        LogCollector::new(&TrialJob { name: "a".into(), start: Duration::ZERO, is_broken: false, labels, work })
    }

    fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn every_value_has_the_time_at_which_its_text_was_complete() {
        let mut collector = collector(&[]);
        collector.collect(b"begin\nEpoch [1/9] loss: 8.0\nEpoch [2/9] lo", second(1));
        collector.collect(b"ss: 4.0\n", second(2));
        collector.collect(b"Epoch [3/9] loss: nan\nEpoch [4/9] loss: 1.0\n", second(5));
        collector.collect(b"Epoch [5/9] loss: 0.5", second(7));
        assert_eq!(collector.curve(), [(1.0, 8.0), (2.0, 4.0), (5.0, 1.0), (7.0, 0.5)]);
    }

    fn bar(step: u64) -> String {
        format!("Steps: {step}%|##        | {step}/200 [00:01<01:00,  3.3it/s, loss={}.5]", 100 - 10 * step)
    }

    fn bar_times() -> Vec<(f64, f64)> {
        (1..=6_u32).map(f64::from).map(|step| (10.0 * step, 100.5 - 10.0 * step)).collect()
    }

    #[test]
    fn every_redraw_of_a_bar_has_the_time_at_which_it_was_drawn() {
        let mut before = collector(&[]);
        (1..=6).for_each(|step| before.collect(format!("\r{}", bar(step)).as_bytes(), second(10 * step)));
        before.collect(b"\n", second(99));
        assert_eq!(before.curve(), bar_times());
        let mut after = collector(&[]);
        (1..=6).for_each(|step| after.collect(format!("{}\r", bar(step)).as_bytes(), second(10 * step)));
        after.collect(b"\ndone\n", second(99));
        assert_eq!(after.curve(), bar_times());
    }

    #[test]
    fn lines_that_are_read_again_without_their_tags_keep_their_times() {
        let mut collector = collector(&[]);
        for at in 0..40 {
            let text = match at % 4 {
                0 => "loading data".to_owned(),
                1 => format!("epoch {}/10", at / 4 + 1),
                2 => format!("loss {}.5", 90 - at),
                _ => "saved".to_owned(),
            };
            collector.collect(format!("0: {text}\n").as_bytes(), second(at));
        }
        let expected: Vec<f64> = (0..10).map(|epoch| f64::from(4 * epoch + 2)).collect();
        let times: Vec<f64> = collector.curve().into_iter().map(|(at, _)| at).collect();
        assert!(times.ends_with(&expected), "{times:?}");
    }

    #[test]
    fn values_whose_times_are_unknown_are_left_out() {
        let mut at_once = collector(&[]);
        at_once.collect((1..=6).map(|step| bar(step) + "\r").collect::<String>().as_bytes(), second(60));
        at_once.collect(b"\n", second(60));
        assert!(at_once.curve().is_empty());
        let mut in_file = collector(&[("flowcon.log", "/logs/train.txt")]);
        in_file.collect(b"Epoch [1/9] loss: 8.0\n", second(1));
        in_file.collect(b"Epoch [2/9] loss: 4.0\n", second(2));
        assert!(in_file.curve().is_empty());
    }
}
