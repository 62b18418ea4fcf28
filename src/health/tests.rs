//! Each condition begins, with its evidence, and ends; and what looks like one but is none.

use super::*;
use model::{Activity, Bytes, Decline, Estimate, Evaluation, GpuUse, Learning, Progress, ProgressUnit, Streak, Usage};

/// A job with one report every ten seconds, at one core.
struct Job {
    meter: HealthMeter,
    seen: ContainerObservation,
    prospects: Prospects,
    now: u64,
}

impl Job {
    fn new() -> Job {
        let learning = Learning {
            confidence: 0.9,
            progress: Some(Progress { unit: ProgressUnit::Epoch, current: 0.0, total: Some(100.0), at: Millis(0) }),
            ..Learning::default()
        };
        let usage = Usage { cpu: Some(CpuTime(0)), ..Usage::default() };
        let seen = ContainerObservation { usage, learning, ..ContainerObservation::new("job") };
        Job {
            meter: HealthMeter::default(),
            seen,
            prospects: Prospects { due_cores: Some(1.0), most_cores: 2.0, forecast: None },
            now: 0,
        }
    }

    /// A job that has run for twenty reports.
    fn running() -> Job {
        let mut job = Job::new();
        for _ in 0..20 {
            job.report();
        }
        assert_eq!(job.look().condition, Condition::Learning);
        job
    }

    fn look(&mut self) -> Health {
        self.meter.look(Millis::from_secs(self.now), &self.seen, &self.prospects)
    }

    /// Passes this time in looks of two seconds, at so many cores; returns the last answer.
    fn pass(&mut self, seconds: u64, cores: f64) -> Health {
        let mut health = self.look();
        for _ in 0..seconds / 2 {
            self.now += 2;
            let cpu = self.seen.usage.cpu.unwrap_or_default();
            self.seen.usage.cpu = Some(CpuTime(cpu.0 + (2e6 * cores) as u64));
            health = self.look();
        }
        health
    }

    /// Works for ten seconds, and reports an epoch.
    fn report(&mut self) -> Health {
        self.report_after(10, 1.0)
    }

    fn report_after(&mut self, seconds: u64, cores: f64) -> Health {
        self.pass(seconds, cores);
        let at = Millis::from_secs(self.now);
        let learning = &mut self.seen.learning;
        learning.evaluations += 1;
        learning.latest = Some(Evaluation { at, value: 1.0, current: None, total: None });
        if let Some(progress) = &mut learning.progress {
            (progress.current, progress.at) = (progress.current + 1.0, at);
        }
        self.look()
    }
}

#[test]
fn a_job_that_sleeps_is_stalled_within_four_intervals_or_a_minute_and_recovers_with_a_report() {
    let mut job = Job::running();
    assert_eq!(job.pass(58, 0.0).condition, Condition::Learning);
    let health = job.pass(4, 0.0);
    let Evidence::Silence { quiet, usual, activity } = health.evidence else { panic!("{health:?}") };
    assert_eq!((health.condition, activity, usual), (Condition::Stalled, Activity::Asleep, Millis::from_secs(10)));
    assert!(quiet >= Millis::from_secs(60) && health.since == Millis::from_secs(job.now - quiet.0 / 1000));
    assert_eq!(job.report().condition, Condition::Learning);
}

#[test]
fn a_job_that_spins_is_stalled_once_it_has_used_the_cpu_of_several_reports() {
    let mut job = Job::running();
    assert_eq!(job.pass(100, 1.0).condition, Condition::Learning);
    let health = job.pass(20, 1.0);
    assert!(matches!(health.evidence, Evidence::Silence { activity: Activity::Busy, .. }), "{health:?}");
}

#[test]
fn a_job_that_is_slowed_down_by_its_share_is_not_stalled() {
    let mut job = Job::running();
    job.prospects.due_cores = Some(0.02);
    assert_eq!(job.pass(400, 0.02).condition, Condition::Learning);
    // Its share returns: what it was due before counts, not what it is due now.
    job.prospects.due_cores = Some(2.0);
    assert_eq!(job.pass(4, 0.3).condition, Condition::Learning);
}

#[test]
fn a_frozen_job_is_not_stalled_and_its_time_does_not_count() {
    let mut job = Job::running();
    job.seen.state = RunState::Paused;
    assert_eq!(job.pass(3600, 0.0).condition, Condition::Learning);
    job.seen.state = RunState::Running;
    assert_eq!(job.pass(40, 0.0).condition, Condition::Learning);
    assert_eq!(job.pass(30, 0.0).condition, Condition::Stalled);
}

