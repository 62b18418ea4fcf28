//! Where a container may run: its processors and NUMA nodes, and the parent cgroup within which its weight counts.
//!
//! The kernel keeps the affinity of a task within its effective cpuset, so `sched_getaffinity` of the computing processes covers both. All
//! their threads count: with `OMP_PROC_BIND`, the first thread may run on one processor only, and each other thread on another one. A
//! launcher that may run anywhere but computes nothing does not widen the result.
//!
//! What is the same for many containers, such as the limits of their parent, is read once for all of them ([`Surroundings`]).

use super::controller::Controller;
use super::directory::{Directories, Directory, read_generated};
use super::limits::{cpu_quota, cpu_weight};
use super::process;
use model::{CpuWeight, Numbers, Place, Quota};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of processes inspected per container.
const PROCESSES_AT_MOST: usize = 64;

/// Maximum number of threads inspected per container, divided equally among its computing processes.
pub(super) const THREADS_AT_MOST: usize = 256;

/// A process that has used less than this fraction of the CPU time of the busiest one does not count as computing.
const COMPUTES: f64 = 0.1;

/// What the places of several containers have in common, read when it is first needed. For one look at them: it is not read again.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// The parents of containers, each with its path as text.
    parents: HashMap<PathBuf, (Arc<str>, Above)>,
    online: Option<Option<Numbers>>,
    only_node: Option<Option<Numbers>>,
}

impl Surroundings {
    fn parent(&mut self, path: &Path, unified: bool) -> &(Arc<str>, Above) {
        let read = || (Arc::from(path.to_string_lossy()), above(path, unified));
        self.parents.entry(path.to_owned()).or_insert_with(read)
    }

    /// Returns the processors of the machine that are online.
    fn online(&mut self) -> Option<Numbers> {
        self.online.get_or_insert_with(|| numbers("/sys/devices/system/cpu/online")).clone()
    }

    /// Returns the NUMA node of a machine that can have no other.
    fn only_node(&mut self) -> Option<Numbers> {
        let possible = || numbers("/sys/devices/system/node/possible").filter(|nodes| nodes.count() == 1);
        self.only_node.get_or_insert_with(possible).clone()
    }
}

/// Reads the place. Never fails: a value that cannot be read is `None`.
pub(super) fn read(directories: &Directories, pid: u32, around: &mut Surroundings) -> Place {
    let processes = processes(directories, pid);
    let allowed = allowed(directories, around);
    let cpus = processors(&processes, &allowed).or_else(|| effective(directories));
    let memory_nodes = around.only_node().or_else(|| memory_nodes(*processes.first()?));
    let place = Place { cpus, memory_nodes, ..Place::default() };
    let cpu = directories.of(Controller::Cpu);
    let Some((cpu, parent)) = cpu.and_then(|directory| Some((directory, directory.path().parent()?))) else {
        return place;
    };
    let (parent, above) = around.parent(parent, cpu.is_unified());
    Place {
        parent: Some(Arc::clone(parent)),
        parent_weight: above.weight.map(CpuWeight::number),
        parent_quota: above.quota,
        ..place
    }
}

/// Returns the processes of the cgroup and its descendants; at least `pid`, through which it was located.
pub(super) fn processes(directories: &Directories, pid: u32) -> Vec<u32> {
    let cpu = directories.of(Controller::Cpu);
    let processes: Vec<u32> = cpu.into_iter().flat_map(|directory| directory.processes(PROCESSES_AT_MOST)).collect();
    if processes.is_empty() { vec![pid] } else { processes }
}

