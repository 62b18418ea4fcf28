//! Reads one GPU: its sensors, its MIG instances, and its processes.

use super::faults::Fault;
use super::shares::{Clock, Sample, busy, shares};
use super::{GpuProcess, GpuReading, INSTANCES_AT_MOST, PROCESSES_AT_MOST};
use model::{Bytes, Gpu, GpuInstance, Millis};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock as ClockOf, EccCounter, MemoryError, Sampling, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use std::collections::BTreeMap;

/// State of a GPU that is kept between two readings.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub index: u32,
    pub name: String,
    pub has_larger_entries: bool,
    busy: Clock,
    processes: Clock,
    errors: Option<u64>,
}

/// Whether this version of the driver writes larger entries into lists of processes than it declares: those from 535.43 to 535.98 do.
/// Their lists would be misread and exceed the buffer; those of the older calls are correct.
pub(super) fn has_larger_entries(driver: &str) -> bool {
    let mut parts = driver.split('.').map(|part| part.parse::<u32>().ok());
    let (major, minor) = (parts.next().flatten(), parts.next().flatten());
    major == Some(535) && minor.is_some_and(|minor| minor < 104)
}

/// Returns a value, or `None` if the driver does not provide it.
///
/// # Errors
/// Only if the GPU itself is lost: further calls may block and return nothing.
fn optional<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error @ (NvmlError::GpuLost | NvmlError::ResetRequired | NvmlError::Uninitialized)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Returns samples, or `None` if the driver does not provide any. An empty list is a valid reading.
fn optional_samples<T>(answer: Result<Vec<T>, NvmlError>) -> Result<Option<Vec<T>>, NvmlError> {
    optional(match answer {
        Err(NvmlError::NotFound) => Ok(Vec::new()),
        other => other,
    })
}

/// Reads the GPU, and detects new memory errors.
pub(super) fn read(
    device: &Device<'_>,
    uuid: &str,
    known: &mut Known,
) -> Result<(GpuReading, Option<Fault>), NvmlError> {
    let whole = busy_now(device, &mut known.busy)?;
    let memory = optional(device.memory_info())?;
    let milliwatts = |power: u32| f64::from(power) / 1000.0;
    let mut gpu = Gpu {
        index: known.index,
        uuid: uuid.to_owned(),
        name: known.name.clone(),
        age: Millis(0),
        busy: whole,
        memory_used: memory.as_ref().map(|memory| Bytes(memory.used)),
        memory_free: memory.as_ref().map(|memory| Bytes(memory.free)),
        memory_total: memory.as_ref().map(|memory| Bytes(memory.total)),
        power: optional(device.power_usage())?.map(milliwatts),
        power_limit: optional(device.enforced_power_limit())?.map(milliwatts),
        temperature: optional(device.temperature(TemperatureSensor::Gpu))?.map(f64::from),
        sm_clock: optional(device.clock_info(ClockOf::SM))?.map(f64::from),
        memory_clock: optional(device.clock_info(ClockOf::Memory))?.map(f64::from),
        uncorrected_errors: optional(device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile))?,
        instances: Vec::new(),
    };
    let is_divided = optional(device.mig_mode())?.is_some_and(|mode| mode.current == 1);
    let processes = if is_divided {
        let (instances, processes) = instances(device, known.has_larger_entries)?;
        gpu.instances = instances;
        processes
    } else {
        processes(device, whole, known)?
    };
    let fault = memory_fault(&gpu, known);
    Ok((GpuReading { gpu, processes }, fault))
}

/// Returns the busy time since the last reading if the driver keeps samples, otherwise that of the driver's own, shorter interval.
fn busy_now(device: &Device<'_>, clock: &mut Clock) -> Result<Option<f64>, NvmlError> {
    let samples = optional_samples(device.samples(Sampling::GpuUtilization, clock.since_us()))?;
    let percent = |value: &SampleValue| match value {
        SampleValue::F64(value) => *value,
        SampleValue::U32(value) => f64::from(*value),
        SampleValue::U64(value) => *value as f64,
        SampleValue::I64(value) => *value as f64,
    };
    let samples = samples.and_then(|samples| {
        let plain = |sample: &nvml_wrapper::struct_wrappers::device::Sample| Sample {
            pid: 0,
            at_us: sample.timestamp,
            percent: percent(&sample.value),
        };
        // An idle GPU has samples, too.
        clock.new_ones(samples.iter().map(plain).collect(), true)
    });
    if let Some(busy) = samples.as_deref().and_then(busy) {
        return Ok(Some(busy));
    }
    let now = optional(device.utilization_rates())?.map(|rates| f64::from(rates.gpu));
    Ok(now.filter(|percent| *percent <= 100.0).map(|percent| percent / 100.0))
}

