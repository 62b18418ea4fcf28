//! A new cgroup for a command: created below the cgroup of the caller, entered by the command, removed when it is empty.
//!
//! On version 1 it is a child of the caller's cgroup in each hierarchy, so that the caller's limits apply to it. On version 2 a cgroup with
//! processes cannot have governed children; there it is a child of the nearest ancestor that can have some. Where systemd is init, a scope
//! is requested over D-Bus instead, because the cgroup tree belongs to systemd.

use super::CgroupError;
use super::controller::Controller;
use super::hierarchy::{Hierarchies, Membership, Mount};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Name of the parent of a user's commands, before the number of the user, if the daemon makes their cgroups. It contains no `flowcon-`: a
/// command's cgroup is found in a path by that.
pub(super) const OF_A_USER: &str = "flowcon.user-";

/// A cgroup for a command, with one directory per hierarchy.
#[derive(Debug)]
pub struct Home {
    directories: Vec<PathBuf>,
}

impl Home {
    /// Creates the cgroup `name` (a single path component) in each governed hierarchy.
    ///
    /// An empty cgroup of that name, left over from a crash, is replaced, so that no old limit applies.
    ///
    /// # Errors
    /// [`CgroupError::Exists`], [`CgroupError::Denied`], [`CgroupError::NoPlace`] or [`CgroupError::Create`]; nothing is left behind then.
    pub fn create(name: &str) -> Result<Home, CgroupError> {
        let hierarchies = Hierarchies::of_host()?;
        Home::below(parents(&hierarchies, &hierarchies.own)?.of_children, name)
    }

    /// Creates the cgroup `name` in each of these directories.
    pub(super) fn below(parents: Vec<PathBuf>, name: &str) -> Result<Home, CgroupError> {
        let mut home = Home { directories: Vec::new() };
        for parent in parents {
            let directory = parent.join(name);
            if let Err(error) = make(&directory) {
                home.remove();
                return Err(error);
            }
            home.directories.push(directory);
        }
        if home.directories.is_empty() {
            return Err(CgroupError::NoPlace { path: "/sys/fs/cgroup".into() });
        }
        Ok(home)
    }

    /// Returns its directories, one per hierarchy.
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Returns the files to which a process writes `0` to enter the cgroup.
    pub fn entrances(&self) -> Vec<PathBuf> {
        self.directories.iter().map(|directory| directory.join("cgroup.procs")).collect()
    }

    /// Whether it contains no process.
    pub fn is_empty(&self) -> bool {
        !self.directories.iter().any(|directory| holds_processes(directory))
    }

    /// Removes the directories without processes; returns whether all directories are gone.
    pub fn remove(&self) -> bool {
        remove_empty(&self.directories)
    }
}

/// Whether one of these cgroup directories, or a descendant, contains a process. A missing directory is empty.
pub fn is_populated(directories: &[PathBuf]) -> bool {
    directories.iter().any(|directory| match fs::read_to_string(directory.join("cgroup.events")) {
        Ok(events) => events.lines().any(|line| line == "populated 1"),
        Err(_) => holds_processes_below(directory),
    })
}

/// Version 1 does not report processes of descendants. The owner of a cgroup can create any number of children, so only some are checked.
fn holds_processes_below(directory: &Path) -> bool {
    const CHECKED_AT_MOST: usize = 64;
    let mut below = vec![directory.to_owned()];
    for _ in 0..CHECKED_AT_MOST {
        let Some(next) = below.pop() else { return false };
        if holds_processes(&next) {
            return true;
        }
        let children = fs::read_dir(&next).into_iter().flatten().take(CHECKED_AT_MOST * 4).flatten();
        let children = children.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        below.extend(children.take(CHECKED_AT_MOST).map(|entry| entry.path()));
    }
    false
}

/// Removes cgroup directories without processes; returns whether all of them are gone. The kernel refuses to remove a cgroup in use.
pub fn remove_empty(directories: &[PathBuf]) -> bool {
    let left = directories.iter().filter(|directory| !remove_one(directory)).count();
    left == 0
}

