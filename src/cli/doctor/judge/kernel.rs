//! Verdicts on the kernel: cgroups, the effect of limits, pressure and inotify. Pure.

use super::super::Check;
use api::wire::Domain;
use cgroup::Version;
use model::{NO_EFFECT_BELOW, Numbers, PolicyName, PolicySettings, Pressure};
use std::collections::{BTreeMap, BTreeSet};
use term::text;

/// Minimum number of inotify watches: one per log folder, and some for other programs.
const WATCHES_AT_LEAST: u64 = 8192;

/// Minimum number of inotify instances: desktops and engines take dozens.
const INSTANCES_AT_LEAST: u64 = 128;

const CGROUPS: &str = "cgroups";

pub(in crate::doctor) fn cgroups(version: Version) -> Check {
    match version {
        Version::V2 => Check::ok(CGROUPS, "version 2"), // which limits it has is the matter of its controllers
        Version::V1 | Version::Hybrid => Check::warn(
            CGROUPS,
            "version 1: CPU and I/O weights work; no memory protection, no memory squeeze, no pressure per job",
            "boot with systemd.unified_cgroup_hierarchy=1 for version 2",
        ),
        Version::None => Check::fail(
            CGROUPS,
            "none are mounted, so nothing can be limited",
            "`sudo mount -t cgroup2 none /sys/fs/cgroup`; in a container, run it with `--cgroupns=host --privileged`",
        ),
    }
}

