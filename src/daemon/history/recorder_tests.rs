//! The rows that the recorder keeps of snapshots: changes and noise, and the identity of jobs across restarts.

use super::recorder::{ROWS_AT_MOST, Recorder};
use model::*;

const START: u64 = 1_700_000_000_000;

pub(super) fn job(id: &str, at_ms: u64, value: f64, share: f64, rank: usize) -> JobStatus {
    let seconds = at_ms as f64 / 1000.0;
    let cpu = CpuTime((seconds * share * 8e6) as u64);
    let latest = Evaluation { at: Millis(at_ms), value, current: None, total: None };
    let progress = Progress { unit: ProgressUnit::Step, current: seconds, total: Some(3600.0), at: Millis(at_ms) };
    let reason = Reason::Ranked { milestone: "completion".into(), work: 3600.0 - seconds, rank, of: 9 };
    let id = ContainerId::new(id);
    JobStatus {
        observed: ContainerObservation {
            name: "a".to_owned(),
            started: Millis(1_000),
            usage: Usage { cpu: Some(cpu), memory: Some(Bytes(1 << 30)), ..Usage::default() },
            limits: Limits { cpu_weight: Some(CpuWeight::clamped(share * 400.0)), ..Limits::default() },
            original: Limits { cpu_weight: Some(CpuWeight::DEFAULT), ..Limits::default() },
            learning: Learning {
                metric: Some("loss".to_owned()),
                latest: Some(latest),
                progress: Some(progress),
                ..Learning::default()
            },
            ..ContainerObservation::new(id.as_str())
        },
        time_left: None,
        energy: None,
        plan: Some(ContainerPlan {
            id,
            list: None,
            contention: Default::default(),
            growth: GrowthEfficiency::default(),
            limit: Share::ALL,
            share: Share::clamped(share),
            limits: None,
            gpus: Vec::new(),
            reason,
        }),
        forecast: None,
        frozen: None,
        threads: None,
        cpu_used: None,
        recent: Vec::new(),
        line: None,
        log_source: String::new(),
        log_origin: None,
        drifts: Vec::new(),
        pinned: None,
        adopted: None,
        restarts: None,
        parameters: std::sync::Arc::default(),
        expected_final: None,
        directives: std::sync::Arc::default(),
        notices: Vec::new(),
    }
}

pub(super) fn status(at_ms: u64, jobs: Vec<JobStatus>) -> NodeStatus {
    NodeStatus { now: Millis(at_ms), unix_ms: START + at_ms, cores: 8.0, jobs, ..NodeStatus::default() }
}

pub(super) fn ended(id: &str, at_ms: u64) -> Event {
    Event {
        sequence: 1,
        unix_ms: START + at_ms,
        kind: EventKind::Ended,
        container: Some(id.to_owned()),
        name: None,
        text: "a ended".to_owned(),
        alert: None,
    }
}

#[test]
fn an_uneventful_hour_takes_a_few_hundred_rows_and_its_sums_are_exact() {
    let mut recorder = Recorder::begin(1, Vec::new());
    for at in (2_000..3_602_000).step_by(2_000) {
        let value = 2.0 * (-(at as f64) / 600_000.0).exp();
        // A rank that goes up and down and a share that fluctuates are noise.
        let share = 0.25 + 0.001 * f64::from((at / 2_000 % 3) as u32);
        recorder.observe(&status(at, vec![job("x", at, value, share, 1 + (at / 2_000 % 5) as usize)]));
    }
    recorder.happened(&ended("x", 3_602_000));
    let batch = recorder.take();
    assert!((100..700).contains(&batch.samples.len()), "{}", batch.samples.len());
    assert_eq!(batch.samples.iter().filter(|sample| sample.is_turn).count(), 2, "the first and the last");
    let last = batch.samples.last().unwrap();
    assert_eq!((last.unix_ms, last.progress), (START + 3_600_000, Some(3_600.0)));
    assert_eq!(batch.jobs[&1].ended_unix_ms, Some(START + 3_602_000));
    assert!(batch.node.len() < 10, "{}", batch.node.len());
}

