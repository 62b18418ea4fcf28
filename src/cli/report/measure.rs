//! Measures the effect of governing against blocks of time in which it was switched off (`policy.holdback`).
//!
//! ## What is measured (the estimands)
//!
//! - *For the node*: the rate at which jobs progress to completion while governed, divided by the rate under plain sharing at the same
//!   samples. A job of W core-seconds that gets c cores does c/W *jobs' worth of work* a second; the rate is the sum over the jobs.
//!   It is the completion credit that the default policy divides by work. In addition, the CPU that all jobs use together, which
//!   governing must not lower.
//! - *For a job*: the CPU that it got while governed, divided by the CPU that plain sharing would have given it at the same samples. 1.2
//!   means that governing gave it a fifth more.
//!
//! "The same samples" means the jobs present at that time and the work they had done. These are *rates at the samples*, averaged over the
//! governed time: a job that gets more ends sooner, and the others have more from then on. The effect on completion times is estimated by
//! the replay ([`super::estimate`]), so both are shown. The improvement of the models is not compared: a learning curve is convex, so the
//! mean of its slopes before and after a block exceeds the slope within it, and governing would seem to gain where it does not. CPU usage
//! has no such bend.
//!
//! ## How (the estimators)
//!
//! Blocks are made plain at random, so the plain ones are a fair sample of all. All CPU used in a block counts, including that of jobs that
//! started or ended within it, and a job that was absent used nothing: comparing only surviving jobs would leave out those that
//! governing brought to completion.
//!
//! - *For the node*, each run of control periods (usually one) is a *comparison* with the governed blocks before and after it: `A` is the
//!   mean rate of these two, `B` that of the plain ones. Trends and changes in the set of jobs affect both alike. The ratio is ΣA / ΣB.
//! - *For a job*, the CPU that it got while governed is known for every block and need not be sampled: it is divided by the mean of its
//!   control periods. Blocks next to control periods would rarely show a job that waits for long and then gets all cores.
//!
//! ## How sure (the intervals, 95 %)
//!
//! The scatter of the sample shows how much another draw could have differed. Node: e = A − ratio·B, Var ln ratio ≈ n/(n−1) · Σe² / (ΣA)²
//! (linearised ratio of means; W. Cochran, *Sampling Techniques*, 1977, chapter 6), plus 2·e·e′ for each two successive comparisons
//! that share a governed block, if the sum of these is positive. Job: the standard error of the mean of its control periods. The interval
//! is the ratio times exp(± t·σ), with t from Student's distribution with n − 1 degrees of freedom, so that few blocks make it wide; with
//! fewer than [`MIN_COMPARISONS`] there is no result. Blocks are drawn group by group, which scatters less than assumed here, never more.
//! The relative uncertainty is at least [`MIN_UNCERTAINTY`], because counters are not exact.
//!
//! `measure_truth_tests` checks this against the simulator, which knows the result of plain sharing at each sample. Pure.

use super::estimate::Range;
use api::wire::BlockRecord;
use std::collections::BTreeMap;

/// Minimum number of comparisons for a result: with fewer, their scatter is not meaningful.
pub(super) const MIN_COMPARISONS: usize = 6;
/// Smallest relative uncertainty of a ratio.
const MIN_UNCERTAINTY: f64 = 0.01;
/// Largest gap between two adjacent blocks: the clock may step.
const NEXT_WITHIN_MS: u64 = 1_000;

/// Result of a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Measurement {
    /// Number of control periods.
    pub plain_blocks: usize,
    /// Number of runs of control periods with a governed block before and after.
    pub comparisons: usize,
    /// Ratio of jobs' worth of work a second: governed / plain.
    pub work: Option<Range>,
    /// Ratio of the CPU used by all jobs together: governed / plain.
    pub cores: Option<Range>,
    /// For each job, by number: its control periods, and the ratio of its CPU governed / plain.
    pub jobs: BTreeMap<u64, (usize, Option<Range>)>,
}

/// Measures the effect of governing; `works` holds the total work of jobs in core-seconds, where known.
pub(super) fn measure(blocks: &[BlockRecord], works: &BTreeMap<u64, f64>) -> Measurement {
    let comparisons = compared(blocks);
    let sums = |value: &dyn Fn(u64) -> Option<f64>| {
        let of_all: Vec<Pair> = comparisons.iter().filter_map(|comparison| comparison.sum(value)).collect();
        ratio(&of_all)
    };
    Measurement {
        plain_blocks: blocks.iter().filter(|block| block.plain).count(),
        comparisons: comparisons.len(),
        work: sums(&|job| works.get(&job).filter(|work| **work > 0.0).map(|work| 1.0 / work)),
        cores: sums(&|_| Some(1.0)),
        jobs: of_jobs(blocks),
    }
}

/// Results of the jobs that ran in a control period.
fn of_jobs(blocks: &[BlockRecord]) -> BTreeMap<u64, (usize, Option<Range>)> {
    let mut cores: BTreeMap<u64, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for block in blocks {
        for (job, rate) in mean(&[block]) {
            let (governed, plain) = cores.entry(job).or_default();
            if block.plain { plain.push(rate) } else { governed.push(rate) }
        }
    }
    let seen = cores.into_iter().filter(|(_, (_, plain))| !plain.is_empty());
    seen.map(|(job, (governed, plain))| (job, (plain.len(), of_job(&governed, &plain)))).collect()
}

