//! The cgroups of governed containers: their usage, their current limits, and writing a limit with read-back.
//!
//! The cgroup of a container is located through one of its processes (`/proc/PID/cgroup`), never by constructing its name, and is kept as
//! open directories. It is the one named after the container: if its processes were moved to another one, in some or all hierarchies, its
//! limits are still in its own, which has the same path in each hierarchy, or is known from before. All later accesses use those
//! descriptors, so that a path that has since been reused by another container is never read or written. Version 1, version 2 and the
//! hybrid of both are handled per controller.
//!
//! `cgroups-rs` writes CPU weight, bandwidth and memory protection (through `/proc/self/fd/N`, so that it also uses the open directory) and
//! detects a unified host. Raw files are used where it has no support or different behaviour: PSI, `cpu.stat`, `io.stat`, `memory.high`,
//! BFQ weights, and all reads, because it opens a path for each read and this module keeps files open. Its `create` is not used: it
//! rewrites `cgroup.subtree_control` from the root.

mod command_lines;
mod controller;
mod create;
mod directory;
mod error;
mod for_user;
mod hierarchy;
mod limits;
mod memory;
mod moved;
mod network;
mod place;
mod pressure;
mod process;
mod residence;
mod threads;
mod usage;
mod write;

pub use command_lines::{Members, Started};
pub use create::{Home, is_populated, remove_empty};
pub use error::CgroupError;
pub use hierarchy::{Version, own_quota};
pub use memory::MemoryRecord;
pub use place::Surroundings;
pub use pressure::node_pressure;
pub use process::{StartTime, Workers, start_time};
pub use residence::{ProcessCgroup, ProcessCgroups};
pub use threads::ThreadReading;
pub use usage::cpu_used;

use controller::Controller;
use directory::{Directories, Directory};
use hierarchy::{Elsewhere, Hierarchies};
use model::{Activity, CpuTime, Limits, Place, Setting, Usage};
use network::Network;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use usage::Meter;

/// Processes of a scope that are tried at most, to find its cgroup.
const MEMBERS_TRIED: usize = 64;

/// The cgroup of one container in every relevant hierarchy, kept open.
///
/// Guarantees: it is never the root cgroup of a hierarchy, which a container shares with the whole machine; reads and writes either reach
/// the cgroup that was opened, or fail.
#[derive(Debug)]
pub struct Cgroup {
    /// The process through which it was located.
    pid: u32,
    started: StartTime,
    /// The id of its container, or its own name.
    name: Option<String>,
    directories: Arc<Directories>,
    meter: Meter,
    network: Option<Network>,
}

/// Writes limits of a cgroup, independently of the [`Cgroup`] that it was taken from. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LimitWriter {
    directories: Arc<Directories>,
}

impl LimitWriter {
    /// Writes one limit, reads it back and returns the new value, which the kernel may have rounded. The kernel may reclaim memory first,
    /// which can take seconds.
    ///
    /// # Errors
    /// [`CgroupError::Own`] if this process is in that cgroup, [`CgroupError::Unsupported`] if the kernel does not support the limit,
    /// [`CgroupError::Write`] with the error of the kernel.
    pub fn write(&self, setting: Setting) -> Result<Setting, CgroupError> {
        self.write_exact(setting, 0)
    }

    /// Like [`LimitWriter::write`]; on version 1 a weight is written as these shares if they are that weight, or as those in force.
    ///
    /// # Errors
    /// As [`LimitWriter::write`].
    pub fn write_exact(&self, setting: Setting, shares: i64) -> Result<Setting, CgroupError> {
        write::write(&self.directories, setting, shares)
    }
}

impl Cgroup {
    /// Opens the cgroup of process `pid`.
    ///
    /// `expected` is the required start time of the process; with `None`, the process must be the same before and after its cgroup is
    /// opened.
    ///
    /// # Errors
    /// [`CgroupError::ProcessGone`] if the process ended or its id was reused; [`CgroupError::Root`] if it is in the root cgroup;
    /// [`CgroupError::NotVisible`] if its cgroup is not visible to this process.
    pub fn of_process(pid: u32, expected: Option<StartTime>) -> Result<Cgroup, CgroupError> {
        locate(pid, expected, None, Elsewhere::Unknown)
    }

    /// Opens the cgroup of container `id`, to which process `pid` belongs. The process may be in a cgroup below it, as created by crun or
    /// by a systemd that runs as the first process of the container, or may have been moved out of it in some hierarchies.
    ///
    /// # Errors
    /// As [`Cgroup::of_process`]; [`CgroupError::Shared`] if no cgroup of the process is named after the container.
    pub fn of_container(pid: u32, id: &str) -> Result<Cgroup, CgroupError> {
        locate(pid, None, Some(id), Elsewhere::Beside(None))
    }

