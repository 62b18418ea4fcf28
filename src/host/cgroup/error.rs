//! What can go wrong with a cgroup, each with the next thing to do.

use crate::model::Setting;
use std::io;
use std::path::PathBuf;

/// Why a cgroup could not be opened, written or made.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The process ended, or its number went to another process.
    #[error("process {pid} is gone; look at its container again")]
    ProcessGone {
        /// The process.
        pid: u32,
    },
    /// The process has no cgroup of its own.
    #[error(
        "process {pid} lives in the root cgroup, which is the whole machine's; start it in a container or with flowctl run"
    )]
    Root {
        /// The process.
        pid: u32,
    },
    /// The process lives in a cgroup outside of what is mounted here.
    #[error("the cgroup {path} of process {pid} is not visible here; run flowcond in the host's cgroup namespace")]
    NotVisible {
        /// The process.
        pid: u32,
        /// The cgroup as `/proc/PID/cgroup` names it.
        path: String,
    },
    /// This very process lives in that cgroup.
    #[error(
        "{path} holds flowcon itself; a limit there would govern the governor: run flowcond outside of the container"
    )]
    Own {
        /// The cgroup's directory.
        path: PathBuf,
    },
    /// This kernel, or this cgroup, has no such limit.
    #[error("{path} has no file for {setting}; enable the controller, or do without")]
    Unsupported {
        /// The cgroup's directory.
        path: PathBuf,
        /// What was to be written.
        setting: Setting,
    },
    /// A file could not be read.
    #[error("reading {path}: {source}; check that /proc and /sys/fs/cgroup are mounted")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A limit could not be written.
    #[error(
        "writing {value} to {path}: {reason}; check the limits of the parent cgroup and the rights of this process"
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// What was written.
        value: String,
        /// The system's answer.
        reason: String,
    },
    /// A cgroup could not be made because this user may not.
    #[error(
        "may not make the cgroup {path}: {source}; run it as root (sudo flowctl run …), or, where systemd runs, \
         inside a delegated scope (systemd-run --user --scope -p Delegate=yes flowctl run …)"
    )]
    Denied {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A cgroup of that name exists and has processes.
    #[error("the cgroup {path} exists and has processes in it; choose another --name")]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// A cgroup could not be made for another reason.
    #[error("making the cgroup {path}: {source}; check that cgroups are mounted for writing below /sys/fs/cgroup")]
    Create {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no place for a new cgroup.
    #[error(
        "no cgroup with the cpu controller can be made at or above {path}; run it as root on the host, or, where systemd runs, \
         inside a delegated scope (systemd-run --user --scope -p Delegate=yes flowctl run …)"
    )]
    NoPlace {
        /// The cgroup of this process.
        path: PathBuf,
    },
}
