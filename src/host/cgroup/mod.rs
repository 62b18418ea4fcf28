//! The cgroups of governed containers: what they use, which limits stand, and writing one limit with read-back.
//!
//! A container's cgroup is found from a process of it (`/proc/PID/cgroup`), never by building its name, and is kept as open
//! directories: each later access goes through those descriptors, so that a path which has meanwhile become another
//! container's is never read or written. Version 1, version 2 and the hybrid of both are read per controller.
//!
//! `cgroups-rs` writes CPU weight, bandwidth and memory protection (through `/proc/self/fd/N`, so the kept directory holds for
//! it too) and says whether the host is unified. Raw files are used where it has nothing or something else: PSI, `cpu.stat`,
//! `io.stat`, `memory.high`, BFQ weights, and each read, because it opens a path per read and this keeps files open. Its
//! `create` is not used: it rewrites `cgroup.subtree_control` from the root.
//!
//! Imports: model only.

mod commands;
mod create;
mod directory;
mod error;
mod hierarchy;
mod limits;
mod network;
mod place;
mod pressure;
mod process;
mod residence;
mod usage;
mod write;

pub use commands::{Members, Started};
pub use create::{Home, is_populated, remove_empty};
pub use error::CgroupError;
pub use hierarchy::{Version, own_quota};
pub use pressure::node_pressure;
pub use process::{StartTime, start_time};
pub use residence::{Residence, Residences};

use crate::model::{Limits, Place, Setting, Usage};
use directory::{Directories, Directory};
use hierarchy::{Controller, Hierarchies};
use network::Network;
use std::path::{Path, PathBuf};
use usage::Meter;

/// One container's cgroup in every hierarchy that matters, kept open.
///
/// Guarantees: never the root cgroup of a hierarchy (what a process shares with the whole machine is not its container's);
/// reads and writes reach the cgroup that was opened, or fail.
#[derive(Debug)]
pub struct Cgroup {
    /// The process by which it was found.
    pid: u32,
    directories: Directories,
    meter: Meter,
    network: Option<Network>,
}

impl Cgroup {
    /// Opens the cgroup of process `pid`.
    ///
    /// `expected` is the start time that the process must have; where it is `None`, the process must at least be the same
    /// one before and after its cgroup was opened.
    ///
    /// # Errors
    /// [`CgroupError::ProcessGone`] when the process ended or its number went to another; [`CgroupError::Root`] when it has no
    /// cgroup of its own; [`CgroupError::NotVisible`] when its cgroup lies outside what this process can see.
    pub fn of_process(pid: u32, expected: Option<StartTime>) -> Result<Cgroup, CgroupError> {
        Cgroup::whose(pid, expected, None)
    }

    /// Opens the cgroup of the container `id` that process `pid` lives in. Inside it may be others, in one of which the process is: crun
    /// makes one, and so does a systemd that is the container's first process.
    ///
    /// # Errors
    /// As [`Cgroup::of_process`].
    pub fn of_container(pid: u32, id: &str) -> Result<Cgroup, CgroupError> {
        Cgroup::whose(pid, None, Some(id))
    }

    fn whose(pid: u32, expected: Option<StartTime>, container: Option<&str>) -> Result<Cgroup, CgroupError> {
        let before = process::living(pid, expected)?;
        let directories = Hierarchies::of_host()?.directories_of(pid, container)?;
        let network = Network::of_process(pid);
        process::living(pid, Some(before))?;
        Ok(Cgroup::new(pid, directories, network))
    }

    /// Opens the cgroup called `name` that process `pid` lives in, as of a scope, and nothing else: in a hierarchy where the
    /// process lives elsewhere, that place belongs to others as well.
    ///
    /// # Errors
    /// As [`Cgroup::of_process`]; [`CgroupError::Root`] when there is no cgroup of that name.
    pub fn of_scope(pid: u32, expected: Option<StartTime>, name: &str) -> Result<Cgroup, CgroupError> {
        let mut cgroup = Cgroup::of_process(pid, expected)?;
        cgroup.directories.keep_named(name);
        if cgroup.directories.all().next().is_none() { Err(CgroupError::Root { pid }) } else { Ok(cgroup) }
    }

