//! When two values of a limit are the same one, as far as kernels and engines round. That says what came of our writing; the original was
//! read from the same file, so it is compared exactly. Imports: model.

use crate::model::{EngineLimits, Limits, Setting};

/// A page may be that large.
const PAGE_LARGEST: u64 = 64 << 10;
/// What engines make of less: `docker update` refuses less memory and fewer billionths of a core, the kernel a shorter time to run.
const RESERVATION_LEAST: u64 = 6 << 20;
const QUOTA_LEAST: u64 = 10;
const RUN_LEAST_US: u64 = 1000;

/// Whether a value that was read is one that was asked for: weights within 1, quotas within 1 %, memory within 64 KiB.
pub fn same(a: Setting, b: Setting) -> bool {
    let near = |a: u64, b: u64| a.abs_diff(b) <= 1.max(a.max(b) / 100);
    match (a, b) {
        (Setting::CpuWeight(a), Setting::CpuWeight(b)) => a.number().abs_diff(b.number()) <= 1,
        (Setting::IoWeight(a), Setting::IoWeight(b)) => a.abs_diff(b) <= 10.max(a.max(b) / 50),
        (Setting::CpuQuota(Some(a)), Setting::CpuQuota(Some(b))) => near(a.0, b.0),
        (Setting::MemoryLow(a), Setting::MemoryLow(b)) => a.0.abs_diff(b.0) <= PAGE_LARGEST,
        (Setting::MemoryHigh(Some(a)), Setting::MemoryHigh(Some(b))) => a.0.abs_diff(b.0) <= PAGE_LARGEST,
        (a, b) => a == b,
    }
}

/// Whether `setting` is what stands.
pub fn stands_in(limits: &Limits, setting: Setting) -> bool {
    limits.get(setting.kind()).is_some_and(|now| same(now, setting))
}

/// Whether what stands came of asking for `asked`, as far as kernels and engines round it and keep it within their bounds. `engine`: the
/// container's limits in the engine's own numbers.
pub fn came_of(asked: Setting, stands: Setting, engine: &EngineLimits) -> bool {
    let bounded = match (asked, stands) {
        (Setting::MemoryLow(asked), Setting::MemoryLow(stands)) => {
            let most = u64::try_from(engine.memory).unwrap_or(0).max(RESERVATION_LEAST);
            asked < stands && stands.0 == RESERVATION_LEAST || engine.memory > 0 && asked > stands && stands.0 == most
        }
        (Setting::CpuQuota(Some(asked)), Setting::CpuQuota(Some(stands))) => {
            let shortest = RUN_LEAST_US * 1000 / u64::try_from(engine.cpu_period).unwrap_or(0).max(1);
            let least = if engine.cpu_period > 0 { shortest.max(QUOTA_LEAST) } else { QUOTA_LEAST };
            asked < stands && stands.0 <= least
        }
        _ => false,
    };
    bounded || same(asked, stands)
}

/// What stands of a kind, if it came of one of these.
pub(super) fn standing_of(known: &[Setting], stands: Option<Setting>, engine: &EngineLimits) -> Option<Setting> {
    stands.filter(|now| known.iter().any(|known| came_of(*known, *now, engine)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bytes, CpuWeight, Quota};

    #[test]
    fn rounding_is_no_change_and_a_persons_value_is() {
        let weight = |number: f64| Setting::CpuWeight(CpuWeight::clamped(number));
        assert!(same(weight(50.0), weight(51.0)));
        assert!(!same(weight(50.0), weight(52.0)));
        assert!(!same(weight(5000.0), weight(5049.0)));
        assert!(same(Setting::MemoryLow(Bytes(10_000_000)), Setting::MemoryLow(Bytes(9_998_336))));
        assert!(!same(Setting::CpuQuota(None), Setting::CpuQuota(Some(Quota(2000)))));
        assert!(!same(Setting::CpuQuota(Some(Quota(100))), weight(100.0)));
    }
}