#[test]
fn rare_long_evaluations_belong_to_the_rhythm() {
    let mut job = Job::running();
    job.report_after(300, 1.0);
    for _ in 0..20 {
        job.report();
    }
    assert_eq!(job.pass(400, 1.0).condition, Condition::Learning);
    assert_eq!(job.pass(60, 1.0).condition, Condition::Stalled);
}

#[test]
fn the_first_evaluation_after_an_epoch_is_not_a_stall() {
    let mut job = Job::new();
    for n in 0..40 {
        job.report();
        if let Some(progress) = &mut job.seen.learning.progress {
            progress.current = f64::from(n + 1) / 40.0;
        }
        job.look();
    }
    assert_eq!(job.pass(500, 1.0).condition, Condition::Learning);
}

#[test]
fn a_job_that_moves_data_or_uses_its_gpu_is_not_asleep() {
    for gpu in [false, true] {
        let mut job = Job::running();
        if gpu {
            job.seen.gpus = vec![GpuUse { share: Some(0.9), processes: 1, ..GpuUse::default() }];
        }
        for _ in 0..60 {
            let moved = job.seen.usage.network_io.unwrap_or_default().0;
            job.seen.usage.network_io = Some(Bytes(if gpu { 0 } else { moved + 1_000_000 }));
            assert_eq!(job.pass(2, 0.0).condition, Condition::Learning, "{gpu}");
        }
    }
}

#[test]
fn reports_between_two_looks_count() {
    let mut job = Job::new();
    job.report();
    job.seen.learning.evaluations += 5;
    job.report();
    assert_eq!(job.pass(62, 0.0).condition, Condition::Stalled);
}

#[test]
fn a_job_that_prints_other_lines_has_more_time_but_not_for_ever() {
    let mut job = Job::running();
    for n in 0..60 {
        job.seen.learning.log_grew = Some(Millis::from_secs(job.now));
        let condition = job.pass(10, 0.0).condition;
        assert_eq!(condition == Condition::Stalled, n >= 35, "after {n}");
    }
    let mut job = Job::running();
    job.pass(10, 0.0);
    job.seen.learning.log_grew = Some(Millis::from_secs(job.now));
    assert_eq!(job.pass(58, 0.0).condition, Condition::Learning);
    assert_eq!(job.pass(4, 0.0).condition, Condition::Stalled, "its last line is old");
}

#[test]
fn a_job_without_a_rhythm_or_with_all_units_done_is_not_stalled() {
    let mut job = Job::new();
    job.report();
    job.report();
    assert_eq!(job.pass(3600, 0.0).condition, Condition::Learning);
    let mut job = Job::running();
    job.seen.learning.progress = job.seen.learning.progress.map(|progress| Progress { current: 100.0, ..progress });
    assert_eq!(job.pass(3600, 0.0).condition, Condition::Done);
}

#[test]
fn all_units_are_done_once_the_log_is_silent_or_the_cpu_idle() {
    let mut job = Job::running();
    for second in 0..40 {
        job.seen.learning.progress = job.seen.learning.progress.map(|progress| Progress { current: 100.0, ..progress });
        job.seen.learning.log_grew = Some(Millis::from_secs(job.now));
        assert_eq!(
            job.pass(6, 1.0).condition,
            Condition::Learning,
            "lines go on, {second}: the total was that of something else"
        );
    }
    assert_eq!(job.pass(2, 1.0).condition, Condition::Learning);
    assert_eq!(job.pass(2, 1.0).condition, Condition::Done, "silent");
    job.seen.learning.log_grew = Some(Millis::from_secs(job.now));
    assert_eq!(job.pass(2, 1.0).condition, Condition::Learning);
    assert_eq!(job.pass(2, 0.0).condition, Condition::Done, "idle");
}

#[test]
fn two_values_that_are_not_finite_are_nan_and_a_finite_one_ends_it() {
    let mut job = Job::running();
    let since = Millis::from_secs(job.now);
    job.seen.learning.not_finite = Some(Streak { values: 1, since, units: Some(11.0) });
    assert_eq!(job.look().condition, Condition::Learning);
    job.seen.learning.not_finite = Some(Streak { values: 2, since, units: Some(11.0) });
    let health = job.report();
    assert_eq!((health.condition, health.since), (Condition::Nan, since));
    assert_eq!(health.words(Some(ProgressUnit::Epoch)), "NaN since epoch 11");
    job.seen.learning.not_finite = None;
    assert_eq!(job.look().condition, Condition::Learning);
}

