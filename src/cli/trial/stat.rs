//! What the whole machine's CPU did, from `/proc/stat`.
//!
//! Imports: std only.

use std::fs;

/// Counters of all cores since boot, in the kernel's ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeCpu {
    busy: u64,
    stolen: u64,
    all: u64,
}

/// Parts of the node's CPU between two readings, 0 ..= 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuParts {
    /// Spent by processes or the kernel of this machine.
    pub busy: f64,
    /// Taken by the hypervisor for others.
    pub stolen: f64,
}

impl NodeCpu {
    /// The counters now; `None` where the kernel does not tell.
    pub fn now() -> Option<NodeCpu> {
        NodeCpu::read(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The `cpu` line: user nice system idle iowait irq softirq steal (guest is in user already).
    fn read(text: &str) -> Option<NodeCpu> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, stolen] = ticks.try_into().ok()?;
        let busy = user + nice + system + irq + softirq;
        Some(NodeCpu { busy, stolen, all: busy + idle + iowait + stolen })
    }

    /// What happened since an earlier reading.
    pub fn since(&self, earlier: &NodeCpu) -> CpuParts {
        let all = self.all.saturating_sub(earlier.all).max(1) as f64;
        CpuParts {
            busy: self.busy.saturating_sub(earlier.busy) as f64 / all,
            stolen: self.stolen.saturating_sub(earlier.stolen) as f64 / all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_all_time_and_stolen_time_is_not_busy() {
        let before = NodeCpu::read("cpu  100 0 50 1000 10 0 5 7 0 0\ncpu0 1 2 3").expect("a cpu line");
        let after = NodeCpu::read("cpu  160 0 60 1010 10 0 5 27 0 0\n").expect("a cpu line");
        let parts = after.since(&before);
        assert!((parts.busy - 0.7).abs() < 1e-9 && (parts.stolen - 0.2).abs() < 1e-9, "{parts:?}");
    }

    #[test]
    fn what_is_no_cpu_line_is_unknown() {
        assert_eq!(NodeCpu::read("intr 5\n"), None);
        assert_eq!(NodeCpu::read("cpu  1 2 x 4 5 6 7 8\n"), None);
    }
}
