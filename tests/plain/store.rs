//! Tests of the state directory on real file systems: full, read-only, damaged, shared, after SIGKILL.

use crate::support::daemon::eventually;
use flowcon::host::store::{ApiMark, LogPlace, Opened, Original, ReadPosition, Store, StoreError};
use flowcon::model::{Bytes, ContainerId, CpuWeight, EngineLimits, EngineMark, Limits, Quota, Runtime, Setting};
use proptest::prelude::*;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Opens a store. A process that another test is starting has a copy of every open lock until it executes its program, so a lock that was
/// released may still be held for a moment.
fn opened(dir: &Path) -> Result<Opened, StoreError> {
    eventually("its lock is free", Duration::from_secs(10), || match Store::open(dir) {
        Err(StoreError::InUse { .. }) => None,
        result => Some(result),
    })
}

fn open(dir: &Path) -> Store {
    let Opened { store, set_aside } = opened(dir).unwrap();
    assert_eq!(set_aside, None);
    store
}

fn original(id: &str) -> Original {
    Original {
        id: ContainerId::new(id),
        runtime: Runtime::Docker,
        name: "train".into(),
        cgroup: "/docker/abc".into(),
        boot_id: "boot-1".into(),
        started_unix_ms: 1_000,
        remembered_unix_ms: 2_000,
        limits: Limits {
            cpu_weight: Some(CpuWeight::DEFAULT),
            cpu_quota: Some(None),
            memory_low: Some(Bytes(0)),
            memory_high: None,
            io_weight: None,
        },
        engine: Some(EngineLimits { cpu_shares: 777, memory_reservation: -1, ..EngineLimits::default() }),
        mark: Some(EngineMark { id: Some("engine-1".into()), socket: "/run/docker.sock".into() }),
    }
}

fn sql(dir: &Path, statement: &str) {
    rusqlite::Connection::open(dir.join("flowcon.db")).unwrap().execute_batch(statement).unwrap();
}

/// A separate file system, unmounted when dropped.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn tmpfs(options: &str) -> Mounted {
        let dir = tempfile::tempdir().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "flowcon-test"]).arg(dir.path()).status();
        assert!(mounted.unwrap().success(), "mount tmpfs: these tests run as root");
        Mounted(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

/// Creates a database of many pages.
fn filled(dir: &Path) -> Store {
    let mut store = open(dir);
    for n in 0..200 {
        write(&mut store, &original(&format!("{n:064}")), &[]).unwrap();
    }
    store
}

fn write(store: &mut Store, original: &Original, settings: &[Setting]) -> Result<Original, StoreError> {
    store.journal_changes(&[(original.clone(), settings.to_vec())])?.remove(0)
}

#[test]
fn an_original_and_its_written_settings_survive_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        [Setting::CpuQuota(None), Setting::CpuWeight(CpuWeight::clamped(25.0)), Setting::MemoryLow(Bytes(7))];
    let mut store = open(dir.path());
    assert_eq!(write(&mut store, &original("a"), &settings).unwrap(), original("a"));
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.originals().unwrap().readable, [original("a")]);
    assert_eq!(store.written(&original("a").id).unwrap(), settings);
}

#[test]
fn the_previous_value_is_kept_until_the_next_write() {
    let dir = tempfile::tempdir().unwrap();
    let weight = |number: f64| Setting::CpuWeight(CpuWeight::clamped(number));
    let mut store = open(dir.path());
    write(&mut store, &original("a"), &[weight(25.0), Setting::IoWeight(25)]).unwrap();
    write(&mut store, &original("a"), &[weight(80.0), weight(25.0)]).unwrap();
    drop(store);
    let written = |store: &Store| store.written(&original("a").id).unwrap();
    let mut store = open(dir.path());
    assert_eq!(written(&store), [weight(25.0), weight(80.0), Setting::IoWeight(25)]);
    write(&mut store, &original("a"), &[weight(90.0), weight(80.0)]).unwrap();
    assert_eq!(written(&store), [weight(80.0), weight(90.0), Setting::IoWeight(25)]);
}

#[test]
fn a_later_reading_never_replaces_an_original() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    write(&mut store, &original("a"), &[]).unwrap();
    let restarted = Original {
        name: "renamed".into(),
        cgroup: "/docker/def".into(),
        started_unix_ms: 9_000,
        limits: Limits { cpu_weight: Some(CpuWeight::clamped(25.0)), ..Limits::default() },
        engine: Some(EngineLimits { cpu_shares: 256, ..EngineLimits::default() }),
        ..original("a")
    };
    let holds = write(&mut store, &restarted, &[]).unwrap();
    assert_eq!((holds.limits, holds.engine), (original("a").limits, original("a").engine));
    assert_eq!((holds.name.as_str(), holds.cgroup.as_str(), holds.started_unix_ms), ("renamed", "/docker/def", 9_000));
}

