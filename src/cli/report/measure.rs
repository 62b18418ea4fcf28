//! What governing gave, measured against blocks of time in which it was switched off (`policy.holdback`).
//!
//! ## What is measured (the estimands)
//!
//! - *For the node*: the rate at which jobs are brought to their ends while governed, divided by the rate under plain sharing at the same
//!   samples. A job of W core-seconds that gets c cores goes through c/W *jobs' worth of work* a second; the rate is the sum over the jobs.
//!   That is the credit for completion that the default policy divides by work. Beside it the CPU that all jobs use together,
//!   which governing must not lower.
//! - *For a job*: the CPU that it got while governed, divided by the CPU that plain sharing would have given it at the same samples. 1.2 =
//!   governing gave it a fifth more.
//!
//! "The same samples": with the jobs that were there then and the work they had done. These are *rates of the sample*, means over the time
//! that was governed: whoever is ahead ends sooner, and the others have more from then on. What that makes of completion times is a
//! question to the replay ([`super::estimate`]), so both are shown. Improvement of the models is not compared: a curve that flattens is
//! steeper before a block than after it by more than the middle is, so that governing would seem to gain where it does not. The use of the
//! CPU has no such bend.
//!
//! ## How (the estimators)
//!
//! Chance said which blocks are plain, so the plain ones are a fair sample of all. Everything that was used in a block counts, also by jobs that started or ended
//! within it, and who was not there used nothing: to compare only jobs that live on would leave out whom governing brought to the end.
//!
//! - *For the node* each run of control periods, mostly one, is a *comparison* with the governed block before it and the one after it: `A` is the
//!   mean rate of these two, `B` that of the plain ones. Trends and the coming and going of jobs fall on both alike. The ratio is ΣA / ΣB.
//! - *For a job* what it got while governed is known, block by block, and need not be sampled: it is divided by the mean of its control periods.
//!   A job that waits for long and then gets all would seldom be caught at it by neighbours of control periods.
//!
//! ## How sure (the intervals, 95 %)
//!
//! The scatter of the sample says how far another draw could have been. Node: e = A − ratio·B, Var ln ratio ≈ n/(n−1) · Σe² / (ΣA)²
//! (linearised ratio of means; W. Cochran, *Sampling Techniques*, 1977, chapter 6), with 2·e·e′ more for each two comparisons in a row
//! that share a governed block, where the sum of these is positive. Job: the standard error of the mean of its control periods. The interval is the ratio times exp(± t·σ), t
//! from Student's distribution with n − 1 degrees, so that few blocks make it wide; below [`COMPARISONS_AT_LEAST`] nothing is said. Blocks
//! are drawn group by group, which scatters less than this assumes, never more. Counters are not believed beyond [`LEAST_DOUBT`].
//!
//! Checked against the simulator, which knows what plain sharing would have given at each sample: `measure_truth_tests`. Pure. Imports:
//! wire types.

use super::estimate::Range;
use crate::api::wire::BlockRecord;
use std::collections::BTreeMap;

/// Fewer comparisons have a scatter of their own making.
pub const COMPARISONS_AT_LEAST: usize = 6;
/// No ratio is known better than this part of it.
const LEAST_DOUBT: f64 = 0.01;
/// Blocks that begin where another ends, but for the clock's steps.
const NEXT_WITHIN_MS: u64 = 1_000;

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurement {
    /// Control periods that were seen.
    pub plain_blocks: usize,
    /// Runs of them that could be compared: with the same jobs in a governed block before and after.
    pub comparisons: usize,
    /// Jobs' worth of work a second: governed / plain.
    pub work: Option<Range>,
    /// CPU used by all jobs together: governed / plain.
    pub cores: Option<Range>,
    /// CPU of each job, by its number: in how many control periods it was seen, and governed / plain.
    pub jobs: BTreeMap<u64, (usize, Option<Range>)>,
}

/// Measures; `works` are the whole work of jobs in core-seconds, where it is known.
pub fn measure(blocks: &[BlockRecord], works: &BTreeMap<u64, f64>) -> Measurement {
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

/// Each job that was seen in a control period.
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

/// What a job got while governed is known; what plain sharing gave it is a sample.
fn of_job(governed: &[f64], plain: &[f64]) -> Option<Range> {
    let count = plain.len() as f64;
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (had, sampled) = (mean(governed), mean(plain));
    if plain.len() < COMPARISONS_AT_LEAST || !(had > 0.0 && sampled > 0.0) {
        return None;
    }
    let squares: f64 = plain.iter().map(|rate| (rate - sampled).powi(2)).sum();
    Some(around(had / sampled, count, (squares / (count - 1.0) / count).sqrt() / sampled))
}

/// A rate in governed and in control periods.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair {
    governed: f64,
    plain: f64,
    /// Which governed blocks these are.
    between: (u64, u64),
}

/// A run of control periods and its neighbours: cores of each job in them; who was not there used none.
struct Comparison {
    /// When the governed blocks began.
    between: (u64, u64),
    governed: BTreeMap<u64, f64>,
    plain: BTreeMap<u64, f64>,
}

impl Comparison {
    /// Sums over the jobs that have a value; `None` = none of them was there.
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

/// Cores of each job, on average over these blocks.
fn mean(blocks: &[&BlockRecord]) -> BTreeMap<u64, f64> {
    let mut cores = BTreeMap::new();
    for block in blocks.iter().filter(|block| block.span_s > 0.0) {
        for work in block.work.iter().filter(|work| work.cpu_s.is_finite() && work.cpu_s >= 0.0) {
            *cores.entry(work.job).or_default() += work.cpu_s / block.span_s / blocks.len() as f64;
        }
    }
    cores
}

/// ΣA / ΣB with its interval; `None` = too few, or nothing was used.
fn ratio(pairs: &[Pair]) -> Option<Range> {
    let count = pairs.len();
    if count < COMPARISONS_AT_LEAST {
        return None;
    }
    let governed: f64 = pairs.iter().map(|pair| pair.governed).sum();
    let plain: f64 = pairs.iter().map(|pair| pair.plain).sum();
    if !(governed > 0.0 && plain > 0.0) {
        return None;
    }
    let likely = governed / plain;
    let rests: Vec<f64> = pairs.iter().map(|pair| pair.governed - likely * pair.plain).collect();
    let squares: f64 = rests.iter().map(|rest| rest * rest).sum();
    let shared = pairs.windows(2).zip(rests.windows(2)).filter(|(pair, _)| pair[0].between.1 == pair[1].between.0);
    let together: f64 = shared.map(|(_, rest)| 2.0 * rest[0] * rest[1]).sum();
    let count = count as f64;
    Some(around(likely, count, ((squares + together.max(0.0)) * count / (count - 1.0)).sqrt() / governed))
}

/// The interval around a ratio whose logarithm has this standard deviation, from so many values.
fn around(likely: f64, count: f64, deviation: f64) -> Range {
    let doubt = (student(count - 1.0) * deviation).max(LEAST_DOUBT);
    Range { low: likely * (-doubt).exp(), likely, high: likely * doubt.exp() }
}

/// The 97.5 % point of Student's t with so many degrees of freedom, five at least: to a part in a thousand (M. Abramowitz and I. Stegun,
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
