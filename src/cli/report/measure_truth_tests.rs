//! Tests of the measurement against the simulator, which runs jobs governed, with a holdback; the measurement sees the blocks as the
//! history would have recorded them. The true value is what plain sharing would have given the same jobs at each sample of the governed
//! blocks.

use super::estimate::at;
use super::measure::{Measurement, measure};
use api::wire::{BlockRecord, BlockWork};
use model::sharing::{Claim, water_fill};
use model::{HoldbackBlock, Millis, PolicySettings, Share};
use sim::job::Job;
use sim::scenario::Scenario;
use sim::variant::{Decider, Variant};
use sim::{Keep, Outcome, simulate};
use std::collections::BTreeMap;
use std::fmt;

/// Time from the start of one schedule to the next: a schedule is about as much work as the node can do in it.
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

/// Cores that plain sharing gives to the computing jobs, in the order of the jobs.
fn plain_shares(cores: f64, jobs: &[Job], governed: &[f64]) -> Vec<f64> {
    let computing: Vec<usize> = (0..jobs.len()).filter(|job| governed[*job] > 0.0).collect();
    let claims: Vec<Claim> =
        computing.iter().map(|job| Claim { weight: 100.0, cap: jobs[*job].plan.parallelism }).collect();
    let mut shares = Vec::new();
    water_fill(cores, &claims, &mut shares);
    let mut plain = vec![0.0; jobs.len()];
    computing.iter().zip(shares).for_each(|(job, share)| plain[*job] = share);
    plain
}

/// Core-seconds up to each instant: governed, and as plain sharing would have given them at that sample.
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
            let plain = plain_shares(cores, jobs, governed);
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

/// The block records that the measurement sees, and the true governed and plain core-seconds of each job.
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

/// Results over all seeds.
#[derive(Debug, Default)]
struct Found {
    runs: usize,
    /// Sums over the runs, for the node's ratio: true value, measured / true, relative width of the interval.
    truth: f64,
    bias: f64,
    width: f64,
    /// Runs whose interval contains the true value.
    within: usize,
    /// Gains and costs claimed, and wrong claims among them.
    claimed: usize,
    wrong: usize,
    /// The same for jobs.
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

/// Jobs of a few minutes and blocks of four decisions, so that a few hours correspond to a usual day.
fn settings(holdback: f64) -> PolicySettings {
    PolicySettings {
        interval: Millis::from_secs(5),
        holdback: Share::clamped(holdback),
        holdback_block: Millis::from_secs(20),
        ..PolicySettings::default()
    }
}

fn run_seeds(scenario: &str, policy: &str, settings: &PolicySettings, schedules: u64, seeds: u64) -> Found {
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

fn judge(found: &mut Found, measured: &Measurement, truth: &BTreeMap<u64, (f64, f64)>, works: &BTreeMap<u64, f64>) {
    let Some(work) = measured.work else { return };
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
    for (job, (_, range)) in &measured.jobs {
        let Some(range) = range else { continue };
        let real = truth[job].0 / truth[job].1;
        found.jobs += 1;
        found.jobs_bias += range.likely / real;
        found.jobs_width += (range.high - range.low) / range.likely;
        found.jobs_within += usize::from((range.low..=range.high).contains(&real));
    }
}

#[test]
fn the_true_value_is_within_the_interval_and_claims_are_right() {
    let cases = [
        ("random-10", "balanced", 0.2, 4, 5),
        // Ten to twenty control periods: many seeds, because each run is strongly random.
        ("random-10", "balanced", 0.1, 2, 60),
        // A policy that does less work here than plain sharing.
        ("random-10", "flowcon", 0.1, 2, 20),
        // Half of the time, so that comparisons share governed blocks.
        ("random-10", "balanced", 0.5, 1, 20),
        ("random-10-io", "balanced", 0.2, 3, 5),
    ];
    for (scenario, policy, holdback, schedules, seeds) in cases {
        let found = run_seeds(scenario, policy, &settings(holdback), schedules, seeds);
        eprintln!("{scenario}, {policy}, holdback {holdback}: {found}");
        assert!(found.runs as u64 == seeds && found.jobs > 20, "{scenario} {policy}");
        // The intervals are 95 % intervals; a few may miss by chance.
        assert!(found.within * 10 >= found.runs * 9, "{scenario} {policy}: {} of {}", found.within, found.runs);
        assert!(
            found.jobs_within * 10 >= found.jobs * 9,
            "{scenario} {policy}: {} of {} jobs",
            found.jobs_within,
            found.jobs
        );
        assert!((found.bias / found.runs as f64 - 1.0).abs() < 0.03, "{scenario} {policy}: {}", found.bias);
        assert!((found.jobs_bias / found.jobs as f64 - 1.0).abs() < 0.05, "{scenario} {policy}: {}", found.jobs_bias);
        assert_eq!(found.wrong, 0, "{scenario} {policy}");
        assert!(found.claimed * 4 >= found.runs, "{scenario} {policy}: too few claims: {}", found.claimed);
    }
}

#[test]
fn no_gain_is_claimed_if_governing_changes_nothing() {
    // Every job keeps its equal share, which is plain sharing.
    let equal = PolicySettings { floor: Share::ALL, ..settings(0.1) };
    let found = run_seeds("random-10", "balanced", &equal, 2, 20);
    eprintln!("no effect: {found}");
    assert!((found.truth / found.runs as f64 - 1.0).abs() < 0.01, "{found}");
    assert!(found.claimed <= 2 && found.within * 10 >= found.runs * 9, "{found}");
}