/// Returns the processes that use an undivided GPU.
fn processes(device: &Device<'_>, busy: Option<f64>, known: &mut Known) -> Result<Vec<GpuProcess>, NvmlError> {
    let clock = &mut known.processes;
    let is_busy = busy.is_some_and(|busy| busy > 0.0);
    let plain = |sample: &nvml_wrapper::struct_wrappers::device::ProcessUtilizationSample| Sample {
        pid: sample.pid,
        at_us: sample.timestamp,
        percent: f64::from(sample.sm_util),
    };
    let samples = optional_samples(device.process_utilization_stats(clock.since_us()))?;
    let samples = samples.and_then(|samples| {
        let samples = samples.iter().filter(|sample| sample.pid != 0).take(PROCESSES_AT_MOST).map(plain);
        clock.new_ones(samples.collect(), is_busy)
    });
    let shares = samples.map(|samples| shares(&samples, busy));
    let mut processes = holders(device, None, known.has_larger_entries)?;
    for (pid, share) in shares.iter().flatten() {
        if *share > 0.0 && processes.len() < PROCESSES_AT_MOST {
            let unlisted = GpuProcess { pid: *pid, instance: None, share: None, memory: None };
            processes.entry(*pid).or_insert(unlisted);
        }
    }
    for (pid, process) in &mut processes {
        process.share = shares.as_ref().map(|shares| shares.get(pid).copied().unwrap_or(0.0));
    }
    Ok(processes.into_values().collect())
}

/// Returns the processes that hold memory on the GPU. A process with compute and graphics contexts is in both lists with the same amount.
/// Only the current calls list the clients of MPS.
fn holders(
    device: &Device<'_>,
    instance: Option<u32>,
    has_larger_entries: bool,
) -> Result<BTreeMap<u32, GpuProcess>, NvmlError> {
    type Call = fn(&Device<'_>) -> Result<Vec<ProcessInfo>, NvmlError>;
    let list = |call: Call, older_call: Call| match call(device) {
        Err(NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound) => older_call(device),
        other => other,
    };
    let compute: Call = |device| device.running_compute_processes_v2();
    let graphics: Call = |device| device.running_graphics_processes_v2();
    let (compute, graphics, of_mps) = if has_larger_entries {
        (compute(device), graphics(device), Ok(Vec::new()))
    } else {
        (
            list(|device| device.running_compute_processes(), compute),
            list(|device| device.running_graphics_processes(), graphics),
            device.mps_running_compute_processes(),
        )
    };
    let lists = [optional(compute)?, optional(graphics)?, optional(of_mps)?];
    let mut processes: BTreeMap<u32, GpuProcess> = BTreeMap::new();
    for listed in lists.into_iter().flatten().flatten().filter(|listed| listed.pid != 0) {
        if processes.len() >= PROCESSES_AT_MOST {
            break;
        }
        let memory = match listed.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(Bytes(bytes)),
            UsedGpuMemory::Unavailable => None,
        };
        let unknown = GpuProcess { pid: listed.pid, instance, share: None, memory: None };
        let process = processes.entry(listed.pid).or_insert(unknown);
        process.memory = process.memory.max(memory);
    }
    Ok(processes)
}

/// Returns the MIG instances of a divided GPU and their processes. The driver does not report GPU time per instance.
fn instances(device: &Device<'_>, has_larger_entries: bool) -> Result<(Vec<GpuInstance>, Vec<GpuProcess>), NvmlError> {
    let count = optional(device.mig_device_count())?.unwrap_or(0).min(INSTANCES_AT_MOST);
    let (mut instances, mut processes) = (Vec::new(), Vec::new());
    for index in 0..count {
        // Indices without an instance are not found.
        let Some(part) = optional(device.mig_device_by_index(index))? else { continue };
        let Some(uuid) = optional(part.uuid())? else { continue };
        let memory = optional(part.memory_info())?;
        instances.push(GpuInstance {
            index,
            uuid,
            memory_used: memory.as_ref().map(|memory| Bytes(memory.used)),
            memory_free: memory.as_ref().map(|memory| Bytes(memory.free)),
            memory_total: memory.as_ref().map(|memory| Bytes(memory.total)),
        });
        processes.extend(holders(&part, Some(index), has_larger_entries)?.into_values());
    }
    Ok((instances, processes))
}

/// Returns memory errors since the last reading. A counter that decreased was reset with the driver.
fn memory_fault(gpu: &Gpu, known: &mut Known) -> Option<Fault> {
    let before = known.errors;
    known.errors = gpu.uncorrected_errors.or(before);
    let new = gpu.uncorrected_errors?.checked_sub(before?).filter(|new| *new > 0)?;
    Some(Fault::Memory { gpu: gpu.index, uuid: gpu.uuid.clone(), errors: new })
}

#[cfg(test)]
mod tests {
    use super::has_larger_entries;

    #[test]
    fn only_early_drivers_of_branch_535_write_larger_entries() {
        for driver in ["535.43.02", "535.54.03", "535.86.05", "535.98"] {
            assert!(has_larger_entries(driver), "{driver}");
        }
        for driver in ["470.256.02", "525.147.05", "535.104.05", "535.183.01", "550.54.15", "", "unknown"] {
            assert!(!has_larger_entries(driver), "{driver}");
        }
    }
}
