//! Capacity of each domain: the part of its processors that ungoverned neighbours do not use.
//!
//! Without it, a job that gets all that is available measured satisfied, and what it is offered beyond that goes to the next job by the
//! kernel's choice instead of the plan's. Capacity is measured between two ticks as the CPU that the domain's containers used plus what was
//! idle. It is smoothed, so that a neighbour's burst changes nothing.

use super::domain::{Domain, domains};
use super::growth::risen;
use model::{CpuTime, Millis, NodeObservation};
use serde::{Deserialize, Serialize};

/// Weight of a new measurement against the previous estimate.
const SMOOTHING: f64 = 0.5;

/// Idle time of the processors at the last tick.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct CapacityMeter {
    at: Millis,
    idle: Vec<CpuTime>,
}

/// State of one container, kept between ticks.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct CapacityMemory {
    /// CPU time used by the last tick.
    cpu: Option<CpuTime>,
    /// Capacity in cores that was planned for its domain.
    planned: Option<f64>,
}

/// The domains with their measured capacity.
pub(super) struct Capacities {
    pub(super) domains: Vec<Domain>,
    /// For each container, the part of the last planned capacity that was available; 1 if unknown.
    pub(super) kept: Vec<f64>,
}

impl CapacityMeter {
    /// Takes one tick's observation; `memories` are in the order of its containers.
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
                    before + SMOOTHING * (measured - before)
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
    use crate::node::testing::{container, node};

    /// Capacity and kept part of two containers on two cores; each uses a quarter core and `idle` is left idle, in intervals of 10 s.
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
    fn a_lasting_neighbour_reduces_the_capacity_within_a_few_ticks() {
        let measured = capacities(&[Some(1.5), Some(1.5), Some(0.5), Some(0.5), Some(0.5), Some(0.5)]);
        let cores: Vec<f64> = measured.iter().map(|look| look.0).collect();
        assert_eq!(cores, [2.0, 2.0, 1.5, 1.25, 1.125, 1.0625]);
        assert_eq!(measured[2].1, 0.5, "half of what was offered was available");
    }

    #[test]
    fn without_idle_counters_all_processors_count_as_available() {
        assert_eq!(capacities(&[None, None]), [(2.0, 1.0), (2.0, 1.0)]);
        assert_eq!(capacities(&[Some(0.5), Some(0.5), None])[2], (1.5, 1.0), "the last estimate is kept");
    }
}
