//! What an epoch of each training of a mix costs on this machine, measured so that the costs fit each other.
//!
//! Only their ratios matter much, and a machine whose speed changes must not distort them. So the trainings take turns for several rounds,
//! and the fastest round of each counts: a disturbance only makes a round slower.

use super::{Amount, Kind, train};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, Write};
use std::time::Duration;

/// How often each training is measured.
const ROUNDS: u32 = 4;
/// Maximum number of epochs of a round.
const MAX_EPOCHS: usize = 1 << 16;

/// The cost of an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EpochCost {
    /// Time that all cores together need for it, in CPU time: other processes do not count. The preparation of the data is not included.
    pub seconds: f64,
    /// Number of lines that it prints.
    pub lines: usize,
}

/// Measures the trainings, each with its size, on `cores` cores. All rounds of one use about `enough` CPU time, plus the time to prepare
/// its data.
///
/// # Errors
/// None in practice: nothing is read or written.
pub(crate) fn epoch_costs(trainings: &[(Kind, usize)], cores: usize, enough: Duration) -> io::Result<Vec<EpochCost>> {
    let enough = enough.as_secs_f64() / f64::from(ROUNDS);
    let first = |&(kind, size): &(Kind, usize)| {
        let mut epochs = 2;
        loop {
            let cost = measured(kind, size, cores, epochs)?;
            if cost.seconds * (epochs - 1) as f64 >= enough || epochs >= MAX_EPOCHS {
                return Ok((epochs, cost));
            }
            epochs *= 2;
        }
    };
    let mut rounds: Vec<(usize, EpochCost)> = trainings.iter().map(first).collect::<io::Result<_>>()?;
    for _ in 1..ROUNDS {
        for (&(kind, size), (epochs, fastest)) in trainings.iter().zip(&mut rounds) {
            let seconds = measured(kind, size, cores, *epochs)?.seconds;
            fastest.seconds = fastest.seconds.min(seconds);
        }
    }
    Ok(rounds.into_iter().map(|(_, fastest)| fastest).collect())
}

/// Measures `epochs` epochs, at least 2, without the first, which includes the preparation of the data.
fn measured(kind: Kind, size: usize, cores: usize, epochs: usize) -> io::Result<EpochCost> {
    let mut ends = LineTimes::default();
    train(kind, Amount { epochs, size, threads: cores, seed: 1 }, &mut ends)?;
    let LineTimes(ends) = ends;
    let lines = ends.len() / epochs;
    let used = ends[ends.len() - 1].saturating_sub(ends[lines - 1]);
    let seconds = used.as_secs_f64() / ((epochs - 1) * cores) as f64;
    Ok(EpochCost { seconds: seconds.max(1e-6), lines })
}

/// CPU time of this process at the end of each line written.
#[derive(Default)]
struct LineTimes(Vec<Duration>);

impl Write for LineTimes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend(memchr::memchr_iter(b'\n', bytes).map(|_| cpu_time()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
    fn every_epoch_of_a_training_prints_equally_many_lines() {
        for kind in Kind::ALL {
            let lines_of = |epochs| {
                let mut ends = LineTimes::default();
                train(kind, Amount { epochs, size: 300, threads: 1, seed: 1 }, &mut ends).expect("nothing is written");
                ends.0.len()
            };
            assert!(lines_of(1) >= 1 && lines_of(5) == 5 * lines_of(1), "{kind}");
        }
    }

    #[test]
    fn an_epoch_of_twice_the_size_costs_about_twice_as_much() {
        let costs = epoch_costs(&[(Kind::Mlp, 1024), (Kind::Mlp, 2048)], 1, Duration::from_millis(200));
        let costs = costs.expect("nothing is written");
        let ratio = costs[1].seconds / costs[0].seconds;
        assert!((1.3..=3.0).contains(&ratio) && costs[0].lines == 2, "{costs:?}");
    }
}
