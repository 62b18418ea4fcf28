//! Which cores the jobs of a trial share: small trainings would never meet on a machine with fifty.
//!
//! Only jobs are confined; the governor and the display run beside them. Imports: rustix.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// The cores that the jobs run on, by the kernel's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    numbers: Vec<usize>,
}

impl Cores {
    /// All cores that the calling thread may use.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn all() -> io::Result<Cores> {
        let allowed = sched_getaffinity(None)?;
        Ok(Cores { numbers: (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect() })
    }

    /// At most `count` of them: the last ones, because interrupts like the first.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn at_most(count: usize) -> io::Result<Cores> {
        let Cores { mut numbers } = Cores::all()?;
        Ok(Cores { numbers: numbers.split_off(numbers.len().saturating_sub(count)) })
    }

    /// Keeps the calling thread on these cores, and the threads and commands that it starts from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn confine_this_thread(&self) -> io::Result<()> {
        let mut set = CpuSet::new();
        self.numbers.iter().for_each(|&core| set.set(core));
        Ok(sched_setaffinity(None, &set)?)
    }

    /// What `act` returns, from a thread on these cores.
    ///
    /// # Errors
    /// The kernel refuses the thread or its cores.
    pub fn on_them<T: Send>(&self, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        let confined = || self.confine_this_thread().map(|()| act());
        let ended = std::thread::scope(|scope| Ok(std::thread::Builder::new().spawn_scoped(scope, confined)?.join()));
        ended.and_then(|ended: std::thread::Result<_>| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    #[cfg(test)]
    pub(super) fn of(numbers: &[usize]) -> Cores {
        Cores { numbers: numbers.to_vec() }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Whether `core` is one of them.
    pub fn contains(&self, core: usize) -> bool {
        self.numbers.contains(&core)
    }

    /// As an engine's `--cpuset-cpus` wants it: `0,1,2,3`.
    pub fn list(&self) -> String {
        self.numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_made_for_it_is_confined() {
        let all = Cores::all().expect("the kernel tells");
        let one = Cores::at_most(1).expect("the kernel tells");
        let inside = one.on_them(|| Cores::all().expect("the kernel tells")).expect("a thread may confine itself");
        assert_eq!(inside, one);
        assert_eq!(Cores::all().expect("the kernel tells"), all);
        assert!(one.count() == 1 && all.list().ends_with(&one.list()));
    }
}
