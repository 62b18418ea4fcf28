//! A cgroup that the daemon makes for the process of a user who may not make one.
//!
//! Guarantees: the process stays within the limits that it had. On version 1 the new cgroup is below its own; on version 2 it is below the
//! nearest ancestor that can have governed children, if no cgroup on the way there limits anything. All commands of a user have one parent
//! with the default weight, so that they compete only with each other, as in a user's slice. All of it belongs to the user of this process.

use super::create::{self, Home, OF_A_USER, Parents};
use super::hierarchy::{Hierarchies, Membership};
use super::{Cgroup, CgroupError};
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

impl Home {
    /// Creates the cgroup `name` for process `pid` of user `uid` and moves the process there. `is_alive`: whether that process still
    /// exists, so that its id cannot have passed to another.
    ///
    /// # Errors
    /// As [`Home::create`], and [`CgroupError::ProcessGone`]; the process is where it was then.
    pub fn for_user(name: &str, uid: u32, pid: u32, is_alive: impl Fn() -> bool) -> Result<Home, CgroupError> {
        let hierarchies = Hierarchies::of_host()?;
        let gone = |_| CgroupError::ProcessGone { pid };
        let membership = Membership::of(&pid.to_string()).map_err(gone)?;
        let Parents { of_children, own } = create::parents(&hierarchies, &membership)?;
        for (parent, own) in of_children.iter().zip(&own) {
            check_unlimited(own, parent)?;
        }
        let parents = of_children.iter().map(|parent| of_user(parent, uid)).collect::<Result<_, _>>();
        let home = parents.and_then(|parents| Home::below(parents, name));
        let home = home.inspect_err(|_| remove_unused(&of_children, uid))?;
        let moved = home.entrances().iter().try_for_each(|entrance| {
            fs::write(entrance, pid.to_string())
                .map_err(|source| CgroupError::Create { path: entrance.clone(), source })
        });
        let moved = moved.and_then(|()| if is_alive() { Ok(()) } else { Err(CgroupError::ProcessGone { pid }) });
        if let Err(error) = moved {
            home.move_out(&own);
            return Err(error);
        }
        Ok(home)
    }

    /// Moves its processes to these directories, in the order of its own, and removes it.
    fn move_out(&self, own: &[PathBuf]) {
        for (directory, own) in self.directories().iter().zip(own) {
            for pid in fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default().lines() {
                let _ = fs::write(own.join("cgroup.procs"), pid); // it may have ended
            }
        }
        self.remove();
    }
}

impl Cgroup {
    /// Whether [`Home::for_user`] made it for user `uid`.
    pub fn was_made_for(&self, uid: u32) -> bool {
        let own = geteuid().as_raw();
        let name = format!("{OF_A_USER}{uid}");
        self.directories.all().all(|directory| {
            let parent = directory.path().parent().and_then(Path::file_name);
            directory.owners() == Some([own, own]) && parent == Some(OsStr::new(&name))
        })
    }
}

fn remove_unused(parents: &[PathBuf], uid: u32) {
    for parent in parents {
        let _ = fs::remove_dir(parent.join(format!("{OF_A_USER}{uid}")));
    }
}

/// Returns the parent of the user's commands, which is created if need be. A user may own the cgroup above, and everything in it.
fn of_user(parent: &Path, uid: u32) -> Result<PathBuf, CgroupError> {
    let directory = parent.join(format!("{OF_A_USER}{uid}"));
    if parent.file_name() == directory.file_name() {
        return Ok(parent.to_owned());
    }
    let failed = |source| CgroupError::Create { path: directory.clone(), source };
    match fs::create_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => created.map_err(failed)?,
    }
    let owner = fs::symlink_metadata(&directory).map_err(failed)?.uid();
    if owner != geteuid().as_raw() {
        return Err(failed(io::Error::other(format!("it belongs to user {owner}"))));
    }
    // On a hybrid host, the unified hierarchy has no controllers.
    let controllers = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
    if controllers.split_ascii_whitespace().any(|controller| controller == "cpu") {
        create::enable_controllers(&directory)?;
    }
    Ok(directory)
}

