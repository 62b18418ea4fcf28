//! Finds a container of the journal that no daemon governs: through its engine, or by a process in its cgroup.

use super::target::{Target, unit_of_cgroup};
use super::writer::{Writer, of_another_engine};
use cgroup::{Cgroup, CgroupError, remove_empty};
use docker::EngineError;
use model::Runtime;
use std::fs;
use std::path::{Path, PathBuf};
use store::Original;

pub(super) enum Found {
    Running(Box<Target>),
    NotRunning,
    Unknown(String),
}

/// Finds a container of the journal through its engine, or by the cgroup that it had. Its processes may be in another cgroup now, whose
/// limits are not its own.
pub(super) async fn find(writer: &Writer, original: &Original) -> Found {
    if original.runtime != Runtime::Docker {
        return by_cgroup(original);
    }
    let (Some(engine), Some(info)) = (&writer.engine, writer.info()) else {
        return match by_cgroup(original) {
            Found::Running(_) => {
                Found::Unknown("its engine does not answer; start the engine and restore again".to_owned())
            }
            other => other,
        };
    };
    if let Some(why) = of_another_engine(original, &info) {
        return Found::Unknown(why);
    }
    match engine.inspect(&original.id, info.name).await {
        Ok(container) => match open(original, container.pid) {
            Ok(cgroup) => {
                let id = original.id.clone();
                let unit = unit_of_cgroup(cgroup.path(), container.gpu_hook);
                let mut target = Target::new(id, original.name.clone(), Runtime::Docker, cgroup);
                (target.mark, target.unit, target.gpu_hook) = (original.mark.clone(), unit, container.gpu_hook);
                Found::Running(Box::new(target))
            }
            Err(error) => Found::Unknown(error.to_string()),
        },
        Err(EngineError::Gone { .. }) => Found::NotRunning,
        Err(error) => Found::Unknown(error.to_string()),
    }
}

/// Opens the cgroup that a container of the journal has, or had, to which this process belongs.
fn open(original: &Original, pid: u32) -> Result<Cgroup, CgroupError> {
    let directory = Path::new(&original.cgroup);
    match original.runtime {
        Runtime::Docker if is_of_this_boot(original) => {
            Cgroup::of_known_container(pid, original.id.as_str(), directory)
        }
        Runtime::Docker => Cgroup::of_container(pid, original.id.as_str()),
        Runtime::Scope => Cgroup::of_known_scope(pid, None, file_name(directory), &[directory.to_owned()]),
        Runtime::Pod => Cgroup::of_known_container(pid, file_name(directory), directory),
        Runtime::Containerd => Cgroup::in_directory(pid, directory),
    }
}

fn file_name(directory: &Path) -> &str {
    directory.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

fn is_of_this_boot(original: &Original) -> bool {
    node::boot_id().unwrap_or_default() == original.boot_id
}

/// Finds the container by a process in the remembered cgroup. A path name alone is never trusted.
pub(super) fn by_cgroup(original: &Original) -> Found {
    // None of them keeps its cgroup over a reboot.
    if original.runtime != Runtime::Docker && !is_of_this_boot(original) {
        return Found::NotRunning;
    }
    let Ok(processes) = fs::read_dir("/proc") else { return Found::Unknown("/proc cannot be read".to_owned()) };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let Ok(lines) = fs::read_to_string(format!("/proc/{pid}/cgroup")) else { continue };
        let lives_there = |line: &str| {
            let path = line.splitn(3, ':').nth(2).unwrap_or("");
            let is_inside = original.runtime == Runtime::Docker && path.contains(original.id.as_str());
            is_inside || is_below(Path::new(path), &original.cgroup)
        };
        if !lines.lines().any(lives_there) {
            continue;
        }
        if let Ok(cgroup) = open(original, pid) {
            let mut target = Target::new(original.id.clone(), original.name.clone(), original.runtime, cgroup);
            target.mark = original.mark.clone();
            // Systemd would revert a limit that was written to the file alone, because it still has ours.
            target.unit = unit_of_cgroup(Path::new(&original.cgroup), false);
            return Found::Running(Box::new(target));
        }
    }
    left_behind(original).map_or(Found::NotRunning, Found::Unknown)
}

/// Returns an error if the remembered cgroup exists without processes: they may have been moved out of it, and may come back.
fn left_behind(original: &Original) -> Option<String> {
    if matches!(original.runtime, Runtime::Pod | Runtime::Containerd) {
        return None; // it has ended, and its runtime removes its cgroup
    }
    let directory = PathBuf::from(&original.cgroup);
    let is_there = || is_of_this_boot(original) && directory.join("cgroup.procs").exists();
    if is_there() && original.runtime == Runtime::Scope {
        remove_empty(std::slice::from_ref(&directory));
    }
    let path = directory.display();
    is_there().then(|| {
        format!(
            "none of its processes is in its cgroup {path}: move them back, or remove it with rmdir, then restore again"
        )
    })
}

/// Whether a path as in `/proc/PID/cgroup` is that of the cgroup with this directory, or below it: the job's processes may be in a child.
fn is_below(path: &Path, directory: &str) -> bool {
    path.ancestors()
        .any(|above| above.parent().is_some() && above.to_str().is_some_and(|above| directory.ends_with(above)))
}
