//! Access control, decided once per connection from the kernel's peer credentials.
//!
//! Root, the daemon's user and the configured users have full control; members of the reading group have read-only access; all others have
//! no access. The primary group comes from `SO_PEERCRED`, supplementary groups from `/proc/PID/status`, which includes groups from
//! directory services and `newgrp`. The process must still have the peer's effective user, so that a recycled PID can only belong to the
//! same user. If the peer's process is not visible (another PID namespace), only the primary group counts. This check is in addition to
//! the socket's mode, so that a careless `chmod` grants nothing.

use std::collections::BTreeSet;
use std::fs;
use tokio::net::unix::UCred;

/// Access right of a peer; each includes the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// No access.
    Nothing,
    /// Read status, explanations, metrics and events.
    Read,
    /// Send commands.
    Change,
}

/// The process at the other end of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// Effective user when it connected.
    pub uid: u32,
    /// Process id, if visible.
    pub pid: Option<i32>,
    /// Access right.
    pub right: Right,
    /// Whether it is root or the daemon's user.
    pub is_root: bool,
}

impl Peer {
    /// Returns a description for logs and messages: `uid 1000 (pid 4711)`.
    pub fn describe(&self) -> String {
        match self.pid {
            Some(pid) => format!("uid {} (pid {pid})", self.uid),
            None => format!("uid {}", self.uid),
        }
    }
}

/// The configured access rights.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    changing: BTreeSet<u32>,
    reading_group: Option<u32>,
}

impl Access {
    /// Gives root, the daemon's user and `changing` full control, and members of `reading_group` read-only access.
    pub fn new(changing: impl IntoIterator<Item = u32>, reading_group: Option<u32>) -> Access {
        Access { changing: changing.into_iter().chain([0, own_user()]).collect(), reading_group }
    }

    /// Returns the mode of the socket: `0660` for the group, or `0666` if there are other users with full control, who need not be in it.
    pub fn socket_mode(&self) -> u32 {
        let has_others = self.changing.iter().any(|uid| ![0, own_user()].contains(uid));
        if has_others { 0o666 } else { 0o660 }
    }

    /// Returns the peer with its access right.
    pub fn admit(&self, credentials: UCred) -> Peer {
        let (uid, pid) = (credentials.uid(), credentials.pid().filter(|pid| *pid > 0));
        let right = if self.changing.contains(&uid) {
            Right::Change
        } else if self.reads(uid, credentials.gid(), pid) {
            Right::Read
        } else {
            Right::Nothing
        };
        Peer { uid, pid, right, is_root: uid == 0 || uid == own_user() }
    }

    fn reads(&self, uid: u32, gid: u32, pid: Option<i32>) -> bool {
        let Some(group) = self.reading_group else { return false };
        gid == group || pid.is_some_and(|pid| in_supplementary_group(pid, uid, group))
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn in_supplementary_group(pid: i32, uid: u32, group: u32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    let numbers = |key: &str| -> Vec<u32> {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("");
        line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    let effective_user = numbers("Uid:").get(1).copied();
    effective_user == Some(uid) && numbers("Groups:").contains(&group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recycled_pid_of_another_user_grants_no_group() {
        let own_pid = rustix::process::getpid().as_raw_nonzero().get();
        let own_uid = rustix::process::geteuid().as_raw();
        for group in 0..100 {
            assert!(!in_supplementary_group(own_pid, own_uid + 1, group));
        }
    }
}