/// Ratio of one job: its governed rate is known, its plain rate is sampled.
fn of_job(governed: &[f64], plain: &[f64]) -> Option<Range> {
    let count = plain.len() as f64;
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (governed_mean, plain_mean) = (mean(governed), mean(plain));
    if plain.len() < MIN_COMPARISONS || !(governed_mean > 0.0 && plain_mean > 0.0) {
        return None;
    }
    let squares: f64 = plain.iter().map(|rate| (rate - plain_mean).powi(2)).sum();
    Some(around(governed_mean / plain_mean, count, (squares / (count - 1.0) / count).sqrt() / plain_mean))
}

/// A rate in governed blocks and in control periods.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair {
    governed: f64,
    plain: f64,
    /// When the governed blocks began.
    between: (u64, u64),
}

/// A run of control periods and its neighbours: the cores used by each job; an absent job used none.
struct Comparison {
    /// When the governed blocks began.
    between: (u64, u64),
    governed: BTreeMap<u64, f64>,
    plain: BTreeMap<u64, f64>,
}

impl Comparison {
    /// Sums over the jobs that have a value; `None` if none of them was present.
    fn sum(&self, value: &dyn Fn(u64) -> Option<f64>) -> Option<Pair> {
        let valued = |cores: &BTreeMap<u64, f64>| {
            let each = cores.iter().filter_map(|(job, cores)| Some(value(*job)? * cores));
            each.fold((0, 0.0), |(count, sum), rate| (count + 1, sum + rate))
        };
        let ((some, governed), (others, plain)) = (valued(&self.governed), valued(&self.plain));
        (some + others > 0).then_some(Pair { governed, plain, between: self.between })
    }
}

fn compared(blocks: &[BlockRecord]) -> Vec<Comparison> {
    let mut ordered: Vec<&BlockRecord> = blocks.iter().collect();
    ordered.sort_by_key(|block| block.from_unix_ms);
    let follows = |a: &BlockRecord, b: &BlockRecord| a.until_unix_ms.abs_diff(b.from_unix_ms) <= NEXT_WITHIN_MS;
    let mut comparisons = Vec::new();
    for stretch in ordered.chunk_by(|a, b| follows(a, b)) {
        let runs: Vec<&[&BlockRecord]> = stretch.chunk_by(|a, b| a.plain == b.plain).collect();
        for around in runs.windows(3).filter(|around| around[1][0].plain) {
            if let (Some(before), Some(after)) = (around[0].last(), around[2].first()) {
                comparisons.push(Comparison {
                    between: (before.from_unix_ms, after.from_unix_ms),
                    governed: mean(&[before, after]),
                    plain: mean(around[1]),
                });
            }
        }
    }
    comparisons.retain(|comparison| !(comparison.governed.is_empty() && comparison.plain.is_empty()));
    comparisons
}

/// Mean cores of each job over these blocks.
fn mean(blocks: &[&BlockRecord]) -> BTreeMap<u64, f64> {
    let mut cores = BTreeMap::new();
    for block in blocks.iter().filter(|block| block.span_s > 0.0) {
        for work in block.work.iter().filter(|work| work.cpu_s.is_finite() && work.cpu_s >= 0.0) {
            *cores.entry(work.job).or_default() += work.cpu_s / block.span_s / blocks.len() as f64;
        }
    }
    cores
}

/// ΣA / ΣB with its interval; `None` if there are too few pairs or no CPU was used.
fn ratio(pairs: &[Pair]) -> Option<Range> {
    let count = pairs.len();
    if count < MIN_COMPARISONS {
        return None;
    }
    let governed: f64 = pairs.iter().map(|pair| pair.governed).sum();
    let plain: f64 = pairs.iter().map(|pair| pair.plain).sum();
    if !(governed > 0.0 && plain > 0.0) {
        return None;
    }
    let likely = governed / plain;
    let residuals: Vec<f64> = pairs.iter().map(|pair| pair.governed - likely * pair.plain).collect();
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let shared = pairs.windows(2).zip(residuals.windows(2)).filter(|(pair, _)| pair[0].between.1 == pair[1].between.0);
    let together: f64 = shared.map(|(_, residual)| 2.0 * residual[0] * residual[1]).sum();
    let count = count as f64;
    Some(around(likely, count, ((squares + together.max(0.0)) * count / (count - 1.0)).sqrt() / governed))
}

/// The interval around a ratio whose logarithm has this standard deviation, from `count` values.
fn around(likely: f64, count: f64, deviation: f64) -> Range {
    let uncertainty = (student(count - 1.0) * deviation).max(MIN_UNCERTAINTY);
    Range { low: likely * (-uncertainty).exp(), likely, high: likely * uncertainty.exp() }
}

/// The 97.5 % quantile of Student's t for at least five degrees of freedom, accurate to 0.1 % (M. Abramowitz and I. Stegun,
/// *Handbook of Mathematical Functions*, 26.7.5).
fn student(degrees: f64) -> f64 {
    let z: f64 = 1.959_964;
    let [first, second, third] = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
    ];
    z + first / degrees + second / degrees.powi(2) + third / degrees.powi(3)
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