#[test]
fn an_hour_of_turns_takes_a_few_hundred_rows() {
    let mut recorder = Recorder::begin(1, Vec::new());
    for at in (2_000..3_602_000).step_by(2_000) {
        let is_on = at / 6_000 % 4 == 0;
        let mut job = job("x", at, 1.0, if is_on { 0.95 } else { 0.02 }, 1);
        job.plan.as_mut().unwrap().reason = Reason::Turn { is_on, of: 4 };
        recorder.observe(&status(at, vec![job]));
    }
    let batch = recorder.take();
    assert!((100..700).contains(&batch.samples.len()), "{}", batch.samples.len());
}

#[test]
fn a_new_decision_is_kept_at_once() {
    let mut recorder = Recorder::begin(1, Vec::new());
    recorder.observe(&status(600_000, vec![job("x", 600_000, 1.0, 0.25, 2)]));
    recorder.observe(&status(600_700, vec![job("x", 600_700, 1.0, 0.75, 1)]));
    let batch = recorder.take();
    let kept: Vec<(u64, bool)> = batch.samples.iter().map(|sample| (sample.unix_ms - START, sample.is_turn)).collect();
    assert_eq!(kept, [(600_000, true), (600_700, true)]);
}

#[test]
fn a_jobs_gpu_use_is_kept_where_it_changed() {
    let mut recorder = Recorder::begin(1, Vec::new());
    let part = |gpu, share| GpuUse { gpu, share: Some(share), memory: Some(Bytes(1 << 30)), ..GpuUse::default() };
    for at in (1..=60).map(|second| 10_000_u64 + second * 2_000) {
        let mut busy = job("x", 10_000, 1.0, 0.5, 1);
        // Its use fluctuates; after a minute it uses a second GPU.
        busy.observed.gpus.push(part(0, 0.5 + 0.01 * (at / 2_000 % 3) as f64));
        busy.observed.gpus.extend((at > 70_000).then(|| part(1, 0.75)));
        recorder.observe(&status(at, vec![busy]));
    }
    let kept: Vec<(u64, f64, Bytes)> = recorder
        .take()
        .samples
        .iter()
        .map(|kept| (kept.unix_ms - START, kept.gpus.unwrap(), kept.gpu_memory.unwrap()))
        .collect();
    // The cores used are known from the second reading on.
    assert_eq!(kept.len(), 3, "{kept:?}");
    assert!(kept[1].0 == 14_000 && kept[1].1 < 0.53 && kept[1].2 == Bytes(1 << 30), "{kept:?}");
    assert!(kept[2].0 == 72_000 && kept[2].1 > 1.24 && kept[2].2 == Bytes(2 << 30), "{kept:?}");
}

#[test]
fn the_counters_of_a_removed_cgroup_are_kept() {
    let mut recorder = Recorder::begin(1, Vec::new());
    recorder.observe(&status(10_000, vec![job("x", 10_000, 1.0, 0.5, 1)]));
    let mut gone = job("x", 14_000, 0.5, 0.5, 1);
    gone.observed.usage = Usage::default();
    recorder.observe(&status(14_000, vec![gone]));
    recorder.happened(&ended("x", 15_000));
    let last = recorder.take().samples.pop().unwrap();
    assert_eq!((last.unix_ms, last.cpu), (START + 14_000, Some(CpuTime(40_000_000))));
}

#[test]
fn a_restarted_container_is_another_job() {
    let mut recorder = Recorder::begin(5, Vec::new());
    recorder.observe(&status(10_000, vec![job("x", 10_000, 1.0, 0.5, 1)]));
    let mut again = job("x", 30_000, 1.0, 0.5, 1);
    again.observed.started = Millis(29_000);
    recorder.observe(&status(30_000, vec![again]));
    let batch = recorder.take();
    assert_eq!(batch.jobs.keys().copied().collect::<Vec<_>>(), [5, 6]);
    assert_eq!(batch.jobs[&5].ended_unix_ms, Some(START + 30_000));
    assert_eq!(batch.jobs[&6].ended_unix_ms, None);
}