    /// Like [`Cgroup::of_container`], for a container whose cgroup had this directory: its process may have left all of its cgroups.
    ///
    /// # Errors
    /// As [`Cgroup::of_process`]; [`CgroupError::Left`] if its process has left its cgroup, which is gone.
    pub fn of_known_container(pid: u32, id: &str, directory: &Path) -> Result<Cgroup, CgroupError> {
        locate(pid, None, Some(id), Elsewhere::Beside(Some(directory)))
    }

    /// Opens the cgroup `name` of process `pid`, as for a scope. The process may be in a cgroup below it: a command may run a container
    /// engine, or another program that moves its processes into cgroups of their own. Hierarchies in which the process is elsewhere are
    /// left out, because that cgroup is shared with other processes.
    ///
    /// # Errors
    /// As [`Cgroup::of_container`].
    pub fn of_scope(pid: u32, expected: Option<StartTime>, name: &str) -> Result<Cgroup, CgroupError> {
        named(locate(pid, expected, Some(name), Elsewhere::Unknown)?, name)
    }

    /// Like [`Cgroup::of_scope`], for a scope whose cgroup had these directories: its process may have left some of them.
    ///
    /// # Errors
    /// As [`Cgroup::of_container`].
    pub fn of_known_scope(
        pid: u32,
        expected: Option<StartTime>,
        name: &str,
        directories: &[PathBuf],
    ) -> Result<Cgroup, CgroupError> {
        named(locate(pid, expected, Some(name), Elsewhere::In(directories))?, name)
    }

    /// Opens the cgroup that has this directory in one of the hierarchies, to which process `pid` belongs.
    ///
    /// # Errors
    /// As [`Cgroup::of_container`].
    pub fn in_directory(pid: u32, directory: &Path) -> Result<Cgroup, CgroupError> {
        let path = Hierarchies::of_host()?.path_of(directory).unwrap_or_default();
        Cgroup::of_known_scope(pid, None, path.trim_start_matches('/'), &[directory.to_owned()])
    }

    /// Like [`Cgroup::of_scope`], but tries processes in and below these directories: the first process of a scope may have ended.
    pub fn of_members(directories: &[PathBuf], name: &str) -> Option<Cgroup> {
        let open = |path: &PathBuf| Directory::open(path.clone(), false, false).ok();
        let pids = directories.iter().filter_map(open).flat_map(|directory| directory.processes(MEMBERS_TRIED));
        let mut cgroups = pids.filter_map(|pid| Cgroup::of_known_scope(pid, None, name, directories).ok());
        cgroups.find(|cgroup| cgroup.directories().iter().all(|found| directories.contains(found)))
    }

    /// Opens a directory with files of version 2 that is not a cgroup, for tests.
    ///
    /// # Panics
    /// If it cannot be opened.
    #[doc(hidden)]
    pub fn of_folder(path: &Path) -> Cgroup {
        let unified = Some(Directory::open(path.to_owned(), true, false).expect("a directory"));
        Cgroup::of_directories(Directories { unified, ..Directories::default() })
    }

    fn of_directories(directories: Directories) -> Cgroup {
        let (pid, started) = (std::process::id(), StartTime(0)); // not in the cgroup
        let directories = Arc::new(directories);
        Cgroup { pid, started, name: None, directories, meter: Meter::default(), network: None }
    }

    /// Whether engines write an I/O weight to BFQ's file of version 2, unconverted, instead of `io.weight`.
    pub fn has_bfq_weight(&self) -> bool {
        self.directories.of(Controller::Blkio).is_some_and(limits::has_bfq_weight)
    }

    /// Returns the resources used so far and currently. Never fails: a value that cannot be read is `None`.
    pub fn usage(&mut self) -> Usage {
        let mut usage = self.meter.read(&self.directories);
        usage.network_io = self.network.as_mut().and_then(Network::bytes);
        usage
    }

    /// Updates only CPU time, memory and memory pressure of an earlier reading, at a third of the cost of a full reading.
    pub fn glance(&mut self, usage: &mut Usage) {
        self.meter.glance(&self.directories, usage);
    }

    /// Returns its memory limit, its peak, and the processes that were killed for memory.
    pub fn memory_record(&self) -> MemoryRecord {
        MemoryRecord::read(&self.directories)
    }

    /// Returns the number of processes that were killed for memory in and below the cgroup around this one, also after this one is gone;
    /// `None` with version 1, which counts them by cgroup only.
    pub fn kills_around(&self) -> Option<u64> {
        memory::kills_around(&self.directories)
    }

    /// Returns where its processes may run, and the parent within which its weight counts. Never fails: a value that cannot be read is
    /// `None`. `around` is kept while the places of several containers are read.
    pub fn place(&self, around: &mut Surroundings) -> Place {
        place::read(&self.directories, self.pid, around)
    }

    /// Returns the current limits. Never fails: a value that cannot be read is `None`.
    pub fn limits(&self) -> Limits {
        limits::read(&self.directories)
    }

    /// Returns what keeps its processes from running: stopped, or waiting for a disk; `None` if neither.
    pub fn hindrance(&self) -> Option<Activity> {
        process::hindrance(&place::processes(&self.directories, self.pid))
    }

