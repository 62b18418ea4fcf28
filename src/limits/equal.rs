//! Equality of two values of a limit within the rounding of kernels and engines, to recognise the result of a write. Originals are
//! compared exactly, because they were read from the same file.

use model::{EngineLimits, Limits, Setting};

/// Largest page size, in bytes.
const PAGE_LARGEST: u64 = 64 << 10;
/// Lower bounds of engines and kernels: `docker update` refuses less memory and fewer billionths of a core, the kernel a shorter run time.
const RESERVATION_LEAST: u64 = 6 << 20;
const QUOTA_LEAST: u64 = 10;
const RUN_LEAST_US: u64 = 1000;

/// Whether a value that was read is the requested one: CPU weights exactly, because a weight is converted so that the kernel has this one,
/// I/O weights within 10 (one weight of BFQ is 11) or 2 %, quotas within 1 %, memory within 64 KiB.
pub fn same(a: Setting, b: Setting) -> bool {
    let near = |a: u64, b: u64| a.abs_diff(b) <= 1.max(a.max(b) / 100);
    match (a, b) {
        (Setting::IoWeight(a), Setting::IoWeight(b)) => a.abs_diff(b) <= 10.max(a.max(b) / 50),
        (Setting::CpuQuota(Some(a)), Setting::CpuQuota(Some(b))) => near(a.0, b.0),
        (Setting::MemoryLow(a), Setting::MemoryLow(b)) => a.0.abs_diff(b.0) <= PAGE_LARGEST,
        (Setting::MemoryHigh(Some(a)), Setting::MemoryHigh(Some(b))) => a.0.abs_diff(b.0) <= PAGE_LARGEST,
        (a, b) => a == b,
    }
}

/// Whether `setting` is the current value of its kind.
pub fn has_value(limits: &Limits, setting: Setting) -> bool {
    limits.get(setting.kind()).is_some_and(|now| same(now, setting))
}

/// Whether `current` results from a request for `requested`, given the rounding and the bounds of kernels and engines. `engine`: the
/// container's limits in the engine's units.
pub(crate) fn results_from(requested: Setting, current: Setting, engine: &EngineLimits) -> bool {
    let bounded = match (requested, current) {
        (Setting::MemoryLow(requested), Setting::MemoryLow(current)) => {
            let most = u64::try_from(engine.memory).unwrap_or(0).max(RESERVATION_LEAST);
            requested < current && current.0 == RESERVATION_LEAST
                || engine.memory > 0 && requested > current && current.0 == most
        }
        (Setting::CpuQuota(Some(requested)), Setting::CpuQuota(Some(current))) => {
            let shortest = RUN_LEAST_US * 1000 / u64::try_from(engine.cpu_period).unwrap_or(0).max(1);
            let least = if engine.cpu_period > 0 { shortest.max(QUOTA_LEAST) } else { QUOTA_LEAST };
            requested < current && current.0 <= least
        }
        _ => false,
    };
    bounded || same(requested, current)
}

/// Returns `current` if it results from a request for one of `known`.
pub(super) fn resulting_from(known: &[Setting], current: Option<Setting>, engine: &EngineLimits) -> Option<Setting> {
    current.filter(|now| known.iter().any(|known| results_from(*known, *now, engine)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bytes, CpuWeight, Quota};

    #[test]
    fn a_rounded_value_is_the_same_and_a_set_value_is_not() {
        let weight = |number: f64| Setting::CpuWeight(CpuWeight::clamped(number));
        assert!(same(weight(50.0), weight(50.0)));
        assert!(!same(weight(50.0), weight(51.0)));
        assert!(!same(weight(5000.0), weight(5049.0)));
        assert!(same(Setting::MemoryLow(Bytes(10_000_000)), Setting::MemoryLow(Bytes(9_998_336))));
        assert!(!same(Setting::CpuQuota(None), Setting::CpuQuota(Some(Quota(2000)))));
        assert!(!same(Setting::CpuQuota(Some(Quota(100))), weight(100.0)));
    }
}