/// The last process may need a moment to leave after it has been waited for.
fn remove_one(directory: &Path) -> bool {
    const TRIES: u32 = 6;
    for attempt in 0..TRIES {
        match fs::remove_dir(directory) {
            Ok(()) => {
                remove_parent(directory);
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(error) if error.raw_os_error() != Some(rustix::io::Errno::BUSY.raw_os_error()) => return false,
            Err(_) if holds_processes(directory) => return false,
            Err(_) => thread::sleep(Duration::from_millis(1 << attempt)),
        }
    }
    false
}

/// Removes the parent of a user's removed cgroup once it has no other child: until then, the kernel refuses.
fn remove_parent(of: &Path) {
    let is_of_a_user =
        |parent: &&Path| parent.file_name().is_some_and(|name| name.to_string_lossy().starts_with(OF_A_USER));
    let _ = of.parent().filter(is_of_a_user).map(fs::remove_dir);
}

fn make(directory: &Path) -> Result<(), CgroupError> {
    let path = || directory.to_owned();
    match fs::create_dir(directory) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if holds_processes(directory) || !remove_one(directory) {
                return Err(CgroupError::Exists { path: path() });
            }
            fs::create_dir(directory).map_err(|source| CgroupError::Create { path: path(), source })
        }
        Err(source) => match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Err(CgroupError::Denied { path: path(), reason: source })
            }
            _ => Err(CgroupError::Create { path: path(), source }),
        },
    }
}

fn holds_processes(directory: &Path) -> bool {
    fs::read_to_string(directory.join("cgroup.procs")).is_ok_and(|procs| !procs.is_empty())
}

/// The directories of a process and, in the same order, those of the parents of a new cgroup for it: one per hierarchy.
pub(super) struct Parents {
    pub(super) own: Vec<PathBuf>,
    pub(super) of_children: Vec<PathBuf>,
}

/// Returns the parent directories of a new cgroup for the process with this membership.
pub(super) fn parents(hierarchies: &Hierarchies, membership: &Membership) -> Result<Parents, CgroupError> {
    let directory = |mount: &Mount| {
        let path = membership.path_in(mount).unwrap_or("/");
        mount.directory_of(path).ok_or_else(|| CgroupError::NoPlace { path: path.into() })
    };
    let mut own = Vec::new();
    for mount in Controller::ALL.iter().filter_map(|controller| hierarchies.legacy(*controller)) {
        let directory = directory(mount)?;
        if !own.contains(&directory) {
            own.push(directory);
        }
    }
    let Some(unified) = hierarchies.unified() else { return Ok(Parents { of_children: own.clone(), own }) };
    // On a hybrid host the unified hierarchy has no limits, but it has the pressure files.
    let is_hybrid = !own.is_empty();
    own.push(directory(unified)?);
    let of_children = if is_hybrid { own.clone() } else { vec![governing_parent(&own[0], &unified.point)?] };
    Ok(Parents { own, of_children })
}

/// Returns the nearest cgroup, from `own` upwards, whose children can have CPU weights, and enables its controllers for them.
fn governing_parent(own: &Path, mount: &Path) -> Result<PathBuf, CgroupError> {
    let suitable = |directory: &&Path| {
        let listed = |name: &str| fs::read_to_string(directory.join(name)).unwrap_or_default();
        // Only the real root has no type; only it may have both processes and governed children.
        let may_have_children = !directory.join("cgroup.type").exists() || !holds_processes(directory);
        may_have_children && listed("cgroup.controllers").split_ascii_whitespace().any(|name| name == "cpu")
    };
    let no_place = || CgroupError::NoPlace { path: own.to_owned() };
    let parent = own.ancestors().take_while(|path| path.starts_with(mount)).find(suitable).ok_or_else(no_place)?;
    enable_controllers(parent)?;
    Ok(parent.to_owned())
}

/// Enables the controllers of a cgroup of version 2 for its children.
pub(super) fn enable_controllers(parent: &Path) -> Result<(), CgroupError> {
    let control = parent.join("cgroup.subtree_control");
    let enabled = |name: &str| {
        fs::read_to_string(&control).unwrap_or_default().split_ascii_whitespace().any(|enabled| enabled == name)
    };
    for controller in ["cpu", "memory", "io"] {
        if enabled(controller) {
            continue;
        }
        match fs::write(&control, format!("+{controller}")) {
            Err(source) if controller == "cpu" => return Err(CgroupError::Denied { path: control, reason: source }),
            _ => {} // memory and io are optional
        }
    }
    Ok(())
}