#[test]
fn forgetting_an_original_also_deletes_its_written_settings() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let id = original("a").id;
    write(&mut store, &original("a"), &[Setting::IoWeight(100)]).unwrap();
    store.forget(&id).unwrap();
    assert_eq!(store.original(&id).unwrap(), None);
    assert_eq!(store.written(&id).unwrap(), []);
    store.forget(&id).unwrap();
}

#[test]
fn a_damaged_row_does_not_affect_other_containers() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    write(&mut store, &original("damaged"), &[]).unwrap();
    drop(store);
    sql(dir.path(), "UPDATE original SET runtime = 'spaceship'");
    let mut store = open(dir.path());
    let both = store.journal_changes(&[(original("damaged"), Vec::new()), (original("new"), Vec::new())]).unwrap();
    let damaged = both[0].as_ref().unwrap_err();
    assert!(matches!(damaged, StoreError::DamagedRow { id, .. } if id.as_str() == "damaged"), "{damaged}");
    assert!(damaged.to_string().contains("leaves the container alone") && !damaged.is_damage(), "{damaged}");
    assert_eq!(both[1].as_ref().unwrap(), &original("new"));
}

#[test]
fn an_original_survives_a_kill_right_after_the_call() {
    const STATE: &str = "FLOWCON_TEST_STATE";
    if let Ok(dir) = std::env::var(STATE) {
        let mut store = open(Path::new(&dir));
        write(&mut store, &original("a"), &[]).unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let killed = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::an_original_survives_a_kill_right_after_the_call"])
        .env(STATE, dir.path())
        .output()
        .unwrap();
    assert_eq!(killed.status.signal(), Some(9));
    assert_eq!(open(dir.path()).originals().unwrap().readable, [original("a")]);
}

#[test]
fn two_daemons_cannot_share_a_state_directory() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let error = Store::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())) && error.contains("--state-dir"), "{error}");
    assert!(error.contains(&dir.path().display().to_string()), "{error}");
    drop(first);
    open(dir.path());
}

#[test]
fn a_damaged_database_is_moved_aside_unchanged_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    for n in 1..=2 {
        let garbage = vec![n; 8_192];
        fs::write(dir.path().join("flowcon.db"), &garbage).unwrap();
        let Opened { mut store, set_aside } = opened(dir.path()).unwrap();
        let aside = set_aside.unwrap();
        assert_eq!(aside, fs::canonicalize(dir.path()).unwrap().join(format!("flowcon.db.corrupt-{n}")));
        assert_eq!(fs::read(&aside).unwrap(), garbage);
        write(&mut store, &original("a"), &[]).unwrap();
    }
}

#[test]
fn the_time_of_a_loss_is_known_to_every_later_daemon() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(open(dir.path()).lost_at().unwrap(), None);
    fs::write(dir.path().join("flowcon.db"), vec![1; 8_192]).unwrap();
    let lost_at = opened(dir.path()).unwrap().store.lost_at().unwrap();
    assert!(lost_at.is_some());
    assert_eq!(open(dir.path()).lost_at().unwrap(), lost_at);
}

#[test]
fn a_loss_is_recorded_by_the_next_daemon_if_the_disk_was_full_at_the_time() {
    let mounted = Mounted::tmpfs("size=256k");
    fs::write(mounted.path().join("flowcon.db"), vec![1; 8_192]).unwrap();
    let ballast = fill(mounted.path());
    assert!(opened(mounted.path()).is_err(), "there is no room for another database");
    fs::remove_file(ballast).unwrap();
    let Opened { store, set_aside } = opened(mounted.path()).unwrap();
    assert!(store.lost_at().unwrap().is_some());
    assert!(set_aside.unwrap().ends_with("flowcon.db.corrupt-1"));
    drop(store);
    assert_eq!(opened(mounted.path()).unwrap().set_aside, None, "it is reported once");
}

#[test]
fn a_known_container_belongs_to_the_engine_that_runs_it_now() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    write(&mut store, &original("a"), &[]).unwrap();
    let mark = Some(EngineMark { id: Some("engine-2".into()), socket: "/other.sock".into() });
    let now = write(&mut store, &Original { mark: mark.clone(), ..original("a") }, &[]).unwrap();
    assert_eq!(now, Original { mark: mark.clone(), ..original("a") });
    let unknown = write(&mut store, &Original { mark: None, ..original("a") }, &[]).unwrap();
    assert_eq!(unknown.mark, mark, "a daemon that does not know the engine changes nothing");
}

