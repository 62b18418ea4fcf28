//! Next steps that fit the user and the machine.

use std::path::Path;

/// How a user without read access sees the jobs of others.
pub const OTHERS_JOBS: &str = "to see all jobs, use `sudo flowctl …`, or join the group flowcon: `sudo usermod -aG flowcon $USER`, \
                               then log in again";

/// Returns the step as this user can take it: root needs no `sudo`.
pub fn fitting(step: &str) -> String {
    fitted(step, rustix::process::geteuid().is_root())
}

fn fitted(step: &str, is_root: bool) -> String {
    if !is_root {
        return step.to_owned();
    }
    step.replace("`sudo ", "`").replace(" sudo ", " ").replace("(sudo ", "(")
}

/// Returns the command that starts the daemon on this machine.
pub fn start_daemon() -> &'static str {
    // As `sd_booted` checks it.
    if Path::new("/run/systemd/system").exists() { "`sudo systemctl start flowcond`" } else { "`sudo flowcond &`" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_told_to_use_sudo() {
        let step = "`sudo mount x && sudo chown y`, (sudo flowctl run), or a pseudo terminal";
        assert_eq!(fitted(step, true), "`mount x && chown y`, (flowctl run), or a pseudo terminal");
        assert_eq!(fitted(step, false), step);
    }
}