/// Returns the processors on which the computing processes may run; `allowed` are those of their cgroup.
fn processors(processes: &[u32], allowed: &Numbers) -> Option<Numbers> {
    let union = |processes: &[u32]| {
        let mut sets: Vec<CpuSet> = processes.iter().filter_map(|pid| affinity(*pid)).collect();
        sets.dedup();
        let set = |cpu: &usize| sets.iter().any(|set| set.is_set(*cpu));
        ((0..CpuSet::MAX_CPU).filter(set).collect::<Numbers>(), sets.len())
    };
    // Usually all may run on the same processors, on all that their cgroup may use: then it does not matter which of them compute.
    let (mut cpus, sets) = union(processes);
    if sets != 1 || !missing(&cpus, allowed).is_empty() {
        let computing = computing(processes);
        (cpus, _) = union(&computing);
        if !cpus.is_empty() {
            add_threads(&mut cpus, &computing, allowed);
        }
    }
    Some(cpus).filter(|cpus| !cpus.is_empty())
}

/// Returns those of `allowed` that are not among `cpus`.
fn missing(cpus: &Numbers, allowed: &Numbers) -> Vec<usize> {
    allowed.iter().filter(|&cpu| cpu < CpuSet::MAX_CPU && !cpus.contains(cpu)).collect()
}

fn computing(processes: &[u32]) -> Vec<u32> {
    let used = |pid: &u32| if processes.len() == 1 { Some(0) } else { process::cpu_ticks(*pid) };
    let used: Vec<(u32, u64)> = processes.iter().filter_map(|pid| Some((*pid, used(pid)?))).collect();
    let busiest = used.iter().map(|(_, ticks)| *ticks).max().unwrap_or(0);
    used.into_iter().filter(|(_, ticks)| *ticks as f64 >= COMPUTES * busiest as f64).map(|(pid, _)| pid).collect()
}

/// Adds the processors of the processes' threads, until none of `allowed` is missing: then no other thread can add one. Usually that is
/// so before the first thread is read.
fn add_threads(cpus: &mut Numbers, processes: &[u32], allowed: &Numbers) {
    let mut missing = missing(cpus, allowed);
    let per_process = (THREADS_AT_MOST / processes.len().max(1)).max(1);
    let mut sets = processes.iter().flat_map(|pid| process::threads(*pid).take(per_process)).filter_map(affinity);
    while !missing.is_empty() {
        let Some(set) = sets.next() else { return };
        cpus.extend(missing.iter().copied().filter(|&cpu| set.is_set(cpu)));
        missing.retain(|&cpu| !cpus.contains(cpu));
    }
}

/// Returns the affinity of a thread, or of the first thread of a process; `None` if it has ended.
fn affinity(pid: u32) -> Option<CpuSet> {
    sched_getaffinity(Some(Pid::from_raw(i32::try_from(pid).ok()?)?)).ok()
}

/// Returns the processors that the cgroup may use, as far as that can be read cheaply: on version 1, those of the machine.
fn allowed(directories: &Directories, around: &mut Surroundings) -> Numbers {
    effective(directories).or_else(|| around.online()).unwrap_or_else(|| (0..CpuSet::MAX_CPU).collect())
}

/// Returns the numbers in a file of the kernel; `None` if there are none.
fn numbers(path: &str) -> Option<Numbers> {
    read_generated(path).ok()?.parse().ok().filter(|numbers: &Numbers| !numbers.is_empty())
}

/// Returns the effective cpuset, for cgroups whose processes cannot be inspected.
fn effective(directories: &Directories) -> Option<Numbers> {
    let text = directories.unified.as_ref()?.read("cpuset.cpus.effective")?;
    text.parse().ok().filter(|cpus: &Numbers| !cpus.is_empty())
}

