//! The machine: cores, memory, clock, boot, users, and the resources of this process.

pub mod energy;
pub mod users;

use model::{Bytes, CpuTime, Millis, Numbers, Quota};
use rustix::process::Resource;
use rustix::time::ClockId;
use std::fs;
use std::path::Path;

/// The effective cpuset of the root cgroup, on version 2 and on version 1.
const ROOT_CPUSETS: [&str; 2] = ["/sys/fs/cgroup/cpuset.cpus.effective", "/sys/fs/cgroup/cpuset/cpuset.effective_cpus"];

/// Returns the main memory of the machine; `None` if `/proc` does not provide it.
pub fn memory() -> Option<Bytes> {
    let mut system = sysinfo::System::new().ok()?;
    system.refresh_memory_specifics(sysinfo::MemoryRefreshKind::nothing().with_ram());
    Some(Bytes(system.total_memory())).filter(|bytes| bytes.0 > 0)
}

/// Returns the cores of the node, limited by `quota` (the tightest on the cgroups above this process). The affinity of this process
/// counts only if the kernel has no cpusets: it says nothing about the processors of jobs.
pub fn cores(quota: Option<Quota>) -> f64 {
    let affinity = || rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize);
    let all = processors(&ROOT_CPUSETS).map_or_else(affinity, |cpus| cpus.count()).max(1) as f64;
    quota.map_or(all, |Quota(millis)| all.min(millis as f64 / 1000.0)).max(0.01)
}

/// Returns the processors in the first of these cpusets that can be read. That of the root cgroup has those of the machine; in a container
/// that sees only its own cgroup, those of the container.
fn processors(cpusets: &[&str]) -> Option<Numbers> {
    let read = |path: &&str| fs::read_to_string(path).ok()?.parse().ok().filter(|cpus: &Numbers| !cpus.is_empty());
    cpusets.iter().find_map(read)
}

/// Returns the idle time of each processor since boot, by processor number; empty if `/proc/stat` does not provide it.
pub fn idle() -> Vec<CpuTime> {
    fs::read_to_string("/proc/stat")
        .map(|stat| parse_idle(&stat, rustix::param::clock_ticks_per_second()))
        .unwrap_or_default()
}

/// Parses lines `cpu3 user nice system idle iowait …`, one per processor. An offline processor has no line and counts 0.
fn parse_idle(stat: &str, ticks_per_second: u64) -> Vec<CpuTime> {
    const PROCESSORS_AT_MOST: usize = 1 << 16;
    let mut idle = Vec::new();
    for line in stat.lines().take_while(|line| line.starts_with("cpu")) {
        let mut fields = line.split_ascii_whitespace();
        let number = fields.next().and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
        let ticks: u64 = fields.skip(3).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        if let Some(number) = number.filter(|number| *number < PROCESSORS_AT_MOST) {
            idle.resize(idle.len().max(number + 1), CpuTime(0));
            idle[number] = CpuTime(ticks.saturating_mul(1_000_000) / ticks_per_second.max(1));
        }
    }
    idle
}

/// Returns the current time on a clock that never jumps and includes suspend (`CLOCK_BOOTTIME`). It is the same for all processes, and
/// across restarts of the daemon.
pub fn now() -> Millis {
    let time = rustix::time::clock_gettime(ClockId::Boottime);
    let millis = time.tv_sec.saturating_mul(1000).saturating_add(time.tv_nsec / 1_000_000);
    Millis(u64::try_from(millis).unwrap_or(0))
}

/// Returns the id of the current boot; `None` if the kernel does not provide it.
pub fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

/// Whether the processes of the whole machine are visible here: not in a container with process ids of its own.
pub fn sees_all_processes() -> bool {
    /// The number of the first PID namespace (`PROC_PID_INIT_INO`).
    const OF_MACHINE: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").map_or(true, |own| own == Path::new(OF_MACHINE))
}

/// Returns the name of the `sched_ext` scheduler that is loaded in place of the kernel's own; most ignore the weights of cgroups.
pub fn loaded_scheduler() -> Option<String> {
    scheduler_in(Path::new("/sys/kernel/sched_ext"))
}