#[test]
fn a_metric_that_never_was_a_number_needs_three_values_and_a_guess_says_nothing() {
    let mut job = Job::new();
    job.report();
    job.report();
    let not_finite = |values| Some(Streak { values, since: Millis(0), units: None });
    job.seen.learning.not_finite = not_finite(2);
    assert_eq!(job.look().condition, Condition::Learning);
    job.report();
    job.seen.learning.not_finite = not_finite(3);
    assert_eq!(job.look().condition, Condition::Nan);
    job.seen.learning.confidence = 0.4;
    assert_eq!(job.look().condition, Condition::Learning);
}

#[test]
fn a_worse_validation_is_overfitting_and_does_not_flap() {
    let mut job = Job::running();
    let decline = |errors| Some(Decline { best: 0.3285, units: Some(15.0), evaluations: 6, of_range: 0.05, errors });
    job.seen.learning.decline = decline(5.0);
    assert_eq!(job.look().condition, Condition::Learning, "a training value may rise for a while");
    job.seen.learning.is_held_out = true;
    assert_eq!(job.look().condition, Condition::Overfitting);
    job.seen.learning.decline = decline(3.0);
    assert_eq!(job.look().condition, Condition::Overfitting);
    assert_eq!(job.look().words(Some(ProgressUnit::Epoch)), "overfitting since epoch 15");
    job.seen.learning.decline = decline(1.0);
    assert_eq!(job.look().condition, Condition::Learning);
    job.seen.learning.decline = decline(3.0);
    assert_eq!(job.look().condition, Condition::Learning);
}

#[test]
fn values_far_worse_than_all_before_are_diverging() {
    let mut job = Job::running();
    let since = Millis::from_secs(job.now);
    job.seen.learning.exploded = Some(Streak { values: 1, since, units: Some(16.0) });
    job.seen.learning.decline =
        Some(Decline { best: 0.3, units: Some(15.0), evaluations: 6, of_range: 0.9, errors: 19.0 });
    job.seen.learning.is_held_out = true;
    assert_eq!(job.look().condition, Condition::Overfitting, "one value may be a mistake");
    job.seen.learning.exploded = Some(Streak { values: 2, since, units: Some(16.0) });
    assert_eq!(job.look().condition, Condition::Diverging, "the worse of the two");
    assert_eq!(job.look().words(Some(ProgressUnit::Epoch)), "diverging since epoch 16");
}

#[test]
fn memory_that_grows_to_its_limit_is_noticed_a_minute_before_and_a_full_one_is_not() {
    let mut job = Job::running();
    job.seen.memory_limit = Some(Bytes(1_000_000_000));
    let mut warned_at = None;
    // A ramp of ten minutes.
    for second in (0..600u64).step_by(2) {
        job.seen.usage.working_set = Some(Bytes(second * 1_000_000_000 / 600));
        if second % 10 == 0 {
            job.report_after(2, 1.0);
        }
        if job.pass(2, 1.0).condition == Condition::ShortOfMemory {
            warned_at.get_or_insert(second);
        }
    }
    let left = 600 - warned_at.expect("it warned");
    assert!((60..=130).contains(&left), "{left} s before");

    let mut job = Job::running();
    job.seen.memory_limit = Some(Bytes(1_000_000_000));
    for n in 0..60u64 {
        job.seen.usage.working_set = Some(Bytes(950_000_000 + n % 3 * 10_000_000));
        assert_eq!(job.report().condition, Condition::Learning);
    }
}

#[test]
fn a_deadline_that_passed_or_cannot_be_met_makes_a_job_late() {
    let mut job = Job::running();
    job.seen.learning.units_to_completion = Some(Estimate::exactly(80.0));
    job.prospects.forecast = Some(WorkForecast {
        to_end: Estimate::exactly(800.0),
        used: 200.0,
        per_unit: 10.0,
        is_known: true,
        usable: None,
        waste: None,
        lost_s: None,
    });
    job.seen.deadline = Some(Millis::from_secs(job.now + 500));
    assert_eq!(job.look().condition, Condition::Learning, "two cores suffice");
    job.seen.deadline = Some(Millis::from_secs(job.now + 300));
    assert_eq!(job.look().words(None), "cannot meet its deadline");
    job.now += 360;
    assert_eq!(job.report().words(None), "late by 70s");
}

#[test]
fn a_gpu_that_waits_for_the_cpu_for_a_minute_is_starving() {
    let mut job = Job::running();
    job.seen.gpus = vec![GpuUse { share: Some(0.3), processes: 1, ..GpuUse::default() }];
    for _ in 0..5 {
        assert_eq!(job.report().condition, Condition::Learning);
    }
    job.report();
    assert_eq!(job.report().condition, Condition::StarvingGpu);
    job.seen.gpus = vec![GpuUse { share: Some(0.9), processes: 1, ..GpuUse::default() }];
    assert_eq!(job.report().condition, Condition::Learning);
}
