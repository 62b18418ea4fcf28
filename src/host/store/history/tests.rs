//! The history on a real disk: reading what was written, and trimming.

use super::*;
use model::*;

pub(super) fn job(number: u64, name: &str, first: u64) -> JobRecord {
    JobRecord {
        number,
        id: ContainerId::new(&format!("{number:012x}ffff")),
        name: name.to_owned(),
        runtime: Runtime::Docker,
        started_unix_ms: first - 700,
        first_unix_ms: first,
        last_unix_ms: first,
        ended_unix_ms: None,
        exit_code: None,
        end: None,
        original_weight: Some(CpuWeight::DEFAULT),
        metric: Some("loss".to_owned()),
        direction: Some(Direction::Down),
        unit: Some(ProgressUnit::Epoch),
        total: Some(10.0),
        user: None,
        lost_s: None,
        trial: None,
    }
}

const GROWTH: GrowthEfficiency =
    GrowthEfficiency { cpu: Some(0.005), memory: Some(0.0125), block_io: Some(-0.25), network_io: None, gpu: None };

pub(super) fn sample(job: u64, unix_ms: u64, is_turn: bool) -> Sample {
    let reason = Reason::Ranked { milestone: "completion".into(), work: 12.5, rank: 2, of: 3 };
    let (limit, share) = (Share::ALL, Share::clamped(0.25));
    Sample {
        job,
        unix_ms,
        cpu: Some(CpuTime(12_345_000)),
        memory: Some(Bytes(128 << 20)),
        gpus: Some(1.25),
        gpu_memory: Some(Bytes(6 << 30)),
        value: Some(0.125),
        progress: Some(2.5),
        quality: Some(0.75),
        time_left: Some(Estimate { low: 80.5, likely: 100.0, high: 150.0 }),
        energy: Some(4321.0),
        weight: Some(CpuWeight::clamped(80.0)),
        state: RunState::Running,
        hold: None,
        decision: Some(DecisionRecord { list: None, growth: GROWTH, limit, share, reason }),
        is_turn,
    }
}

pub(super) fn batch(jobs: impl IntoIterator<Item = JobRecord>, samples: Vec<Sample>) -> HistoryBatch {
    let jobs = jobs.into_iter().map(|job| (job.number, job)).collect();
    HistoryBatch { jobs, samples, ..HistoryBatch::default() }
}

pub(super) fn opened(directory: &tempfile::TempDir) -> HistoryStore {
    HistoryStore::open(directory.path()).unwrap().store
}

fn reader(directory: &tempfile::TempDir) -> HistoryReader {
    HistoryReader::open(directory.path(), Duration::from_secs(1)).unwrap()
}

const ALWAYS: Span = Span { since: 0, until: u64::MAX };

#[test]
fn samples_are_read_back_before_and_after_they_are_sorted() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = opened(&directory);
    let mut held = sample(1, 10_000, true);
    held.hold = Some(Hold::Foreign("somebody set 40".to_owned()));
    held.decision = None;
    let first = job(1, "<script>", 10_000);
    store.write(&batch([first.clone()], vec![held.clone()])).unwrap();
    store.settle().unwrap();
    let last = sample(1, 12_000, false);
    let known = JobRecord {
        last_unix_ms: 12_000,
        ended_unix_ms: Some(12_500),
        exit_code: Some(137),
        end: Some(End::KilledForMemory),
        ..first
    };
    store.write(&batch([known.clone()], vec![last.clone()])).unwrap();
    let read = reader(&directory);
    assert_eq!(read.samples(&known, ALWAYS, None, Millis(1), 100).unwrap(), [held.clone(), last.clone()]);
    assert_eq!(read.jobs(ALWAYS, None, 0, 10).unwrap(), [(known.clone(), Some(last.clone()))]);
    let then = read.instant(&known, 11_999).unwrap().unwrap();
    assert_eq!((then.sample, then.later), (held, Some(last)));
    assert!(read.instant(&known, 9_999).unwrap().is_none());
    assert_eq!(store.next_job().unwrap(), 2);
    assert_eq!(store.open_jobs().unwrap(), []);
}

