//! The schedule of the demo: the trainings, their work and their start times.
//!
//! The mix is typical: a long job whose curve is flat early, and shorter ones that arrive while it runs. The work is measured before the
//! first run and is the same number of epochs in both runs. A job starts when the others have done a certain amount of work, so the jobs
//! overlap in the same way however fast the machine is, also if its speed changes.

use crate::train::SIZES;
use crate::trial::job::{TrialJob, Work};
use crate::trial::work_clock::LoggedWork;
use crate::workload::{Amount, EpochCost, Kind, epoch_costs};
use std::io;
use std::time::Duration;

/// A job of the mix: `work`, and the work that is done when it starts, are fractions of the whole.
struct Part {
    name: &'static str,
    kind: Kind,
    size: usize,
    work: f64,
    start: f64,
}

const MIX: [Part; 5] = [
    Part { name: "auto-encoder", kind: Kind::Vae, size: 4096, work: 0.56, start: 0.0 },
    Part { name: "boosted-trees", kind: Kind::Boosting, size: 400_000, work: 0.11, start: 0.11 },
    Part { name: "char-rnn", kind: Kind::Gru, size: 1024, work: 0.11, start: 0.26 },
    Part { name: "digits-mlp", kind: Kind::Mlp, size: 16_384, work: 0.11, start: 0.41 },
    Part { name: "softmax", kind: Kind::Softmax, size: 40_000, work: 0.11, start: 0.56 },
];

/// Length of a run for the sizes above; a shorter run uses smaller sizes, so that an epoch stays short compared with a job.
const FULL_LENGTH: Duration = Duration::from_secs(46);

/// The mix, sized so that the whole node needs `length` for it: the jobs, whose start times count work, and the work of each. The measurement
/// takes a tenth of `length`.
///
/// # Errors
/// None in practice: nothing is read or written.
pub(super) fn sized(length: Duration, threads: usize) -> io::Result<(Vec<TrialJob>, Vec<LoggedWork>)> {
    let scale = (length.as_secs_f64() / FULL_LENGTH.as_secs_f64()).min(1.0);
    let size = |part: &Part| ((part.size as f64 * scale).ceil() as usize).max(*SIZES.start() as usize);
    let trainings = MIX.each_ref().map(|part| (part.kind, size(part)));
    let costs = epoch_costs(&trainings, threads, length / 100)?;
    let job = |((part, (kind, size)), cost): ((&Part, (Kind, usize)), EpochCost)| {
        let epochs = (part.work * length.as_secs_f64() / cost.seconds).round().max(3.0) as usize;
        let amount = Amount { epochs, size, threads, seed: 1 };
        let job = TrialJob {
            name: part.name.to_owned(),
            start: length.mul_f64(part.start),
            is_broken: false,
            labels: labels(kind, amount),
            work: Work::Training(kind, amount),
        };
        let work = Duration::from_secs_f64(cost.seconds * epochs as f64);
        (job, LoggedWork { work, lines: (cost.lines * epochs) as u64 })
    };
    Ok(MIX.iter().zip(trainings).zip(costs).map(job).unzip())
}

/// Labels with the total number of epochs, for frameworks whose log does not contain it.
pub(crate) fn labels(kind: Kind, amount: Amount) -> Vec<(String, String)> {
    match kind {
        Kind::Boosting | Kind::Vae | Kind::Softmax => vec![("flowcon.total".to_owned(), amount.epochs.to_string())],
        Kind::Mlp | Kind::Gru | Kind::Factors => Vec::new(),
    }
}

/// Start and work of each job of a mix of this length.
#[cfg(test)]
pub(super) fn planned(length: Duration) -> Vec<(Duration, Duration)> {
    MIX.iter().map(|part| (length.mul_f64(part.start), length.mul_f64(part.work))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_fills_one_run_and_its_names_are_distinct() {
        let work: f64 = MIX.iter().map(|part| part.work).sum();
        assert!((work - 1.0).abs() < 1e-9, "{work}");
        let mut seen: Vec<&str> = MIX.iter().map(|part| part.name).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), MIX.len());
    }

    #[test]
    fn no_core_is_idle_before_the_last_job_starts() {
        let mut queued = 0.0;
        let mut then = 0.0;
        for part in &MIX {
            queued -= part.start - then;
            assert!(queued >= 0.0 || then == 0.0, "{} starts on an idle node", part.name);
            queued = f64::max(queued, 0.0) + part.work;
            then = part.start;
        }
    }
}
