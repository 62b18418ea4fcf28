//! The history on a real disk: what goes in comes out, what is too old or too much goes, what is broken is set aside.

use super::*;
use crate::model::*;

fn job(number: u64, name: &str, first: u64) -> JobRecord {
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
        original_weight: Some(CpuWeight::DEFAULT),
        metric: Some("loss".to_owned()),
        direction: Some(Direction::Down),
        unit: Some(ProgressUnit::Epoch),
        total: Some(10.0),
    }
}

fn sample(job: u64, unix_ms: u64, is_turn: bool) -> Sample {
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
        weight: Some(CpuWeight::clamped(80.0)),
        state: RunState::Running,
        hold: None,
        decision: Some(DecisionRecord { list: None, growth: Some(0.005), limit, share, reason }),
        is_turn,
    }
}

fn batch(jobs: impl IntoIterator<Item = JobRecord>, samples: Vec<Sample>) -> HistoryBatch {
    let jobs = jobs.into_iter().map(|job| (job.number, job)).collect();
    HistoryBatch { jobs, samples, ..HistoryBatch::default() }
}

fn opened(folder: &tempfile::TempDir) -> HistoryStore {
    HistoryStore::open(folder.path()).unwrap().store
}

fn reader(folder: &tempfile::TempDir) -> HistoryReader {
    HistoryReader::open(folder.path(), Duration::from_secs(1)).unwrap()
}

const ALWAYS: Span = Span { since: 0, until: u64::MAX };

#[test]
fn what_was_written_is_read_whether_sorted_in_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = opened(&folder);
    let mut held = sample(1, 10_000, true);
    held.hold = Some(Hold::Foreign("somebody set 40".to_owned()));
    held.decision = None;
    let first = job(1, "<script>", 10_000);
    store.write(&batch([first.clone()], vec![held.clone()])).unwrap();
    store.settle().unwrap();
    let last = sample(1, 12_000, false);
    let known = JobRecord { last_unix_ms: 12_000, ended_unix_ms: Some(12_500), exit_code: Some(137), ..first };
    store.write(&batch([known.clone()], vec![last.clone()])).unwrap();
    let read = reader(&folder);
    assert_eq!(read.samples(&known, ALWAYS, None, Millis(1), 100).unwrap(), [held.clone(), last.clone()]);
    assert_eq!(read.jobs(ALWAYS, None, 0, 10).unwrap(), [(known.clone(), Some(last.clone()))]);
    let then = read.instant(&known, 11_999).unwrap().unwrap();
    assert_eq!((then.sample, then.later), (held, Some(last)));
    assert!(read.instant(&known, 9_999).unwrap().is_none());
    assert_eq!(store.next_job().unwrap(), 2);
    assert_eq!(store.open_jobs().unwrap(), []);
}

#[test]
fn a_job_is_found_by_id_then_name_then_the_beginning_of_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = opened(&folder);
    let jobs = [job(1, "a", 1_000), job(2, "a", 2_000), job(3, "0000", 3_000)];
    store.write(&batch(jobs.clone(), Vec::new())).unwrap();
    let read = reader(&folder);
    let numbers = |asked: &str| read.named(asked).unwrap().iter().map(|job| job.number).collect::<Vec<_>>();
    assert_eq!(numbers("a"), [1, 2]);
    assert_eq!(numbers("0000"), [3], "a name goes before the beginning of an id");
    assert_eq!(numbers("00000000000"), [1, 2, 3]);
    assert_eq!(numbers(jobs[1].id.as_str()), [2]);
    assert_eq!(numbers("000"), [] as [u64; 0], "too short to be an id");
    assert_eq!(numbers("%"), [] as [u64; 0]);
}

#[test]
fn thinning_keeps_turns_and_one_sample_of_each_two_minutes() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = opened(&folder);
    let samples: Vec<Sample> = (0..1200).map(|n| sample(1, 1_000 + n * 1_000, n % 600 == 7)).collect();
    let known = JobRecord { last_unix_ms: 1_200_000, ended_unix_ms: Some(1_200_000), ..job(1, "a", 1_000) };
    store.write(&batch([known.clone()], samples)).unwrap();
    store.settle().unwrap();
    let limits = HistoryLimits { max_age_ms: u64::MAX, max_bytes: u64::MAX };
    assert!(!store.trim(&limits, 30 * 3_600_000).unwrap());
    let left = reader(&folder).samples(&known, ALWAYS, None, Millis(1), 5_000).unwrap();
    assert_eq!(left.len(), 10 + 2, "{left:?}");
    assert_eq!(left.iter().filter(|sample| sample.is_turn).count(), 2);
}

