//! Turns the gathered facts into verdicts and fixes. Pure.

mod engine;
mod gpu;
mod kernel;
mod threads;

pub(super) use engine::{Obstacle, bad_address, driver, engine, gpus, labels, log_driver, no_engine, pods, restarts};
pub(super) use gpu::{Driver, driver_of_gpus, mps};
pub(super) use kernel::{
    Disk, Inotify, cgroups, controllers, inotify, io_weights, memory_low, parents, pressure, read_only_cgroups,
    user_controllers, weights,
};
pub(super) use threads::threads;

use super::super::text;
use super::Check;
use api::client::ClientError;
use api::wire::Status;
use std::path::Path;
use term::hint::START_DAEMON;

/// Minimum free space of the state directory, in bytes; below it, writes to the journal may soon fail.
const FREE_AT_LEAST: u64 = 64 * 1024 * 1024;

pub(super) fn daemon(asked: &Result<Status, ClientError>) -> Check {
    const NAME: &str = "daemon";
    match asked {
        Ok(status) if status.version != env!("CARGO_PKG_VERSION") => Check::warn(
            NAME,
            format!("running, version {}; this flowctl is version {}", status.version, env!("CARGO_PKG_VERSION")),
            "install both from one release, then `sudo systemctl restart flowcond`",
        ),
        Ok(status) if status.node.released => Check::warn(
            NAME,
            format!("running, version {}, but an operator released all jobs", status.version),
            "`flowctl govern --all` governs again",
        ),
        Ok(status) => Check::ok(
            NAME,
            format!(
                "running, version {}, up {}, policy {}, {} governed; {}",
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
            format!("start it as root with {START_DAEMON}; its log shows why it stopped"),
        ),
        Err(error @ ClientError::PermissionDenied { .. }) => {
            Check::fail(NAME, error.to_string(), "see permissions below; `sudo flowctl doctor` checks everything")
        }
        Err(ClientError::Refused { problem, .. }) => Check::fail(NAME, problem.message.clone(), problem.next.clone()),
        Err(error @ ClientError::Timeout { .. }) => Check::fail(
            NAME,
            error.to_string(),
            "`journalctl -u flowcond` shows what it is doing; if it hangs, `sudo systemctl restart flowcond`",
        ),
        Err(error @ ClientError::Busy { .. }) => Check::fail(
            NAME,
            error.to_string(),
            "`ss -xp` lists the programs that are connected; end those that are not needed",
        ),
        Err(error @ ClientError::InvalidResponse { .. }) => {
            Check::fail(NAME, error.to_string(), "name the daemon's socket with --socket or FLOWCON_SOCKET")
        }
    }
}

/// The user's rights to the daemon's socket.
pub(super) struct Socket {
    pub(super) root: bool,
    /// Whether the user, other than root, started the daemon.
    pub(super) own: bool,
    /// Whether the user is in `api.admins`.
    pub(super) admin: bool,
    /// `api.group`; `None` = only root and admins have access.
    pub(super) group: Option<String>,
    pub(super) group_exists: bool,
    pub(super) member: bool,
    pub(super) permission_denied: bool,
}

pub(super) fn permissions(socket: &Socket) -> Check {
    const NAME: &str = "permissions";
    const RESTART: &str =
        "`sudo systemctl restart flowcond`: the configuration or the group may be newer than the socket";
    match (socket, socket.group.as_deref()) {
        (Socket { own: true, .. }, _) => Check::ok(NAME, "this user's own daemon: full control"),
        (Socket { group_exists: false, .. }, Some(group)) => Check::warn(
            NAME,
            format!("the group {group} (api.group) does not exist, so only root and api.admins have access"),
            format!("`sudo groupadd --system {group}`, then restart flowcond"),
        ),
        (Socket { root: true, .. }, Some(group)) => {
            Check::ok(NAME, format!("root: full control; members of the group {group} have read-only access"))
        }
        (Socket { root: true, .. }, None) => Check::ok(NAME, "root: full control; no group has access"),
        (Socket { admin: true, permission_denied: false, .. }, _) => {
            Check::ok(NAME, "user in api.admins: full control")
        }
        (Socket { admin: true, .. }, _) => {
            Check::fail(NAME, "this user is in api.admins, but the daemon denies access", RESTART)
        }
        (_, None) => Check::warn(
            NAME,
            "this user has no access, and no group has (api.group): only root may start flowcond and see and change jobs",
            "`sudo flowctl …`, or add the user to api.admins in flowcond.toml and restart flowcond",
        ),
        (Socket { member: false, .. }, Some(group)) => Check::warn(
            NAME,
            format!(
                "this user is not in the group {group} and has no access: only root may start flowcond and change jobs"
            ),
            format!("`sudo flowctl …`; for read-only access, `sudo usermod -aG {group} $USER`, then log in again"),
        ),
        (Socket { permission_denied: true, .. }, Some(group)) => {
            Check::fail(NAME, format!("this user is in the group {group}, but the daemon denies access"), RESTART)
        }
        (_, Some(group)) => {
            Check::ok(NAME, format!("member of the group {group}: read-only access; changes need root or api.admins"))
        }
    }
}

/// State of the state directory.
pub(super) enum StateDir {
    Missing,
    /// It cannot be examined.
    Unknown(String),
    NotAFolder,
    There {
        mode: u32,
        owner: u32,
        read_only: bool,
        free_bytes: Option<u64>,
    },
}

pub(super) fn state_dir(path: &Path, found: &StateDir) -> Check {
    const NAME: &str = "state";
    let path = path.display();
    match found {
        StateDir::Missing => Check::warn(
            NAME,
            format!("{path} does not exist; the daemon creates it at its first start"),
            "start the daemon, or name its state directory with --state-dir",
        ),
        StateDir::Unknown(error) => Check::warn(
            NAME,
            format!("{path} cannot be examined: {error}"),
            "`sudo flowctl doctor` examines it, or name another one with --state-dir",
        ),
        StateDir::NotAFolder => Check::fail(NAME, format!("{path} is not a directory"), "move it away"),
        StateDir::There { read_only: true, .. } => Check::fail(
            NAME,
            format!("{path} is on a read-only file system: no limit is changed, as originals cannot be saved"),
            "remount it writable, or choose another one with --state-dir; the unit then needs ReadWritePaths= in a drop-in",
        ),
        StateDir::There { mode, owner, .. } if mode & 0o022 != 0 || (*owner != 0 && !is_own(*owner)) => Check::fail(
            NAME,
            format!(
                "{path} can be written by other users (mode {:04o}, owner {owner}), who could forge limits",
                mode & 0o7777
            ),
            format!("`sudo chown root: {path} && sudo chmod 0750 {path}`"),
        ),
        StateDir::There { free_bytes: Some(free), .. } if *free < FREE_AT_LEAST => Check::warn(
            NAME,
            format!("{path} has only {} left", text::bytes(*free)),
            "free some space: without it originals cannot be saved and no limit is changed",
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
    fn a_state_directory_that_others_can_write_fails() {
        let found = |mode, read_only, free| StateDir::There { mode, owner: 0, read_only, free_bytes: Some(free) };
        let verdict = |found| state_dir(Path::new("/var/lib/flowcon"), &found).verdict;
        assert_eq!(verdict(found(0o40_777, false, 1 << 40)), Verdict::Fail);
        assert_eq!(verdict(found(0o40_750, true, 1 << 40)), Verdict::Fail);
        assert_eq!(verdict(found(0o40_750, false, 1000)), Verdict::Warn);
        assert_eq!(verdict(found(0o40_750, false, 1 << 40)), Verdict::Ok);
        assert_eq!(verdict(StateDir::Missing), Verdict::Warn);
    }

    #[test]
    fn a_user_is_told_the_configured_ways_to_get_access() {
        let outsider = || Socket {
            own: false,
            root: false,
            admin: false,
            group: Some("ml".to_owned()),
            group_exists: true,
            member: false,
            permission_denied: true,
        };
        let fix = |socket| permissions(&socket).fix.unwrap_or_default();
        assert!(fix(outsider()).contains("usermod -aG ml") && permissions(&outsider()).found.contains("only root"));
        assert!(fix(Socket { group_exists: false, ..outsider() }).contains("groupadd --system ml"));
        assert!(fix(Socket { group: None, group_exists: false, ..outsider() }).contains("api.admins"));
        let verdict = |socket| permissions(&socket).verdict;
        assert_eq!(verdict(Socket { member: true, ..outsider() }), Verdict::Fail);
        assert_eq!(verdict(Socket { admin: true, ..outsider() }), Verdict::Fail);
        assert_eq!(verdict(Socket { admin: true, permission_denied: false, ..outsider() }), Verdict::Ok);
        assert_eq!(verdict(Socket { member: true, permission_denied: false, ..outsider() }), Verdict::Ok);
        assert_eq!(verdict(Socket { own: true, group_exists: false, ..outsider() }), Verdict::Ok);
        assert_eq!(verdict(Socket { root: true, permission_denied: false, ..outsider() }), Verdict::Ok);
    }
}
