//! CPU time of a set of cores, from `/proc/stat`.

use super::confine::Cores;
use std::fs;

/// Counters of the cores since boot, in kernel ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuTime {
    busy: u64,
    stolen: u64,
    all: u64,
}

/// Fractions of the cores' time between two readings, 0 ..= 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuParts {
    /// Used by processes or the kernel of this machine.
    pub busy: f64,
    /// Taken by the hypervisor for other machines.
    pub stolen: f64,
}

impl CpuTime {
    /// Reads the counters; `None` if they are not available.
    pub(crate) fn now(cores: &Cores) -> Option<CpuTime> {
        CpuTime::read(&fs::read_to_string("/proc/stat").ok()?, cores)
    }

    fn read(text: &str, cores: &Cores) -> Option<CpuTime> {
        let ours = text.lines().filter_map(core_line).filter(|(core, _)| cores.contains(*core));
        ours.map(|(_, counters)| CpuTime::of_core(counters)).reduce(|sum, core| {
            let (sum, core) = (sum?, core?);
            Some(CpuTime { busy: sum.busy + core.busy, stolen: sum.stolen + core.stolen, all: sum.all + core.all })
        })?
    }

    /// Parses the fields user nice system idle iowait irq softirq steal (guest is included in user).
    fn of_core(counters: &str) -> Option<CpuTime> {
        let ticks: Vec<u64> = counters.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, stolen] = ticks.try_into().ok()?;
        let busy = user + nice + system + irq + softirq;
        Some(CpuTime { busy, stolen, all: busy + idle + iowait + stolen })
    }

    /// The fractions since an earlier reading.
    pub(crate) fn since(&self, earlier: &CpuTime) -> CpuParts {
        let all = self.all.saturating_sub(earlier.all).max(1) as f64;
        CpuParts {
            busy: self.busy.saturating_sub(earlier.busy) as f64 / all,
            stolen: self.stolen.saturating_sub(earlier.stolen) as f64 / all,
        }
    }
}

/// Splits a line `cpu7 …` into the core's number and its counters.
fn core_line(line: &str) -> Option<(usize, &str)> {
    let (core, counters) = line.strip_prefix("cpu")?.split_once(' ')?;
    Some((core.parse().ok()?, counters))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_core() -> Cores {
        Cores::of(&[0])
    }

    #[test]
    fn fractions_are_of_total_time_and_stolen_time_is_not_busy() {
        let before =
            CpuTime::read("cpu  9 9 9\ncpu0 100 0 50 1000 10 0 5 7 0 0\ncpu1 1 2 3", &first_core()).expect("a core");
        let after = CpuTime::read("cpu0 160 0 60 1010 10 0 5 27 0 0\n", &first_core()).expect("a core");
        let parts = after.since(&before);
        assert!((parts.busy - 0.7).abs() < 1e-9 && (parts.stolen - 0.2).abs() < 1e-9, "{parts:?}");
    }

    #[test]
    fn lines_without_valid_counters_give_none() {
        assert_eq!(CpuTime::read("intr 5\n", &first_core()), None);
        assert_eq!(CpuTime::read("cpu0 1 2 x 4 5 6 7 8\n", &first_core()), None);
    }
}