#[test]
fn what_is_too_old_goes_and_what_lives_on_keeps_its_newer_part() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = opened(&folder);
    let dead = JobRecord { last_unix_ms: 5_000, ..job(1, "dead", 1_000) };
    let alive = JobRecord { last_unix_ms: 100_000, ..job(2, "alive", 1_000) };
    let samples = vec![sample(1, 5_000, true), sample(2, 1_000, true), sample(2, 90_000, true)];
    store.write(&batch([dead, alive.clone()], samples)).unwrap();
    let limits = HistoryLimits { max_age_ms: 50_000, max_bytes: u64::MAX };
    store.trim(&limits, 100_000).unwrap();
    let read = reader(&folder);
    assert_eq!(read.jobs(ALWAYS, None, 0, 10).unwrap().len(), 1);
    assert_eq!(read.samples(&alive, ALWAYS, None, Millis(1), 10).unwrap(), [sample(2, 90_000, true)]);
    assert_eq!(read.oldest().unwrap(), Some(50_000));
}

#[test]
fn the_file_shrinks_below_its_bound_and_the_newest_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = opened(&folder);
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
    let file = fs::metadata(folder.path().join(DATABASE)).unwrap().len();
    assert!(file <= limits.max_bytes, "{file}");
    let left = reader(&folder).jobs(ALWAYS, None, 0, 100).unwrap();
    assert!(left.len() > 5 && left.last().unwrap().0.number == 60, "{}", left.len());
}

#[test]
fn a_job_that_lives_for_ever_does_not_keep_the_size_from_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = opened(&folder);
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
fn blocks_come_back_in_pages_are_replaced_and_dropped_when_they_are_old() {
    let block = |from: u64, plain: bool, jobs: &[u64]| BlockRecord {
        from_unix_ms: from,
        until_unix_ms: from + 10_000,
        plain,
        span: Millis(8_000),
        work: jobs.iter().map(|job| BlockWork { job: *job, cpu: CpuTime(7_250_000) }).collect(),
    };
    let folder = tempfile::tempdir().unwrap();
    let mut store = opened(&folder);
    let first = [block(10_000, false, &[1, 2]), block(20_000, true, &[1, 2, 7]), block(30_000, false, &[7])];
    store.write(&HistoryBatch { blocks: first.to_vec(), ..HistoryBatch::default() }).unwrap();
    // A daemon that was killed within the last one, and went on with it.
    let again = block(30_000, false, &[2, 7]);
    store.write(&HistoryBatch { blocks: vec![again.clone()], ..HistoryBatch::default() }).unwrap();
    let all = [first[0].clone(), first[1].clone(), again.clone()];
    let read = reader(&folder);
    assert_eq!(read.blocks(ALWAYS, 0, 3).unwrap(), all);
    assert_eq!(read.blocks(ALWAYS, 0, 1).unwrap(), all[..2], "one more than asked for");
    assert_eq!(read.blocks(ALWAYS, 10_000, 5).unwrap(), all[1..]);
    assert_eq!(read.blocks(Span { since: 15_000, until: 35_000 }, 0, 5).unwrap(), all[1..2], "those that are whole");
    store.trim(&HistoryLimits { max_age_ms: 75_000, max_bytes: u64::MAX }, 100_000).unwrap();
    assert_eq!(reader(&folder).blocks(ALWAYS, 0, 5).unwrap(), [again]);
    let left: i64 = store.connection.query_row("SELECT COUNT(*) FROM work", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 2);
}

#[test]
fn a_damaged_history_is_set_aside_and_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    drop(opened(&folder));
    fs::write(folder.path().join(DATABASE), b"this was no database, or is none any more").unwrap();
    let opened = HistoryStore::open(folder.path()).unwrap();
    let aside = opened.set_aside.expect("told");
    assert!(fs::read(aside).unwrap().starts_with(b"this was"));
    assert_eq!(opened.store.next_job().unwrap(), 1);
}

#[test]
fn a_history_of_the_first_version_is_brought_up_to_date_with_all_that_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let old = rusqlite::Connection::open(folder.path().join(DATABASE)).unwrap();
    old.execute_batch(schema::STEPS[0]).unwrap();
    old.execute_batch(
        "INSERT INTO job (number, id, name, runtime, started, first, last, ended, kept) VALUES (1, 'a', 'old', 0, 5, 5, 9, 9, 5);
         INSERT INTO event (at, kind, name, text) VALUES (9, 0, 'old', 'old ended');
         PRAGMA user_version = 1",
    )
    .unwrap();
    drop(old);
    let mut store = opened(&folder);
    let ended = JobRecord { ended_unix_ms: Some(30_000), exit_code: Some(-1), ..job(2, "new", 20_000) };
    store.write(&batch([ended.clone()], Vec::new())).unwrap();
    let jobs = reader(&folder).jobs(ALWAYS, None, 0, 10).unwrap();
    let codes: Vec<_> = jobs.iter().map(|(job, _)| (job.name.as_str(), job.ended_unix_ms, job.exit_code)).collect();
    assert_eq!(codes, [("old", Some(9), None), (ended.name.as_str(), Some(30_000), Some(-1))]);
    assert_eq!(reader(&folder).blocks(ALWAYS, 0, 5).unwrap(), []);
}

#[test]
fn a_later_version_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(&folder);
    store.connection.pragma_update(None, "user_version", schema::VERSION + 1).unwrap();
    drop(store);
    assert!(matches!(HistoryStore::open(folder.path()), Err(StoreError::Newer { .. })));
}
