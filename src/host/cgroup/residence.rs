//! In which cgroups a process lives, for whoever has a process and wants its container.

use super::hierarchy::{Hierarchies, Membership};
use super::{StartTime, start_time};
use std::path::PathBuf;

/// One process and the cgroups it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residence {
    /// Which process: its number may go to another.
    pub started: StartTime,
    /// Its directory in each hierarchy.
    pub directories: Vec<PathBuf>,
}

/// Finds processes; what is mounted where is read once.
#[derive(Debug)]
pub struct Residences {
    hierarchies: Hierarchies,
}

impl Residences {
    /// Looks at what is mounted; `None` where that cannot be read.
    pub fn of_host() -> Option<Residences> {
        Some(Residences { hierarchies: Hierarchies::of_host().ok()? })
    }

    /// Where process `pid` lives; `None` when there is no such process, or it became another while it was looked at.
    pub fn of(&self, pid: u32) -> Option<Residence> {
        let started = start_time(pid)?;
        let membership = Membership::of(&pid.to_string()).ok()?;
        let directory = |mount| self.hierarchies.directory_of(&membership, mount);
        let mut directories: Vec<PathBuf> = self.hierarchies.mounts.iter().filter_map(directory).collect();
        directories.sort();
        directories.dedup();
        (start_time(pid)? == started).then_some(Residence { started, directories })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_with_its_start_and_one_that_is_gone_is_not() {
        let residences = Residences::of_host().unwrap();
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
