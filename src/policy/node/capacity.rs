//! What of each domain's processors is really there: the rest is used by neighbours whom nobody governs.
//!
//! Without it a job that gets all that there is looks satisfied with it, and what it is offered beyond goes to whoever is next by the plan
//! and not by the kernel. Measured between two ticks as what the domain's containers used and what was idle, and smoothed, so that a
//! neighbour's burst moves nothing.
//!
//! Imports: the domains.

use super::domain::{Domain, domains};
use super::growth::risen;
use crate::model::{CpuTime, Millis, NodeObservation};
use serde::{Deserialize, Serialize};

/// How much of the way to what was measured is believed at once.
const BELIEF: f64 = 0.5;

/// The processors' idle time at the last tick.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct CapacityMeter {
    at: Millis,
    idle: Vec<CpuTime>,
}

/// What is remembered of one container between ticks.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct CapacityMemory {
    /// CPU time that it had used.
    cpu: Option<CpuTime>,
    /// Cores that were planned for its domain.
    planned: Option<f64>,
}

/// The domains with the capacity to plan with.
pub(super) struct Capacities {
    pub(super) domains: Vec<Domain>,
    /// For each container the part of the capacity last planned with that was there; 1 where that is not known.
    pub(super) kept: Vec<f64>,
}

impl CapacityMeter {
    /// Takes one tick's observation; `memories` in the order of its containers.
    pub(super) fn measure(&mut self, node: &NodeObservation, memories: &mut [&mut CapacityMemory]) -> Capacities {
        let seconds = node.now.since(self.at).as_secs_f64();
        let risen_by = |from, to| risen(from, to).map(|time| time.as_secs_f64() / seconds);
        let used: Vec<Option<f64>> = node
            .containers
            .iter()
            .zip(memories.iter())
            .map(|(container, memory)| risen_by(memory.cpu, container.usage.cpu))
            .collect();
        let idle = self.idle.iter().zip(&node.idle).map(|(from, to)| risen_by(Some(*from), Some(*to)));
        let idle: Vec<f64> = idle.collect::<Option<_>>().unwrap_or_default();
        let mut kept = vec![1.0; node.containers.len()];
        let mut planned = Vec::new();
        for domain in domains(node) {
            let before = domain.members.iter().filter_map(|&index| memories[index].planned).fold(0.0, f64::max);
            let before = if before > 0.0 { before.min(domain.cores) } else { domain.cores };
            let capacity = match domain.capacity(node, seconds, &used, &idle) {
                Some(measured) => {
                    domain.members.iter().for_each(|&index| kept[index] = (measured / before).min(1.0));
                    before + BELIEF * (measured - before)
                }
                None => before,
            };
            domain.members.iter().for_each(|&index| memories[index].planned = Some(capacity));
            planned.push(domain.with_capacity(capacity));
        }
        for (memory, container) in memories.iter_mut().zip(&node.containers) {
            memory.cpu = container.usage.cpu;
        }
        (self.at, self.idle) = (node.now, node.idle.clone());
        Capacities { domains: planned, kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::node::testing::{container, node};

    /// Two containers on two cores, of which each uses a quarter and `idle` is left idle, over intervals of 10 s.
    fn capacities(idle: &[Option<f64>]) -> Vec<(f64, f64)> {
        let mut meter = CapacityMeter::default();
        let mut memories = [CapacityMemory::default(); 2];
        let mut seen = node(vec![container("a"), container("b")]);
        let mut counter = 0.0;
        let mut look = |tick: usize, idle: Option<f64>| {
            counter += 10.0 * idle.unwrap_or(0.0);
            seen.now = Millis::from_secs(10 * (tick as u64 + 1));
            seen.idle = idle.map_or(Vec::new(), |_| vec![CpuTime((counter * 1e6) as u64), CpuTime(0)]);
            let used = CpuTime(2_500_000 * (tick as u64 + 1));
            seen.containers.iter_mut().for_each(|container| container.usage.cpu = Some(used));
            let [a, b] = &mut memories;
            let found = meter.measure(&seen, &mut [a, b]);
            (found.domains[0].cores, found.kept[0])
        };
        idle.iter().enumerate().map(|(tick, idle)| look(tick, *idle)).collect()
    }

    #[test]
    fn a_neighbour_that_stays_is_reckoned_with_after_a_few_looks() {
        let looks = capacities(&[Some(1.5), Some(1.5), Some(0.5), Some(0.5), Some(0.5), Some(0.5)]);
        let cores: Vec<f64> = looks.iter().map(|look| look.0).collect();
        assert_eq!(cores, [2.0, 2.0, 1.5, 1.25, 1.125, 1.0625]);
        assert_eq!(looks[2].1, 0.5, "half of what was offered was there");
    }

    #[test]
    fn without_counters_all_processors_are_there() {
        assert_eq!(capacities(&[None, None]), [(2.0, 1.0), (2.0, 1.0)]);
        assert_eq!(capacities(&[Some(0.5), Some(0.5), None])[2], (1.5, 1.0), "what was known is kept");
    }
}