    /// The same, found by any process that lives in these directories: the first one of a scope may have ended.
    pub fn of_members(directories: &[PathBuf], name: &str) -> Option<Cgroup> {
        let members = directories.iter().filter_map(|path| std::fs::read_to_string(path.join("cgroup.procs")).ok());
        let pids: Vec<u32> =
            members.flat_map(|text| text.lines().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect();
        let cgroups = pids.into_iter().filter_map(|pid| Cgroup::of_scope(pid, None, name).ok());
        cgroups.into_iter().find(|cgroup| cgroup.directories().iter().all(|found| directories.contains(found)))
    }

    fn new(pid: u32, directories: Directories, network: Option<Network>) -> Cgroup {
        Cgroup { pid, directories, meter: Meter::default(), network }
    }

    /// Version 2 on the files of a folder, for tests.
    #[cfg(test)]
    pub(crate) fn of_folder(path: &Path) -> Cgroup {
        let unified = Some(Directory::open(path.to_owned(), true, false).expect("a folder"));
        Cgroup::new(std::process::id(), Directories { unified, ..Directories::default() }, None)
    }

    /// What the container has used so far and uses now. Never fails: what cannot be read is `None`.
    pub fn usage(&mut self) -> Usage {
        let mut usage = self.meter.read(&self.directories);
        usage.network_io = self.network.as_mut().and_then(Network::bytes);
        usage
    }

    /// Brings the CPU time, the memory and the pressure on it in a reading of before up to date: a third of the cost of a whole one.
    pub fn glance(&mut self, usage: &mut Usage) {
        self.meter.glance(&self.directories, usage);
    }

    /// Where its processes may run, and below which cgroup its weight counts. Never fails: what cannot be read is `None`.
    pub fn place(&self) -> Place {
        place::read(&self.directories, self.pid)
    }

    /// The limits that stand now. Never fails: what cannot be read is `None`.
    pub fn limits(&self) -> Limits {
        limits::read(&self.directories)
    }

    /// Writes one limit and reads it back: the answer is what stands afterwards, which the kernel may have rounded.
    ///
    /// # Errors
    /// [`CgroupError::Own`] when this process itself lives in that cgroup, [`CgroupError::Unsupported`] when this kernel has no
    /// such limit, [`CgroupError::Write`] with the kernel's answer.
    pub fn write(&self, setting: Setting) -> Result<Setting, CgroupError> {
        write::write(&self.directories, setting)
    }

    /// Its directories, one per hierarchy.
    pub fn directories(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.directories.all().map(|directory| directory.path().to_owned()).collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// Whether it is user `uid`'s, and the cgroups that it competes with as well: the user owns it and the one above.
    pub fn belongs_to(&self, uid: u32) -> bool {
        self.directories.all().all(|directory| directory.owners() == Some([uid, uid]))
    }

    /// Whether any process is left in it. A cgroup that is gone is empty.
    pub fn populated(&self) -> bool {
        self.directories.all().any(Directory::populated)
    }

    /// Whether its processes are frozen; `None` where nothing says so.
    pub fn frozen(&self) -> Option<bool> {
        if let Some(state) = self.directories.freezer.as_ref().and_then(|dir| dir.read("freezer.state")) {
            return Some(state.trim() != "THAWED");
        }
        let events = self.directories.unified.as_ref()?.read("cgroup.events")?;
        usage::keyed(&events, "frozen").map(|frozen| frozen == 1)
    }

    /// The directory by which its processes can be frozen; `None` where there is no freezer, and where this process itself would freeze.
    pub fn freezer(&self) -> Option<&Path> {
        self.directories.of(Controller::Freezer).filter(|directory| !directory.is_own()).map(Directory::path)
    }

    /// The directory that holds its CPU limits, for messages.
    pub fn path(&self) -> &Path {
        let main = self.directories.of(Controller::Cpu).or_else(|| self.directories.all().next());
        main.map_or(Path::new("(no cgroup)"), Directory::path)
    }
}

impl Directories {
    fn of(&self, controller: Controller) -> Option<&Directory> {
        let legacy = match controller {
            Controller::Cpu => &self.cpu,
            Controller::Cpuacct => &self.cpuacct,
            Controller::Memory => &self.memory,
            Controller::Blkio => &self.blkio,
            Controller::Freezer => &self.freezer,
        };
        legacy.as_ref().or(self.unified.as_ref())
    }

    fn keep_named(&mut self, name: &str) {
        let Directories { cpu, cpuacct, memory, blkio, freezer, unified } = self;
        for directory in [cpu, cpuacct, memory, blkio, freezer, unified] {
            directory.take_if(|directory| directory.path().file_name().is_none_or(|last| last != name));
        }
    }

    fn any_path(&self) -> std::path::PathBuf {
        self.all().next().map_or_else(Default::default, |directory| directory.path().to_owned())
    }

    fn all(&self) -> impl Iterator<Item = &Directory> {
        [&self.unified, &self.cpu, &self.memory, &self.cpuacct, &self.blkio, &self.freezer].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests;
