//! The measurement against the truth: the simulator runs jobs governed, with a holdback; the measurement sees what the history would have
//! kept of each block. The truth is what plain sharing would have given the same jobs at each sample of the governed blocks.

use super::estimate::at;
use super::measure::{Measurement, measure};
use crate::api::wire::{BlockRecord, BlockWork};
use crate::model::{HoldbackBlock, Millis, PolicySettings, Share};
use crate::sim::job::Job;
use crate::sim::scenario::Scenario;
use crate::sim::sharing::{Claim, water_fill};
use crate::sim::variant::{Decider, Variant};
use crate::sim::{Keep, Outcome, simulate};
use std::collections::BTreeMap;
use std::fmt;

/// Jobs come for so long a time, one schedule after the other: about as much work as the node can do.
const SCHEDULE_S: f64 = 1400.0;

/// The schedules of some seeds, one after the other.
fn stream(scenario: &Scenario, seed: u64, schedules: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for number in 0..schedules {
        jobs.extend(scenario.draw(1000 * seed + number).into_iter().map(|mut job| {
            job.plan.start_s += number as f64 * SCHEDULE_S;
            job
        }));
    }
    jobs.sort_by(|a, b| a.plan.start_s.total_cmp(&b.plan.start_s));
    jobs
}

/// What plain sharing gives to those that compute, in the order of the jobs.
fn plainly(cores: f64, jobs: &[Job], governed: &[f64]) -> Vec<f64> {
    let computing: Vec<usize> = (0..jobs.len()).filter(|job| governed[*job] > 0.0).collect();
    let claims: Vec<Claim> =
        computing.iter().map(|job| Claim { weight: 100.0, cap: jobs[*job].plan.parallelism }).collect();
    let mut shares = Vec::new();
    water_fill(cores, &claims, &mut shares);
    let mut plain = vec![0.0; jobs.len()];
    computing.iter().zip(shares).for_each(|(job, share)| plain[*job] = share);
    plain
}

/// Core-seconds up to each instant: as they were, and as plain sharing would have given them at that sample.
struct Used {
    governed: Vec<Vec<(f64, f64)>>,
    plain: Vec<Vec<(f64, f64)>>,
}

impl Used {
    fn of(run: &Outcome, cores: f64, jobs: &[Job]) -> Used {
        let shares = &run.history.as_ref().expect("kept").shares;
        let mut used = Used { governed: vec![vec![(0.0, 0.0)]; jobs.len()], plain: vec![vec![(0.0, 0.0)]; jobs.len()] };
        for (place, (from, governed)) in shares.iter().enumerate() {
            let to = shares.get(place + 1).map_or(run.makespan_s() + run.jobs[0].start_s, |next| next.0);
            let plain = plainly(cores, jobs, governed);
            for job in 0..jobs.len() {
                for (curve, rate) in [(&mut used.governed[job], governed[job]), (&mut used.plain[job], plain[job])] {
                    if rate > 0.0 {
                        let done = curve.last().map_or(0.0, |last| last.1);
                        curve.push((*from, done));
                        curve.push((to, done + rate * (to - from)));
                    }
                }
            }
        }
        used
    }
}

fn between(curve: &[(f64, f64)], from: f64, to: f64) -> f64 {
    at(curve, to) - at(curve, from)
}

/// Governed and plain core-seconds, for each job in each block that it was there for: what a measurement may see, and what is true.
fn blocks(run: &Outcome, used: &Used) -> (Vec<BlockRecord>, BTreeMap<u64, (f64, f64)>) {
    let mut known: BTreeMap<u64, HoldbackBlock> = BTreeMap::new();
    for tick in &run.recording {
        let block = tick.observation.holdback.expect("there is a holdback");
        known.insert(block.from_unix_ms, block);
    }
    let mut truth: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    let mut seen = Vec::new();
    for block in known.values() {
        let (from, to) = (block.washed_unix_ms as f64 / 1000.0, block.until_unix_ms as f64 / 1000.0);
        let there = (0..run.jobs.len()).filter(|job| run.jobs[*job].start_s < to && run.jobs[*job].end_s > from);
        let mut work = Vec::new();
        for job in there {
            let cpu_s = between(&used.governed[job], from, to);
            work.push(BlockWork { job: job as u64, cpu_s });
            if !block.plain {
                let sum = truth.entry(job as u64).or_default();
                *sum = (sum.0 + cpu_s, sum.1 + between(&used.plain[job], from, to));
            }
        }
        let HoldbackBlock { plain, from_unix_ms, until_unix_ms, .. } = *block;
        seen.push(BlockRecord { from_unix_ms, until_unix_ms, plain, span_s: to - from, work });
    }
    (seen, truth)
}

/// What was found over the seeds.
#[derive(Debug, Default)]
struct Found {
    runs: usize,
    /// Sums over the runs, of the node's ratio: the truth, measured / true, and how wide the interval is for it.
    truth: f64,
    bias: f64,
    width: f64,
    /// Runs whose interval holds the truth.
    within: usize,
    /// Gains and costs that were claimed, and those that are none.
    claimed: usize,
    wrong: usize,
    /// The same of jobs.
    jobs: usize,
    jobs_within: usize,
    jobs_bias: f64,
    jobs_width: f64,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runs, jobs) = (self.runs.max(1) as f64, self.jobs.max(1) as f64);
        write!(
            f,
            "true ratio {:.3}, measured / true {:.3}, interval {:.2} wide; within it {} of {}; claimed {}, wrong {}; of jobs {} of {}, \
             measured / true {:.3}, {:.2} wide",
            self.truth / runs,
            self.bias / runs,
            self.width / runs,
            self.within,
            self.runs,
            self.claimed,
            self.wrong,
            self.jobs_within,
            self.jobs,
            self.jobs_bias / jobs,
            self.jobs_width / jobs
        )
    }
}

