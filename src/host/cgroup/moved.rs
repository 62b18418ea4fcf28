//! Whether the process of a container was moved out of its own cgroup, whose limits then apply to nothing.

use super::controller::Controller;
use super::directory::{Directories, Directory};
use super::hierarchy::Membership;
use super::{StartTime, process};

/// The controllers whose limits are governed.
const LIMITS: [Controller; 3] = [Controller::Cpu, Controller::Memory, Controller::Blkio];

/// Returns the cgroup in which process `pid` is instead of the one called `name`, if no other process is left there. While any process is,
/// the limits apply to it. `None` also if the process has ended.
pub(super) fn moved_to(directories: &Directories, name: &str, (pid, started): (u32, StartTime)) -> Option<String> {
    let membership = Membership::of(&pid.to_string()).ok()?;
    let is_empty = |controller| directories.of(controller).is_some_and(|directory: &Directory| !directory.populated());
    let elsewhere = |controller: Controller| {
        let legacy = directories.of(controller).filter(|directory| !directory.is_unified()).map(|_| controller);
        membership.path_of(legacy).filter(|path| !path.contains(name)).filter(|_| is_empty(controller))
    };
    let path = LIMITS.into_iter().find_map(elsewhere)?;
    // One that ends leaves its cgroups just before.
    process::runs(pid, started).then(|| path.to_owned())
}
