//! The energy that each job used: that of processors and memory by the meters of the machine, that of GPUs by their power.
//!
//! The parts of all jobs and of what is not governed sum to the meter. The energy of an idle machine is shared by use as well: a part of the
//! CPU-seconds, or of the busy time of a GPU, has the same part of the whole energy of that time. If nobody used it, it belongs to nobody.

use super::job::Jobs;
use model::{CpuTime, Gpu, GpuUse, Millis, NodeObservation};
use node::energy::{EnergyMeter, POWERCAP};
use std::path::Path;

/// The meters, as last read.
#[derive(Debug)]
pub(super) struct Energy {
    meter: Option<EnergyMeter>,
    at: Option<Millis>,
    /// Idle time of each processor.
    idle: Vec<CpuTime>,
}

impl Energy {
    pub(crate) fn of_host() -> Energy {
        Energy::at(Path::new(POWERCAP))
    }

    fn at(powercap: &Path) -> Energy {
        Energy { meter: EnergyMeter::open(powercap), at: None, idle: Vec::new() }
    }

    /// Charges each job with its part of the energy since the last call, as observed.
    pub(crate) fn charge(&mut self, jobs: &mut Jobs, node: &NodeObservation) {
        let passed_s = self.at.replace(node.now).map_or(0.0, |at| node.now.since(at).as_secs_f64());
        if self.meter.is_none() && node.gpus.iter().all(|gpu| gpu.power.is_none()) {
            return;
        }
        let observed = || node.containers.iter();
        let mut parts = vec![None; node.containers.len()];
        let mut add = |joules: f64, used: &[Option<f64>], all: f64| {
            for (part, joules) in parts.iter_mut().zip(apportioned(joules, used, all)) {
                *part = [*part, joules].into_iter().flatten().reduce(|one, other| one + other);
            }
        };
        if let Some((joules, all)) = self.used_by_processors(passed_s) {
            let used = observed().map(|container| {
                let now = container.usage.cpu?;
                let charged = jobs.get_mut(&container.id)?.energy.cpu.replace(now);
                Some(now.since(charged.unwrap_or(now)).as_secs_f64())
            });
            add(joules, &used.collect::<Vec<_>>(), all);
        }
        for (gpu, power) in node.gpus.iter().filter_map(|gpu| Some((gpu, gpu.power?))) {
            let shares: Vec<_> = observed().map(|container| share_of(gpu, &container.gpus)).collect();
            add(power * passed_s, &shares, gpu.busy.unwrap_or(0.0));
        }
        for (container, part) in observed().zip(parts) {
            if let (Some(job), Some(part)) = (jobs.get_mut(&container.id), part) {
                job.energy.joules = Some(job.energy.joules.unwrap_or(0.0) + part);
            }
        }
    }

    /// The joules of processors and memory since the last call, and the CPU-seconds that all processes used.
    fn used_by_processors(&mut self, passed_s: f64) -> Option<(f64, f64)> {
        let joules = self.meter.as_mut()?.used_j()?;
        let idle = node::idle();
        let before = std::mem::replace(&mut self.idle, idle);
        let idle_s = self.idle.iter().zip(&before).map(|(now, then)| now.since(*then).as_secs_f64());
        let busy_s = idle_s.map(|idle_s| (passed_s - idle_s).max(0.0)).sum();
        Some((joules, busy_s))
    }
}

/// The share of a GPU that a job uses; `None` if it does not use it, or that is not known.
fn share_of(gpu: &Gpu, uses: &[GpuUse]) -> Option<f64> {
    uses.iter().filter(|part| part.gpu == gpu.index).filter_map(|part| part.share).reduce(|one, other| one + other)
}

/// Divides energy by use: `all` is the use by everybody, at least the sum of `used`. What the others used is left over.
fn apportioned(joules: f64, used: &[Option<f64>], all: f64) -> Vec<Option<f64>> {
    let all = all.max(used.iter().flatten().sum());
    let part = |used: f64| if all > 0.0 { joules * used / all } else { 0.0 };
    used.iter().map(|used| used.map(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeCgroup, TestDaemon, id};
    use super::*;
    use model::{ContainerObservation, Runtime};
    use std::fs;

    fn idle_node() -> NodeObservation {
        NodeObservation {
            now: Millis(0),
            cores: 1.0,
            idle: Vec::new(),
            memory: model::Bytes(0),
            pressure: model::Pressure::default(),
            holdback: None,
            gpus: Vec::new(),
            users: Vec::new(),
            containers: Vec::new(),
        }
    }

    #[test]
    fn the_parts_sum_to_the_meter_and_idle_energy_is_shared_by_use() {
        let parts = |used: [f64; 2], all| apportioned(100.0, &used.map(Some), all);
        assert_eq!(parts([1.0, 3.0], 0.0), [Some(25.0), Some(75.0)]);
        assert_eq!(parts([1.0, 3.0], 8.0), [Some(12.5), Some(37.5)], "half of it is that of others");
        assert_eq!(parts([0.0, 0.0], 0.0), [Some(0.0); 2], "nobody used it");
        assert_eq!(apportioned(100.0, &[None, Some(1.0)], 2.0), [None, Some(50.0)]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn jobs_are_charged_by_their_cpu_time_and_by_their_part_of_a_gpu() {
        let mut daemon = TestDaemon::new(None);
        let folder = tempfile::tempdir().unwrap();
        let zone = folder.path().join("intel-rapl:0");
        fs::create_dir(&zone).unwrap();
        let set = |file: &str, text: &str| fs::write(zone.join(file), text).unwrap();
        set("name", "package-0");
        set("max_energy_range_uj", "1000000000");
        set("energy_uj", "0");
        let mut energy = Energy::at(folder.path());
        let seen = |number: u8, cpu_s: u64, share: Option<f64>| ContainerObservation {
            usage: model::Usage { cpu: Some(CpuTime(cpu_s * 1_000_000)), ..model::Usage::default() },
            gpus: share.map(|share| GpuUse { share: Some(share), ..GpuUse::default() }).into_iter().collect(),
            ..ContainerObservation::new(id(number).as_str())
        };
        let cgroups = [FakeCgroup::new(), FakeCgroup::new()];
        for (cgroup, number) in cgroups.iter().zip(1..) {
            daemon.add(&id(number), "job", cgroup, Runtime::Docker);
        }
        let jobs = &mut daemon.governing.jobs;
        let gpu = Gpu { power: Some(300.0), busy: Some(0.6), ..Gpu::default() };
        let mut look = |now_s: u64, containers: Vec<ContainerObservation>| {
            let node =
                NodeObservation { now: Millis::from_secs(now_s), gpus: vec![gpu.clone()], containers, ..idle_node() };
            energy.charge(jobs, &node);
            [1, 2].map(|number| jobs[&id(number)].energy.joules.map(f64::round))
        };
        assert_eq!(look(10, vec![seen(1, 1000, None), seen(2, 500, Some(0.3))]), [Some(0.0); 2]);
        // More than all processors of any machine can do, so that nothing is left for others.
        set("energy_uj", "600000000");
        let charged = look(20, vec![seen(1, 2_001_000, None), seen(2, 1_000_500, Some(0.3))]);
        assert_eq!(charged, [Some(400.0), Some(200.0 + 0.5 * 300.0 * 10.0)]);
        // Without a meter only the GPU tells.
        fs::remove_file(zone.join("energy_uj")).unwrap();
        assert_eq!(
            look(21, vec![seen(1, 2_002_000, None), seen(2, 1_001_000, Some(0.6))]),
            [Some(400.0), Some(2000.0)]
        );
    }
}