#[test]
fn a_running_job_is_listed_although_its_last_sample_is_older_than_the_span() {
    let directory = tempfile::tempdir().unwrap();
    let ended = JobRecord { ended_unix_ms: Some(2_000), last_unix_ms: 2_000, ..job(2, "ended", 1_000) };
    let jobs = [job(1, "runs", 1_000), ended, job(3, "later", 90_000)];
    opened(&directory).write(&batch(jobs.clone(), vec![sample(1, 1_000, true)])).unwrap();
    let listed = reader(&directory).jobs(Span { since: 50_000, until: 60_000 }, None, 0, 10).unwrap();
    assert_eq!(listed, [(jobs[0].clone(), Some(sample(1, 1_000, true)))]);
}

#[test]
fn a_job_is_found_by_id_then_by_name_then_by_prefix_of_its_id() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = opened(&directory);
    let jobs = [job(1, "a", 1_000), job(2, "a", 2_000), job(3, "0000", 3_000)];
    store.write(&batch(jobs.clone(), Vec::new())).unwrap();
    let read = reader(&directory);
    let numbers = |text: &str| read.named(text).unwrap().iter().map(|job| job.number).collect::<Vec<_>>();
    assert_eq!(numbers("a"), [1, 2]);
    assert_eq!(numbers("0000"), [3], "a name precedes a prefix of an id");
    assert_eq!(numbers("00000000000"), [1, 2, 3]);
    assert_eq!(numbers(jobs[1].id.as_str()), [2]);
    assert_eq!(numbers("000"), [] as [u64; 0], "too short to be an id");
    assert_eq!(numbers("%"), [] as [u64; 0]);
}

#[test]
fn a_users_command_is_found_by_its_name_without_the_user() {
    let directory = tempfile::tempdir().unwrap();
    let jobs = [job(1, "sweep@ann", 1_000), job(2, "sweeper@ann", 2_000)];
    opened(&directory).write(&batch(jobs.clone(), Vec::new())).unwrap();
    let read = reader(&directory);
    assert_eq!(read.named("sweep").unwrap(), jobs[..1]);
    assert_eq!(read.named("sweep@ann").unwrap(), jobs[..1]);
    assert_eq!(read.named("swee").unwrap(), []);
}

#[test]
fn the_first_sample_and_the_first_value_remain_however_few_samples_are_requested() {
    let directory = tempfile::tempdir().unwrap();
    let of = |unix_ms: u64, value: Option<f64>| Sample { value, ..sample(1, unix_ms, false) };
    let samples = [of(1_000, None), of(2_000, None), of(3_000, Some(9.0)), of(4_000, Some(5.0)), of(5_000, Some(1.0))];
    let known = JobRecord { last_unix_ms: 5_000, ..job(1, "short", 1_000) };
    opened(&directory).write(&batch([known.clone()], samples.to_vec())).unwrap();
    let read = reader(&directory);
    let left = read.samples(&known, ALWAYS, None, Millis(1 << 40), 10).unwrap();
    assert_eq!(left, [samples[0].clone(), samples[2].clone(), samples[4].clone()]);
    // The value at the start of the span is not the job's first.
    let late = read.samples(&known, Span { since: 4_000, until: 9_000 }, None, Millis(1 << 40), 10).unwrap();
    assert_eq!(late, [samples[2].clone(), samples[4].clone()]);
}

#[test]
fn events_are_found_by_the_jobs_ids_and_by_kind() {
    let event = |container: &str, name: &str, kind: EventKind| Event {
        sequence: 0,
        unix_ms: 5_000,
        kind,
        container: Some(container.to_owned()),
        name: Some(name.to_owned()),
        text: format!("{name} {kind:?}"),
        alert: None,
    };
    let directory = tempfile::tempdir().unwrap();
    let jobs = [job(1, "a", 1_000), job(2, "b", 1_000)];
    let (first, second) = (jobs[0].id.as_str(), jobs[1].id.as_str());
    let events = vec![
        event(first, "a", EventKind::Started),
        event(second, "b", EventKind::Started),
        event("abc", "of an id that begins with the name", EventKind::Started),
        event(first, "a", EventKind::Limit),
        event(first, "a", EventKind::Hold),
    ];
    let mut store = opened(&directory);
    store.write(&HistoryBatch { events, ..batch(jobs, Vec::new()) }).unwrap();
    let read = reader(&directory);
    let texts = |of: Option<&str>, kinds: &[EventKind], limit: usize| {
        let of = of.map(|name| read.named(name).unwrap());
        let found = read.events(ALWAYS, of.as_deref(), kinds, 0, limit).unwrap();
        found.into_iter().map(|event| event.text).collect::<Vec<_>>()
    };
    assert_eq!(texts(None, &[], 10).len(), 5);
    assert_eq!(texts(Some("a"), &[], 10), ["a Started", "a Limit", "a Hold"]);
    assert_eq!(texts(None, &[EventKind::Limit, EventKind::Hold], 10), ["a Limit", "a Hold"]);
    assert_eq!(texts(Some("b"), &[EventKind::Hold], 10), [] as [String; 0]);
    assert_eq!(texts(None, &[EventKind::Started], 1).len(), 2, "one more than the limit");
}

