//! The cgroup of a command whose user may not make one. It is made below the process's own cgroup, for a process that belongs to the caller
//! with all of its rights, within the user's number of commands.

use super::rules::{name_of, parts, users_of};
use super::{Registry, gone, is_empty, refused};
use cgroup::{Cgroup, CgroupError, Home};
use scope::protocol::{Answer, Registration};
use scope::{Caller, Pidfd};

impl Registry {
    /// Makes the cgroup for a command whose user may not, if it is requested and not there yet.
    pub(super) async fn make_cgroup(
        &mut self,
        caller: Caller,
        registration: &Registration,
        process: &Pidfd,
    ) -> Result<Option<Home>, Answer> {
        let name = name_of(registration).map_err(refused)?;
        let pid = process.pid().ok_or_else(|| refused(gone()))?;
        let cgroup = name.cgroup();
        if !registration.needs_cgroup || Cgroup::of_scope(pid, None, &cgroup).is_ok() {
            return Ok(None);
        }
        let no_cgroup = |message: String, next: String| Answer::NoCgroup { message, next };
        if self.is_privileged(caller.uid) {
            let (message, next) = match caller.uid {
                0 => ("the daemon makes no cgroups for root, who can", "`flowctl doctor` shows what is missing"),
                _ => (
                    "the daemon may make no cgroups as its user, who has no session",
                    "start flowcond as root, or log in through systemd",
                ),
            };
            return Err(no_cgroup(message.to_owned(), next.to_owned()));
        }
        if node::systemd_is_init() {
            let next = format!("sudo loginctl enable-linger {}", caller.uid);
            return Err(no_cgroup(format!("user {} has no session, in which systemd makes cgroups", caller.uid), next));
        }
        // One that has more rights, as a program with the setuid bit, is not theirs.
        if users_of(pid) != Some([caller.uid; 4]) {
            let message = format!("process {pid} does not belong to user {}", caller.uid);
            return Err(Answer::refused(message, "start it with `flowctl run -- COMMAND`"));
        }
        let (id, _) = self.called(caller.uid, &name);
        if self.known.get(&id).is_some_and(|known| is_empty(&known.record)) {
            self.end(id).await;
        }
        self.check_quota(caller, &registration.labels).map_err(refused)?;
        let is_alive = || process.pid() == Some(pid);
        match tokio::task::block_in_place(|| Home::for_user(&cgroup, caller.uid, pid, is_alive)) {
            Ok(home) => Ok(Some(home)),
            Err(error @ CgroupError::Exists { .. }) => Err(refused(parts(&error.to_string()))),
            Err(error) => {
                let (message, next) = parts(&error.to_string());
                Err(no_cgroup(format!("the daemon cannot make its cgroup: {message}"), next))
            }
        }
    }
}