    /// Returns the CPU time of its processes or threads beside the main ones.
    pub fn workers(&self) -> Workers {
        Workers::read(&place::processes(&self.directories, self.pid), place::THREADS_AT_MOST)
    }

    /// Returns the time for which its threads waited for CPU so far; `None` if the kernel does not count it. Reads a file for each thread.
    pub fn waited(&self) -> Option<CpuTime> {
        process::waited(&place::processes(&self.directories, self.pid), place::THREADS_AT_MOST)
    }

    /// Whether one of its processes has real-time priority: it takes no part in the division by weight.
    pub fn is_real_time(&self) -> bool {
        process::is_real_time(&place::processes(&self.directories, self.pid))
    }

    /// Returns the exact CPU weight of version 1, of which [`Cgroup::limits`] has the rounded one.
    pub fn cpu_shares(&self) -> Option<u64> {
        self.directories.cpu.as_ref().and_then(limits::cpu_shares)
    }

    /// Writes one limit; see [`LimitWriter::write`].
    ///
    /// # Errors
    /// As [`LimitWriter::write`].
    pub fn write(&self, setting: Setting) -> Result<Setting, CgroupError> {
        self.writer().write(setting)
    }

    /// Returns a writer of its limits, for a caller that must not keep this cgroup locked while it writes.
    pub fn writer(&self) -> LimitWriter {
        LimitWriter { directories: Arc::clone(&self.directories) }
    }

    /// Returns its directories, one per hierarchy.
    pub fn directories(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.directories.all().map(|directory| directory.path().to_owned()).collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// Whether user `uid` owns the cgroup and its parent, so that the cgroups it competes with belong to the user as well.
    pub fn belongs_to(&self, uid: u32) -> bool {
        self.directories.all().all(|directory| directory.owners() == Some([uid, uid]))
    }

    /// Whether it contains a process. A removed cgroup is empty.
    pub fn populated(&self) -> bool {
        self.directories.all().any(Directory::populated)
    }

    /// Whether its container runs. Its process may have been moved to another cgroup.
    pub fn runs(&self) -> bool {
        self.populated() || process::runs(self.pid, self.started)
    }

    /// Returns the cgroup in which its processes are, as in `/proc/PID/cgroup`, if they were moved out of this one in a hierarchy that has
    /// limits: those apply to none of them.
    pub fn moved_to(&self) -> Option<String> {
        moved::moved_to(&self.directories, self.name.as_deref()?, (self.pid, self.started))
    }

    /// Whether its processes are frozen; `None` if unknown.
    pub fn frozen(&self) -> Option<bool> {
        if let Some(state) = self.directories.freezer.as_ref().and_then(|dir| dir.read("freezer.state")) {
            return Some(state.trim() != "THAWED");
        }
        let events = self.directories.unified.as_ref()?.read("cgroup.events")?;
        usage::keyed(&events, "frozen").map(|frozen| frozen == 1)
    }

    /// Returns the directory for freezing its processes; `None` if there is no freezer, or if this process would be frozen too.
    pub fn freezer(&self) -> Option<&Path> {
        self.directories.of(Controller::Freezer).filter(|directory| !directory.is_own()).map(Directory::path)
    }

    /// Returns the directory with its CPU limits, for messages.
    pub fn path(&self) -> &Path {
        let main = self.directories.of(Controller::Cpu).or_else(|| self.directories.all().next());
        main.map_or(Path::new("(no cgroup)"), Directory::path)
    }
}

/// Opens the cgroup of a process, which must be the same before and after, and its network counters.
fn locate(
    pid: u32,
    expected: Option<StartTime>,
    container: Option<&str>,
    elsewhere: Elsewhere<'_>,
) -> Result<Cgroup, CgroupError> {
    let started = process::living(pid, expected)?;
    let directories = Arc::new(Hierarchies::of_host()?.directories_of(pid, container, elsewhere)?);
    let network = Network::of_process(pid);
    process::living(pid, Some(started))?;
    Ok(Cgroup { pid, started, name: container.map(str::to_owned), directories, meter: Meter::default(), network })
}

/// Leaves out directories with other names than the scope's, which may be the last components of a path.
fn named(mut found: Cgroup, name: &str) -> Result<Cgroup, CgroupError> {
    let has_any = Arc::get_mut(&mut found.directories).is_some_and(|directories| directories.keep_named(name));
    if has_any { Ok(found) } else { Err(CgroupError::Shared { container: name.to_owned() }) }
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

    /// Keeps only the directories whose paths end with this name, none if it is empty. Returns whether there are any.
    fn keep_named(&mut self, name: &str) -> bool {
        let Directories { cpu, cpuacct, memory, blkio, freezer, unified } = self;
        for directory in [cpu, cpuacct, memory, blkio, freezer, unified] {
            directory.take_if(|directory| name.is_empty() || !directory.path().ends_with(name));
        }
        self.all().next().is_some()
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