#[test]
fn a_database_with_a_torn_page_is_moved_aside() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path()));
    let database = dir.path().join("flowcon.db");
    let mut bytes = fs::read(&database).unwrap();
    assert!(bytes.len() > 40_960, "{}", bytes.len());
    bytes[4_096..40_960].fill(0xA5);
    fs::write(&database, &bytes).unwrap();
    let opened = opened(dir.path()).unwrap();
    assert_eq!(fs::read(opened.set_aside.unwrap()).unwrap(), bytes);
    assert_eq!(opened.store.originals().unwrap().readable, []);
}

/// A lost write of an index page: an original is in the table, but not found by its id, and would be recorded once more, with our limits.
#[test]
fn a_database_whose_index_has_lost_an_original_is_moved_aside() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("flowcon.db");
    write(&mut open(dir.path()), &original("a"), &[]).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_original_1'";
    let connection = rusqlite::Connection::open(&database).unwrap();
    let root = connection.query_row(root, [], |row| row.get::<_, u32>(0)).unwrap() as usize;
    drop(connection);
    let page = (root - 1) * 4_096..root * 4_096;
    let stale = fs::read(&database).unwrap()[page.clone()].to_vec();
    write(&mut open(dir.path()), &original("b"), &[]).unwrap();
    let mut bytes = fs::read(&database).unwrap();
    bytes[page].copy_from_slice(&stale);
    fs::write(&database, &bytes).unwrap();
    let opened = opened(dir.path()).unwrap();
    assert_eq!(fs::read(opened.set_aside.expect("it is noticed")).unwrap(), bytes);
    assert!(opened.store.lost_at().unwrap().is_some());
}

#[test]
fn a_database_that_cannot_be_read_once_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    let known = store.originals().unwrap();
    drop(store);
    let mut failed = 0;
    for nth in 1..=20 {
        let inject = format!("inject=pread64:error=EIO:when={nth}");
        let mut strace = Command::new("strace");
        strace.args([
            "--follow-forks",
            "--quiet=all",
            "--output=/dev/null",
            "-e",
            "trace=pread64",
            "-e",
            &inject,
            "-P",
        ]);
        strace.arg(dir.path().join("flowcon.db")).args([env!("CARGO_BIN_EXE_flowcond"), "restore", "--state-dir"]);
        let restored = strace.arg(dir.path()).args(["--set", "engine.address=/nowhere.sock"]).output().unwrap();
        failed += usize::from(String::from_utf8_lossy(&restored.stderr).contains("disk I/O error"));
        let Opened { store, set_aside } = opened(dir.path()).unwrap();
        assert_eq!((set_aside, store.originals().unwrap() == known), (None, true), "read {nth}: {restored:?}");
    }
    assert!(failed > 10, "{failed} of 20");
}

#[test]
fn a_database_of_a_later_version_is_rejected_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    write(&mut open(dir.path()), &original("a"), &[]).unwrap();
    sql(dir.path(), "PRAGMA user_version = 99");
    let error = opened(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error}");
    let later_columns = "ALTER TABLE original DROP COLUMN engine_id; ALTER TABLE original DROP COLUMN engine_socket; \
                         ALTER TABLE position DROP COLUMN started_unix_ms";
    let later_tables =
        "DROP TABLE adopted; DROP TABLE precedent; DROP TABLE freezable; DROP TABLE loss; DROP TABLE used";
    sql(dir.path(), &format!("{later_columns}; {later_tables}; PRAGMA user_version = 1"));
    let unmarked = Original { mark: None, ..original("a") };
    assert_eq!(open(dir.path()).originals().unwrap().readable, [unmarked]);
}

#[test]
fn a_read_only_state_directory_is_a_clear_error() {
    let mounted = Mounted::tmpfs("ro");
    let error = opened(mounted.path()).unwrap_err().to_string();
    assert!(error.contains(&mounted.path().display().to_string()), "{error}");
    assert!(error.contains("ead-only") && error.contains("--state-dir"), "{error}");
}

#[test]
fn a_state_directory_below_a_file_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let error = opened(&dir.path().join("file/state")).unwrap_err();
    assert!(matches!(error, StoreError::Directory { .. }), "{error}");
}