#[test]
fn a_job_that_outlives_the_daemon_keeps_its_number_and_one_that_does_not_gets_an_end() {
    let mut before = Recorder::begin(1, Vec::new());
    before.observe(&status(10_000, vec![job("x", 10_000, 1.0, 0.5, 1), job("y", 10_000, 1.0, 0.5, 2)]));
    let open = before.take().jobs.into_values().collect();
    let mut after = Recorder::begin(3, open);
    for at in [40_000, 110_000] {
        let mut status = status(at, vec![job("x", at, 0.5, 0.5, 1)]);
        status.since = Millis(35_000);
        after.observe(&status);
    }
    let batch = after.take();
    assert_eq!(batch.jobs[&1].ended_unix_ms, None);
    assert_eq!(batch.jobs[&2].ended_unix_ms, Some(START + 10_000), "last seen then");
    assert!(batch.samples.iter().all(|sample| sample.job == 1));
}

#[test]
fn a_clock_that_is_set_neither_ends_a_job_nor_disorders_its_samples() {
    let mut recorder = Recorder::begin(1, Vec::new());
    let mut last = 0;
    for (now, unix) in [(10_000, 10_000), (20_000, 20_000), (30_000, 12_000), (40_000, 22_000), (50_000, 3_632_000)] {
        let mut status = status(now, vec![job("x", now, now as f64, 0.5, 1)]);
        status.unix_ms = START + unix;
        recorder.observe(&status);
        let batch = recorder.take();
        assert!(batch.jobs.values().all(|job| job.number == 1 && job.ended_unix_ms.is_none()), "{:?}", batch.jobs);
        for sample in batch.samples {
            assert!(sample.unix_ms > last, "{} after {last}", sample.unix_ms);
            last = sample.unix_ms;
        }
    }
}

#[test]
fn a_quiet_job_is_seen_every_ten_minutes_however_old_it_is() {
    let mut recorder = Recorder::begin(1, Vec::new());
    let begin = 30 * 86_400_000;
    for at in (begin..=begin + 3_600_000).step_by(60_000) {
        recorder.observe(&status(at, vec![job("x", begin, 1.0, 0.5, 1)]));
    }
    let batch = recorder.take();
    assert_eq!((batch.samples.len(), batch.jobs[&1].last_unix_ms), (7, START + begin + 3_600_000));
}

#[test]
fn only_the_ended_jobs_of_a_batch_are_put_back() {
    let mut recorder = Recorder::begin(1, Vec::new());
    recorder.observe(&status(10_000, vec![job("x", 10_000, 1.0, 0.5, 1), job("y", 10_000, 1.0, 0.5, 2)]));
    recorder.happened(&ended("x", 15_000));
    let left_out = recorder.take();
    assert_eq!(left_out.jobs.len(), 2);
    recorder.put_back(left_out);
    let batch = recorder.take();
    assert_eq!((batch.jobs.len(), batch.jobs[&1].ended_unix_ms), (1, Some(START + 15_000)));
    assert!(batch.samples.is_empty() && batch.events.is_empty());
}

#[test]
fn a_disk_that_fails_for_hours_costs_bounded_memory() {
    let mut recorder = Recorder::begin(1, Vec::new());
    for at in 0..200_000u64 {
        let share = if at % 2 == 0 { 0.2 } else { 0.8 };
        recorder.observe(&status(at * 1_000, vec![job("x", at * 1_000, 1.0, share, 1)]));
    }
    assert!(recorder.take().samples.len() <= ROWS_AT_MOST);
}

#[test]
fn the_first_and_last_values_are_kept_although_both_came_between_two_snapshots() {
    let mut recorder = Recorder::default();
    let mut seen = job("a", 5_000, 0.5, 0.5, 1);
    seen.recent = vec![2.0, 1.0, 0.5];
    seen.observed.learning.evaluations = 3;
    recorder.observe(&NodeStatus {
        jobs: vec![seen.clone()],
        unix_ms: START + 5_000,
        now: Millis(5_000),
        cores: 8.0,
        ..NodeStatus::default()
    });
    recorder.happened(&Event {
        sequence: 1,
        unix_ms: START + 6_000,
        kind: EventKind::Ended,
        container: Some("a".to_owned()),
        name: None,
        text: String::new(),
        alert: None,
    });
    let mut learning = seen.observed.learning.clone();
    learning.latest = Some(Evaluation { at: Millis(6_000), value: 0.125, current: None, total: None });
    recorder.read_to_end(&ContainerId::new("a"), &learning);
    recorder.read_to_end(&ContainerId::new("a"), &Learning::default()); // counts once
    let batch = recorder.take();
    let values: Vec<Option<f64>> = batch.samples.iter().map(|sample| sample.value).collect();
    assert_eq!(values, [Some(2.0), Some(0.5), Some(0.125)]);
    assert!(batch.samples.is_sorted_by_key(|sample| sample.unix_ms), "{:?}", batch.samples);
    assert_eq!(
        batch.jobs.values().next().and_then(|job| job.ended_unix_ms),
        batch.samples.last().map(|last| last.unix_ms)
    );
}

