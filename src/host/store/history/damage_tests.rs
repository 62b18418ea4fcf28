//! Damaged histories on a real disk, and histories that are not there yet.

use super::tests::{batch, job, opened, sample};
use super::*;

#[test]
fn a_damaged_history_is_set_aside_and_replaced_by_a_new_one() {
    let directory = tempfile::tempdir().unwrap();
    drop(opened(&directory));
    fs::write(directory.path().join(DATABASE), b"this was no database, or is none any more").unwrap();
    let opened = HistoryStore::open(directory.path()).unwrap();
    let aside = opened.set_aside.expect("a path");
    assert!(fs::read(aside).unwrap().starts_with(b"this was"));
    assert_eq!(opened.store.next_job().unwrap(), 1);
}

/// Overwrites the root page of a table, as a bad disk does.
fn damage(directory: &tempfile::TempDir, table: &str) {
    use std::os::unix::fs::FileExt;
    let path = directory.path().join(DATABASE);
    let connection = rusqlite::Connection::open(&path).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let root: u32 = connection.query_row(root, [table], |row| row.get(0)).unwrap();
    let size: u32 = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    drop(connection);
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .write_at(&[0xA5; 512], u64::from((root - 1) * size))
        .unwrap();
}

#[test]
fn damage_of_a_page_that_nothing_reads_is_found_at_the_next_start() {
    for table in ["moment", "job", "block"] {
        let directory = tempfile::tempdir().unwrap();
        opened(&directory).write(&batch([job(1, "a", 1_000)], vec![sample(1, 1_000, true)])).unwrap();
        damage(&directory, table);
        let opened = HistoryStore::open(directory.path()).unwrap();
        assert!(opened.set_aside.is_some(), "{table}");
        assert_eq!((opened.store.next_job().unwrap(), opened.store.open_jobs().unwrap()), (1, Vec::new()));
    }
}

#[test]
fn a_limited_number_of_damaged_histories_is_kept_each_with_its_own_journal() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for n in 1..=5 {
        fs::write(at(DATABASE), format!("damage {n}")).unwrap();
        if n == 3 {
            fs::write(at("history.db-journal"), "of the third").unwrap();
        }
        HistoryStore::set_aside(directory.path()).unwrap();
        assert_eq!(at("history.db.corrupt-3-journal").exists(), n == 3);
    }
    let kept = [1, 2, 3].map(|n| fs::read_to_string(at(&format!("history.db.corrupt-{n}"))).unwrap());
    assert_eq!(kept, ["damage 1", "damage 2", "damage 5"], "the first ones have the most content");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
}

#[test]
fn a_history_that_is_not_there_yet_is_no_disk_error() {
    let directory = tempfile::tempdir().unwrap();
    let read = || HistoryReader::open(directory.path(), Duration::from_secs(1)).unwrap_err();
    assert!(matches!(read(), StoreError::NotReady { .. }));
    rusqlite::Connection::open(directory.path().join(DATABASE)).unwrap().execute_batch(schema::STEPS[0]).unwrap();
    assert!(matches!(read(), StoreError::NotReady { .. }), "it is being brought up to date");
}
