//! Errors of cgroup operations, each with the next step.

use model::Setting;
use std::io;
use std::path::PathBuf;

/// A failed attempt to open, write or create a cgroup.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The process ended, or its id was reused.
    #[error("process {pid} has ended; inspect its container again")]
    ProcessGone {
        /// Process id.
        pid: u32,
    },
    /// The process is in the root cgroup.
    #[error(
        "process {pid} is in the root cgroup, which belongs to the whole machine; start it in a container or with flowctl run"
    )]
    Root {
        /// Process id.
        pid: u32,
    },
    /// The container has no cgroup of its own.
    #[error(
        "container {container} has no cgroup of its own, so its limits would be those of other processes too; \
         if its processes were moved out of it, move them back; otherwise start it without --cgroups=disabled, on an engine whose cgroup driver is not \"none\""
    )]
    Shared {
        /// Its id.
        container: String,
    },
    /// The container had a cgroup of its own, which is gone, and its process is in another one.
    #[error(
        "the process of {container} was moved out of its own cgroup, and that is gone; \
         stop {container}, then restore again"
    )]
    Left {
        /// Its id.
        container: String,
    },
    /// The process is in a cgroup that is not mounted here.
    #[error("the cgroup {path} of process {pid} is not visible here; run flowcond in the host's cgroup namespace")]
    NotVisible {
        /// Process id.
        pid: u32,
        /// The cgroup according to `/proc/PID/cgroup`.
        path: String,
    },
    /// flowcon itself is in that cgroup.
    #[error("{path} contains flowcon itself, which a limit would slow down; run flowcond outside of the container")]
    Own {
        /// Directory of the cgroup.
        path: PathBuf,
    },
    /// This kernel, or this cgroup, does not support the limit.
    #[error("{path} has no file for {setting}; enable the controller if you need this limit")]
    Unsupported {
        /// Directory of the cgroup.
        path: PathBuf,
        /// The limit to be written.
        setting: Setting,
    },
    /// A file could not be read.
    #[error("reading {path}: {source}; check that /proc and /sys/fs/cgroup are mounted")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A limit could not be written.
    #[error(
        "writing {value} to {path}: {reason}; check the limits of the parent cgroup and the permissions of this process"
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The value.
        value: String,
        /// Error of the operating system.
        reason: String,
    },
    /// Permission to create a cgroup was denied.
    #[error("no permission to create the cgroup {path}: {reason}; run the command as root (sudo flowctl run …)")]
    Denied {
        /// The directory.
        path: PathBuf,
        /// Error of the operating system.
        reason: io::Error,
    },
    /// The cgroup exists and contains processes.
    #[error("the cgroup {path} already exists and contains processes; choose another --name")]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// Creating a cgroup failed for another reason.
    #[error("creating the cgroup {path}: {source}; check that cgroups are mounted read-write below /sys/fs/cgroup")]
    Create {
        /// The directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// No suitable parent for a new cgroup.
    #[error("cannot create a cgroup with the cpu controller at or above {path}; run the command as root on the host")]
    NoPlace {
        /// The cgroup of this process.
        path: PathBuf,
    },
}
