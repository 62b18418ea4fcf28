//! Metrics of GPUs, and of their use by jobs.
//!
//! Metrics of a GPU have the names, units and labels of NVIDIA's dcgm-exporter, so that its dashboards work with them. If both exporters
//! run, their series differ in `job` and `instance`. Metrics without a name in dcgm-exporter have the prefix `flowcon_`.

use super::family::{Kind, family, identity};
use model::{Bytes, Gpu, GpuUse, JobStatus};
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt::Error;

/// A value of one GPU, if known.
type GpuValue = fn(&Gpu) -> Option<f64>;

fn mebibytes(bytes: Option<Bytes>) -> Option<f64> {
    Some((bytes?.0 as f64 / f64::from(1 << 20)).round())
}

const GPU_METRICS: &[(Kind, &str, &str, GpuValue)] = &[
    (Kind::Gauge, "DCGM_FI_DEV_GPU_UTIL", "Percentage of time in which a kernel ran", |gpu| {
        Some((gpu.busy? * 1000.0).round() / 10.0)
    }),
    (Kind::Gauge, "DCGM_FI_DEV_FB_USED", "GPU memory in use by all processes, in MiB", |gpu| {
        mebibytes(gpu.memory_used)
    }),
    (Kind::Gauge, "DCGM_FI_DEV_FB_FREE", "Free GPU memory, in MiB", |gpu| mebibytes(gpu.memory_free)),
    (Kind::Gauge, "DCGM_FI_DEV_POWER_USAGE", "Power draw, in watts", |gpu| gpu.power),
    (Kind::Gauge, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "Power limit, in watts", |gpu| gpu.power_limit),
    (Kind::Gauge, "DCGM_FI_DEV_GPU_TEMP", "Temperature of the chip, in degrees Celsius", |gpu| gpu.temperature),
    (Kind::Gauge, "DCGM_FI_DEV_SM_CLOCK", "Clock of its processors, in MHz", |gpu| gpu.sm_clock),
    (Kind::Gauge, "DCGM_FI_DEV_MEM_CLOCK", "Memory clock, in MHz", |gpu| gpu.memory_clock),
    (Kind::Counter, "flowcon_gpu_uncorrected_errors", "Uncorrected memory errors since the driver was loaded", |gpu| {
        Some(gpu.uncorrected_errors? as f64)
    }),
    (Kind::Gauge, "flowcon_gpu_reading_age_seconds", "Age of the GPU's values", |gpu| Some(gpu.age.as_secs_f64())),
];

/// Encodes the metrics of all GPUs.
pub(super) fn gpus(gpus: &[Gpu], out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    for (kind, name, help, reading) in GPU_METRICS {
        let series = gpus.iter().filter_map(|gpu| {
            let number = reading(gpu).filter(|number| number.is_finite())?;
            let device = format!("nvidia{}", gpu.index);
            let labels = [
                ("gpu", gpu.index.to_string()),
                ("UUID", gpu.uuid.clone()),
                ("device", device),
                ("modelName", gpu.name.clone()),
            ];
            Some((labels, number))
        });
        family(out, *kind, name, help, series)?;
    }
    Ok(())
}

/// Encodes the GPU use of jobs. `UUID` is that of the MIG instance if the GPU is partitioned.
pub(super) fn of_containers(jobs: &[JobStatus], out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let parts = || jobs.iter().flat_map(|job| job.observed.gpus.iter().map(move |part| (job, part)));
    let labels = |job: &JobStatus, part: &GpuUse| {
        let [id, name] = identity(job);
        [id, name, ("gpu", part.gpu.to_string()), ("UUID", part.uuid.clone())]
    };
    let shares =
        parts().filter_map(|(job, part)| Some((labels(job, part), part.share.filter(|share| share.is_finite())?)));
    family(
        out,
        Kind::Gauge,
        "flowcon_container_gpu_share_ratio",
        "Fraction of the GPU's time used by the container",
        shares,
    )?;
    let held = parts().filter_map(|(job, part)| Some((labels(job, part), part.memory?.0 as f64)));
    family(
        out,
        Kind::Gauge,
        "flowcon_container_gpu_memory_bytes",
        "GPU memory held by the container's processes",
        held,
    )?;
    let frozen = jobs.iter().filter_map(|job| Some((identity(job), job.frozen.filter(|share| share.is_finite())?)));
    let help = "Fraction of the last minute in which the container was frozen for another job on its GPU";
    family(out, Kind::Gauge, "flowcon_container_frozen_ratio", help, frozen)
}
