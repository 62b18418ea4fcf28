//! `scope.json`: what a scope says about itself, versioned and bounded.

use super::ScopeError;
use crate::model::{ContainerId, TrainingId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub(super) const RECORD: &str = "scope.json";
pub(super) const OUTPUT: &str = "output.log";
/// No record is longer.
pub(super) const LONGEST_RECORD: usize = 64 << 10;
const LABEL_BYTES: usize = 32 << 10;
const VERSION: u32 = 1;

/// A scope's name: letters, digits, `.`, `_`, `-`, at most 64, so that it is a file's, a unit's and a cgroup's name as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeName(String);

impl ScopeName {
    /// Takes a name, if it is one.
    ///
    /// # Errors
    /// [`ScopeError::BadName`].
    pub fn new(name: &str) -> Result<ScopeName, ScopeError> {
        let fits = (1..=64).contains(&name.len())
            && name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        if fits { Ok(ScopeName(name.to_owned())) } else { Err(ScopeError::BadName(name.to_owned())) }
    }

    /// A name for a command that got none: its program and a number that no other has.
    pub fn of_command(program: &str, number: u32) -> ScopeName {
        let base = Path::new(program).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let mut name: String = base
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
            .collect();
        name.truncate(48);
        if !name.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            name.insert(0, 'x');
        }
        ScopeName(format!("{name}-{number}"))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The identifier in the daemon's view.
    pub fn id(&self) -> ContainerId {
        ContainerId::new(&format!("scope:{}", self.0))
    }

    /// The last component of the scope's cgroup where this program makes it.
    pub fn cgroup(&self) -> String {
        format!("flowcon-{}", self.0)
    }

    /// The unit, where systemd makes the cgroup.
    pub fn unit(&self) -> String {
        format!("flowcon-{}.scope", self.0)
    }
}

impl fmt::Display for ScopeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who made the scope's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// `flowctl run`, in these directories.
    Cgroupfs(Vec<PathBuf>),
    /// systemd, as this unit.
    Systemd(String),
}

/// One running scope.
#[derive(Clone, Debug, PartialEq)]
pub struct Scope {
    /// Its name, unique on the daemon.
    pub name: ScopeName,
    /// Labels as given: `flowcon.*` and any other.
    pub labels: BTreeMap<String, String>,
    /// Its first process.
    pub pid: u32,
    /// When that process started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Its cgroup.
    pub placement: Placement,
    /// Where its output is.
    pub log: PathBuf,
    /// The user it belongs to.
    pub uid: u32,
    /// What is run in it: its user and command; `None` in a record of an earlier version.
    pub training: Option<TrainingId>,
}

impl Scope {
    /// The last component of its cgroup's path, in each hierarchy where it has one.
    pub fn cgroup_name(&self) -> String {
        match &self.placement {
            Placement::Cgroupfs(_) => self.name.cgroup(),
            Placement::Systemd(unit) => unit.clone(),
        }
    }
}

/// The stored form.
#[derive(Serialize, Deserialize)]
struct Record {
    version: u32,
    name: String,
    labels: BTreeMap<String, String>,
    pid: u32,
    start_ticks: u64,
    boot_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cgroups: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    training: Option<String>,
}

/// Which start of the machine this is: a record of another one stands for nothing.
pub(super) fn this_boot() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

/// Whether labels are few enough to be registered.
pub(super) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), ScopeError> {
    let bytes = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > LABEL_BYTES { Err(ScopeError::TooMuch { bytes, most: LABEL_BYTES }) } else { Ok(()) }
}

pub(super) fn write(scope: &Scope, boot_id: Option<&str>) -> Vec<u8> {
    let (cgroups, unit) = match &scope.placement {
        Placement::Cgroupfs(directories) => (directories.clone(), None),
        Placement::Systemd(unit) => (Vec::new(), Some(unit.clone())),
    };
    let record = Record {
        version: VERSION,
        name: scope.name.as_str().to_owned(),
        labels: scope.labels.clone(),
        pid: scope.pid,
        start_ticks: scope.start_ticks,
        boot_id: boot_id.map(str::to_owned),
        cgroups,
        unit,
        training: scope.training.map(|training| training.to_string()),
    };
    serde_json::to_vec(&record).expect("a record has only strings and numbers")
}

