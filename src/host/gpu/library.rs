//! The driver's library: loading it, and reading all GPUs through it.

use super::device::{self, Known};
use super::faults::Xids;
use super::{GPUS_AT_MOST, GpuReadings, LostGpu};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// File name of the library, as known to the dynamic loader.
pub const DEFAULT: &str = "libnvidia-ml.so.1";
/// Exists while the kernel driver is loaded.
const DRIVER: &str = "/proc/driver/nvidia/version";

/// The loaded library.
#[derive(Debug)]
pub struct Library {
    nvml: Nvml,
}

/// Why no GPUs can be observed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGpu {
    /// The library does not exist.
    #[error("{name} is not installed")]
    NoLibrary {
        /// Name or path of the library.
        name: String,
    },
    /// The library exists, but no driver is loaded, or there is no device to access it.
    #[error("the NVIDIA driver is not loaded, or its devices in /dev are not accessible")]
    NoDriver,
    /// This program is statically linked. The loader in it would need the exact C library with which it was built, and aborts otherwise.
    #[error("this static build of flowcon cannot load {name}")]
    StaticBuild {
        /// Name or path of the library.
        name: String,
    },
    /// Library and driver exist, but do not work.
    #[error("{name} does not work: {why}")]
    Broken {
        /// Name or path of the library.
        name: String,
        /// Error of the loader or the driver.
        why: String,
    },
}

impl Library {
    /// Loads the library with this name or path, and checks that the driver responds. May block for seconds.
    ///
    /// # Errors
    /// [`NoGpu`], as on most machines.
    pub fn open(path: &Path) -> Result<Library, NoGpu> {
        let name = path.to_string_lossy().into_owned();
        if cfg!(target_feature = "crt-static") {
            return Err(of_static_build(name, Path::new(DRIVER).exists()));
        }
        match Nvml::builder().lib_path(path.as_os_str()).init() {
            Ok(nvml) => Ok(Library { nvml }),
            Err(NvmlError::DriverNotLoaded | NvmlError::LibraryNotFound) => Err(NoGpu::NoDriver),
            Err(NvmlError::LibloadingError(error)) => {
                let why = error.to_string();
                let is_missing = why.starts_with(&name) && why.ends_with("No such file or directory");
                Err(if is_missing { NoGpu::NoLibrary { name } } else { NoGpu::Broken { name, why } })
            }
            Err(NvmlError::LibRmVersionMismatch) => {
                let why = "its version differs from that of the driver in the kernel; reboot, or load the new driver";
                Err(NoGpu::Broken { name, why: why.to_owned() })
            }
            Err(error) => Err(NoGpu::Broken { name, why: error.to_string() }),
        }
    }

    /// Returns the driver's version, if available.
    pub fn driver(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }
}

/// Why a static build observes no GPUs: a driver or a configured path shows that somebody expects it to.
fn of_static_build(name: String, is_loaded: bool) -> NoGpu {
    if is_loaded || name != DEFAULT { NoGpu::StaticBuild { name } } else { NoGpu::NoDriver }
}

/// Reads the GPUs repeatedly, and keeps the state of the last reading.
#[derive(Debug, Default)]
pub struct Reader {
    known: BTreeMap<String, Known>,
    lost: BTreeMap<String, LostGpu>,
}

impl Reader {
    /// Begins a session with a newly loaded library.
    pub fn begin<'nvml>(&mut self, library: &'nvml Library) -> Session<'nvml> {
        let has_larger_entries = library.driver().is_some_and(|driver| device::has_larger_entries(&driver));
        Session { nvml: &library.nvml, has_larger_entries, xids: Xids::default() }
    }
}

/// A session with the loaded library.
#[derive(Debug)]
pub struct Session<'nvml> {
    nvml: &'nvml Nvml,
    has_larger_entries: bool,
    xids: Xids<'nvml>,
}

impl Session<'_> {
    /// Reads all GPUs. Each call to the library may block for seconds on a faulty driver.
    pub fn read(&mut self, reader: &mut Reader) -> GpuReadings {
        let mut reading = GpuReadings::default();
        let mut seen = BTreeSet::new();
        let count = self.nvml.device_count().unwrap_or(0).min(GPUS_AT_MOST);
        let mut why_lost = BTreeMap::new();
        for index in 0..count {
            match self.read_one(index, reader, &mut seen, &mut reading) {
                Ok(()) => {}
                Err(error) => {
                    why_lost.insert(index, error.to_string());
                }
            }
        }
        for (uuid, known) in reader.known.iter().filter(|(uuid, _)| !seen.contains(*uuid)) {
            let lost = || LostGpu {
                index: known.index,
                uuid: uuid.clone(),
                name: known.name.clone(),
                why: why_lost.get(&known.index).cloned().unwrap_or_else(|| "the driver does not list it".to_owned()),
            };
            reader.lost.entry(uuid.clone()).or_insert_with(lost);
        }
        reader.lost.retain(|uuid, _| !seen.contains(uuid));
        reading.lost = reader.lost.values().cloned().collect();
        // Without a response so far, a GPU has no UUID.
        why_lost.retain(|index, _| !reader.known.values().any(|known| known.index == *index));
        reading.lost.extend(why_lost.into_iter().map(|(index, why)| LostGpu::unknown(index, why)));
        reading.faults.extend(self.xids.since());
        reading
    }

    fn read_one(
        &mut self,
        index: u32,
        reader: &mut Reader,
        seen: &mut BTreeSet<String>,
        reading: &mut GpuReadings,
    ) -> Result<(), NvmlError> {
        let device = self.nvml.device_by_index(index)?;
        let uuid = device.uuid()?;
        let is_known = reader.known.contains_key(&uuid);
        // A GPU that is replaced while the daemon is running is kept as lost, unless there are too many.
        if !is_known && reader.known.len() >= GPUS_AT_MOST as usize {
            reader.known.retain(|uuid, _| seen.contains(uuid));
        }
        let known = reader.known.entry(uuid.clone()).or_default();
        if !is_known {
            known.name = device.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned());
        }
        known.index = index;
        known.has_larger_entries = self.has_larger_entries;
        self.xids.listen(self.nvml, &device, index, &uuid);
        let (gpu, fault) = device::read(&device, &uuid, known)?;
        seen.insert(uuid);
        reading.gpus.push(gpu);
        reading.faults.extend(fault);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_not_a_broken_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("libnvidia-ml.so.1");
        assert!(matches!(Library::open(&path), Err(NoGpu::NoLibrary { .. })));
        std::fs::write(&path, "not a library").unwrap();
        assert!(matches!(Library::open(&path), Err(NoGpu::Broken { .. })));
    }

    #[test]
    fn a_static_build_reports_that_it_cannot_load_the_library_only_where_gpus_are_expected() {
        assert_eq!(of_static_build(DEFAULT.to_owned(), false), NoGpu::NoDriver);
        assert!(matches!(of_static_build(DEFAULT.to_owned(), true), NoGpu::StaticBuild { .. }));
        assert!(matches!(of_static_build("/opt/libnvidia-ml.so.1".to_owned(), false), NoGpu::StaticBuild { .. }));
    }
}