#[test]
fn a_job_is_read_without_a_scan_of_the_samples_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let store = opened(&directory);
    for condition in ["at <= 5 ORDER BY at DESC LIMIT 1", "at > 5 ORDER BY at LIMIT 1", "at >= 5 AND at <= 9"] {
        let query = format!("EXPLAIN QUERY PLAN {}", read::samples_where(condition));
        let mut statement = store.connection.prepare(&query).unwrap();
        let steps = statement.query_map([1], |row| row.get::<_, String>(3)).unwrap();
        let steps: Vec<String> = steps.map(|step| step.unwrap()).collect();
        assert!(steps.iter().any(|step| step.contains("fresh_of_job")), "{condition}: {steps:#?}");
        assert!(!steps.iter().any(|step| step == "SCAN fresh" || step == "SCAN moment"), "{condition}: {steps:#?}");
    }
}

#[test]
fn thinning_keeps_turns_and_one_sample_per_two_minutes() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = opened(&directory);
    let samples: Vec<Sample> = (0..1200).map(|n| sample(1, 1_000 + n * 1_000, n % 600 == 7)).collect();
    let known = JobRecord { last_unix_ms: 1_200_000, ended_unix_ms: Some(1_200_000), ..job(1, "a", 1_000) };
    store.write(&batch([known.clone()], samples)).unwrap();
    store.settle().unwrap();
    let limits = HistoryLimits { max_age_ms: u64::MAX, max_bytes: u64::MAX };
    assert!(!store.trim(&limits, 30 * 3_600_000).unwrap());
    let left = reader(&directory).samples(&known, ALWAYS, None, Millis(1), 5_000).unwrap();
    assert_eq!(left.len(), 10 + 2, "{left:?}");
    assert_eq!(left.iter().filter(|sample| sample.is_turn).count(), 2);
}

#[test]
fn old_jobs_are_deleted_and_running_jobs_keep_their_newer_samples() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = opened(&directory);
    let dead = JobRecord { last_unix_ms: 5_000, ..job(1, "dead", 1_000) };
    let alive = JobRecord { last_unix_ms: 100_000, ..job(2, "alive", 1_000) };
    let samples = vec![sample(1, 5_000, true), sample(2, 1_000, true), sample(2, 90_000, true)];
    store.write(&batch([dead, alive.clone()], samples)).unwrap();
    let limits = HistoryLimits { max_age_ms: 50_000, max_bytes: u64::MAX };
    store.trim(&limits, 100_000).unwrap();
    let read = reader(&directory);
    assert_eq!(read.jobs(ALWAYS, None, 0, 10).unwrap().len(), 1);
    assert_eq!(read.samples(&alive, ALWAYS, None, Millis(1), 10).unwrap(), [sample(2, 90_000, true)]);
    assert_eq!(read.oldest().unwrap(), Some(50_000));
}

#[test]
fn the_file_shrinks_below_its_limit_and_the_newest_jobs_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = opened(&directory);
    for number in 1..=60 {
        let first = number * 60_000;
        let samples = (0..600).map(|n| sample(number, first + n * 50, true)).collect();
        store.write(&batch([JobRecord { last_unix_ms: first + 30_000, ..job(number, "a", first) }], samples)).unwrap();
    }
    store.settle().unwrap();
    let limits = HistoryLimits { max_age_ms: u64::MAX, max_bytes: 512 << 10 };
    let before = store.bytes().unwrap();
    let mut steps = 0;
    while store.trim(&limits, 61 * 60_000).unwrap() {
        steps += 1;
        assert!(steps < 500, "no end");
    }
    assert!(before > limits.max_bytes && store.bytes().unwrap() <= limits.max_bytes, "{before}");
    let file = std::fs::metadata(directory.path().join(DATABASE)).unwrap().len();
    assert!(file <= limits.max_bytes, "{file}");
    let left = reader(&directory).jobs(ALWAYS, None, 0, 100).unwrap();
    assert!(left.len() > 5 && left.last().unwrap().0.number == 60, "{}", left.len());
}