pub(in crate::doctor) fn controllers(listed: &str) -> Check {
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
pub(in crate::doctor) fn user_controllers(listed: &str) -> Option<Check> {
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

pub(in crate::doctor) fn read_only_cgroups() -> Check {
    Check::fail(
        CGROUPS,
        "mounted read-only: limits cannot be written from here",
        "run the daemon on the host, or in a container with `--privileged --cgroupns=host`",
    )
}

/// Checks whether CPU weights decide who runs: `loaded` is the `sched_ext` scheduler, `effect` the daemon's measurement. `None` if nothing
/// speaks against it and nothing was measured.
pub(in crate::doctor) fn weights(loaded: Option<&str>, effect: Option<f64>) -> Option<Check> {
    const NAME: &str = "weights";
    const FIX: &str = "stop it (`systemctl stop scx`), or load one that honours the weights of cgroups";
    let has_none = effect.is_some_and(|effect| effect < NO_EFFECT_BELOW);
    let measured = effect.map(|effect| format!("measured effect {effect:.2}, where 1 is full and 0 is none"));
    match (loaded, measured) {
        (Some(name), Some(measured)) if has_none => Some(Check::fail(
            NAME,
            format!("the sched_ext scheduler {name} replaces the kernel's and ignores CPU weights: {measured}"),
            FIX,
        )),
        (None, Some(measured)) if has_none => Some(Check::fail(
            NAME,
            format!("CPU weights have no effect on who runs: {measured}"),
            "`flowctl status` names the jobs and the most likely cause; a job with real-time priority, or a fault of the kernel?",
        )),
        (Some(name), None) => Some(Check::warn(
            NAME,
            format!(
                "the sched_ext scheduler {name} replaces the kernel's; most ignore CPU weights, and its effect was not measured yet"
            ),
            FIX,
        )),
        (_, Some(measured)) => Some(Check::ok(NAME, format!("CPU weights decide who runs: {measured}"))),
        (None, None) => None,
    }
}

/// Names jobs that use the same processors below different cgroups; `None` if there are none.
pub(in crate::doctor) fn parents(jobs: &[Domain]) -> Option<Check> {
    const NAME: &str = "parents";
    let cpus = |job: &Domain| job.processors.as_deref().and_then(|list| list.parse::<Numbers>().ok());
    let placed: Vec<(&str, Option<Numbers>)> =
        jobs.iter().filter_map(|job| Some((job.parent.as_deref()?, cpus(job)))).collect();
    let mut jobs_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (parent, cpus) in &placed {
        let is_apart =
            |(other, theirs): &(&str, Option<Numbers>)| other != parent && overlap(cpus.as_ref(), theirs.as_ref());
        if placed.iter().any(is_apart) {
            *jobs_of.entry(*parent).or_default() += 1;
        }
    }
    let parents: Vec<String> =
        jobs_of.iter().map(|(parent, jobs)| format!("{parent} ({})", text::count(*jobs, "job"))).collect();
    let found = format!(
        "jobs use the same processors below different cgroups, and CPU is shifted only within each: {}",
        listed(&parents)
    );
    let is_any_alone = jobs_of.values().any(|jobs| *jobs == 1);
    match parents.as_slice() {
        [] => None,
        _ if is_any_alone => Some(Check::warn(
            NAME,
            found,
            "start them below one cgroup: `--cgroup-parent`, in Compose cgroup_parent, in Quadlet CgroupsMode=enabled",
        )),
        _ => Some(Check::ok(NAME, found)),
    }
}

/// Unknown processors count as all processors.
fn overlap(one: Option<&Numbers>, other: Option<&Numbers>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one.meets(other))
}

/// Names the cgroups above jobs whose `memory.low` is 0; `None` if there are none.
pub(in crate::doctor) fn memory_low(cgroups: &BTreeSet<String>) -> Option<Check> {
    let cgroups: Vec<&str> = cgroups.iter().map(String::as_str).collect();
    (!cgroups.is_empty()).then(|| {
        Check::ok(
            "memory",
            format!(
                "jobs are protected only against memory limits of their parents: memory.low is 0 in {}; \
                 `systemctl set-property SLICE MemoryLow=SIZE` there protects them when the machine runs out of memory",
                listed(&cgroups)
            ),
        )
    })
}

/// A disk of this machine.
pub(in crate::doctor) struct Disk {
    pub(in crate::doctor) name: String,
    /// Whether the kernel divides its time by I/O weights.
    pub(in crate::doctor) weighs: bool,
}

/// Names the disks on which I/O weights have no effect; `None` if there are none.
pub(in crate::doctor) fn io_weights(disks: &[Disk]) -> Option<Check> {
    let names = |weighs: bool| -> Vec<&str> {
        disks.iter().filter(|disk| disk.weighs == weighs).map(|disk| disk.name.as_str()).collect()
    };
    let (without, with) = (names(false), names(true));
    let but = if with.is_empty() { String::new() } else { format!(", but on {}", listed(&with)) };
    (!without.is_empty()).then(|| {
        Check::ok(
            "io",
            format!(
                "I/O weights have no effect on {}{but}: that needs the scheduler bfq, or io.cost.qos (version 2)",
                listed(&without)
            ),
        )
    })
}

/// Names at most three of them.
fn listed<S: AsRef<str>>(names: &[S]) -> String {
    const AT_MOST: usize = 3;
    let shown: Vec<&str> = names.iter().take(AT_MOST).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(AT_MOST) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

pub(in crate::doctor) fn pressure(pressure: &Pressure, policy: &PolicySettings) -> Check {
    const NAME: &str = "pressure";
    let each = [("cpu", pressure.cpu), ("memory", pressure.memory), ("io", pressure.io)];
    let known: Vec<String> =
        each.iter().filter_map(|(name, part)| Some(format!("{name} {}", text::percent((*part)?)))).collect();
    if known.is_empty() {
        let lost = match policy.policy {
            PolicyName::Flowcon if policy.govern_memory => "memory is never squeezed, and pressure does not end",
            PolicyName::Balanced => "a job that waits for CPU may seem to need no more, and pressure does not end",
            PolicyName::Flowcon | PolicyName::Flowcon2019 | PolicyName::Fair => "pressure does not end",
        };
        let found = format!("the kernel has no pressure data (PSI): {lost} the back-off between decisions");
        return Check::warn(NAME, found, "boot with psi=1");
    }
    Check::ok(NAME, known.join(", "))
}

/// The kernel's inotify limits.
pub(in crate::doctor) struct Inotify {
    pub(in crate::doctor) watches: Option<u64>,
    pub(in crate::doctor) instances: Option<u64>,
    /// The error of a new instance; `None`: no error, or not tried.
    pub(in crate::doctor) refused: Option<String>,
}

pub(in crate::doctor) fn inotify(limits: &Inotify) -> Check {
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
    fn jobs_on_the_same_processors_below_different_cgroups_are_reported() {
        let job = |parent: &str, processors: &str| Domain {
            containers: 1,
            cores: 4.0,
            most_cores: 4.0,
            processors: Some(processors.to_owned()),
            memory_nodes: None,
            parent: Some(parent.to_owned()),
        };
        let split = parents(&[job("/a.service", "0-3"), job("/b.service", "2-5"), job("/c", "6")]).unwrap();
        assert_eq!(split.verdict, Verdict::Warn);
        assert!(split.found.ends_with("/a.service (1 job), /b.service (1 job)"), "{split:?}");
        assert!(split.fix.unwrap().contains("--cgroup-parent"));
        let unknown = Domain { processors: None, ..job("/b.service", "") };
        assert!(parents(&[job("/a.service", "0-3"), unknown]).is_some());
        let teams = ["/a", "/b", "/a", "/b"].map(|parent| job(parent, "0-3"));
        assert_eq!(parents(&teams).unwrap().verdict, Verdict::Ok, "it may be intended");
        assert_eq!(parents(&[job("/a", "0-3"), job("/a", "0-3"), job("/b", "4-7")]), None);
        assert_eq!(parents(&[Domain { parent: None, ..job("", "0-3") }, job("/a", "0-3")]), None);
    }

    #[test]
    fn limits_with_less_effect_than_expected_are_noted_with_the_reason() {
        assert_eq!(memory_low(&BTreeSet::new()), None);
        let note = memory_low(&["a", "b", "c", "d", "e"].map(str::to_owned).into()).unwrap();
        assert_eq!(note.verdict, Verdict::Ok);
        assert!(note.found.contains("memory.low is 0 in a, b, c and 2 more; "), "{note:?}");

        let disk = |name: &str, weighs| Disk { name: name.to_owned(), weighs };
        assert_eq!(io_weights(&[]), None);
        assert_eq!(io_weights(&[disk("sda", true)]), None);
        let note = |disks: &[Disk]| io_weights(disks).unwrap().found;
        assert!(note(&[disk("sda", false)]).contains("no effect on sda: "));
        assert!(note(&[disk("sda", false), disk("sdb", true)]).contains("no effect on sda, but on sdb: "));
    }

    #[test]
    fn missing_pressure_data_is_said_to_prevent_only_what_the_policy_would_do() {
        let found = |policy, govern_memory| {
            let settings = PolicySettings { policy, govern_memory, ..PolicySettings::default() };
            pressure(&Pressure::default(), &settings).found
        };
        assert!(found(PolicyName::Flowcon, true).contains("never squeezed"));
        assert!(!found(PolicyName::Flowcon, false).contains("squeezed"));
        assert!(!found(PolicyName::Balanced, true).contains("squeezed"));
    }

    #[test]
    fn a_loaded_scheduler_is_a_failure_once_weights_were_seen_to_have_no_effect() {
        let verdict = |loaded, effect| weights(loaded, effect).map(|check| check.verdict);
        assert_eq!(verdict(None, None), None);
        assert_eq!(verdict(None, Some(0.97)), Some(Verdict::Ok));
        assert_eq!(verdict(None, Some(0.02)), Some(Verdict::Fail));
        assert_eq!(verdict(Some("rusty_1.0"), None), Some(Verdict::Warn));
        assert_eq!(verdict(Some("flatcg"), Some(0.9)), Some(Verdict::Ok), "it honours them");
        let failure = weights(Some("rusty_1.0"), Some(-0.1)).unwrap();
        assert!(failure.verdict == Verdict::Fail && failure.found.contains("rusty_1.0"), "{failure:?}");
    }

    #[test]
    fn version_1_has_no_memory_protection() {
        assert!(cgroups(Version::V1).found.contains("no memory protection"));
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
