//! The governed commands of `flowctl run`, one file each, so that a starting daemon knows commands whose `flowctl` has ended.
//!
//! Guarantees: a record is complete or missing; only the daemon's user can read or write it; records of another boot or another version are
//! ignored.

use model::Parameter;
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
    /// Its id in the daemon, valid as a file name.
    pub id: String,
    /// Its name in the daemon.
    pub name: String,
    /// Its user.
    pub uid: u32,
    /// The account that the user belongs to.
    pub account: u32,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Process id of its first process.
    pub pid: u32,
    /// Start time of that process, in clock ticks since boot.
    pub start_ticks: u64,
    /// The last component of its cgroup path.
    pub cgroup: String,
    /// Its cgroup, one directory per hierarchy.
    pub directories: Vec<PathBuf>,
    /// Id of its training.
    pub training: Option<String>,
    /// The numbers in its command.
    #[serde(default)]
    pub parameters: Vec<Parameter>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    boot_id: Option<String>,
    #[serde(flatten)]
    record: ScopeRecord,
}

/// The directory of the records.
#[derive(Debug)]
pub struct ScopeRecords {
    directory: PathBuf,
    boot_id: Option<String>,
}

impl ScopeRecords {
    /// Returns the records below the state directory; their directory is created with the first record. `boot_id`: id of the current boot.
    pub fn of(state_dir: &Path, boot_id: Option<String>) -> ScopeRecords {
        ScopeRecords { directory: state_dir.join("scopes"), boot_id }
    }

    /// Returns all valid records, and removes the others.
    pub fn all(&self) -> Vec<ScopeRecord> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
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
        let is_valid = version == VERSION && boot_id == self.boot_id && self.path(&record.id) == path && record.pid > 1;
        is_valid.then_some(record)
    }

    /// Saves a record; it is on disk when this returns.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn keep(&self, record: &ScopeRecord) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let path = self.path(&record.id);
        let new = path.with_extension("new");
        let stored = Stored { version: VERSION, boot_id: self.boot_id.clone(), record: record.clone() };
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(&stored)?)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(&self.directory)?.sync_all()
    }

    /// Deletes a record.
    pub fn forget(&self, id: &str) {
        // If this fails, the next daemon deletes it, because its cgroup contains no processes.
        let _ = fs::remove_file(self.path(id));
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{}.json", id.replace(['/', '\0'], "_")))
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
            parameters: Vec::new(),
        }
    }

    #[test]
    fn a_record_is_kept_until_it_is_deleted_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let records = ScopeRecords::of(dir.path(), Some("boot".to_owned()));
        records.keep(&record()).unwrap();
        records.keep(&record()).unwrap();
        assert_eq!(records.all(), [record()]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&records.directory), mode(&records.path(&record().id))), (0o700, 0o600));
        records.forget(&record().id);
        assert_eq!(records.all(), []);
    }

    #[test]
    fn records_of_another_boot_or_version_and_damaged_ones_are_ignored() {
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
        fs::write(now.directory.join("torn.json"), "{\"version\":1,").unwrap();
        fs::write(now.directory.join("scope:x.new"), "").unwrap();
        assert_eq!(now.all(), []);
        assert_eq!(fs::read_dir(&now.directory).unwrap().count(), 0);
    }
}
