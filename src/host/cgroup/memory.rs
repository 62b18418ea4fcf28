//! What a cgroup says about the end of its processes: its memory limit, its peak, and whether the kernel killed any for memory.

use super::controller::Controller;
use super::directory::{Directories, Directory};
use super::usage::{keyed, number};
use model::Bytes;
use std::path::PathBuf;

/// Version 1 reports "no limit" as the largest multiple of a page; no machine has a quarter of it.
const UNLIMITED: u64 = 1 << 61;

/// Memory of one cgroup; `None` = the kernel has no such file, or it could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryRecord {
    /// `memory.max`, or `memory.limit_in_bytes`; also `None` if it is unlimited.
    pub limit: Option<Bytes>,
    /// `memory.peak`, or `memory.max_usage_in_bytes`.
    pub peak: Option<Bytes>,
    /// Processes that the kernel killed for memory: `oom_kill` in `memory.events`, or in `memory.oom_control`.
    pub kills: Option<u64>,
}

impl MemoryRecord {
    pub(super) fn read(directories: &Directories) -> MemoryRecord {
        directories.of(Controller::Memory).map(MemoryRecord::of).unwrap_or_default()
    }

    /// Reads that of the cgroup with these directories, one per hierarchy. It may have no processes any more.
    pub fn of_directories(directories: &[PathBuf]) -> MemoryRecord {
        let opened = directories.iter().filter_map(|path| Directory::open(path.clone(), false, false).ok());
        opened.map(|directory| MemoryRecord::of(&directory)).find(|found| found.kills.is_some()).unwrap_or_default()
    }

    fn of(directory: &Directory) -> MemoryRecord {
        // The names of version 1 exist only there.
        let value = |names: [&str; 2]| names.into_iter().find_map(|name| directory.read(name)).and_then(|t| number(&t));
        let events = ["memory.events", "memory.oom_control"].into_iter().find_map(|name| directory.read(name));
        MemoryRecord {
            limit: value(["memory.max", "memory.limit_in_bytes"]).filter(|limit| *limit < UNLIMITED).map(Bytes),
            peak: value(["memory.peak", "memory.max_usage_in_bytes"]).map(Bytes),
            kills: events.and_then(|text| keyed(&text, "oom_kill")),
        }
    }

    /// Returns this reading with what it lacks from an earlier one.
    pub fn or(self, earlier: MemoryRecord) -> MemoryRecord {
        MemoryRecord {
            limit: self.limit.or(earlier.limit),
            peak: self.peak.or(earlier.peak),
            kills: self.kills.or(earlier.kills),
        }
    }
}

/// Returns `oom_kill` in `memory.events` of the directory above that of the memory controller, which counts what happens below it.
pub(super) fn kills_around(directories: &Directories) -> Option<u64> {
    let above = directories.of(Controller::Memory)?.path().parent()?;
    keyed(&std::fs::read_to_string(above.join("memory.events")).ok()?, "oom_kill")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn of(files: &[(&str, &str)]) -> MemoryRecord {
        let folder = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
        MemoryRecord::of(&Directory::open(folder.path().to_owned(), true, false).unwrap())
    }

    #[test]
    fn both_versions_are_read() {
        let v2 = of(&[
            ("memory.max", "536870912\n"),
            ("memory.peak", "536870000\n"),
            ("memory.events", "low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\noom_group_kill 0\n"),
        ]);
        let expected = MemoryRecord { limit: Some(Bytes(512 << 20)), peak: Some(Bytes(536_870_000)), kills: Some(2) };
        assert_eq!(v2, expected);
        let v1 = of(&[
            ("memory.limit_in_bytes", "536870912\n"),
            ("memory.max_usage_in_bytes", "536870000\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
        ]);
        assert_eq!(v1, expected);
    }

    #[test]
    fn no_limit_is_none_and_a_missing_file_keeps_the_earlier_reading() {
        assert_eq!(of(&[("memory.max", "max\n")]).limit, None);
        assert_eq!(of(&[("memory.limit_in_bytes", "9223372036854771712\n")]).limit, None);
        let earlier = MemoryRecord { limit: Some(Bytes(1)), peak: Some(Bytes(2)), kills: Some(0) };
        assert_eq!(of(&[]).or(earlier), earlier);
    }
}
