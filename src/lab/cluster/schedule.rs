//! Which trainings the Swarm gets, how much work each is, and when they come: for each node a long one and three shorter ones.
//!
//! They come in an order drawn from a seed: one in which the long ones came first, or each kind at once, would be placed well by whoever
//! deals jobs out in turn. Work is fixed by a measurement before the first run and is then the same, epoch for epoch, in all runs.
//! Imports: workload, demo.

use crate::lab::demo::schedule::seconds_an_epoch;
use crate::lab::train::SIZES;
use crate::lab::workload::{Amount, Kind};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::io;
use std::time::Duration;

/// Trainings for each node.
pub(super) const JOBS_A_NODE: usize = 4;

/// A training of the mix for one node: `work` is a part of what the node can do in a run's length.
struct Part {
    name: &'static str,
    kind: Kind,
    size: usize,
    work: f64,
}

const MIX: [Part; JOBS_A_NODE] = [
    Part { name: "vae", kind: Kind::Vae, size: 2048, work: 0.52 },
    Part { name: "gru", kind: Kind::Gru, size: 256, work: 0.20 },
    Part { name: "mlp", kind: Kind::Mlp, size: 8192, work: 0.16 },
    Part { name: "softmax", kind: Kind::Softmax, size: 16_384, work: 0.12 },
];

/// The length that the sizes above are meant for; a shorter run takes smaller ones, so that epochs stay short beside a job.
const FULL_LENGTH: Duration = Duration::from_secs(60);

/// The works of a kind's trainings differ by this part.
const SPREAD: f64 = 0.15;

/// The last training comes after this part of the length, the others evenly before it: most of the time some share a node. Were they to come
/// over twice that time, a node would have hardly more than one, and there would be nothing to govern.
const LAST_COMES: f64 = 0.3;

/// What the engines, daemons and the kernel get of a CPU, where no other is left to them.
const FOR_ENGINES: f64 = 0.12;

/// One training.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClusterJob {
    /// Its place in the schedule.
    pub number: usize,
    pub name: String,
    /// When it comes, after the run's beginning.
    pub start: Duration,
    pub kind: Kind,
    pub amount: Amount,
    /// CPU time that it needs.
    pub work: Duration,
}

impl ClusterJob {
    /// The command line inside its container, without where it saves.
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

/// How many cores each node has: one, or an equal part of one that several nodes are confined to.
pub(super) fn cores_of_a_node(machine: usize, nodes: u16) -> f64 {
    match usize::from(nodes).div_ceil(machine.max(1)) {
        1 if machine > usize::from(nodes) => 1.0,
        sharing => (1.0 - FOR_ENGINES) / sharing as f64,
    }
}

/// The mix for each node, sized so that all nodes together need `length` for it, in the order in which they come.
///
/// # Errors
/// None in practice: nothing is read or written.
pub(super) fn sized(length: Duration, nodes: u16, cores: f64, seed: u64) -> io::Result<Vec<ClusterJob>> {
    let scale = (length.as_secs_f64() / FULL_LENGTH.as_secs_f64()).min(1.0);
    let mut jobs = Vec::new();
    for part in &MIX {
        let size = ((part.size as f64 * scale).ceil() as usize).max(*SIZES.start() as usize);
        let epoch_s = seconds_an_epoch(part.kind, size, 1, length / 100)?;
        for node in 0..nodes {
            // −1 ..= 1 over the nodes, so that the mean stays.
            let place = 2.0 * f64::from(node) / f64::from(nodes - 1) - 1.0;
            let work = part.work * (1.0 - SPREAD * place) * length.as_secs_f64() * cores;
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

/// Draws the order in which the jobs come.
fn arrive(jobs: &mut [ClusterJob], length: Duration, seed: u64) {
    jobs.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let gap = length.mul_f64(LAST_COMES) / jobs.len().saturating_sub(1).max(1) as u32;
    for (number, job) in jobs.iter_mut().enumerate() {
        job.number = number;
        job.start = gap * number as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_what_the_nodes_can_do_in_the_length() {
        assert!((MIX.iter().map(|part| part.work).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(cores_of_a_node(64, 3), 1.0);
        assert_eq!(cores_of_a_node(3, 3), 0.88, "the engines need some of it");
        assert_eq!(cores_of_a_node(2, 3), 0.44, "two nodes on one CPU have as much as one on the other");
    }

    #[test]
    fn a_seed_draws_the_order_and_only_that() {
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