#[test]
fn the_samples_of_a_single_long_job_are_trimmed_to_the_size_limit() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = opened(&directory);
    let known = JobRecord { last_unix_ms: 20_000_000, ..job(1, "a", 1_000) };
    store.write(&batch([known], (0..20_000).map(|n| sample(1, 1_000 + n * 1_000, true)).collect())).unwrap();
    store.settle().unwrap();
    let limits = HistoryLimits { max_age_ms: u64::MAX, max_bytes: 300 << 10 };
    let mut steps = 0;
    while store.trim(&limits, 20_002_000).unwrap() {
        steps += 1;
        assert!(steps < 200, "no end");
    }
    assert!(store.bytes().unwrap() <= limits.max_bytes);
}

#[test]
fn blocks_are_read_in_pages_replaced_and_deleted_when_old() {
    let block = |from: u64, plain: bool, jobs: &[u64]| BlockRecord {
        from_unix_ms: from,
        until_unix_ms: from + 10_000,
        plain,
        span: Millis(8_000),
        work: jobs.iter().map(|job| BlockWork { job: *job, cpu: CpuTime(7_250_000) }).collect(),
    };
    let directory = tempfile::tempdir().unwrap();
    let mut store = opened(&directory);
    let first = [block(10_000, false, &[1, 2]), block(20_000, true, &[1, 2, 7]), block(30_000, false, &[7])];
    store.write(&HistoryBatch { blocks: first.to_vec(), ..HistoryBatch::default() }).unwrap();
    // A daemon was killed within the last block, and continued it after its restart.
    let again = block(30_000, false, &[2, 7]);
    store.write(&HistoryBatch { blocks: vec![again.clone()], ..HistoryBatch::default() }).unwrap();
    let all = [first[0].clone(), first[1].clone(), again.clone()];
    let read = reader(&directory);
    assert_eq!(read.blocks(ALWAYS, 0, 3).unwrap(), all);
    assert_eq!(read.blocks(ALWAYS, 0, 1).unwrap(), all[..2], "one more than the limit");
    assert_eq!(read.blocks(ALWAYS, 10_000, 5).unwrap(), all[1..]);
    assert_eq!(read.blocks(Span { since: 15_000, until: 35_000 }, 0, 5).unwrap(), all[1..2], "only complete blocks");
    store.trim(&HistoryLimits { max_age_ms: 75_000, max_bytes: u64::MAX }, 100_000).unwrap();
    assert_eq!(reader(&directory).blocks(ALWAYS, 0, 5).unwrap(), [again]);
    let left: i64 = store.connection.query_row("SELECT COUNT(*) FROM work", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 2);
}

#[test]
fn a_history_of_the_first_version_is_migrated_with_its_content() {
    let directory = tempfile::tempdir().unwrap();
    let old = rusqlite::Connection::open(directory.path().join(DATABASE)).unwrap();
    old.execute_batch(schema::STEPS[0]).unwrap();
    old.execute_batch(
        "INSERT INTO job (number, id, name, runtime, started, first, last, ended, kept) VALUES (1, 'a', 'old', 0, 5, 5, 9, 9, 5);
         INSERT INTO event (at, kind, name, text) VALUES (9, 0, 'old', 'old ended');
         PRAGMA user_version = 1",
    )
    .unwrap();
    drop(old);
    let mut store = opened(&directory);
    let ended = JobRecord { ended_unix_ms: Some(30_000), exit_code: Some(-1), ..job(2, "new", 20_000) };
    store.write(&batch([ended.clone()], Vec::new())).unwrap();
    let jobs = reader(&directory).jobs(ALWAYS, None, 0, 10).unwrap();
    let codes: Vec<_> = jobs.iter().map(|(job, _)| (job.name.as_str(), job.ended_unix_ms, job.exit_code)).collect();
    assert_eq!(codes, [("old", Some(9), None), (ended.name.as_str(), Some(30_000), Some(-1))]);
    assert_eq!(reader(&directory).blocks(ALWAYS, 0, 5).unwrap(), []);
    let index = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'fresh_of_job'";
    assert_eq!(store.connection.query_row(index, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}

#[test]
fn a_history_of_a_later_version_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let store = opened(&directory);
    store.connection.pragma_update(None, "user_version", schema::VERSION + 1).unwrap();
    drop(store);
    assert!(matches!(HistoryStore::open(directory.path()), Err(StoreError::Newer { .. })));
}

#[test]
fn a_renamed_job_is_found_by_each_of_its_names_and_listed_by_the_last() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = opened(&directory);
    let named = |name: &str| JobRecord { name: name.to_owned(), ..job(1, "a", 1_000) };
    for name in ["a", "b", "c", "b", "b"] {
        store.write(&batch([named(name)], Vec::new())).unwrap();
    }
    store.write(&batch([job(2, "a", 9_000), job(3, "c", 800)], Vec::new())).unwrap();
    let read = reader(&directory);
    let numbers = |name: &str| read.named(name).unwrap().iter().map(|job| job.number).collect::<Vec<_>>();
    assert_eq!(read.jobs(ALWAYS, Some(&[1]), 0, 9).unwrap()[0].0.name, "b");
    assert_eq!(numbers("b"), [1]);
    assert_eq!(numbers("a"), [1, 2], "the one that has the name now is the newest");
    assert_eq!(numbers("c"), [1, 3], "even if it started earlier");
    for n in 0..40 {
        store.write(&batch([named(&format!("name-{n}"))], Vec::new())).unwrap();
    }
    let count = || store.connection.query_row("SELECT COUNT(*) FROM former_name", [], |row| row.get::<_, i64>(0));
    assert_eq!(count().unwrap(), 16);
    assert_eq!((numbers("name-0"), numbers("name-30")), (vec![], vec![1]));
}

