//! Verdicts on the kernel: cgroups, pressure and inotify. Pure.

use super::super::Check;
use crate::host::cgroup::Version;
use crate::model::Pressure;
use crate::term::text;

/// Minimum number of inotify watches: one per log folder, and some for other programs.
const WATCHES_AT_LEAST: u64 = 8192;

/// Minimum number of inotify instances: desktops and engines take dozens.
const INSTANCES_AT_LEAST: u64 = 128;

const CGROUPS: &str = "cgroups";

pub(in crate::cli::doctor) fn cgroups(version: Version) -> Check {
    match version {
        Version::V2 => Check::ok(CGROUPS, "version 2: every limit is available"),
        Version::V1 | Version::Hybrid => Check::warn(
            CGROUPS,
            "version 1: CPU weight and memory protection work; no memory squeeze, no pressure per job",
            "boot with systemd.unified_cgroup_hierarchy=1 for version 2",
        ),
        Version::None => Check::fail(
            CGROUPS,
            "none are mounted, so nothing can be limited",
            "`sudo mount -t cgroup2 none /sys/fs/cgroup`; in a container, run it with `--cgroupns=host --privileged`",
        ),
    }
}

pub(in crate::cli::doctor) fn controllers(listed: &str) -> Check {
    const NAME: &str = "controllers";
    let missing: Vec<&str> = ["cpu", "memory", "io"]
        .into_iter()
        .filter(|name| !listed.split_whitespace().any(|found| found == *name))
        .collect();
    match missing.as_slice() {
        [] => Check::ok(NAME, "cpu, memory and io are available"),
        missing if missing.contains(&"cpu") => Check::fail(
            NAME,
            format!("{} missing: shares cannot be set", missing.join(", ")),
            "look for cgroup_disable= in /proc/cmdline and version 1 mounts: `mount | grep cgroup`",
        ),
        missing => Check::warn(
            NAME,
            format!("{} missing: these limits are not changed", missing.join(", ")),
            "look for cgroup_disable= in /proc/cmdline and version 1 mounts: `mount | grep cgroup`",
        ),
    }
}

/// Checks the controllers of the user's systemd instance, in which `flowctl run` starts commands; `None` if shares can be set there.
pub(in crate::cli::doctor) fn user_controllers(listed: &str) -> Option<Check> {
    let has_cpu = listed.split_whitespace().any(|name| name == "cpu");
    (!has_cpu).then(|| {
        Check::warn(
            "user manager",
            "this user's systemd instance has no cpu controller (older versions delegate only memory and pids): \
             commands of `flowctl run` are listed as governed, but their CPU share cannot be set",
            "`sudo systemctl edit user@.service`: [Service] Delegate=cpu io memory pids; then log out of all sessions and in again",
        )
    })
}

pub(in crate::cli::doctor) fn read_only_cgroups() -> Check {
    Check::fail(
        CGROUPS,
        "mounted read-only: limits cannot be written from here",
        "run the daemon on the host, or in a container with `--privileged --cgroupns=host`",
    )
}

pub(in crate::cli::doctor) fn pressure(pressure: &Pressure) -> Check {
    const NAME: &str = "pressure";
    let each = [("cpu", pressure.cpu), ("memory", pressure.memory), ("io", pressure.io)];
    let known: Vec<String> =
        each.iter().filter_map(|(name, part)| Some(format!("{name} {}", text::percent((*part)?)))).collect();
    if known.is_empty() {
        return Check::warn(
            NAME,
            "the kernel has no pressure data (PSI): memory is never squeezed, and only events end the back-off",
            "boot with psi=1",
        );
    }
    Check::ok(NAME, known.join(", "))
}

/// The kernel's inotify limits.
pub(in crate::cli::doctor) struct Inotify {
    pub(in crate::cli::doctor) watches: Option<u64>,
    pub(in crate::cli::doctor) instances: Option<u64>,
    /// The error of a new instance; `None`: no error, or not tried.
    pub(in crate::cli::doctor) refused: Option<String>,
}

pub(in crate::cli::doctor) fn inotify(limits: &Inotify) -> Check {
    const NAME: &str = "inotify";
    const FIX: &str = "`printf 'fs.inotify.max_user_watches=65536\\nfs.inotify.max_user_instances=512\\n' | sudo tee /etc/sysctl.d/60-flowcon.conf && sudo sysctl --system`; until then logs are polled every second or two";
    let shown = |limit: Option<u64>| limit.map_or_else(|| "?".to_owned(), |limit| limit.to_string());
    let found = format!("{} watches, {} instances per user", shown(limits.watches), shown(limits.instances));
    if let Some(error) = &limits.refused {
        return Check::warn(NAME, format!("{found}; all are in use: {error}"), FIX);
    }
    let few = limits.watches.is_some_and(|watches| watches < WATCHES_AT_LEAST)
        || limits.instances.is_some_and(|instances| instances < INSTANCES_AT_LEAST);
    if few { Check::warn(NAME, format!("{found}: too few"), FIX) } else { Check::ok(NAME, found) }
}

#[cfg(test)]
mod tests {
    use super::super::super::Verdict;
    use super::*;

    #[test]
    fn a_missing_cpu_controller_is_worse_than_a_missing_io_controller() {
        assert_eq!(controllers("cpuset memory io pids").verdict, Verdict::Fail);
        assert_eq!(controllers("cpuset cpu memory pids").verdict, Verdict::Warn);
        assert_eq!(controllers("cpuset cpu io memory").verdict, Verdict::Ok);
    }

    #[test]
    fn a_user_manager_without_the_cpu_controller_is_a_warning_with_the_setting_that_delegates_it() {
        let check = user_controllers("cpuset memory pids\n").unwrap();
        assert_eq!(check.verdict, Verdict::Warn);
        assert!(check.fix.unwrap().contains("Delegate=cpu io memory pids"));
        assert_eq!(user_controllers("cpu memory pids\n"), None);
    }

    #[test]
    fn few_or_exhausted_inotify_instances_are_a_warning() {
        let limits = |instances, refused: Option<&str>| Inotify {
            watches: Some(65_536),
            instances: Some(instances),
            refused: refused.map(str::to_owned),
        };
        assert_eq!(inotify(&limits(128, None)).verdict, Verdict::Ok);
        assert_eq!(inotify(&limits(16, None)).verdict, Verdict::Warn);
        assert_eq!(inotify(&limits(512, Some("too many open files"))).verdict, Verdict::Warn);
    }
}