#[test]
fn a_new_name_is_written_at_once_and_kept_over_the_end() {
    let mut recorder = Recorder::begin(1, Vec::new());
    recorder.observe(&status(10_000, vec![job("x", 10_000, 1.0, 0.5, 1)]));
    recorder.take();
    let mut renamed = job("x", 10_000, 1.0, 0.5, 1);
    renamed.observed.name = "b".to_owned();
    recorder.observe(&status(10_001, vec![renamed]));
    let batch = recorder.take();
    assert_eq!((batch.jobs[&1].name.as_str(), batch.samples.len()), ("b", 0), "nothing else has changed");
    recorder.happened(&ended("x", 15_000));
    assert_eq!(recorder.take().jobs[&1].name, "b");
}

#[test]
fn a_new_history_begins_with_all_that_runs() {
    let mut recorder = Recorder::begin(7, Vec::new());
    recorder.observe(&status(10_000, vec![job("x", 10_000, 1.0, 0.5, 1), job("y", 10_000, 1.0, 0.5, 2)]));
    recorder.take();
    recorder.happened(&ended("x", 15_000));
    let unwritten = recorder.take();
    recorder.take_back(unwritten);
    recorder.go_on();
    recorder.observe(&status(16_000, vec![job("y", 10_000, 1.0, 0.5, 2)]));
    let batch = recorder.take();
    assert_eq!(batch.jobs.keys().copied().collect::<Vec<_>>(), [7, 8]);
    assert_eq!(batch.jobs[&7].ended_unix_ms, Some(START + 15_000));
    assert!(batch.samples.iter().any(|sample| sample.job == 8 && sample.unix_ms == START + 10_000));
    assert_eq!(batch.node.len(), 1);
}

#[test]
fn the_user_and_the_sweep_of_a_job_are_written_at_once_and_kept() {
    let trial = |at: u64, group: Option<&str>, user: Option<&str>| {
        let mut job = job("x", at, 1.0, 0.25, 1);
        job.observed.user = user.map(Into::into);
        job.observed.trial = group.map(|group| Trial::new(group.into(), Vec::new()));
        job.parameters = vec![Parameter { name: "lr".to_owned(), value: "0.1".to_owned() }].into();
        let directives = Directives { group: Group::Named("rates".to_owned()), ..Directives::default() };
        job.directives = directives.into();
        status(at, vec![job])
    };
    let mut recorder = Recorder::begin(1, Vec::new());
    recorder.observe(&trial(2_000, None, Some("alice")));
    let first = recorder.take();
    assert_eq!((first.jobs[&1].user.as_deref(), &first.jobs[&1].trial), (Some("alice"), &None));
    recorder.observe(&trial(2_100, Some("g"), Some("bob")));
    let second = recorder.take();
    let known = second.jobs[&1].trial.clone().expect("the others of its sweep have begun");
    assert_eq!((known.group.as_str(), known.group_name.as_deref(), known.parameters.len()), ("g", Some("rates"), 1));
    assert_eq!(second.jobs[&1].user.as_deref(), Some("bob"), "the rules were reloaded");
    recorder.observe(&trial(2_200, None, Some("bob")));
    assert!(recorder.take().jobs.is_empty(), "nothing is news");
    recorder.happened(&ended("x", 3_000));
    assert_eq!(recorder.take().jobs[&1].trial, Some(known), "it goes on alone, and stays one of its sweep");
}