#[test]
fn a_jobs_user_and_sweep_are_kept_and_unknown_in_a_history_of_the_version_before() {
    let directory = tempfile::tempdir().unwrap();
    let old = rusqlite::Connection::open(directory.path().join(DATABASE)).unwrap();
    schema::STEPS[..8].iter().for_each(|step| old.execute_batch(step).unwrap());
    old.execute_batch(
        "INSERT INTO job (number, id, name, runtime, started, first, last, kept) VALUES (1, 'a', 'old', 0, 5, 5, 9, 5);
         PRAGMA user_version = 8",
    )
    .unwrap();
    drop(old);
    let parameters = vec![Parameter { name: "lr".to_owned(), value: "0.1".to_owned() }];
    let trial = TrialRecord { group: "g".to_owned(), group_name: Some("sweep".to_owned()), parameters };
    let known =
        JobRecord { user: Some("alice".to_owned()), lost_s: Some(7.5), trial: Some(trial), ..job(2, "new", 20_000) };
    opened(&directory).write(&batch([known.clone()], Vec::new())).unwrap();
    let jobs = reader(&directory).lived(ALWAYS, None, 0, 10).unwrap();
    assert_eq!((&jobs[0].name[..], &jobs[0].user, &jobs[0].trial), ("old", &None, &None));
    assert_eq!(jobs[1..], [known]);
}

#[test]
fn users_are_charged_for_what_their_jobs_used_within_the_span() {
    let directory = tempfile::tempdir().unwrap();
    let of = |number: u64, user: Option<&str>, first: u64, last: u64| JobRecord {
        user: user.map(str::to_owned),
        last_unix_ms: last,
        ..job(number, "a", first)
    };
    let at = |job: u64, unix_ms: u64, seconds: u64| Sample {
        cpu: Some(CpuTime(seconds * 1_000_000)),
        ..sample(job, unix_ms, true)
    };
    let jobs = [of(1, Some("alice"), 1_000, 9_000), of(2, Some("alice"), 6_000, 9_000), of(3, None, 1_000, 2_000)];
    let samples =
        vec![at(1, 1_000, 1), at(3, 1_000, 7), at(3, 2_000, 8), at(1, 4_000, 4), at(2, 6_000, 10), at(1, 9_000, 9)];
    let ended = JobRecord { ended_unix_ms: Some(2_000), ..jobs[2].clone() };
    opened(&directory).write(&batch([jobs[0].clone(), jobs[1].clone(), ended], samples)).unwrap();
    let users = |since, until| -> Vec<(String, usize, u64)> {
        let users = reader(&directory).users(Span { since, until }).unwrap().into_iter();
        users.map(|user| (user.name, user.jobs, user.cpu.0 / 1_000_000)).collect()
    };
    assert_eq!(users(0, 10_000), [("-".to_owned(), 1, 8), ("alice".to_owned(), 2, 19)]);
    assert_eq!(users(5_000, 10_000), [("alice".to_owned(), 2, 15)], "5 of the first job and all of the second");
    assert_eq!(users(0, 5_000), [("-".to_owned(), 1, 8), ("alice".to_owned(), 1, 4)]);
}