/// Checks that a process that is moved from `own` to a child of `parent`, which is `own` or above it, leaves no limit behind.
fn check_unlimited(own: &Path, parent: &Path) -> Result<(), CgroupError> {
    for directory in own.ancestors().take_while(|directory| *directory != parent) {
        if limits_anything(directory) {
            return Err(CgroupError::NoPlace { path: own.to_owned() });
        }
    }
    Ok(())
}

/// Whether a cgroup of version 2 has a limit, a weight, or processors of its own. What is not known to be the default is a limit.
fn limits_anything(directory: &Path) -> bool {
    let is_default = |name: &str, text: &str| match name {
        "cgroup.freeze" | "cpu.idle" => text == "0",
        "cpu.weight" => text == "100",
        "io.weight" | "io.bfq.weight" => text == "default 100",
        "cpuset.cpus" | "cpuset.mems" | "cpuset.cpus.exclusive" => text.is_empty(),
        "cpu.uclamp.max" => text == "max" || text == "100.00",
        _ if name.ends_with(".max") || name.ends_with(".high") => text.is_empty() || text.starts_with("max"),
        _ => true,
    };
    let Ok(entries) = fs::read_dir(directory) else { return true };
    entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())).any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_setting =
            name.contains(".max") || name.contains(".high") || name.contains("cpuset") || name.contains(".weight");
        let is_setting = is_setting || matches!(name.as_str(), "cgroup.freeze" | "cpu.idle");
        is_setting && fs::read_to_string(entry.path()).is_ok_and(|text| !is_default(&name, text.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroup(folder: &Path, files: &[(&str, &str)]) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
        folder.to_owned()
    }

    #[test]
    fn a_process_is_moved_out_of_no_cgroup_with_a_limit() {
        let root = tempfile::tempdir().unwrap();
        let free = [
            ("cpu.max", "max 100000\n"),
            ("cpu.weight", "100\n"),
            ("memory.max", "max\n"),
            ("memory.high", "max\n"),
            ("io.max", ""),
            ("io.weight", "default 100\n"),
            ("cpuset.cpus", "\n"),
            ("cpuset.cpus.effective", "0-1\n"),
            ("cgroup.freeze", "0\n"),
            ("cgroup.max.depth", "max\n"),
            ("cpu.stat", "usage_usec 1\n"),
        ];
        let above = cgroup(&root.path().join("a"), &free);
        let own = cgroup(&above.join("session"), &free);
        assert!(check_unlimited(&own, root.path()).is_ok());
        let limits = [
            ("cpu.max", "50000 100000\n"),
            ("memory.max", "1048576\n"),
            ("memory.high", "1048576\n"),
            ("pids.max", "100\n"),
            ("cpu.weight", "1\n"),
            ("io.max", "8:0 rbps=1 wbps=max\n"),
            ("cpuset.cpus", "0\n"),
            ("hugetlb.2MB.max", "0\n"),
        ];
        for (name, limit) in limits {
            for place in [&own, &above] {
                let before = fs::read_to_string(place.join(name)).ok();
                fs::write(place.join(name), limit).unwrap();
                assert!(check_unlimited(&own, root.path()).is_err(), "{name} in {}", place.display());
                assert!(check_unlimited(&own, &own).is_ok(), "a child keeps the limits of its parent");
                match before {
                    Some(text) => fs::write(place.join(name), text).unwrap(),
                    None => fs::remove_file(place.join(name)).unwrap(),
                }
            }
        }
    }

    #[test]
    fn the_parent_of_a_users_commands_belongs_to_this_process() {
        let root = tempfile::tempdir().unwrap();
        let made = of_user(root.path(), 1000).unwrap();
        assert_eq!(made, root.path().join("flowcon.user-1000"));
        assert_eq!(of_user(root.path(), 1000).unwrap(), made, "for the next command");
        assert_eq!(of_user(&made, 1000).unwrap(), made, "a command of a command");
        if geteuid().is_root() {
            std::os::unix::fs::chown(&made, Some(1000), None).unwrap();
            assert!(of_user(root.path(), 1000).is_err(), "the user has made it");
        }
    }
}
