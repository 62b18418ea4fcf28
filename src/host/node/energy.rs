//! The energy that the machine has used, by its own meters: RAPL of Intel and AMD processors, in `/sys/class/powercap`.
//!
//! The packages count and, where they have a meter of their own, their memories (`dram`). `core` and `uncore` are parts of a package, `psys`
//! has it in it, and `intel-rapl-mmio` shows it once more: these are left out. A counter has microjoules, and begins again after its range.
//! Only root may read it.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel has the meters.
pub const POWERCAP: &str = "/sys/class/powercap";

/// The meters of a machine, with their last readings.
#[derive(Debug)]
pub struct EnergyMeter(Vec<Zone>);

#[derive(Debug)]
struct Zone {
    counter: PathBuf,
    range_uj: u64,
    last_uj: u64,
}

impl EnergyMeter {
    /// Opens the meters in this folder; `None` if there are none that can be read.
    pub fn open(powercap: &Path) -> Option<EnergyMeter> {
        let zones = fs::read_dir(powercap).ok()?.flatten().filter_map(|entry| Zone::open(&entry.path()));
        let zones: Vec<Zone> = zones.collect();
        (!zones.is_empty()).then_some(EnergyMeter(zones))
    }

    /// Returns the joules that were used since the last call, or since the meters were opened; `None` if one cannot be read, and the next
    /// call returns these too.
    pub fn used_j(&mut self) -> Option<f64> {
        let now = self.0.iter().map(|zone| read(&zone.counter)).collect::<Option<Vec<u64>>>()?;
        let used = self.0.iter_mut().zip(now).map(|(zone, now)| zone.used_uj(now));
        Some(used.sum::<u64>() as f64 / 1e6)
    }
}

impl Zone {
    fn open(folder: &Path) -> Option<Zone> {
        let place = folder.file_name()?.to_str()?.strip_prefix("intel-rapl:")?;
        let name = fs::read_to_string(folder.join("name")).ok()?;
        let counts = if place.contains(':') { name.trim() == "dram" } else { name.starts_with("package") };
        let counter = folder.join("energy_uj");
        let last_uj = read(&counter).filter(|_| counts)?;
        Some(Zone { counter, range_uj: read(&folder.join("max_energy_range_uj"))?, last_uj })
    }

    /// Takes a reading, and returns what was used since the last one.
    fn used_uj(&mut self, now: u64) -> u64 {
        let last = std::mem::replace(&mut self.last_uj, now);
        now.checked_sub(last).unwrap_or_else(|| now.saturating_add(self.range_uj.saturating_sub(last)))
    }
}

fn read(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_their_memories_count_once_and_their_counters_begin_again() {
        let dir = tempfile::tempdir().unwrap();
        let zone = |place: &str, name: &str| {
            let folder = dir.path().join(place);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("name"), format!("{name}\n")).unwrap();
            fs::write(folder.join("max_energy_range_uj"), "262143328850\n").unwrap();
            folder
        };
        let set = |folder: &Path, uj: u64| fs::write(folder.join("energy_uj"), format!("{uj}\n")).unwrap();
        assert!(EnergyMeter::open(dir.path()).is_none() && EnergyMeter::open(&dir.path().join("missing")).is_none());
        let package = zone("intel-rapl:0", "package-0");
        let dram = zone("intel-rapl:0:2", "dram");
        let others = [
            zone("intel-rapl:0:0", "core"),
            zone("intel-rapl:0:1", "uncore"),
            zone("intel-rapl:1", "psys"),
            zone("intel-rapl-mmio:0", "package-0"),
        ];
        for folder in others.iter().chain([&package, &dram]) {
            set(folder, 1_000_000);
        }
        let mut meter = EnergyMeter::open(dir.path()).unwrap();
        assert_eq!(meter.used_j(), Some(0.0));
        set(&package, 31_000_000);
        set(&dram, 5_000_000);
        others.iter().for_each(|folder| set(folder, 900_000_000));
        assert_eq!(meter.used_j(), Some(34.0));
        set(&package, 262_143_000_000);
        set(&dram, 5_500_000);
        meter.used_j();
        set(&package, 1_671_150);
        assert_eq!(meter.used_j(), Some(2.0), "it began again");
        fs::remove_file(package.join("energy_uj")).unwrap();
        set(&dram, 6_500_000);
        assert_eq!(meter.used_j(), None);
        set(&package, 2_671_150);
        assert_eq!(meter.used_j(), Some(2.0), "nothing is left out");
    }
}
