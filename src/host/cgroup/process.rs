//! Identity of a process: process id and start time together. Its CPU time and threads.

use super::CgroupError;
use super::directory::read_generated;
use model::{Activity, CpuTime, Loaders, Millis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Flag of the kernel for a process that is ending, or has ended and was not waited for.
const PF_EXITING: u64 = 0x4;

/// Start time of a process, in clock ticks since boot (`/proc/PID/stat`, field 22). Together with the process id it identifies a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StartTime(pub u64);

impl StartTime {
    /// Returns the time from the boot until then.
    pub fn since_boot(self) -> Millis {
        Millis(self.0.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1))
    }
}

/// Returns the start time of process `pid`; `None` if there is no such process.
pub fn start_time(pid: u32) -> Option<StartTime> {
    parse(&read_generated(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the start time of `pid` if it exists and is the expected process.
pub(super) fn living(pid: u32, expected: Option<StartTime>) -> Result<StartTime, CgroupError> {
    let found = start_time(pid).ok_or(CgroupError::ProcessGone { pid })?;
    if expected.is_some_and(|expected| expected != found) {
        return Err(CgroupError::ProcessGone { pid });
    }
    Ok(found)
}

/// Whether this process runs: neither ended, nor about to end, which takes it out of its cgroups.
pub(super) fn runs(pid: u32, started: StartTime) -> bool {
    let Ok(stat) = read_generated(format!("/proc/{pid}/stat")) else { return false };
    let is_ending = field(&stat, 9).is_none_or(|flags| flags & PF_EXITING != 0);
    parse(&stat) == Some(started) && !is_ending
}

/// Returns the CPU time used by process `pid`, in clock ticks; `None` if there is no such process.
pub(super) fn cpu_ticks(pid: u32) -> Option<u64> {
    used(&read_generated(format!("/proc/{pid}/stat")).ok()?)
}

/// The CPU time in the status of a process or thread, in clock ticks.
fn used(stat: &str) -> Option<u64> {
    Some(field(stat, 14)?.saturating_add(field(stat, 15)?))
}

/// Returns the threads of process `pid`, the first one first; none if there is no such process.
pub(super) fn threads(pid: u32) -> impl Iterator<Item = u32> {
    let directory = format!("/proc/{pid}/task");
    // Each thread is a link of the directory, which has two others: a single thread, as most processes have, need not be listed.
    let is_single = fs::metadata(&directory).is_ok_and(|found| found.nlink() == 3);
    let listed = (!is_single).then(|| fs::read_dir(directory)).into_iter().flatten().flatten().flatten();
    let listed = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    is_single.then_some(pid).into_iter().chain(listed)
}

/// Returns the threads of these processes, each with its process.
pub(super) fn threads_of(processes: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    processes.iter().flat_map(|pid| threads(*pid).map(move |thread| (*pid, thread)))
}

/// Returns the time for which the threads of these processes waited for CPU, those that ended left out; at most `at_most` threads are read.
/// `None` if the kernel does not count it.
pub(super) fn waited(processes: &[u32], at_most: usize) -> Option<CpuTime> {
    let waited = |(pid, thread): (u32, u32)| Some(times(pid, thread)?.1);
    threads_of(processes)
        .take(at_most)
        .filter_map(waited)
        .reduce(u64::saturating_add)
        .map(|nanos| CpuTime(nanos / 1000))
}

/// Returns the nanoseconds for which a thread was on a processor, and for which it waited for one; `None` if the kernel does not count them.
pub(super) fn times(pid: u32, thread: u32) -> Option<(u64, u64)> {
    let counted = read_generated(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    let mut fields = counted.split_ascii_whitespace().map(|field| field.parse::<u64>().ok());
    // All fields are 0 where counting is off.
    Some((fields.next()?.filter(|ran| *ran > 0)?, fields.next()??))
}

/// Whether one of these processes, or of their first threads, has real-time priority, before which no weight counts.
pub(super) fn is_real_time(processes: &[u32]) -> bool {
    const FIFO: u64 = 1;
    const ROUND_ROBIN: u64 = 2;
    const DEADLINE: u64 = 6;
    let policy = |pid: &u32| field(&read_generated(format!("/proc/{pid}/stat")).ok()?, 41);
    processes.iter().filter_map(policy).any(|policy| [FIFO, ROUND_ROBIN, DEADLINE].contains(&policy))
}

/// Returns why none of these processes can run: all are stopped, or all that are not wait in the kernel for a disk or a file system.
pub(super) fn hindrance(processes: &[u32]) -> Option<Activity> {
    let states: Vec<char> = processes.iter().filter_map(|pid| state(*pid)).collect();
    let (stopped, others): (Vec<char>, Vec<char>) = states.into_iter().partition(|state| matches!(state, 'T' | 't'));
    match (stopped.is_empty(), others.is_empty()) {
        (false, true) => Some(Activity::Stopped),
        (_, false) if others.iter().all(|state| *state == 'D') => Some(Activity::WaitingForDisk),
        _ => None,
    }
}

/// The CPU time, in clock ticks, of the processes or threads of a job beside its main ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    are_threads: bool,
    /// By process or thread.
    ticks: BTreeMap<u32, u64>,
}

impl Workers {
    /// Reads those of these processes; at most `at_most` processes or threads are read. Workers are the processes without children that run
    /// the same program as their parent, as data loaders do. If there are none, they are the threads beside the first one of each process.
    pub(super) fn read(processes: &[u32], at_most: usize) -> Workers {
        let processes = &processes[..processes.len().min(at_most)];
        let stats: Vec<(u32, u32, u64)> = processes
            .iter()
            .filter_map(|pid| {
                let stat = read_generated(format!("/proc/{pid}/stat")).ok()?;
                Some((*pid, field(&stat, 4)? as u32, used(&stat)?))
            })
            .collect();
        let program = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
        let is_worker = |&&(pid, parent, _): &&(u32, u32, u64)| {
            stats.iter().any(|(other, ..)| *other == parent)
                && !stats.iter().any(|(_, parent, _)| *parent == pid)
                && program(pid).is_some_and(|own| program(parent) == Some(own))
        };
        let ticks: BTreeMap<u32, u64> = stats.iter().filter(is_worker).map(|(pid, _, ticks)| (*pid, *ticks)).collect();
        if !ticks.is_empty() {
            return Workers { are_threads: false, ticks };
        }
        let others = processes.iter().flat_map(|pid| threads(*pid).skip(1).map(move |thread| (*pid, thread)));
        let read = |(pid, thread): (u32, u32)| {
            Some((thread, used(&read_generated(format!("/proc/{pid}/task/{thread}/stat")).ok()?)?))
        };
        Workers { are_threads: true, ticks: others.take(at_most).filter_map(read).collect() }
    }

    /// Returns those that were busy in the `seconds` since an earlier reading; `None` if there are none.
    pub fn busy_since(&self, earlier: &Workers, seconds: f64) -> Option<Loaders> {
        const BUSY: f64 = 0.05;
        let per_core = seconds * rustix::param::clock_ticks_per_second() as f64;
        let used = |(id, ticks): (&u32, &u64)| Some(ticks.saturating_sub(*earlier.ticks.get(id)?));
        let cores = self.ticks.iter().filter_map(used).map(|ticks| ticks as f64 / per_core);
        let busy: Vec<f64> = cores.filter(|cores| cores.is_finite() && *cores >= BUSY).collect();
        let loaders = Loaders { count: busy.len(), are_threads: self.are_threads, cores: busy.iter().sum() };
        (loaders.count > 0).then_some(loaders)
    }
}

/// The state of a process: `R`, `S`, `D`, `T`, …
fn state(pid: u32) -> Option<char> {
    let stat = read_generated(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].trim_start().chars().next()
}

fn parse(stat: &str) -> Option<StartTime> {
    field(stat, 22).map(StartTime)
}

/// Returns a number of `/proc/PID/stat` by its field number in `proc(5)`. Fields are counted from the last `)`, because the command name
/// may contain parentheses and spaces.
fn field(stat: &str, place: usize) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_ascii_whitespace().nth(place - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parentheses_in_a_command_name_do_not_shift_the_fields() {
        let stat = "42 (a) R 9 (b)) S 1 42 42 0 -1 4194560 133 0 0 0 0 0 0 0 20 0 1 0 777 2510848 197 184467";
        assert_eq!(parse(stat), Some(StartTime(777)));
    }

    #[test]
    fn the_threads_of_a_process_with_one_or_several_are_found_the_first_one_first() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let single: Vec<u32> = threads(child.id()).collect();
        assert_eq!(single, [child.id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(threads(child.id()).count(), 0);
        let (stop, waits) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || waits.recv());
        let several: Vec<u32> = threads(std::process::id()).collect();
        assert!(several.len() >= 2 && several[0] == std::process::id(), "{several:?}");
        drop(stop);
        assert!(sleeper.join().unwrap().is_err());
    }

    #[test]
    fn a_process_that_has_ended_and_was_not_waited_for_does_not_run() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let started = start_time(child.id()).unwrap();
        assert!(runs(child.id(), started) && !runs(child.id(), StartTime(started.0 + 1)));
        child.kill().unwrap();
        while runs(child.id(), started) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(start_time(child.id()), Some(started), "it is still listed");
        child.wait().unwrap();
    }

    #[test]
    fn a_stopped_process_is_told_from_one_that_sleeps() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let wait_for = |wanted: char| {
            while state(pid) != Some(wanted) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        };
        wait_for('S');
        assert_eq!(hindrance(&[pid]), None);
        let id = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::STOP).unwrap();
        wait_for('T');
        assert_eq!(hindrance(&[pid]), Some(Activity::Stopped));
        assert_eq!(hindrance(&[pid, std::process::id()]), None, "another one runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A busy shell, and a shell that waits for two busy ones; the busy children run the same program as their parent.
    #[test]
    fn busy_children_that_run_the_program_of_their_parent_are_workers_and_else_threads_are() {
        let script = "(while :; do :; done) & (while :; do :; done) & wait";
        let mut main = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let children = || fs::read_to_string(format!("/proc/{0}/task/{0}/children", main.id())).unwrap_or_default();
        while children().split_ascii_whitespace().count() < 2 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let of_main: Vec<u32> = children().split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect();
        let all = [&[main.id()], &of_main[..]].concat();
        let (before, began) = (Workers::read(&all, 64), std::time::Instant::now());
        let busy = loop {
            let found = Workers::read(&all, 64).busy_since(&before, began.elapsed().as_secs_f64());
            if let Some(found) = found.filter(|found| found.count == 2) {
                break found;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        assert!(!busy.are_threads && busy.cores > 0.1, "{busy:?}");
        assert_eq!(Workers::read(&all, 1), Workers { are_threads: true, ticks: BTreeMap::new() }, "one was read");
        for pid in of_main {
            rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid as i32).unwrap(),
                rustix::process::Signal::KILL,
            )
            .unwrap();
        }
        main.wait().unwrap();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || stopped.recv());
        let own = Workers::read(&[std::process::id()], 64);
        assert!(own.are_threads && !own.ticks.is_empty(), "the test's own threads: {own:?}");
        assert_eq!(own.busy_since(&Workers::default(), 1.0), None, "none was there before");
        drop(stop);
        assert!(thread.join().unwrap().is_err());
    }

    #[test]
    fn waiting_for_a_processor_is_counted_over_all_threads() {
        let me = std::process::id();
        let one = waited(&[me], 1).expect("the kernel counts it");
        assert!(waited(&[me], usize::MAX).is_some_and(|all| all >= one));
        assert_eq!(waited(&[], usize::MAX), None);
    }

    #[test]
    fn a_process_with_real_time_priority_is_told() {
        let started = |words: &[&str]| std::process::Command::new(words[0]).args(&words[1..]).spawn().unwrap();
        let mut usual = started(&["sleep", "60"]);
        let mut urgent = started(&["chrt", "-r", "1", "sleep", "60"]);
        let name = || std::fs::read_to_string(format!("/proc/{}/comm", urgent.id())).unwrap();
        // chrt ends at once where this user may not set the priority.
        while name().trim() == "chrt" && !matches!(state(urgent.id()), None | Some('Z')) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if name().trim() == "sleep" {
            assert!(is_real_time(&[usual.id(), urgent.id()]));
        }
        assert!(!is_real_time(&[usual.id()]));
        for child in [&mut usual, &mut urgent] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_different_start_time_means_another_process() {
        let me = std::process::id();
        let start = start_time(me).unwrap();
        assert!(living(me, Some(start)).is_ok());
        assert!(matches!(living(me, Some(StartTime(start.0 + 1))), Err(CgroupError::ProcessGone { .. })));
    }

    #[test]
    fn each_file_of_a_process_takes_one_read_call() {
        let me = std::process::id();
        // The kernel counts them for each thread, if it is built so; the last one is the count's own.
        let count = || {
            let io = read_generated("/proc/thread-self/io").ok()?;
            io.lines().find_map(|line| line.strip_prefix("syscr: "))?.parse::<u64>().ok()
        };
        let reads = |read: &dyn Fn()| {
            let before = count()?;
            read();
            Some(count()? - before - 1)
        };
        for name in ["stat", "status", "cgroup"] {
            let read = reads(&|| assert!(!read_generated(format!("/proc/{me}/{name}")).unwrap().is_empty()));
            assert!(read.is_none_or(|read| read == 1), "{name}: {read:?}");
        }
        let read = reads(&|| assert!(start_time(me).is_some()));
        assert!(read.is_none_or(|read| read == 1), "{read:?}");
    }
}
