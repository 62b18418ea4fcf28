//! The schedule of the demo: the trainings, their work and their start times. For each node, one long training and three shorter ones.
//!
//! They arrive in an order drawn from a seed: if the long ones came first, or all of one kind at once, even round-robin placement would do
//! well. The work is measured before the first run and is the same number of epochs in all runs.

use crate::train::SIZES;
use crate::workload::{Amount, Kind, epoch_costs};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::io;
use std::time::Duration;

/// Number of trainings per node.
pub(super) const JOBS_PER_NODE: usize = 4;

/// A training of the mix for one node: `work` is a fraction of the work that a node of mean size can do in a run.
struct Part {
    name: &'static str,
    kind: Kind,
    size: usize,
    work: f64,
}

const MIX: [Part; JOBS_PER_NODE] = [
    Part { name: "vae", kind: Kind::Vae, size: 2048, work: 0.52 },
    Part { name: "gru", kind: Kind::Gru, size: 256, work: 0.20 },
    Part { name: "mlp", kind: Kind::Mlp, size: 8192, work: 0.16 },
    Part { name: "softmax", kind: Kind::Softmax, size: 16_384, work: 0.12 },
];

/// Length of a run for the sizes above; a shorter run uses smaller sizes, so that an epoch stays short compared with a job.
const FULL_LENGTH: Duration = Duration::from_secs(60);

/// Relative spread of the work of trainings of one kind.
const SPREAD: f64 = 0.15;

/// Fraction of the length after which the last training arrives, the others evenly before it: most of the time, several share a node. If
/// they arrived over twice that time, a node would rarely have more than one, and there would be nothing to govern.
const LAST_ARRIVAL: f64 = 0.3;

/// Seed of the trainings that run before, and prefix of their names.
const SEED_BEFORE: u64 = 1 << 32;
const PREFIX_BEFORE: &str = "before-";

/// One training.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClusterJob {
    /// Its index in the schedule.
    pub number: usize,
    pub name: String,
    /// When it arrives, after the start of the run.
    pub start: Duration,
    pub kind: Kind,
    pub amount: Amount,
    /// CPU time that it needs.
    pub work: Duration,
}

impl ClusterJob {
    /// The command line inside its container, without the option for its state.
    pub(super) fn command(&self) -> Vec<String> {
        let Amount { epochs, size, seed, .. } = self.amount;
        let words = [
            "train",
            self.kind.name(),
            "--epochs",
            &epochs.to_string(),
            "--size",
            &size.to_string(),
            "--seed",
            &seed.to_string(),
        ];
        words.map(str::to_owned).to_vec()
    }
}

/// The mix for each of `nodes` nodes, sized so that their `cores` together need `length` for it, in the order of arrival.
///
/// # Errors
/// None in practice: nothing is read or written.
pub(super) fn sized(length: Duration, nodes: u16, cores: f64, seed: u64) -> io::Result<Vec<ClusterJob>> {
    let scale = (length.as_secs_f64() / FULL_LENGTH.as_secs_f64()).min(1.0);
    let size = |part: &Part| ((part.size as f64 * scale).ceil() as usize).max(*SIZES.start() as usize);
    let trainings = MIX.each_ref().map(|part| (part.kind, size(part)));
    let costs = epoch_costs(&trainings, 1, length / 100)?;
    let mut jobs = Vec::new();
    for ((part, (_, size)), cost) in MIX.iter().zip(trainings).zip(costs) {
        let epoch_s = cost.seconds;
        for node in 0..nodes {
            // −1 ..= 1 over the nodes, so that the mean is unchanged.
            let place = 2.0 * f64::from(node) / f64::from(nodes - 1) - 1.0;
            let work = part.work * (1.0 - SPREAD * place) * length.as_secs_f64() * cores / f64::from(nodes);
            let epochs = (work / epoch_s).round().max(3.0) as usize;
            jobs.push(ClusterJob {
                number: 0,
                name: format!("{}-{}", part.name, node + 1),
                start: Duration::ZERO,
                kind: part.kind,
                amount: Amount { epochs, size, threads: 1, seed: u64::from(node) + 1 },
                work: Duration::from_secs_f64(epoch_s * epochs as f64),
            });
        }
    }
    arrive(&mut jobs, length, seed);
    Ok(jobs)
}

/// One training of each kind of this schedule, all at once, with another seed and half as many epochs.
pub(super) fn before(jobs: &[ClusterJob]) -> Vec<ClusterJob> {
    let of = |(number, part): (usize, &Part)| {
        let job = jobs.iter().find(|job| job.kind == part.kind)?;
        let amount = Amount { epochs: job.amount.epochs.div_ceil(2), seed: SEED_BEFORE, ..job.amount };
        let (name, start) = (format!("{}{}", PREFIX_BEFORE, part.name), Duration::ZERO);
        Some(ClusterJob { number, name, start, amount, work: job.work / 2, ..job.clone() })
    };
    MIX.iter().enumerate().filter_map(of).collect()
}

/// Draws the order of arrival.
fn arrive(jobs: &mut [ClusterJob], length: Duration, seed: u64) {
    jobs.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let gap = length.mul_f64(LAST_ARRIVAL) / jobs.len().saturating_sub(1).max(1) as u32;
    for (number, job) in jobs.iter_mut().enumerate() {
        job.number = number;
        job.start = gap * number as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_the_work_that_a_node_can_do_in_a_run() {
        assert!((MIX.iter().map(|part| part.work).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn before_the_runs_each_kind_is_trained_once_with_other_numbers() {
        let job = |part: &Part, number: usize| ClusterJob {
            number,
            name: format!("{}-{number}", part.name),
            start: Duration::from_secs(number as u64),
            kind: part.kind,
            amount: Amount { epochs: 21, size: 64, threads: 1, seed: 1 },
            work: Duration::from_secs(8),
        };
        let jobs: Vec<ClusterJob> = MIX.iter().chain(&MIX).enumerate().map(|(at, part)| job(part, at)).collect();
        let before = before(&jobs);
        assert_eq!(before.iter().map(|job| job.kind).collect::<Vec<_>>(), MIX.each_ref().map(|part| part.kind));
        for (number, job) in before.iter().enumerate() {
            assert_eq!((job.number, job.start, job.amount.epochs), (number, Duration::ZERO, 11));
            assert!(jobs.iter().all(|other| other.name != job.name && other.amount.seed != job.amount.seed));
        }
    }

    #[test]
    fn a_seed_determines_only_the_order() {
        let of = |seed| {
            let mut jobs: Vec<ClusterJob> = (0..12)
                .map(|number| ClusterJob {
                    number,
                    name: format!("job-{number}"),
                    start: Duration::ZERO,
                    kind: Kind::Mlp,
                    amount: Amount::usual(Kind::Mlp),
                    work: Duration::from_secs(1),
                })
                .collect();
            arrive(&mut jobs, Duration::from_secs(110), seed);
            jobs
        };
        let (one, other) = (of(1), of(2));
        assert_eq!(one, of(1));
        let names = |jobs: &[ClusterJob]| jobs.iter().map(|job| job.name.clone()).collect::<Vec<_>>();
        let sorted = |jobs: &[ClusterJob]| names(jobs).into_iter().collect::<std::collections::BTreeSet<_>>();
        assert!(names(&one) != names(&other) && sorted(&one) == sorted(&other));
        let ends = (one.first().map(|job| job.start), one.last().map(|job| job.start));
        assert_eq!(ends, (Some(Duration::ZERO), Some(Duration::from_secs(33))));
        assert!(one.iter().enumerate().all(|(place, job)| job.number == place));
    }
}
