//! Disk use of a busy node's history: simulated jobs that behave like trainings, through the recorder onto a real disk.
//!
//! Every run checks a small part; the whole week of 200 jobs takes minutes and is run by name:
//! `cargo test --release -p daemon --lib a_week_of_200_jobs -- --ignored --nocapture`.

use super::recorder::Recorder;
use super::recorder_tests::job;
use model::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use store::history::{HistoryLimits, HistoryStore};

/// 64 cores for 200 jobs.
const CORES_PER_JOB: f64 = 0.32;
const LOOK_MS: u64 = 5_000;
const TICK_MS: u64 = 20_000;
const TIDY_MS: u64 = 600_000;
/// Jobs that share most of what is left above the floors.
const FAVOURED: usize = 8;

/// A training: its work in core-seconds, a curve that falls with it, and its share.
struct Training {
    status: JobStatus,
    started: u64,
    work: f64,
    done: f64,
    share: f64,
    rank: usize,
    steepness: f64,
    final_loss: f64,
}

fn begin(number: u64, at: u64, dice: &mut ChaCha8Rng) -> Training {
    // Log-normal: a median of three hours of a third of a core, and a long tail.
    let normal: f64 = (0..12).map(|_| dice.random::<f64>()).sum::<f64>() - 6.0;
    let work = 3_600.0 * (1.2 * normal).exp();
    let mut status = job(&format!("{number:064x}"), at, 1.0, 0.0, 1);
    status.observed.name = format!("train-{}", number % 40);
    status.observed.started = Millis(at);
    let (steepness, final_loss) = (dice.random_range(3.0..9.0), dice.random_range(0.0..0.5));
    Training { status, started: at, work, done: 0.0, share: 0.0, rank: 1, steepness, final_loss }
}

/// Decides as the default policy does: most to those with the least work left, a floor for all.
fn decide(trainings: &mut [Training]) {
    let count = trainings.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| {
        let ahead = |n: &usize| trainings[*n].work - trainings[*n].done;
        ahead(a).total_cmp(&ahead(b))
    });
    let floor = 0.05 / count as f64;
    for (rank, place) in order.into_iter().enumerate() {
        let share = if rank < FAVOURED { 0.5 / FAVOURED as f64 } else { 0.45 / (count - FAVOURED).max(1) as f64 };
        trainings[place].share = floor + share;
        trainings[place].rank = rank + 1;
    }
}

fn look(training: &mut Training, at: u64, of: usize, dice: &mut ChaCha8Rng) {
    let cores = (training.share * CORES_PER_JOB * of as f64).min(4.0) * dice.random_range(0.9..1.1);
    training.done += cores * LOOK_MS as f64 / 1000.0;
    let part = training.done / training.work;
    let loss = training.final_loss + (-training.steepness * part).exp() * dice.random_range(0.97..1.03);
    let observed = &mut training.status.observed;
    observed.usage.cpu = Some(CpuTime((training.done * 1e6) as u64));
    observed.usage.memory = Some(Bytes(((1.0 + part.min(0.2)) * 2e9 * dice.random_range(0.98..1.02)) as u64));
    observed.limits.cpu_weight = Some(CpuWeight::clamped(training.share * 10_000.0));
    let progress =
        Progress { unit: ProgressUnit::Step, current: (part * 1e4).floor(), total: Some(1e4), at: Millis(at) };
    observed.learning.progress = Some(progress);
    observed.learning.latest = Some(Evaluation { at: Millis(at), value: loss, current: None, total: None });
    observed.learning.curve = Some(Curve { phase: Phase::Improving, quality: part.min(1.0), units_to_quality: None });
    if let (Some(plan), true) = (&mut training.status.plan, at.is_multiple_of(TICK_MS) || at == training.started) {
        let milestone = if part < 0.5 { "95 % quality" } else { "completion" };
        let work = training.work - training.done;
        plan.share = Share::clamped(training.share);
        plan.growth.cpu = Some(0.01 * (1.0 - part).max(0.0) * dice.random_range(0.8..1.2));
        plan.reason = Reason::Ranked { milestone: milestone.into(), work, rank: training.rank, of };
    }
}

/// Returns the bytes on the disk after `days` with `jobs` jobs at a time, and the number of jobs in all.
fn simulate(jobs: usize, days: f64) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = HistoryStore::open(folder.path()).unwrap().store;
    let mut recorder = Recorder::begin(1, Vec::new());
    let mut dice = ChaCha8Rng::seed_from_u64(7);
    let limits = HistoryLimits { max_age_ms: u64::MAX, max_bytes: u64::MAX };
    let mut started = 0;
    let mut trainings: Vec<Training> = Vec::new();
    let end = (days * 86_400_000.0) as u64;
    for at in (LOOK_MS..=end).step_by(usize::try_from(LOOK_MS).unwrap()) {
        trainings.retain(|training| training.done < training.work);
        let changed = trainings.len() < jobs;
        while trainings.len() < jobs {
            started += 1;
            trainings.push(begin(started, at, &mut dice));
        }
        if changed || at.is_multiple_of(TICK_MS) {
            decide(&mut trainings);
        }
        trainings.iter_mut().for_each(|training| look(training, at, jobs, &mut dice));
        let statuses = trainings.iter().map(|training| training.status.clone()).collect();
        recorder.observe(&NodeStatus {
            now: Millis(at),
            unix_ms: at,
            cores: CORES_PER_JOB * jobs as f64,
            jobs: statuses,
            ..NodeStatus::default()
        });
        if at.is_multiple_of(10_000) {
            store.write(&recorder.take()).unwrap();
        }
        if at.is_multiple_of(TIDY_MS) {
            store.settle().unwrap();
            while store.trim(&limits, at).unwrap() {}
        }
    }
    store.settle().unwrap();
    (std::fs::metadata(folder.path().join("history.db")).unwrap().len(), started)
}

#[test]
fn a_few_jobs_stay_within_their_part_of_the_bound() {
    let (bytes, started) = simulate(10, 0.25);
    // 200 MB for 200 jobs in a week; no sample is old enough to be thinned yet.
    let part = 200e6 * 10.0 / 200.0 * 0.25 / 7.0;
    eprintln!("{started} jobs in six hours, ten at a time: {bytes} bytes of {part:.0}");
    assert!((bytes as f64) < 2.0 * part);
}

#[test]
#[ignore = "takes minutes; see the top of this file"]
fn a_week_of_200_jobs_fits_in_200_megabytes() {
    let (bytes, started) = simulate(200, 7.0);
    eprintln!("{started} jobs in a week, 200 at a time: {bytes} bytes");
    assert!(bytes <= 200_000_000);
}