#[test]
fn on_a_full_disk_new_originals_fail_and_old_ones_are_readable() {
    let mounted = Mounted::tmpfs("size=512k");
    let mut store = open(mounted.path());
    write(&mut store, &original("kept"), &[]).unwrap();
    let ballast = fill(mounted.path());
    let failed = (0..1_000).find_map(|n| write(&mut store, &original(&format!("new-{n}")), &[]).err()).unwrap();
    assert!(matches!(failed, StoreError::Full { .. }), "{failed}");
    assert!(failed.to_string().contains("flowcon.db"), "{failed}");
    let committed = store.originals().unwrap();
    drop(store);
    let mut again = open(mounted.path());
    assert_eq!(again.originals().unwrap(), committed);
    assert!(committed.readable.contains(&original("kept")));
    fs::remove_file(ballast).unwrap();
    write(&mut again, &original("new"), &[]).unwrap();
}

/// Replaces the content of `dir` by these files.
fn leave(dir: &Path, files: &[(&str, &[u8])]) {
    let _ = fs::remove_dir_all(dir);
    fs::create_dir(dir).unwrap();
    files.iter().for_each(|(name, bytes)| fs::write(dir.join(name), bytes).unwrap());
}

/// A crash of the machine may leave any prefix of the write-ahead log: it must contain exactly the commits up to that point.
#[test]
fn a_journal_truncated_at_any_byte_contains_every_earlier_commit() {
    let disk = Mounted::tmpfs("size=64m");
    let (live, cut) = (disk.path().join("live"), disk.path().join("cut"));
    let mut store = open(&live);
    let log_length = || fs::metadata(live.join("flowcon.db-wal")).unwrap().len();
    let mut commits = vec![(log_length(), store.originals().unwrap().readable)];
    for id in ["a", "b", "c"] {
        write(&mut store, &original(id), &[Setting::CpuWeight(CpuWeight::DEFAULT)]).unwrap();
        commits.push((log_length(), store.originals().unwrap().readable));
    }
    let (database, log) = (fs::read(live.join("flowcon.db")).unwrap(), fs::read(live.join("flowcon.db-wal")).unwrap());
    let begin = commits[0].0 as usize;
    // Every byte of the last commit, and a sample of the earlier ones.
    let last = commits[2].0 as usize;
    for length in (begin..last).step_by(37).chain(last..=log.len()) {
        leave(&cut, &[("flowcon.db", &database), ("flowcon.db-wal", &log[..length])]);
        let kept = commits.iter().rev().find(|(end, _)| *end as usize <= length).unwrap();
        assert_eq!(open(&cut).originals().unwrap().readable, kept.1, "cut at {length}");
    }
}

/// The database is written only in whole pages that were logged before; other damage must be reported.
#[test]
fn a_truncated_database_is_moved_aside_and_never_read_in_part() {
    let disk = Mounted::tmpfs("size=64m");
    let (live, cut) = (disk.path().join("live"), disk.path().join("cut"));
    let mut store = open(&live);
    for id in ["a", "b", "c"] {
        write(&mut store, &original(id), &[Setting::CpuWeight(CpuWeight::DEFAULT)]).unwrap();
    }
    let committed = store.originals().unwrap().readable;
    drop(store); // moves the log into the database
    let database = fs::read(live.join("flowcon.db")).unwrap();
    for length in (0..database.len()).step_by(61) {
        leave(&cut, &[("flowcon.db", &database[..length])]);
        let Opened { store, set_aside } = opened(&cut).unwrap();
        let found = store.originals().unwrap().readable;
        // An empty file is a new database without commits.
        let is_reported = set_aside.is_some() || length == 0;
        assert!(
            if is_reported { found.is_empty() } else { found == committed },
            "cut at {length}: {set_aside:?} {found:?}"
        );
    }
}

fn fill(dir: &Path) -> PathBuf {
    let ballast = dir.join("ballast");
    let mut file = fs::File::create(&ballast).unwrap();
    while file.write(&[0; 4_096]).is_ok_and(|written| written > 0) {}
    ballast
}

