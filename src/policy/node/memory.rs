//! Memory limits: protect growing containers, squeeze converged ones gently, and stop at the first sign of pressure.
//!
//! - *Protect*: `memory.low` at the working set of growing containers, at most half of the node's memory together.
//! - *Squeeze*: `memory.high` of a converged container a margin above its working set, so that other containers can use the memory of its
//!   unused file cache. Never below working set + margin, never below the owner's floor; a floor above the node's memory disables the
//!   squeeze. A squeeze tightens by at most [`STEP`] per tick, because the write waits until the kernel has reclaimed the difference.
//! - A squeeze needs memory pressure (PSI) of the node *and* of the container that is known and below the limit. Pressure ends every
//!   squeeze, and there is no new one for [`REST_INTERVALS`] intervals. No PSI: no squeeze.
//! - The owner's limits are respected: a `memory.low` is only raised, a `memory.high` only lowered.
//!
//! Both limits change in steps, so that small changes of the working set do not cause a write at each tick: a squeeze is kept while its
//! margin is between half and twice the target, a protection while it is within a tenth of the target.

use model::{Bytes, ContainerObservation, Millis, NodeObservation, PolicySettings, RunState};
use serde::{Deserialize, Serialize};

/// Number of intervals without a squeeze after pressure ended one.
const REST_INTERVALS: u64 = 10;

/// The protected containers together get at most this part of the node's memory.
const MOST_PROTECTED: f64 = 0.5;

/// Margin above the working set, as a part of it; at least [`LEAST_MARGIN`].
const MARGIN: f64 = 0.25;

const LEAST_MARGIN: u64 = 64 << 20;

/// A squeeze reclaims at most this much memory at once.
const STEP: u64 = 1 << 30;

/// What the policy wants for a container's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryRole {
    /// Growing: keep its working set in memory.
    Protect,
    /// Converged: may lose what it does not use.
    Squeeze,
    /// Neither.
    Leave,
}

/// `memory.low` and `memory.high`; `None` = the original.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryPlan {
    pub(super) low: Option<Bytes>,
    pub(super) high: Option<Bytes>,
}

/// State of one container, kept between ticks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct PlannedMemory {
    low: Option<Bytes>,
    high: Option<Bytes>,
    rests_until: Option<Millis>,
}

impl PlannedMemory {
    /// Whether a squeeze is active.
    pub(super) fn is_squeezing(&self) -> bool {
        self.high.is_some()
    }

    /// Plans one container's memory limits. `protected_fraction` comes from [`protected_fraction`].
    pub(super) fn plan(
        &mut self,
        node: &NodeObservation,
        container: &ContainerObservation,
        role: MemoryRole,
        protected_fraction: f64,
        settings: &PolicySettings,
    ) -> MemoryPlan {
        let squeeze = role == MemoryRole::Squeeze && self.may_squeeze(node, container, settings);
        self.high = if squeeze { squeezed(node, container, self.high) } else { None };
        self.low = match role {
            MemoryRole::Protect => protected(container, protected_fraction, self.low),
            MemoryRole::Squeeze | MemoryRole::Leave => None,
        };
        MemoryPlan { low: self.low, high: self.high }
    }

    fn may_squeeze(&mut self, node: &NodeObservation, container: &ContainerObservation, s: &PolicySettings) -> bool {
        let calm = is_calm(node, container, s.memory_pressure_limit);
        if !calm && self.high.is_some() {
            self.rests_until = Some(node.now.after(Millis(s.interval.0.saturating_mul(REST_INTERVALS))));
        }
        calm && container.state == RunState::Running && self.rests_until.is_none_or(|until| until <= node.now)
    }
}

/// Whether memory pressure is known and low, on the node and in the container.
pub(super) fn is_calm(node: &NodeObservation, container: &ContainerObservation, limit: f64) -> bool {
    let below = |pressure: Option<f64>| pressure.is_some_and(|p| p < limit);
    below(node.pressure.memory) && below(container.usage.pressure.memory)
}

/// The part of its working set that each protected container can be given: 1 unless they exceed the memory that may be protected.
pub(super) fn protected_fraction<'a>(
    node: &NodeObservation,
    protected: impl Iterator<Item = &'a ContainerObservation>,
) -> f64 {
    let total: f64 = protected.filter_map(|container| container.usage.working_set).map(|bytes| bytes.0 as f64).sum();
    let room = node.memory.0 as f64 * MOST_PROTECTED;
    if total > room { room / total } else { 1.0 }
}

fn protected(container: &ContainerObservation, fraction: f64, planned: Option<Bytes>) -> Option<Bytes> {
    let low = Bytes((container.usage.working_set?.0 as f64 * fraction) as u64);
    let owners = container.original.memory_low?;
    let keeps = |planned: &Bytes| planned.0 as f64 >= 0.9 * low.0 as f64 && planned.0 as f64 <= 1.1 * low.0 as f64;
    let low = planned.filter(keeps).unwrap_or(Bytes(low.0 & !0xFFFFF));
    (low > owners && low.0 > 0).then_some(low)
}

fn squeezed(node: &NodeObservation, container: &ContainerObservation, planned: Option<Bytes>) -> Option<Bytes> {
    let least = least_high(node, container)?;
    let working_set = container.usage.working_set?.0;
    let margin = margin(working_set);
    let target = working_set.saturating_add(margin).max(least.0);
    let keeps = |high: &Bytes| *high >= least && high.0 <= target.saturating_add(margin);
    let step = container.usage.memory.unwrap_or_default().0.saturating_sub(STEP);
    let high = planned.filter(keeps).unwrap_or(Bytes(target.max(step).checked_add(0xFFFFF)? & !0xFFFFF));
    match container.original.memory_high {
        Some(Some(owners)) if owners <= high => None,
        _ => Some(high),
    }
}