/// Jobs of some minutes, and blocks of four decisions: a day of usual ones is a few hours here.
fn settings(holdback: f64) -> PolicySettings {
    PolicySettings {
        interval: Millis::from_secs(5),
        holdback: Share::clamped(holdback),
        holdback_block: Millis::from_secs(20),
        ..PolicySettings::default()
    }
}

fn found(scenario: &str, policy: &str, settings: &PolicySettings, schedules: u64, seeds: u64) -> Found {
    let scenario = Scenario::built_in(scenario).expect("a name").expect("built in");
    let mut found = Found::default();
    for seed in 0..seeds {
        let jobs = stream(&scenario, seed, schedules);
        let mut variant = Variant::named(policy, settings).expect("a policy");
        assert!(matches!(variant.decider, Decider::Governor(_)));
        variant.name = format!("node {seed}"); // whose blocks these are
        let run = simulate(&scenario.node, &jobs, &variant, Keep { history: true, recording: true });
        let used = Used::of(&run, scenario.node.cores, &jobs);
        let (seen, truth) = blocks(&run, &used);
        let works: BTreeMap<u64, f64> =
            run.jobs.iter().enumerate().map(|(job, done)| (job as u64, done.cpu_s)).collect();
        judge(&mut found, &measure(&seen, &works), &truth, &works);
    }
    found
}

fn judge(found: &mut Found, told: &Measurement, truth: &BTreeMap<u64, (f64, f64)>, works: &BTreeMap<u64, f64>) {
    let Some(work) = told.work else { return };
    let sum = |of: fn(&(f64, f64)) -> f64| truth.iter().map(|(job, cores)| of(cores) / works[job]).sum::<f64>();
    let real = sum(|cores| cores.0) / sum(|cores| cores.1);
    found.runs += 1;
    found.bias += work.likely / real;
    found.truth += real;
    found.width += (work.high - work.low) / work.likely;
    found.within += usize::from((work.low..=work.high).contains(&real));
    let claims = work.low > 1.0 || work.high < 1.0;
    found.claimed += usize::from(claims);
    found.wrong += usize::from(claims && (work.low > 1.0) != (real > 1.0));
    for (job, (_, range)) in &told.jobs {
        let Some(range) = range else { continue };
        let real = truth[job].0 / truth[job].1;
        found.jobs += 1;
        found.jobs_bias += range.likely / real;
        found.jobs_width += (range.high - range.low) / range.likely;
        found.jobs_within += usize::from((range.low..=range.high).contains(&real));
    }
}

#[test]
fn the_truth_lies_within_the_interval_and_what_is_claimed_is_so() {
    let cases = [
        ("random-10", "balanced", 0.2, 4, 5),
        // Ten to twenty control periods: many seeds, because chance has a large part in each.
        ("random-10", "balanced", 0.1, 2, 60),
        // A policy that costs jobs' worth of work here.
        ("random-10", "flowcon", 0.1, 2, 20),
        // Half of the time, so that comparisons share governed blocks.
        ("random-10", "balanced", 0.5, 1, 20),
        ("random-10-io", "balanced", 0.2, 3, 5),
    ];
    for (scenario, policy, holdback, schedules, seeds) in cases {
        let told = found(scenario, policy, &settings(holdback), schedules, seeds);
        eprintln!("{scenario}, {policy}, holdback {holdback}: {told}");
        assert!(told.runs as u64 == seeds && told.jobs > 20, "{scenario} {policy}");
        // Intervals are of 95 %; chance may have its way with a few of them.
        assert!(told.within * 10 >= told.runs * 9, "{scenario} {policy}: {} of {}", told.within, told.runs);
        assert!(
            told.jobs_within * 10 >= told.jobs * 9,
            "{scenario} {policy}: {} of {} jobs",
            told.jobs_within,
            told.jobs
        );
        assert!((told.bias / told.runs as f64 - 1.0).abs() < 0.03, "{scenario} {policy}: {}", told.bias);
        assert!((told.jobs_bias / told.jobs as f64 - 1.0).abs() < 0.05, "{scenario} {policy}: {}", told.jobs_bias);
        assert_eq!(told.wrong, 0, "{scenario} {policy}");
        assert!(told.claimed * 4 >= told.runs, "{scenario} {policy}: it can tell something: {}", told.claimed);
    }
}

#[test]
fn where_governing_changes_nothing_nothing_is_claimed() {
    // Every job keeps its equal share, which is plain sharing.
    let equal = PolicySettings { floor: Share::ALL, ..settings(0.1) };
    let told = found("random-10", "balanced", &equal, 2, 20);
    eprintln!("no effect: {told}");
    assert!((told.truth / told.runs as f64 - 1.0).abs() < 0.01, "{told}");
    assert!(told.claimed <= 2 && told.within * 10 >= told.runs * 9, "{told}");
}
