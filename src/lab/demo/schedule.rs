//! The schedule of the demo: the trainings, their work and their start times.
//!
//! The mix is typical: a long job whose curve is flat early, and shorter ones that arrive while it runs. The work is measured before the
//! first run and is the same number of epochs in both runs.

use crate::train::SIZES;
use crate::trial::job::{TrialJob, Work};
use crate::workload::{Amount, Kind, train};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::time::Duration;

/// A job of the mix: `work` and `start` are fractions of a run's length.
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

/// The mix, sized so that the whole node needs `length` for it. The measurement takes a few per cent of `length`.
///
/// # Errors
/// None in practice: nothing is read or written.
pub(crate) fn sized(length: Duration, threads: usize) -> io::Result<Vec<TrialJob>> {
    let scale = (length.as_secs_f64() / FULL_LENGTH.as_secs_f64()).min(1.0);
    let job = |part: &Part| {
        let size = ((part.size as f64 * scale).ceil() as usize).max(*SIZES.start() as usize);
        let epoch = seconds_per_epoch(part.kind, size, threads, length / 100)?;
        let epochs = (part.work * length.as_secs_f64() / epoch).round().max(3.0) as usize;
        let amount = Amount { epochs, size, threads, seed: 1 };
        Ok(TrialJob {
            name: part.name.to_owned(),
            start: length.mul_f64(part.start),
            labels: labels(part.kind, amount),
            work: Work::Training(part.kind, amount),
        })
    };
    MIX.iter().map(job).collect()
}

/// Labels with the total number of epochs, for frameworks whose log does not contain it.
pub(crate) fn labels(kind: Kind, amount: Amount) -> Vec<(String, String)> {
    match kind {
        Kind::Boosting | Kind::Vae | Kind::Softmax => vec![("flowcon.total".to_owned(), amount.epochs.to_string())],
        Kind::Mlp | Kind::Gru | Kind::Factors => Vec::new(),
    }
}

/// Measures the work of an epoch in seconds of the whole node. Uses CPU time, so that other processes do not count, and doubles the
/// number of epochs until a run needs `enough`.
pub(crate) fn seconds_per_epoch(kind: Kind, size: usize, cores: usize, enough: Duration) -> io::Result<f64> {
    let mut epochs = 1;
    loop {
        let before = cpu_time();
        train(kind, Amount { epochs, size, threads: cores, seed: 1 }, &mut io::sink())?;
        let used = cpu_time().saturating_sub(before) / cores as u32;
        if used >= enough || epochs >= 1 << 16 {
            return Ok(used.as_secs_f64().max(1e-6) / epochs as f64);
        }
        epochs *= 2;
    }
}

/// CPU time of this process so far, all threads together.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
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
