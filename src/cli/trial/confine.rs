//! Keeps the demo on a few cores: five small trainings would never meet on a machine with fifty.
//!
//! Threads started and commands run afterwards inherit it. Imports: rustix.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Cores that five jobs keep busy.
const CORES_AT_MOST: usize = 4;

/// The cores that the demo runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    numbers: Vec<usize>,
    /// Whether the machine has more.
    pub confined: bool,
}

impl Cores {
    /// All cores that the calling thread may use.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn all() -> io::Result<Cores> {
        let allowed = sched_getaffinity(None)?;
        let numbers = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
        Ok(Cores { numbers, confined: false })
    }

    /// Confines the calling thread, and what it starts from now on, to at most four of the cores that it may use.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn take() -> io::Result<Cores> {
        let Cores { numbers: all, .. } = Cores::all()?;
        let numbers: Vec<usize> = all.iter().copied().take(CORES_AT_MOST).collect();
        let confined = numbers.len() < all.len();
        if confined {
            let mut few = CpuSet::new();
            numbers.iter().for_each(|&core| few.set(core));
            sched_setaffinity(None, &few)?;
        }
        Ok(Cores { numbers, confined })
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.numbers.len()
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
    fn a_thread_is_left_on_a_few_of_its_own_cores_only() {
        let inside = std::thread::spawn(|| {
            let cores = Cores::take().expect("a thread may confine itself");
            (cores, std::thread::available_parallelism().expect("known on Linux").get())
        });
        let (cores, parallelism) = inside.join().expect("no panic");
        assert!((1..=CORES_AT_MOST).contains(&cores.count()));
        assert!(parallelism <= cores.count());
        assert_eq!(cores.list().split(',').count(), cores.count());
    }
}