/// The least `memory.high` that a plan may contain for this container; `None` = it may contain none.
pub(super) fn least_high(node: &NodeObservation, container: &ContainerObservation) -> Option<Bytes> {
    let working_set = container.usage.working_set?.0;
    let floor = container.memory_floor.unwrap_or_default();
    let least = Bytes(working_set.saturating_add(margin(working_set) / 2)).max(floor);
    (floor <= node.memory).then_some(least)
}

fn margin(working_set: u64) -> u64 {
    ((working_set as f64 * MARGIN) as u64).max(LEAST_MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::{container, node};

    const MIB: u64 = 1 << 20;

    fn observed(working_set: u64, pressure: Option<f64>) -> NodeObservation {
        let mut c = container("a");
        c.usage.working_set = Some(Bytes(working_set * MIB));
        c.usage.pressure.memory = pressure;
        let mut node = NodeObservation { memory: Bytes(8192 * MIB), ..node(vec![c]) };
        node.pressure.memory = pressure;
        node
    }

    fn plan(memory: &mut PlannedMemory, node: &NodeObservation, role: MemoryRole) -> MemoryPlan {
        let fraction = protected_fraction(node, node.containers.iter());
        memory.plan(node, &node.containers[0], role, fraction, &PolicySettings::default())
    }

    #[test]
    fn a_squeeze_leaves_the_working_set_and_a_margin() {
        let plan = plan(&mut PlannedMemory::default(), &observed(1000, Some(0.0)), MemoryRole::Squeeze);
        assert_eq!(plan, MemoryPlan { low: None, high: Some(Bytes(1250 * MIB)) });
    }

    #[test]
    fn a_large_file_cache_is_reclaimed_in_steps_of_one_gibibyte() {
        let mut memory = PlannedMemory::default();
        let mut high = |used: u64| {
            let mut node = observed(1000, Some(0.0));
            node.containers[0].usage.memory = Some(Bytes(used * MIB));
            plan(&mut memory, &node, MemoryRole::Squeeze).high
        };
        assert_eq!(high(6000), Some(Bytes(4976 * MIB)));
        assert_eq!(high(4976), Some(Bytes(3952 * MIB)));
        assert_eq!(high(2000), Some(Bytes(1250 * MIB)));
        assert_eq!(high(1250), Some(Bytes(1250 * MIB)));
    }

    #[test]
    fn small_changes_of_the_working_set_do_not_change_the_squeeze() {
        let mut memory = PlannedMemory::default();
        let first = plan(&mut memory, &observed(1000, Some(0.0)), MemoryRole::Squeeze);
        assert_eq!(plan(&mut memory, &observed(1080, Some(0.0)), MemoryRole::Squeeze), first);
        let grown = plan(&mut memory, &observed(1200, Some(0.0)), MemoryRole::Squeeze);
        assert_eq!(grown.high, Some(Bytes(1500 * MIB)));
    }

    #[test]
    fn pressure_ends_a_squeeze_and_delays_the_next() {
        let mut memory = PlannedMemory::default();
        plan(&mut memory, &observed(1000, Some(0.0)), MemoryRole::Squeeze);
        assert!(memory.is_squeezing());
        assert_eq!(plan(&mut memory, &observed(1000, Some(0.2)), MemoryRole::Squeeze).high, None);
        assert_eq!(
            plan(&mut memory, &observed(1000, Some(0.0)), MemoryRole::Squeeze).high,
            None,
            "the next squeeze must wait"
        );
        let mut later = observed(1000, Some(0.0));
        later.now = Millis::from_secs(500);
        assert!(plan(&mut memory, &later, MemoryRole::Squeeze).high.is_some());
    }

    #[test]
    fn without_pressure_information_nothing_is_squeezed() {
        assert_eq!(plan(&mut PlannedMemory::default(), &observed(1000, None), MemoryRole::Squeeze).high, None);
    }

    #[test]
    fn limits_and_floors_of_the_owner_are_respected() {
        let mut node = observed(1000, Some(0.0));
        node.containers[0].original.memory_high = Some(Some(Bytes(1100 * MIB)));
        assert_eq!(plan(&mut PlannedMemory::default(), &node, MemoryRole::Squeeze).high, None);
        node.containers[0].original.memory_high = Some(None);
        node.containers[0].memory_floor = Some(Bytes(3000 * MIB));
        assert_eq!(plan(&mut PlannedMemory::default(), &node, MemoryRole::Squeeze).high, Some(Bytes(3000 * MIB)));
        node.containers[0].original.memory_low = Some(Bytes(2000 * MIB));
        assert_eq!(plan(&mut PlannedMemory::default(), &node, MemoryRole::Protect).low, None);
    }

    #[test]
    fn a_floor_above_the_nodes_memory_disables_the_squeeze() {
        for floor in [Bytes(8193 * MIB), Bytes(20 << 60), Bytes(u64::MAX)] {
            let (mut memory, mut node) = (PlannedMemory::default(), observed(1000, Some(0.0)));
            node.containers[0].memory_floor = Some(floor);
            assert_eq!(plan(&mut memory, &node, MemoryRole::Squeeze).high, None, "{floor:?}");
            node.containers[0].memory_floor = Some(node.memory);
            assert_eq!(plan(&mut memory, &node, MemoryRole::Squeeze).high, Some(node.memory));
        }
    }

    #[test]
    fn at_most_half_of_the_nodes_memory_is_protected() {
        let node = observed(6000, Some(0.0));
        assert_eq!(plan(&mut PlannedMemory::default(), &node, MemoryRole::Protect).low, Some(Bytes(4096 * MIB)));
    }
}