#[test]
fn rows_with_invalid_values_are_reported_as_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    for id in ["good", "weight", "quota", "runtime", "time", "path"] {
        write(&mut store, &original(id), &[]).unwrap();
    }
    write(&mut store, &original("good"), &[Setting::IoWeight(100)]).unwrap();
    drop(store);
    sql(
        dir.path(),
        "UPDATE original SET cpu_weight = 0 WHERE id = 'weight';
         UPDATE original SET cpu_quota = -7 WHERE id = 'quota';
         UPDATE original SET runtime = 'spaceship' WHERE id = 'runtime';
         UPDATE original SET started_unix_ms = -1 WHERE id = 'time';
         UPDATE original SET cgroup = '/docker/../../etc' WHERE id = 'path';
         INSERT INTO written VALUES ('good', 'cpu-weight', 1000000), ('good', 'anything', 1);",
    );
    let store = open(dir.path());
    let found = store.originals().unwrap();
    assert_eq!(found.readable, [original("good")]);
    let damaged: Vec<&str> = found.damaged.iter().map(ContainerId::as_str).collect();
    assert_eq!(damaged, ["path", "quota", "runtime", "time", "weight"]);
    assert!(store.original(&ContainerId::new("weight")).is_err());
    assert_eq!(store.written(&ContainerId::new("good")).unwrap(), [Setting::IoWeight(100)]);
}

#[test]
fn read_positions_are_stored_and_those_of_ended_containers_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let file = ReadPosition {
        place: LogPlace::File { device: 7, inode: u64::MAX >> 1, born_ns: 1 << 60, offset: 1 << 40 },
        checkpoint: Some("{\"a\":1}".into()),
        started_unix_ms: Some(1_795_225_561_965),
    };
    let output = ApiMark { unix_ns: 1_795_225_561_965_789_203, messages: 3 };
    let api = ReadPosition {
        place: LogPlace::Api { output, error: ApiMark::default() },
        checkpoint: None,
        started_unix_ms: None,
    };
    let (a, b) = (ContainerId::new("a"), ContainerId::new("b"));
    let mut store = open(dir.path());
    store.save_positions([(&a, &file), (&b, &api)]).unwrap();
    drop(store);
    let mut store = open(dir.path());
    let positions = store.positions().unwrap();
    assert_eq!((positions.get(&a), positions.get(&b)), (Some(&file), Some(&api)));
    store.drop_positions_except(&[b.as_str()].into()).unwrap();
    assert_eq!(store.positions().unwrap().into_keys().collect::<Vec<_>>(), [b]);
}

#[test]
fn an_invalid_position_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let huge = ReadPosition {
        place: LogPlace::File { device: 1, inode: 2, born_ns: 0, offset: 3 },
        checkpoint: Some("x".repeat(2 << 20)),
        started_unix_ms: None,
    };
    let mut store = open(dir.path());
    store.save_positions([(&ContainerId::new("huge"), &huge)]).unwrap();
    drop(store);
    sql(
        dir.path(),
        "INSERT INTO position VALUES ('negative', 'file', 1, 2, -3, 0, NULL, 1), ('unknown', 'tape', 1, 2, 3, 0, NULL, 1);",
    );
    let positions = open(dir.path()).positions().unwrap();
    let kept = positions.get(&ContainerId::new("huge")).unwrap();
    assert_eq!((kept.place, kept.checkpoint.as_ref(), positions.len()), (huge.place, None, 1));
}

#[test]
fn a_symbolic_link_to_a_database_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("flowcon.db")).unwrap();
    assert!(opened(dir.path()).is_err());
    assert_eq!(fs::metadata(elsewhere.path()).unwrap().len(), 0);
}

fn limits() -> impl Strategy<Value = Limits> {
    let weight = || proptest::option::of((1u32..=10_000).prop_map(|w| CpuWeight::clamped(f64::from(w))));
    let bytes = || 0u64..=(i64::MAX as u64);
    (
        weight(),
        proptest::option::of(proptest::option::of(bytes().prop_map(Quota))),
        proptest::option::of(bytes().prop_map(Bytes)),
        proptest::option::of(proptest::option::of(bytes().prop_map(Bytes))),
        proptest::option::of(1u16..=10_000),
    )
        .prop_map(|(cpu_weight, cpu_quota, memory_low, memory_high, io_weight)| Limits {
            cpu_weight,
            cpu_quota,
            memory_low,
            memory_high,
            io_weight,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_original_is_read_as_it_was_written(limits in limits(), name in ".{0,40}", scope: bool) {
        let dir = tempfile::tempdir().unwrap();
        let runtime = if scope { Runtime::Scope } else { Runtime::Docker };
        let engine = (!scope).then_some(EngineLimits { nano_cpus: 5, ..EngineLimits::default() });
        let original = Original { name, limits, runtime, engine, ..original("a") };
        write(&mut open(dir.path()), &original, &[]).unwrap();
        prop_assert_eq!(open(dir.path()).originals().unwrap().readable, [original]);
    }
}
