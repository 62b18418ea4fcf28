//! From what was found to a verdict and a way to mend it. Pure.

mod engine;
mod gpu;
mod kernel;

pub(super) use engine::{bad_address, driver, engine, gpus, log_driver, no_engine, none_here};
pub(super) use gpu::{Driver, driver_of_gpus, mps};
pub(super) use kernel::{Inotify, cgroups, controllers, inotify, pressure, read_only_cgroups};

use super::super::text;
use super::Check;
use crate::api::client::ClientError;
use crate::api::wire::Status;
use std::path::Path;

/// Below this the journal may soon not be writable.
const FREE_AT_LEAST: u64 = 64 * 1024 * 1024;

pub(super) fn daemon(asked: &Result<Status, ClientError>) -> Check {
    const NAME: &str = "daemon";
    match asked {
        Ok(status) if status.version != env!("CARGO_PKG_VERSION") => Check::warn(
            NAME,
            format!("answers, version {}; this flowctl is {}", status.version, env!("CARGO_PKG_VERSION")),
            "install both from one release, then `sudo systemctl restart flowcond`",
        ),
        Ok(status) if status.node.paused => Check::warn(
            NAME,
            format!("answers, version {}, but everything is released by an operator", status.version),
            "`flowctl govern --all` governs again",
        ),
        Ok(status) => Check::ok(
            NAME,
            format!(
                "answers, version {}, up {}, policy {}, {} governed; {}",
                status.version,
                text::duration(status.node.uptime_s),
                status.node.policy.policy,
                text::count(status.containers.len(), "job"),
                status.node.runtimes.join(", ")
            ),
        ),
        Err(error @ ClientError::Unreachable { .. }) => Check::fail(
            NAME,
            error.to_string(),
            "`sudo systemctl start flowcond`, or `sudo flowcond` by hand; `journalctl -u flowcond` says why it stopped",
        ),
        Err(error @ ClientError::PermissionDenied { .. }) => {
            Check::fail(NAME, error.to_string(), "see permissions below; `sudo flowctl doctor` sees everything")
        }
        Err(ClientError::Refused { problem, .. }) => Check::fail(NAME, problem.message.clone(), problem.next.clone()),
        Err(error @ ClientError::Timeout { .. }) => Check::fail(
            NAME,
            error.to_string(),
            "`journalctl -u flowcond` says what it is doing; `sudo systemctl restart flowcond`",
        ),
        Err(error @ ClientError::InvalidResponse { .. }) => {
            Check::fail(NAME, error.to_string(), "name the daemon's socket with --socket or FLOWCON_SOCKET")
        }
    }
}

/// Who asks, and who may.
pub(super) struct Socket {
    pub(super) root: bool,
    pub(super) group_exists: bool,
    pub(super) member: bool,
    pub(super) permission_denied: bool,
}

pub(super) fn permissions(socket: &Socket) -> Check {
    const NAME: &str = "permissions";
    const JOIN: &str = "`sudo usermod -aG flowcon $USER`, then log in again";
    match socket {
        Socket { group_exists: false, .. } => Check::warn(
            NAME,
            "there is no group flowcon, so only root can look",
            "`sudo groupadd --system flowcon`, then restart flowcond",
        ),
        Socket { root: true, .. } => Check::ok(NAME, "root: may look and change; the group flowcon may look"),
        Socket { member: false, .. } => {
            Check::warn(NAME, "this user is not in the group flowcon and may not look", JOIN)
        }
        Socket { permission_denied: true, .. } => Check::fail(
            NAME,
            "this user is in the group flowcon, and the daemon does not let it in",
            "`sudo systemctl restart flowcond`: the group may be newer than the socket",
        ),
        _ => Check::ok(NAME, "a member of the group flowcon: may look; changes need root"),
    }
}

/// The folder of the journal.
pub(super) enum StateDir {
    Missing,
    NotAFolder,
    There { mode: u32, owner: u32, read_only: bool, free_bytes: Option<u64> },
}

pub(super) fn state_dir(path: &Path, found: &StateDir) -> Check {
    const NAME: &str = "state";
    let path = path.display();
    match found {
        StateDir::Missing => Check::warn(
            NAME,
            format!("{path} is not there; the daemon makes it when it first starts"),
            "start the daemon, or name its folder with --state-dir",
        ),
        StateDir::NotAFolder => Check::fail(NAME, format!("{path} is not a folder"), "move it away"),
        StateDir::There { read_only: true, .. } => Check::fail(
            NAME,
            format!("{path} is on a read-only file system: no limit is changed, as originals cannot be kept"),
            "remount it writable, or choose another with --state-dir; under the unit a folder elsewhere needs ReadWritePaths= in a drop-in",
        ),
        StateDir::There { mode, owner, .. } if mode & 0o022 != 0 || (*owner != 0 && !is_own(*owner)) => Check::fail(
            NAME,
            format!(
                "{path} can be written by others (mode {:04o}, owner {owner}), who could plant limits",
                mode & 0o7777
            ),
            format!("`sudo chown root: {path} && sudo chmod 0750 {path}`"),
        ),
        StateDir::There { free_bytes: Some(free), .. } if *free < FREE_AT_LEAST => Check::warn(
            NAME,
            format!("{path} has only {} left", text::bytes(*free)),
            "make room: without it originals cannot be kept and no limit is changed",
        ),
        StateDir::There { free_bytes, .. } => {
            let free = free_bytes.map_or_else(String::new, |free| format!(", {} free", text::bytes(free)));
            Check::ok(NAME, format!("{path}{free}"))
        }
    }
}

fn is_own(owner: u32) -> bool {
    rustix::process::geteuid().as_raw() == owner
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_state_folder_that_others_can_write_fails() {
        let found = |mode, read_only, free| StateDir::There { mode, owner: 0, read_only, free_bytes: Some(free) };
        let verdict = |found| state_dir(Path::new("/var/lib/flowcon"), &found).verdict;
        assert_eq!(verdict(found(0o40_777, false, 1 << 40)), Verdict::Fail);
        assert_eq!(verdict(found(0o40_750, true, 1 << 40)), Verdict::Fail);
        assert_eq!(verdict(found(0o40_750, false, 1000)), Verdict::Warn);
        assert_eq!(verdict(found(0o40_750, false, 1 << 40)), Verdict::Ok);
        assert_eq!(verdict(StateDir::Missing), Verdict::Warn);
    }

    #[test]
    fn a_stranger_is_told_how_to_join() {
        let asks =
            |root, group_exists, member, permission_denied| Socket { root, group_exists, member, permission_denied };
        assert_eq!(permissions(&asks(false, true, false, true)).verdict, Verdict::Warn);
        assert_eq!(permissions(&asks(false, true, true, true)).verdict, Verdict::Fail);
        assert_eq!(permissions(&asks(true, true, false, false)).verdict, Verdict::Ok);
        assert!(permissions(&asks(false, false, false, true)).mend.is_some_and(|mend| mend.contains("groupadd")));
    }
}
