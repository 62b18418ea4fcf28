//! Who may do what, decided once per connection from what the kernel says about the peer.
//!
//! Root, the daemon's own user and the configured users may change; members of the reading group may read; nobody else may
//! do anything. Membership is the peer's own: its primary group from `SO_PEERCRED`, its supplementary groups from
//! `/proc/PID/status`, which also knows groups from directory services and `newgrp`. The process at that number must still
//! have the peer's effective user: a recycled number can then only belong to the same user. Where the peer's process is not
//! visible (another PID namespace), only the primary group counts. The socket's mode (`0660 root:flowcon`) is the first fence
//! and this the second, so a careless `chmod` opens nothing. Imports: std, tokio.

use std::collections::BTreeSet;
use std::fs;
use tokio::net::unix::UCred;

/// What a peer may do; each includes the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Nothing.
    Nothing,
    /// Read status, explanations, metrics and events.
    Read,
    /// Give commands.
    Change,
}

/// The process on the other end of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// Its effective user when it connected.
    pub uid: u32,
    /// Its process, where it is visible.
    pub pid: Option<i32>,
    /// What it may do.
    pub right: Right,
}

impl Peer {
    /// For the journal: `uid 1000 (pid 4711)`.
    pub fn describe(&self) -> String {
        match self.pid {
            Some(pid) => format!("uid {} (pid {pid})", self.uid),
            None => format!("uid {}", self.uid),
        }
    }
}

/// Who may read and who may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    changing: BTreeSet<u32>,
    reading_group: Option<u32>,
}

impl Access {
    /// Root, the daemon's own user and `changing` may change; members of `reading_group` may read.
    pub fn new(changing: impl IntoIterator<Item = u32>, reading_group: Option<u32>) -> Access {
        let own = rustix::process::geteuid().as_raw();
        Access { changing: changing.into_iter().chain([0, own]).collect(), reading_group }
    }

    /// What the peer with these credentials may do.
    pub fn admit(&self, credentials: UCred) -> Peer {
        let (uid, pid) = (credentials.uid(), credentials.pid().filter(|pid| *pid > 0));
        let right = if self.changing.contains(&uid) {
            Right::Change
        } else if self.reads(uid, credentials.gid(), pid) {
            Right::Read
        } else {
            Right::Nothing
        };
        Peer { uid, pid, right }
    }

    fn reads(&self, uid: u32, gid: u32, pid: Option<i32>) -> bool {
        let Some(group) = self.reading_group else { return false };
        gid == group || pid.is_some_and(|pid| in_supplementary_group(pid, uid, group))
    }
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
    fn a_recycled_process_number_of_another_user_lends_no_group() {
        let own_pid = rustix::process::getpid().as_raw_nonzero().get();
        let own_uid = rustix::process::geteuid().as_raw();
        for group in 0..100 {
            assert!(!in_supplementary_group(own_pid, own_uid + 1, group));
        }
    }
}
