//! `cpu.max` from a limit, if the operator configured `enforcement = "quota"` (the paper's `--cpus`). FlowCon's limit L is the quota: 0.25
//! beside 1 leaves the other job without a quota. Under the default policy the limit is the planned share.
//!
//! A quota can leave CPU idle that no other job wants, which is why weights are the default. So:
//!
//! - a quota is at least `quota_floor` (one core by default): a job's thread must not wait in the middle of a step;
//! - a limit of the whole node sets no quota, and a container whose owner set a quota keeps that;
//! - a container that was throttled while the node had idle CPU loses its quota until the node is busy again;
//! - without counters, the limit alone decides.

use super::growth::risen;
use model::{ContainerObservation, Millis, NodeObservation, Quota, RunState, Usage};
use serde::{Deserialize, Serialize};

/// The node is busy when the governed containers use at least this part of it.
const BUSY: f64 = 0.95;

/// A container that was throttled for more than this part of the time was limited by its quota.
const HELD_BACK: f64 = 0.02;

/// State of one container, kept between ticks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct QuotaMemory {
    before: Option<(Millis, Usage)>,
    freed: bool,
}

/// Whether the governed containers use nearly all of the node's CPU; `None` when a counter is missing.
pub(super) fn node_is_busy<'a>(
    node: &'a NodeObservation,
    memories: impl Iterator<Item = &'a QuotaMemory>,
) -> Option<bool> {
    let mut used = 0.0;
    let mut since = None;
    for (container, memory) in node.containers.iter().zip(memories).filter(|(c, _)| c.state == RunState::Running) {
        let (at, usage) = memory.before.as_ref()?;
        used += risen(usage.cpu, container.usage.cpu)?.as_secs_f64();
        since = Some(*at);
    }
    let seconds = node.now.since(since?).as_secs_f64();
    (seconds > 0.0 && node.cores > 0.0).then(|| used / (seconds * node.cores) >= BUSY)
}

impl QuotaMemory {
    /// Returns the quota for `limit`, a part of the node; `None` = the original.
    pub(super) fn plan(
        &mut self,
        node: &NodeObservation,
        container: &ContainerObservation,
        limit: f64,
        floor: Quota,
        busy: Option<bool>,
    ) -> Option<Quota> {
        let held_back = self.was_held_back(node.now, container);
        self.before = Some((node.now, container.usage));
        self.freed = match busy {
            Some(true) => false,
            Some(false) => self.freed || held_back,
            None => self.freed,
        };
        let set_by_owner = matches!(container.original.cpu_quota, Some(Some(_)));
        if self.freed || set_by_owner || node.cores.is_nan() || node.cores <= 0.0 {
            return None;
        }
        let quota = ((limit * node.cores * 1000.0).round() as u64).max(floor.0);
        ((quota as f64) < node.cores * 1000.0).then_some(Quota(quota))
    }

    /// Records the counters when no quota is planned.
    pub(super) fn watch(&mut self, node: &NodeObservation, container: &ContainerObservation) {
        self.before = Some((node.now, container.usage));
        self.freed = false;
    }

    fn was_held_back(&self, now: Millis, container: &ContainerObservation) -> bool {
        let Some((at, usage)) = &self.before else { return false };
        let seconds = now.since(*at).as_secs_f64();
        risen(usage.throttled, container.usage.throttled)
            .is_some_and(|throttled| seconds > 0.0 && throttled.as_secs_f64() > HELD_BACK * seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::{container, node};
    use model::CpuTime;

    const FLOOR: Quota = Quota(1000);

    fn observed(now: u64, cpu: u64, throttled: u64) -> NodeObservation {
        let mut c = container("a");
        c.usage.cpu = Some(CpuTime(cpu * 1_000_000));
        c.usage.throttled = Some(CpuTime(throttled * 1_000_000));
        NodeObservation { now: Millis::from_secs(now), cores: 8.0, ..node(vec![c]) }
    }

    fn plan(memory: &mut QuotaMemory, node: &NodeObservation, share: f64) -> Option<Quota> {
        let busy = node_is_busy(node, [&memory.clone()].into_iter());
        memory.plan(node, &node.containers[0], share, FLOOR, busy)
    }

    #[test]
    fn a_quota_is_the_share_of_the_cores_and_at_least_one_core() {
        let mut memory = QuotaMemory::default();
        assert_eq!(plan(&mut memory, &observed(0, 0, 0), 0.3), Some(Quota(2400)));
        assert_eq!(plan(&mut memory, &observed(20, 10, 0), 0.01), Some(FLOOR));
        assert_eq!(plan(&mut memory, &observed(40, 20, 0), 1.0), None);
    }

    #[test]
    fn fault_a_hard_cap_that_leaves_cpu_idle_is_not_repeated() {
        let mut memory = QuotaMemory::default();
        plan(&mut memory, &observed(0, 0, 0), 0.25);
        assert_eq!(plan(&mut memory, &observed(20, 40, 10), 0.25), None, "throttled, and 6 of 8 cores idle");
        assert_eq!(plan(&mut memory, &observed(40, 120, 10), 0.25), None, "still idle: no quota");
        assert_eq!(plan(&mut memory, &observed(60, 280, 10), 0.25), Some(Quota(2000)), "the node is busy again");
    }

    #[test]
    fn a_quota_set_by_the_owner_is_kept() {
        let mut node = observed(0, 0, 0);
        node.containers[0].original.cpu_quota = Some(Some(Quota(3000)));
        assert_eq!(plan(&mut QuotaMemory::default(), &node, 0.1), None);
    }
}