fn memory_nodes(pid: u32) -> Option<Numbers> {
    let status = read_generated(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"))?.parse().ok()
}

/// Limits of the ancestor cgroups.
#[derive(Debug, Default, PartialEq)]
struct Above {
    weight: Option<CpuWeight>,
    quota: Option<Quota>,
}

/// Reads the limits of `parent` and the cgroups above it; the root of a hierarchy has neither weight nor quota.
fn above(parent: &Path, unified: bool) -> Above {
    let open = |path: &Path| Directory::open(path.to_owned(), unified, false).ok().filter(|d| d.has("cgroup.procs"));
    let is_root = |path: &Path| path.parent().is_none_or(|above| !above.join("cgroup.procs").exists());
    let weight = Some(parent).filter(|path| !is_root(path)).and_then(open).and_then(|directory| cpu_weight(&directory));
    let quota = parent.ancestors().map_while(open).filter_map(|directory| cpu_quota(&directory).flatten()).min();
    Above { weight, quota }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_tightest_quota_of_all_ancestors_and_the_weight_of_the_parent_are_read() {
        let root = tempfile::tempdir().expect("a directory");
        let cgroup = |path: &str, weight: &str, quota: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(&path).expect("a directory");
            for (name, text) in [("cgroup.procs", ""), ("cpu.weight", weight), ("cpu.max", quota)] {
                fs::write(path.join(name), text).expect("a file");
            }
        };
        cgroup("hierarchy/a.slice/b.slice", "300\n", "max 100000\n");
        cgroup("hierarchy/a.slice", "50\n", "150000 100000\n");
        fs::write(root.path().join("hierarchy/cgroup.procs"), "").expect("a file");
        let found = above(&root.path().join("hierarchy/a.slice/b.slice"), true);
        assert_eq!(found, Above { weight: Some(CpuWeight::clamped(300.0)), quota: Some(Quota(1500)) });
        assert_eq!(above(&root.path().join("hierarchy"), true), Above::default());
    }

    #[test]
    fn what_containers_have_in_common_is_read_once_for_one_look_at_all() {
        let root = tempfile::tempdir().expect("a directory");
        let parent = root.path().join("hierarchy/a.slice");
        fs::create_dir_all(&parent).expect("a directory");
        for directory in [&parent, &root.path().join("hierarchy")] {
            fs::write(directory.join("cgroup.procs"), "").expect("a file");
        }
        let weight = |number: &str| fs::write(parent.join("cpu.weight"), number).expect("a file");
        let read = |around: &mut Surroundings| around.parent(&parent, true).1.weight.map(CpuWeight::number);
        weight("300");
        let mut around = Surroundings::default();
        assert_eq!(read(&mut around), Some(300));
        weight("50");
        assert_eq!(read(&mut around), Some(300));
        assert_eq!(read(&mut Surroundings::default()), Some(50));
    }

    #[test]
    fn the_processors_of_this_process_are_its_affinity() {
        let me = std::process::id();
        let everything = allowed(&Directories::default(), &mut Surroundings::default());
        let cpus = processors(&[me], &everything).expect("an affinity");
        let count = sched_getaffinity(None).expect("an affinity").count();
        assert_eq!(cpus.count(), count as usize);
        assert!(memory_nodes(me).is_some());
        assert_eq!(processors(&[u32::MAX], &everything), None);
    }

    #[test]
    fn threads_that_are_bound_to_one_processor_each_use_all_of_them() {
        let set = sched_getaffinity(None).expect("an affinity");
        let all: Numbers = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
        // The kernel accepts the id of any thread for that of its process.
        let first_thread = || {
            let mut one = CpuSet::new();
            one.set(all.iter().next().expect("a processor"));
            rustix::thread::sched_setaffinity(None, &one).expect("a thread may bind itself");
            let me = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            assert_eq!(affinity(me), Some(one));
            processors(&[me], &all)
        };
        let seen = std::thread::scope(|scope| scope.spawn(first_thread).join().expect("no panic"));
        assert_eq!(seen.as_ref(), Some(&all));
    }

    #[test]
    fn threads_add_no_processors_outside_of_what_their_cgroup_may_use() {
        let me = std::process::id();
        let allowed: Numbers = "3000".parse().expect("a list");
        let mut cpus = Numbers::default();
        add_threads(&mut cpus, &[me, u32::MAX], &allowed);
        assert_eq!(cpus, Numbers::default());
        let set = affinity(me).expect("an affinity");
        let first: Numbers = (0..CpuSet::MAX_CPU).find(|&cpu| set.is_set(cpu)).into_iter().collect();
        add_threads(&mut cpus, &[u32::MAX, me], &first);
        assert_eq!(cpus, first);
    }
}
