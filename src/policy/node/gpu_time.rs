//! GPU time of a container, and its CPU time beyond waiting for GPUs, accumulated over ticks.

use model::{ContainerObservation, CpuTime, GpuUse, Millis, NodeObservation};
use serde::{Deserialize, Serialize};

/// Time of one container, since it was first observed on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct GpuTime {
    /// Time of the last known share.
    at: Option<Millis>,
    seconds: f64,
    /// CPU time at the last known share.
    #[serde(default)]
    cpu: Option<CpuTime>,
    /// CPU-seconds beyond waiting.
    #[serde(default)]
    computed: f64,
}

/// What a container has used, for comparing its need of the CPU with its need of GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct GpuUsed {
    /// GPU time; the mean over its GPUs if it has several.
    pub(super) gpu: CpuTime,
    /// CPU time beyond waiting for a GPU: CUDA's synchronization keeps a core busy by default, and the longer the more others use the GPU.
    pub(super) cpu: CpuTime,
}

impl GpuTime {
    /// Adds one tick's observation, whose shares are means since the last tick. Returns what was used since the first observation; `None`
    /// while it is unknown.
    pub(super) fn after(&mut self, node: &NodeObservation, container: &ContainerObservation) -> Option<GpuUsed> {
        let shares: Vec<f64> = container.gpus.iter().filter_map(|part| part.share).filter(|s| s.is_finite()).collect();
        let (before, cpu_before) = (self.at.take(), self.cpu.take());
        if shares.is_empty() {
            return None;
        }
        (self.at, self.cpu) = (Some(node.now), container.usage.cpu);
        let share = (shares.iter().sum::<f64>() / shares.len() as f64).clamp(0.0, 1.0);
        let passed = before.map_or(0.0, |before| node.now.since(before).as_secs_f64());
        self.seconds += share * passed;
        if let (Some(before), Some(cpu)) = (cpu_before, self.cpu) {
            let used = cpu.as_secs_f64() - before.as_secs_f64();
            self.computed += (used - passed * waiting(node, &container.gpus)).max(0.0);
        }
        let time = |seconds: f64| CpuTime((seconds * 1e6) as u64);
        Some(GpuUsed { gpu: time(self.seconds), cpu: time(self.computed) })
    }
}

/// Returns the number of cores that may be busy with waiting: one per process on each GPU, while that GPU works for anybody.
fn waiting(node: &NodeObservation, parts: &[GpuUse]) -> f64 {
    let works = |part: &GpuUse| {
        let busy = node.gpus.iter().find(|gpu| gpu.index == part.gpu).and_then(|gpu| gpu.busy);
        busy.or(part.share).filter(|busy| busy.is_finite()).unwrap_or(0.0).clamp(0.0, 1.0)
    };
    parts.iter().map(|part| f64::from(part.processes) * works(part)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::{container, node};
    use model::Gpu;

    #[test]
    fn shares_add_up_and_unknown_ones_count_for_nothing() {
        let mut time = GpuTime::default();
        let mut after = |seconds: u64, shares: &[Option<f64>]| {
            let mut job = container("a");
            job.gpus = shares.iter().map(|share| GpuUse { share: *share, ..GpuUse::default() }).collect();
            let node = NodeObservation { now: Millis::from_secs(seconds), ..node(Vec::new()) };
            time.after(&node, &job).map(|used| used.gpu.as_secs_f64())
        };
        assert_eq!(after(0, &[Some(0.5)]), Some(0.0));
        assert_eq!(after(20, &[Some(0.5)]), Some(10.0));
        assert_eq!(after(30, &[Some(0.4), Some(0.6)]), Some(15.0));
        assert_eq!(after(40, &[None]), None);
        assert_eq!(after(50, &[Some(1.0)]), Some(15.0), "it is unknown since when the share has been 1");
        assert_eq!(after(60, &[]), None);
    }

    #[test]
    fn cpu_with_which_processes_wait_for_a_busy_gpu_is_left_out() {
        let computed = |cores: f64, busy: f64, processes: u32| {
            let mut time = GpuTime::default();
            let mut after = |seconds: u64| {
                let mut job = container("a");
                job.usage.cpu = Some(CpuTime((cores * seconds as f64 * 1e6) as u64));
                job.gpus = vec![GpuUse { share: Some(0.5), processes, ..GpuUse::default() }];
                let mut node = NodeObservation { now: Millis::from_secs(seconds), ..node(Vec::new()) };
                node.gpus = vec![Gpu { busy: Some(busy), ..Gpu::default() }];
                time.after(&node, &job).map(|used| used.cpu.as_secs_f64())
            };
            assert_eq!(after(10), Some(0.0));
            after(20)
        };
        assert_eq!(computed(1.0, 1.0, 1), Some(0.0), "one process that waits all the time");
        assert_eq!(computed(1.0, 0.5, 1), Some(5.0), "the GPU is idle for half of the time: the job computes then");
        assert_eq!(computed(8.0, 1.0, 2), Some(60.0), "six cores load data");
        assert_eq!(computed(0.1, 1.0, 1), Some(0.0), "it sleeps while it waits");
    }
}