fn scheduler_in(folder: &Path) -> Option<String> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let is_loaded = read("state").is_some_and(|state| matches!(state.trim(), "enabled" | "enabling"));
    is_loaded.then(|| read("root/ops").map_or_else(|| "of unknown name".to_owned(), |name| name.trim().to_owned()))
}

/// Whether systemd is the init system.
pub fn systemd_is_init() -> bool {
    sd_notify::booted().unwrap_or(false)
}

/// Raises the limit of open files of this process to its maximum, and returns the new limit. Open control files and logs are a dozen
/// descriptors per container; the default of 1,024 is meant for programs that use `select`.
pub fn raise_open_files() -> Option<u64> {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        let _ = rustix::process::setrlimit(Resource::Nofile, limit); // on failure the old limit stays
    }
    rustix::process::getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    #[test]
    fn a_quota_below_the_number_of_cores_limits_them_and_a_larger_one_does_not() {
        let all = cores(None);
        assert!(all >= 1.0);
        assert_eq!(cores(Some(Quota(500))), 0.5);
        assert_eq!(cores(Some(Quota(1_000_000_000))), all);
    }

    #[test]
    fn the_affinity_of_this_process_does_not_limit_the_cores() {
        if processors(&ROOT_CPUSETS).is_none() {
            return eprintln!("skipped: no cpusets");
        }
        let all = cores(None);
        let confined = || {
            let allowed = sched_getaffinity(None).unwrap();
            let mut one = CpuSet::new();
            one.set((0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap());
            sched_setaffinity(None, &one).unwrap();
            cores(None)
        };
        assert_eq!(std::thread::spawn(confined).join().unwrap(), all);
    }

    #[test]
    fn the_processors_are_those_of_the_first_cpuset_that_is_not_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let (missing, empty, some) = (path("missing"), path("empty"), path("some"));
        fs::write(&empty, "\n").unwrap();
        fs::write(&some, "0-2,5\n").unwrap();
        assert_eq!(processors(&[&*missing, &*empty, &*some]).unwrap().to_string(), "0-2,5");
        assert_eq!(processors(&[&*missing, &*empty]), None);
    }

    #[test]
    fn a_loaded_scheduler_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(scheduler_in(&dir.path().join("missing")), None);
        let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
        write("state", "disabled\n");
        assert_eq!(scheduler_in(dir.path()), None);
        write("state", "enabled\n");
        assert_eq!(scheduler_in(dir.path()).as_deref(), Some("of unknown name"));
        fs::create_dir(dir.path().join("root")).unwrap();
        write("root/ops", "rusty_1.0.8\n");
        assert_eq!(scheduler_in(dir.path()).as_deref(), Some("rusty_1.0.8"));
    }

    #[test]
    fn idle_time_is_read_per_processor_and_includes_waiting_for_a_disk() {
        let stat = "cpu  9 9 9 9 9 9\ncpu0 5 5 5 100 20 3 0 0\ncpu2 1 1 1 50 0 0 0 0\nintr 99 1 2\n";
        assert_eq!(parse_idle(stat, 100), [1_200_000, 0, 500_000].map(CpuTime));
        assert!(!idle().is_empty());
    }

    #[test]
    fn the_clock_counts_since_boot_like_uptime() {
        let uptime: f64 = fs::read_to_string("/proc/uptime").unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!((now().as_secs_f64() - uptime).abs() < 1.0);
        assert!(now() <= now());
    }

    #[test]
    fn memory_and_boot_agree_with_proc() {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
        let total: u64 = meminfo.lines().next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
        assert_eq!(memory(), Some(Bytes(total * 1024)));
        assert_eq!(boot_id().unwrap().len(), 36);
    }

    #[test]
    fn the_limit_of_open_files_is_raised_to_its_maximum() {
        let raised = raise_open_files();
        assert_eq!(raised, rustix::process::getrlimit(Resource::Nofile).maximum);
    }
}
