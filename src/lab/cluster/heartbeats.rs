//! Heartbeats of the trainings: after each epoch, a training appends a line `HOST EPOCH SECONDS` to a file in a shared folder.
//!
//! Each container has a unique host name, so the lines show which container wrote when, independent of engines and daemons.

use super::schedule::ClusterJob;
use crate::trial::outcome::{Foreign, JobOutcome, RunOutcome, Sample};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Length of a sample in the chart, in seconds.
const SAMPLE: f64 = 2.0;

/// The heartbeats of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Heartbeats {
    lines: Vec<Beat>,
}

#[derive(Clone, Debug, PartialEq)]
struct Beat {
    writer: String,
    unit: usize,
    at_s: f64,
}

/// Seconds since 1970.
pub(super) fn now_s() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

impl Heartbeats {
    /// Reads the heartbeats written so far; none if the file does not exist.
    pub(super) fn read(file: &Path) -> Heartbeats {
        Heartbeats::of(&std::fs::read_to_string(file).unwrap_or_default())
    }

    fn of(text: &str) -> Heartbeats {
        let beat = |line: &str| {
            let mut words = line.split(' ');
            let (writer, unit, at_s) = (words.next()?, words.next()?, words.next()?);
            Some(Beat { writer: writer.to_owned(), unit: unit.parse().ok()?, at_s: at_s.parse().ok()? })
        };
        Heartbeats { lines: text.lines().filter_map(beat).collect() }
    }

    /// The last finished epoch.
    pub(super) fn units(&self) -> usize {
        self.lines.iter().map(|beat| beat.unit).max().unwrap_or(0)
    }

    /// When the last line was written, Unix time in seconds.
    pub(super) fn ended_s(&self) -> f64 {
        self.lines.last().map_or(0.0, |beat| beat.at_s)
    }

    /// How often another container continued the job.
    pub(super) fn moves(&self) -> usize {
        self.lines.windows(2).filter(|pair| pair[0].writer != pair[1].writer).count()
    }

    /// How often a container wrote again after another had taken over.
    pub(super) fn two_writers(&self) -> usize {
        let mut ended: BTreeSet<&str> = BTreeSet::new();
        let mut returns = 0;
        for pair in self.lines.windows(2).filter(|pair| pair[0].writer != pair[1].writer) {
            ended.insert(&pair[0].writer);
            returns += usize::from(ended.contains(pair[1].writer.as_str()));
        }
        returns
    }

    /// Number of epochs that were skipped or repeated.
    pub(super) fn lost_units(&self) -> usize {
        let first = self.lines.first().map_or(0, |beat| beat.unit.abs_diff(1));
        first + self.lines.windows(2).map(|pair| pair[1].unit.abs_diff(pair[0].unit + 1)).sum::<usize>()
    }

    /// Epochs done between two instants; each epoch is spread evenly over the time since the previous one.
    fn units_between(&self, start_s: f64, from: f64, until: f64) -> f64 {
        let befores = std::iter::once(start_s).chain(self.lines.iter().map(|beat| beat.at_s));
        let spans = befores.zip(self.lines.iter().map(|beat| beat.at_s));
        spans.map(|(began, ended)| (ended.min(until) - began.max(from)).max(0.0) / (ended - began).max(1e-3)).sum()
    }
}

/// The outcome of a run. CPU usage is computed from the epochs done and the measured work of an epoch.
pub(super) fn outcome(
    jobs: &[ClusterJob],
    beats: &[Heartbeats],
    starts: &[f64],
    began_s: f64,
    foreign: Foreign,
    cores: f64,
) -> RunOutcome {
    let outcomes: Vec<JobOutcome> = jobs
        .iter()
        .map(|job| JobOutcome {
            name: job.name.clone(),
            start_s: starts[job.number] - began_s,
            completion_s: beats[job.number].ended_s() - starts[job.number],
            exit_code: 0,
        })
        .collect();
    let length = beats.iter().map(Heartbeats::ended_s).fold(began_s, f64::max) - began_s;
    let samples = (1..=(length / SAMPLE).ceil() as usize).map(|number| {
        let (from, until) = (began_s + SAMPLE * (number - 1) as f64, began_s + SAMPLE * number as f64);
        let used = |job: &ClusterJob| {
            let units = beats[job.number].units_between(starts[job.number], from, until);
            units * job.work.as_secs_f64() / job.amount.epochs as f64 / (SAMPLE * cores)
        };
        Sample { at: Duration::from_secs_f64(SAMPLE * number as f64), used: jobs.iter().map(used).collect() }
    });
    RunOutcome::new(outcomes, samples.collect(), foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_a_change_of_the_writer() {
        let beats = Heartbeats::of("a 1 10.0\na 2 11.0\nb 3 20.0\nb 4 22.0\n");
        assert_eq!((beats.moves(), beats.two_writers(), beats.lost_units(), beats.units()), (1, 0, 0, 4));
        assert_eq!(beats.ended_s(), 22.0);
        assert!((beats.units_between(9.0, 9.5, 20.0) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn a_returning_writer_and_repeated_or_skipped_epochs_are_counted() {
        let beats = Heartbeats::of("a 1 10.0\nb 1 10.5\na 2 11.0\na 4 12.0\n");
        assert_eq!((beats.two_writers(), beats.lost_units()), (1, 2));
        assert_eq!(Heartbeats::of("a 3 1.0\nhalf a li").lost_units(), 2);
    }
}
