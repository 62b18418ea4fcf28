//! Confines the jobs of a trial to a few cores: small trainings would not compete on a machine with fifty.
//!
//! Only jobs are confined; the governor and the display may use all cores.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// A set of cores, by the kernel's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cores {
    numbers: Vec<usize>,
}

impl Cores {
    /// All cores that the calling thread may use.
    ///
    /// # Errors
    /// The system call fails.
    pub(crate) fn all() -> io::Result<Cores> {
        let allowed = sched_getaffinity(None)?;
        Ok(Cores { numbers: (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect() })
    }

    /// At most `count` cores: the last ones, because most interrupts go to the first.
    ///
    /// # Errors
    /// The system call fails.
    pub(crate) fn at_most(count: usize) -> io::Result<Cores> {
        let Cores { mut numbers } = Cores::all()?;
        Ok(Cores { numbers: numbers.split_off(numbers.len().saturating_sub(count)) })
    }

    /// Confines the calling thread to these cores, and the threads and commands that it starts from now on.
    ///
    /// # Errors
    /// The system call fails.
    pub(crate) fn confine_this_thread(&self) -> io::Result<()> {
        let mut set = CpuSet::new();
        self.numbers.iter().for_each(|&core| set.set(core));
        Ok(sched_setaffinity(None, &set)?)
    }

    /// Runs `act` on a thread confined to these cores and returns its result.
    ///
    /// # Errors
    /// The thread cannot be created or confined.
    pub(crate) fn run_confined<T: Send>(&self, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        let confined = || self.confine_this_thread().map(|()| act());
        let ended = std::thread::scope(|scope| Ok(std::thread::Builder::new().spawn_scoped(scope, confined)?.join()));
        ended.and_then(|ended: std::thread::Result<_>| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    #[cfg(test)]
    pub(super) fn of(numbers: &[usize]) -> Cores {
        Cores { numbers: numbers.to_vec() }
    }

    /// Number of cores.
    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Whether `core` is one of them.
    pub(crate) fn contains(&self, core: usize) -> bool {
        self.numbers.contains(&core)
    }

    /// The number of the core at this index.
    pub(crate) fn number(&self, index: usize) -> Option<usize> {
        self.numbers.get(index).copied()
    }

    /// The cores in the format of an engine's `--cpuset-cpus`: `0,1,2,3`.
    pub(crate) fn list(&self) -> String {
        self.numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_new_thread_is_confined() {
        let all = Cores::all().expect("readable affinity");
        let one = Cores::at_most(1).expect("readable affinity");
        let inside =
            one.run_confined(|| Cores::all().expect("readable affinity")).expect("a thread may confine itself");
        assert_eq!(inside, one);
        assert_eq!(Cores::all().expect("readable affinity"), all);
        assert!(one.count() == 1 && all.list().ends_with(&one.list()));
    }
}
