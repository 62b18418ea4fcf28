//! The commands of `flowctl run` that are governed: a file each, so that a daemon that starts knows those whose `flowctl` is gone.
//!
//! Guarantees: a record is whole or not there; only the daemon's user can read or write it; of another start of the machine or of
//! another version it counts for nothing.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;
const LARGEST: u64 = 256 << 10;
const RECORDS_AT_MOST: usize = 8192;

/// One governed command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ScopeRecord {
    /// Its identifier in the daemon's view, fit for a file's name.
    pub id: String,
    /// Its name in the daemon's view.
    pub name: String,
    /// Whose it is,
    pub uid: u32,
    /// and whose account that user is.
    pub account: u32,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its first process,
    pub pid: u32,
    /// which started then, in clock ticks since boot.
    pub start_ticks: u64,
    /// The last component of its cgroup's path.
    pub cgroup: String,
    /// Its cgroup, a directory per hierarchy.
    pub directories: Vec<PathBuf>,
    /// What it is a run of.
    pub training: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    boot_id: Option<String>,
    #[serde(flatten)]
    record: ScopeRecord,
}

/// The folder of the records.
#[derive(Debug)]
pub struct ScopeRecords {
    folder: PathBuf,
    boot_id: Option<String>,
}

impl ScopeRecords {
    /// The folder in the state directory, which is made with the first record. `boot_id`: which start of the machine this is.
    pub fn of(state_dir: &Path, boot_id: Option<String>) -> ScopeRecords {
        ScopeRecords { folder: state_dir.join("scopes"), boot_id }
    }

    /// All that count. What counts for nothing is removed.
    pub fn all(&self) -> Vec<ScopeRecord> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let paths = entries.flatten().map(|entry| entry.path()).take(RECORDS_AT_MOST);
        let read = paths.filter_map(|path| {
            let record = self.read(&path);
            if record.is_none() {
                let _ = fs::remove_file(&path);
            }
            record
        });
        read.collect()
    }

    fn read(&self, path: &Path) -> Option<ScopeRecord> {
        let mut text = Vec::new();
        File::open(path).ok()?.take(LARGEST).read_to_end(&mut text).ok()?;
        let Stored { version, boot_id, record } = serde_json::from_slice(&text).ok()?;
        let counts = version == VERSION && boot_id == self.boot_id && self.path(&record.id) == path && record.pid > 1;
        counts.then_some(record)
    }

    /// Keeps a record, on the disk when this returns.
    ///
    /// # Errors
    /// The system's.
    pub fn keep(&self, record: &ScopeRecord) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let path = self.path(&record.id);
        let new = path.with_extension("new");
        let stored = Stored { version: VERSION, boot_id: self.boot_id.clone(), record: record.clone() };
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(&stored)?)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(&self.folder)?.sync_all()
    }

    /// Forgets a record.
    pub fn forget(&self, id: &str) {
        // One that stays is of a cgroup without processes, and removed by the next daemon.
        let _ = fs::remove_file(self.path(id));
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{}.json", id.replace(['/', '\0'], "_")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn record() -> ScopeRecord {
        ScopeRecord {
            id: "scope:mnist@1000".to_owned(),
            name: "mnist@alice".to_owned(),
            uid: 1000,
            account: 1000,
            labels: [("flowcon.metric".to_owned(), "loss".to_owned())].into(),
            pid: 42,
            start_ticks: 7,
            cgroup: "flowcon-mnist".to_owned(),
            directories: vec!["/sys/fs/cgroup/cpu/flowcon-mnist".into()],
            training: None,
        }
    }

    #[test]
    fn a_record_comes_back_until_it_is_forgotten_and_nobody_else_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let records = ScopeRecords::of(dir.path(), Some("boot".to_owned()));
        records.keep(&record()).unwrap();
        records.keep(&record()).unwrap();
        assert_eq!(records.all(), [record()]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&records.folder), mode(&records.path(&record().id))), (0o700, 0o600));
        records.forget(&record().id);
        assert_eq!(records.all(), []);
    }

    #[test]
    fn what_is_of_another_boot_or_version_or_damaged_counts_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let before = ScopeRecords::of(dir.path(), Some("before".to_owned()));
        before.keep(&record()).unwrap();
        let now = ScopeRecords::of(dir.path(), Some("now".to_owned()));
        assert_eq!(now.all(), []);
        assert_eq!(before.all(), [], "it was removed");
        now.keep(&record()).unwrap();
        let path = now.path(&record().id);
        let newer = fs::read_to_string(&path).unwrap().replace("\"version\":1", "\"version\":2");
        fs::write(&path, newer).unwrap();
        fs::write(now.folder.join("torn.json"), "{\"version\":1,").unwrap();
        fs::write(now.folder.join("scope:x.new"), "").unwrap();
        assert_eq!(now.all(), []);
        assert_eq!(fs::read_dir(&now.folder).unwrap().count(), 0);
    }
}