/// Reads a record of the folder `folder`, owned by `uid`. `None` when it is none, of another version, of another start of the
/// machine, or says something that no `flowctl run` would.
pub(super) fn read(text: &[u8], folder: &Path, uid: u32, boot_id: Option<&str>) -> Option<Scope> {
    let record: Record = serde_json::from_slice(text).ok()?;
    let name = ScopeName::new(&record.name).ok()?;
    let belongs = folder.file_name().is_some_and(|file| file == name.as_str());
    if record.version != VERSION || !belongs || record.boot_id.as_deref() != boot_id || record.pid < 2 {
        return None;
    }
    let placement = match record.unit {
        Some(unit) if unit == name.unit() => Placement::Systemd(unit),
        Some(_) => return None,
        None => Placement::Cgroupfs(record.cgroups.into_iter().filter(|path| is_cgroup_of(path, &name)).collect()),
    };
    Some(Scope {
        labels: record.labels,
        pid: record.pid,
        start_ticks: record.start_ticks,
        placement,
        log: folder.join(OUTPUT),
        training: record.training.and_then(|text| text.parse().ok()),
        uid,
        name,
    })
}

/// Only a directory of the scope's own name below the cgroup mounts is ever removed on its word.
fn is_cgroup_of(path: &Path, name: &ScopeName) -> bool {
    let plain = path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
    plain && path.starts_with("/sys/fs/cgroup") && path.file_name().is_some_and(|last| last == name.cgroup().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        let name = ScopeName::new("mnist").unwrap();
        let cgroups = vec![PathBuf::from("/sys/fs/cgroup/cpu/flowcon-mnist")];
        Scope {
            labels: [("flowcon.metric".to_owned(), "loss".to_owned())].into(),
            pid: 42,
            start_ticks: 7,
            placement: Placement::Cgroupfs(cgroups),
            log: "/run/x.scopes/mnist/output.log".into(),
            uid: 0,
            training: Some(TrainingId::of(["python", "train.py"])),
            name,
        }
    }

    fn folder() -> &'static Path {
        Path::new("/run/x.scopes/mnist")
    }

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let stored = write(&scope(), Some("boot"));
        assert_eq!(read(&stored, folder(), 0, Some("boot")), Some(scope()));
    }

    #[test]
    fn a_record_of_another_boot_folder_or_version_is_none() {
        let stored = write(&scope(), Some("boot"));
        assert_eq!(read(&stored, folder(), 0, Some("another")), None);
        assert_eq!(read(&stored, Path::new("/run/x.scopes/other"), 0, Some("boot")), None);
        let newer = String::from_utf8(stored).unwrap().replace("\"version\":1", "\"version\":2");
        assert_eq!(read(newer.as_bytes(), folder(), 0, Some("boot")), None);
        assert_eq!(read(b"\xff{]", folder(), 0, Some("boot")), None);
    }

    #[test]
    fn directories_that_are_not_the_scopes_cgroup_are_not_believed() {
        let hostile =
            ["/etc", "/sys/fs/cgroup/cpu/docker", "/sys/fs/cgroup/../../home/flowcon-mnist", "/tmp/flowcon-mnist"];
        let scope = Scope { placement: Placement::Cgroupfs(hostile.iter().map(PathBuf::from).collect()), ..scope() };
        let read = read(&write(&scope, None), folder(), 0, None).unwrap();
        assert_eq!(read.placement, Placement::Cgroupfs(Vec::new()));
    }

    #[test]
    fn a_name_is_a_file_name_a_unit_name_and_nothing_else() {
        for bad in ["", ".", "..", "a/b", "-x", "a b", "ä", &"x".repeat(65)] {
            assert!(ScopeName::new(bad).is_err(), "{bad}");
        }
        assert!(ScopeName::new("train-2.py_x").is_ok());
        assert_eq!(ScopeName::of_command("/usr/bin/python3", 9).as_str(), "python3-9");
        for program in ["../..", "", "weird name(1)", "日本"] {
            ScopeName::new(ScopeName::of_command(program, 4_000_000).as_str()).unwrap();
        }
    }
}
