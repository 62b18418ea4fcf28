//! What the threads of a cgroup do: how long they run, how long they wait for a processor, and how often they switch.

use super::directory::read_generated;
use super::{Cgroup, place, process};
use model::ThreadUse;
use std::collections::HashMap;

/// Counters of one thread since its start.
#[derive(Clone, Copy, Debug)]
struct Counters {
    /// Nanoseconds on a processor, and of waiting for one; `None` if the kernel does not count them.
    times: Option<(u64, u64)>,
    /// Voluntary and involuntary switches.
    switches: (u64, u64),
}

/// The counters of a job's threads at one instant.
#[derive(Clone, Debug, Default)]
pub struct ThreadReading {
    threads: HashMap<u32, Counters>,
}

impl Cgroup {
    /// Reads the counters of its threads, limited in number. Reads two files for each.
    pub fn threads(&self) -> ThreadReading {
        ThreadReading::of(&place::processes(&self.directories, self.pid), place::THREADS_AT_MOST)
    }
}

impl ThreadReading {
    fn of(processes: &[u32], at_most: usize) -> ThreadReading {
        let read = |(pid, thread)| Some((thread, Counters::of(pid, thread)?));
        ThreadReading { threads: process::threads_of(processes).take(at_most).filter_map(read).collect() }
    }

    /// The number of threads read.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Returns what the threads did since an earlier reading, as far as they ran all the time; `None` if none did.
    pub fn since(&self, before: &ThreadReading, seconds: f64) -> Option<ThreadUse> {
        let both = || self.threads.iter().filter_map(|(thread, now)| Some((now, before.threads.get(thread)?)));
        both().next().filter(|_| seconds > 0.0)?;
        let sum =
            |of: fn(&Counters) -> u64| both().map(|(now, before)| of(now).saturating_sub(of(before))).sum::<u64>();
        let is_counted = both().all(|(now, before)| now.times.is_some() && before.times.is_some());
        let [ran, waited] = [sum(|of| of.times.unwrap_or_default().0), sum(|of| of.times.unwrap_or_default().1)];
        let wanted = (ran + waited) as f64;
        Some(ThreadUse {
            runnable: is_counted.then_some(wanted / 1e9 / seconds),
            waiting: (is_counted && wanted > 0.0).then_some(waited as f64 / wanted),
            voluntary_switches: sum(|of| of.switches.0) as f64 / seconds,
            involuntary_switches: sum(|of| of.switches.1) as f64 / seconds,
        })
    }
}

impl Counters {
    fn of(pid: u32, thread: u32) -> Option<Counters> {
        let status = read_generated(format!("/proc/{pid}/task/{thread}/status")).ok()?;
        Some(Counters { times: process::times(pid, thread), switches: switches(&status)? })
    }
}

/// Parses lines `voluntary_ctxt_switches:\t150` and `nonvoluntary_ctxt_switches:\t545`.
fn switches(status: &str) -> Option<(u64, u64)> {
    let number = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    Some((number("voluntary_ctxt_switches:")?, number("nonvoluntary_ctxt_switches:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(threads: &[(u32, Counters)]) -> ThreadReading {
        ThreadReading { threads: threads.iter().copied().collect() }
    }

    /// Counters with these seconds on a processor and of waiting.
    fn counted(ran: u64, waited: u64, switches: (u64, u64)) -> Counters {
        Counters { times: Some((ran * 1_000_000_000, waited * 1_000_000_000)), switches }
    }

    #[test]
    fn threads_that_want_to_run_and_their_waiting_follow_from_two_readings() {
        let before = [(1, counted(5, 1, (100, 10))), (2, counted(1, 0, (0, 0))), (3, counted(1, 1, (7, 7)))];
        // Of 10 s, the first ran 4 and waited 6, the second ran 6 and waited 4; the third ended, and another one began.
        let now = [(1, counted(9, 7, (300, 20))), (2, counted(7, 4, (100, 0))), (4, counted(9, 9, (9, 9)))];
        let found = reading(&now).since(&reading(&before), 10.0).unwrap();
        assert_eq!((found.runnable, found.waiting), (Some(2.0), Some(0.5)));
        assert_eq!((found.voluntary_switches, found.involuntary_switches), (30.0, 1.0));
        assert_eq!(reading(&now).since(&reading(&[]), 10.0), None);
        let uncounted = |switches| reading(&[(1, Counters { times: None, switches })]);
        let found = uncounted((50, 0)).since(&uncounted((0, 0)), 10.0).unwrap();
        assert_eq!((found.runnable, found.waiting, found.voluntary_switches), (None, None, 5.0), "no schedstat");
    }

    #[test]
    fn the_kernels_counters_are_read_and_limited_in_number() {
        let me = std::process::id();
        let (stop, waits) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || waits.recv());
        let before = ThreadReading::of(&[me], usize::MAX);
        assert!(before.count() >= 2 && ThreadReading::of(&[me], 1).count() == 1);
        let began = std::time::Instant::now();
        let mut spun = 0u64;
        while began.elapsed().as_millis() < 100 {
            spun = std::hint::black_box(spun + 1);
        }
        let found = ThreadReading::of(&[me], usize::MAX).since(&before, began.elapsed().as_secs_f64()).unwrap();
        assert!(found.runnable.is_none_or(|runnable| runnable > 0.5), "this thread wanted to run: {found:?}");
        drop(stop);
        assert!(sleeper.join().unwrap().is_err());
        assert_eq!(
            switches("Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n"),
            Some((150, 545))
        );
    }
}
