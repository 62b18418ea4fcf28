//! The cgroups of a process, for finding the container of a process.

use super::hierarchy::{Hierarchies, Membership};
use super::{StartTime, start_time};
use std::path::PathBuf;

/// The cgroups of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessCgroup {
    /// Start time of the process, because its id may be reused.
    pub started: StartTime,
    /// Its directory in each hierarchy.
    pub directories: Vec<PathBuf>,
}

/// Finds the cgroups of processes; the mounted hierarchies are read once.
#[derive(Debug)]
pub struct ProcessCgroups {
    hierarchies: Hierarchies,
}

impl ProcessCgroups {
    /// Reads the mounted hierarchies; `None` if they cannot be read.
    pub fn of_host() -> Option<ProcessCgroups> {
        Some(ProcessCgroups { hierarchies: Hierarchies::of_host().ok()? })
    }

    /// Returns the cgroups of process `pid`; `None` if there is no such process, or if its id was reused during the read.
    pub fn of(&self, pid: u32) -> Option<ProcessCgroup> {
        let started = start_time(pid)?;
        let membership = Membership::of(&pid.to_string()).ok()?;
        let directory = |mount| self.hierarchies.directory_of(&membership, mount);
        let mut directories: Vec<PathBuf> = self.hierarchies.mounts.iter().filter_map(directory).collect();
        directories.sort();
        directories.dedup();
        (start_time(pid)? == started).then_some(ProcessCgroup { started, directories })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_is_found_and_one_that_ended_is_not() {
        let residences = ProcessCgroups::of_host().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = residences.of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        let found = found.unwrap();
        assert_eq!(found.directories, residences.of(std::process::id()).unwrap().directories);
        assert!(found.directories.iter().all(|directory| directory.is_dir()), "{found:?}");
        assert_eq!(residences.of(child.id()), None);
    }
}
