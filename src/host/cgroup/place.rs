//! Where a container may run: its processors and NUMA nodes, and the parent cgroup within which its weight counts.
//!
//! The kernel keeps the affinity of a task within its effective cpuset, so `sched_getaffinity` of the computing processes covers both. A
//! launcher that may run anywhere but computes nothing does not widen the result.

use super::directory::Directories;
use super::directory::Directory;
use super::hierarchy::Controller;
use super::limits::{cpu_quota, cpu_weight};
use super::process;
use crate::model::{CpuWeight, Numbers, Place, Quota};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of processes inspected per container.
const PROCESSES_AT_MOST: usize = 64;

/// A process that has used less than this fraction of the CPU time of the busiest one does not count as computing.
const COMPUTES: f64 = 0.1;

/// Reads the place. Never fails: a value that cannot be read is `None`.
pub(super) fn read(directories: &Directories, pid: u32) -> Place {
    let processes = processes(directories, pid);
    let cpu = directories.of(Controller::Cpu);
    let parent = cpu.and_then(|directory| Some((directory, directory.path().parent()?)));
    let (parent, above) = match parent {
        Some((directory, path)) => (Some(Arc::from(path.to_string_lossy())), above(path, directory.is_unified())),
        None => (None, Above::default()),
    };
    Place {
        cpus: processors(&processes).or_else(|| effective(directories)),
        memory_nodes: processes.first().and_then(|pid| memory_nodes(*pid)),
        parent,
        parent_weight: above.weight.map(CpuWeight::number),
        parent_quota: above.quota,
    }
}

/// Returns the processes of the cgroup and its descendants; at least `pid`, through which it was located.
fn processes(directories: &Directories, pid: u32) -> Vec<u32> {
    let cpu = directories.of(Controller::Cpu);
    let processes: Vec<u32> = cpu.into_iter().flat_map(|directory| directory.processes(PROCESSES_AT_MOST)).collect();
    if processes.is_empty() { vec![pid] } else { processes }
}

fn processors(processes: &[u32]) -> Option<Numbers> {
    let used = |pid: &u32| if processes.len() == 1 { Some(0) } else { process::cpu_ticks(*pid) };
    let used: Vec<(u32, u64)> = processes.iter().filter_map(|pid| Some((*pid, used(pid)?))).collect();
    let busiest = used.iter().map(|(_, ticks)| *ticks).max()?;
    let mut cpus = Numbers::default();
    for (pid, _) in used.iter().filter(|(_, ticks)| *ticks as f64 >= COMPUTES * busiest as f64) {
        let Some(set) = affinity(*pid) else { continue };
        cpus.extend((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)));
    }
    (!cpus.is_empty()).then_some(cpus)
}

fn affinity(pid: u32) -> Option<CpuSet> {
    sched_getaffinity(Some(Pid::from_raw(i32::try_from(pid).ok()?)?)).ok()
}

/// Returns the effective cpuset, for cgroups whose processes cannot be inspected.
fn effective(directories: &Directories) -> Option<Numbers> {
    let text = directories.unified.as_ref()?.read("cpuset.cpus.effective")?;
    text.parse().ok().filter(|cpus: &Numbers| !cpus.is_empty())
}

fn memory_nodes(pid: u32) -> Option<Numbers> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
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
    fn the_processors_of_this_process_are_its_affinity() {
        let me = std::process::id();
        let cpus = processors(&[me]).expect("an affinity");
        let allowed = sched_getaffinity(None).expect("an affinity").count();
        assert_eq!(cpus.count(), allowed as usize);
        assert!(memory_nodes(me).is_some());
        assert_eq!(processors(&[u32::MAX]), None);
    }
}
