//! Next steps that fit the user and the machine.

use std::path::Path;

/// How a user without read access sees the jobs of others.
pub const OTHERS_JOBS: &str = "to see all jobs, use `sudo flowctl …`, or join the group flowcon: `sudo usermod -aG flowcon $USER`, \
                               then log in again";

/// The command that starts the daemon; [`fitting`] makes it one for this machine.
pub const START_DAEMON: &str = "`sudo systemctl start flowcond`";

/// Commands for services under systemd, and what does the same on a machine without it.
const WITHOUT_SYSTEMD: [(&str, &str); 12] = [
    ("systemctl start flowcoord-agent", "flowcoord agent &"),
    ("systemctl start flowcoord", "flowcoord run &"),
    ("systemctl start flowcond", "flowcond &"),
    ("systemctl enable --now flowcon-notify", "flowcon-notify &"),
    ("systemctl start docker", "dockerd &"),
    ("systemctl stop flowcond", "pkill -x flowcond"),
    ("systemctl status docker", "docker info"),
    ("systemctl status ", "pgrep -a "),
    ("`sudo systemctl restart flowcond`", "restart flowcond"),
    ("`systemctl restart flowcoord-agent`", "restart flowcoord-agent"),
    ("`journalctl -u flowcoord`", "the log of flowcoord"),
    ("`journalctl -u flowcond`", "the log of flowcond"),
];

/// Returns the step as this user can take it on this machine: root needs no `sudo`, and not every machine has systemd.
pub fn fitting(step: &str) -> String {
    // As `sd_booted` checks it.
    fitted(step, rustix::process::geteuid().is_root(), Path::new("/run/systemd/system").exists())
}

fn fitted(step: &str, is_root: bool, has_systemd: bool) -> String {
    let mut step = step.to_owned();
    if !has_systemd {
        WITHOUT_SYSTEMD.iter().for_each(|(with, without)| step = step.replace(with, without));
    }
    if is_root {
        step = step.replace("`sudo ", "`").replace(" sudo ", " ").replace("(sudo ", "(");
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_told_to_use_sudo() {
        let step = "`sudo mount x && sudo chown y`, (sudo flowctl run), or a pseudo terminal";
        assert_eq!(fitted(step, true, true), "`mount x && chown y`, (flowctl run), or a pseudo terminal");
        assert_eq!(fitted(step, false, true), step);
    }

    #[test]
    fn a_machine_without_systemd_is_not_told_to_use_it() {
        assert_eq!(fitted(START_DAEMON, false, false), "`sudo flowcond &`");
        assert_eq!(fitted(START_DAEMON, true, false), "`flowcond &`");
        assert_eq!(fitted(START_DAEMON, false, true), START_DAEMON);
        let steps = "`journalctl -u flowcond` shows why; then `sudo systemctl restart flowcond`; on b: `systemctl start flowcoord-agent`";
        let without = "the log of flowcond shows why; then restart flowcond; on b: `flowcoord agent &`";
        assert_eq!(fitted(steps, false, false), without);
        assert_eq!(fitted("is it running (systemctl status docker)?", true, false), "is it running (docker info)?");
    }
}
