//! Translates limits to the body of a `docker update`. Pure.
//!
//! In an update 0 means "no change", so other values are needed to unset a limit (checked with Docker 20.10.24, runc 1.1.5, cgroup v1):
//!
//! | limit | set | unset again |
//! |---|---|---|
//! | `CpuShares` | 2 ..= 262,144 | 1024; −1 is rejected, *but the kernel is left at 262,144* |
//! | `CpuQuota` | relative to the current period; only if the owner set one | −1 stays in the record: see below |
//! | `CpuPeriod` | not used: the owner could no longer set `--cpus` | impossible |
//! | `NanoCpus` | up to the number of cores | impossible: −1 and more than all cores are rejected |
//! | `MemoryReservation` | from 6 MiB; v2 only, and only if the owner set one | impossible (−1 becomes `memory.low = max`) |
//! | `BlkioWeight` | 10 ..= 1,000; v2 only, and only without BFQ (the caller knows) | the kernel's default |
//!
//! A container started with `--cpus` rejects quota and period, and one with a quota rejects `NanoCpus`: each keeps the option that it was
//! started with. A container started with neither gets its quota in the cgroup only. Beside −1 in the record, an owner's later `--cpus` lasts
//! until the container's next start, which takes −1; and −1 for a container with `--cpus` removes its quota at once. Podman reports `--cpus`
//! as all three, updates the quota, and ignores `NanoCpus`.

use super::Conversion;
use model::{Bytes, EngineLimits, Quota, Setting};
use serde::Serialize;

/// Default scheduling period of the kernel, in microseconds.
const PERIOD_DEFAULT: i64 = 100_000;
/// Smallest quota that the kernel accepts, in microseconds.
const QUOTA_MIN: i64 = 1_000;
/// Smallest value that Docker accepts, in billionths of a core.
const NANO_CPUS_MIN: i64 = 10_000_000;
const NANOS_PER_THOUSANDTH: i64 = 1_000_000;
/// "Minimum memory reservation allowed is 6MB", where Docker counts in MiB.
const RESERVATION_MIN: i64 = 6 << 20;

/// The body of `POST /containers/{id}/update`; `None` = no change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct UpdateBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_shares: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nano_cpus: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_reservation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blkio_weight: Option<i64>,
}

impl UpdateBody {
    /// Adds one limit. Returns `false` if the engine cannot update it: write it to the cgroup instead.
    pub(super) fn add(&mut self, setting: Setting, original: &EngineLimits, conversion: Conversion) -> bool {
        match setting {
            Setting::CpuWeight(weight) => {
                let kept = u64::try_from(original.cpu_shares).ok().filter(|&shares| shares >= 2);
                let exact = kept.filter(|&shares| conversion.weight(shares) == weight.number());
                self.cpu_shares = Some(exact.unwrap_or_else(|| conversion.shares(weight)) as i64);
                true
            }
            Setting::CpuQuota(quota) if original.nano_cpus > 0 && original.cpu_quota <= 0 => {
                self.add_nano_cpus(quota, original)
            }
            Setting::CpuQuota(quota) if original.cpu_quota > 0 => self.add_quota(quota, original),
            Setting::CpuQuota(_) => false,
            Setting::MemoryLow(bytes) => self.add_reservation(bytes, original, conversion),
            // On v1 it is the number of `blkio.weight`, which has another default.
            Setting::IoWeight(_) if conversion == Conversion::Shares => false,
            Setting::IoWeight(weight) => {
                let exact = original.blkio_weight;
                self.blkio_weight = Some(if io_weight(exact) == Some(weight) { exact } else { blkio_weight(weight) });
                true
            }
            Setting::MemoryHigh(_) => false,
        }
    }

    fn add_nano_cpus(&mut self, quota: Option<Quota>, original: &EngineLimits) -> bool {
        let Some(Quota(thousandths)) = quota else { return false };
        let wanted = as_i64(thousandths).saturating_mul(NANOS_PER_THOUSANDTH);
        let is_original = original.nano_cpus.abs_diff(wanted) < NANOS_PER_THOUSANDTH as u64;
        self.nano_cpus = Some(if is_original { original.nano_cpus } else { wanted.max(NANO_CPUS_MIN) });
        true
    }

    fn add_quota(&mut self, quota: Option<Quota>, original: &EngineLimits) -> bool {
        let Some(Quota(thousandths)) = quota else { return false };
        let period = if original.cpu_period > 0 { original.cpu_period } else { PERIOD_DEFAULT };
        let wanted = as_i64(thousandths).saturating_mul(period) / 1_000;
        let one_thousandth = (period / 1_000).max(1) as u64;
        let is_original = original.cpu_quota.abs_diff(wanted) <= one_thousandth;
        self.cpu_quota = Some(if is_original { original.cpu_quota } else { wanted.max(QUOTA_MIN) });
        true
    }

    fn add_reservation(&mut self, bytes: Bytes, original: &EngineLimits, conversion: Conversion) -> bool {
        // On v1 it is a soft limit, which is no protection.
        let is_protection = conversion != Conversion::Shares;
        // One of ours could not be unset again, and would still apply after the container's next start: runc would write `max`, which
        // protects everything.
        if !is_protection || original.memory_reservation <= 0 || bytes == Bytes(0) {
            return false;
        }
        let at_most = if original.memory > 0 { original.memory.max(RESERVATION_MIN) } else { i64::MAX };
        self.memory_reservation = Some(as_i64(bytes.0).clamp(RESERVATION_MIN, at_most));
        true
    }
}

/// Returns what Docker 20.10 makes of a container's record by an update, or why it refuses it: the engine of the simulated disasters.
///
/// # Errors
/// The engine's message.
#[doc(hidden)]
pub fn updated(
    record: EngineLimits,
    original: &EngineLimits,
    conversion: Conversion,
    settings: &[Setting],
) -> Result<EngineLimits, String> {
    let mut body = UpdateBody::default();
    for setting in settings {
        body.add(*setting, original, conversion);
    }
    if body.cpu_quota.is_some_and(|quota| quota > 0) && record.nano_cpus > 0 {
        return Err("409: CPU Quota cannot be updated as NanoCPUs has already been set".to_owned());
    }
    if body.nano_cpus.is_some() && (record.cpu_quota > 0 || record.cpu_period > 0) {
        return Err("409: Nano CPUs cannot be updated as CPU Quota has already been set".to_owned());
    }
    Ok(EngineLimits {
        cpu_shares: body.cpu_shares.unwrap_or(record.cpu_shares),
        nano_cpus: body.nano_cpus.unwrap_or(record.nano_cpus),
        cpu_quota: body.cpu_quota.unwrap_or(record.cpu_quota),
        memory_reservation: body.memory_reservation.unwrap_or(record.memory_reservation),
        blkio_weight: body.blkio_weight.unwrap_or(record.blkio_weight),
        ..record
    })
}

/// A limit in the engine's record of a container, compared to a planned setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The planned value.
    Set,
    /// The value before our first update.
    AsBefore,
    /// Another value, set by the owner.
    Otherwise,
    /// The engine cannot update this limit, so it is never in the record.
    Never,
}

/// Compares a setting to the engine's record of a container. `original`: the record before our first update.
pub fn recorded(setting: Setting, original: &EngineLimits, conversion: Conversion, record: &EngineLimits) -> Recorded {
    let mut body = UpdateBody::default();
    if !body.add(setting, original, conversion) {
        return Recorded::Never;
    }
    let fields = [
        (body.cpu_shares, record.cpu_shares, original.cpu_shares),
        (body.nano_cpus, record.nano_cpus, original.nano_cpus),
        (body.cpu_quota, record.cpu_quota, original.cpu_quota),
        (body.memory_reservation, record.memory_reservation, original.memory_reservation),
        (body.blkio_weight, record.blkio_weight, original.blkio_weight),
    ];
    let touched = || fields.into_iter().filter_map(|(set, has, had)| Some((set?, has, had)));
    if touched().all(|(set, has, _)| set == has) {
        Recorded::Set
    } else if touched().all(|(_, has, had)| has == had) {
        Recorded::AsBefore
    } else {
        Recorded::Otherwise
    }
}

fn as_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts `io.weight` (1 ..= 10,000) to Docker's 10 ..= 1,000: the inverse of runc's 1 + (w − 10) × 9999 / 990.
fn blkio_weight(io_weight: u16) -> i64 {
    let from_one = i64::from(io_weight.clamp(1, 10_000)) - 1;
    10 + (from_one * 990 + 9_998) / 9_999
}

/// Converts Docker's weight as runc does; `None` for "never set".
fn io_weight(blkio_weight: i64) -> Option<u16> {
    if !(10..=1_000).contains(&blkio_weight) {
        return None;
    }
    u16::try_from(1 + (blkio_weight - 10) * 9_999 / 990).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::CpuWeight;

    const UNSET: EngineLimits = EngineLimits {
        cpu_shares: 0,
        nano_cpus: 0,
        cpu_quota: 0,
        cpu_period: 0,
        memory: 0,
        memory_reservation: 0,
        blkio_weight: 0,
    };

    fn body(setting: Setting, original: EngineLimits, conversion: Conversion) -> Option<serde_json::Value> {
        let mut body = UpdateBody::default();
        body.add(setting, &original, conversion).then(|| serde_json::to_value(body).unwrap())
    }

    fn on_v1(setting: Setting, original: EngineLimits) -> Option<String> {
        body(setting, original, Conversion::Shares).map(|body| body.to_string())
    }

    #[test]
    fn a_weight_becomes_shares_and_the_default_weight_the_default_shares() {
        let weight = |w: f64| on_v1(Setting::CpuWeight(CpuWeight::clamped(w)), UNSET).unwrap();
        assert_eq!(weight(25.0), r#"{"CpuShares":256}"#);
        assert_eq!(weight(100.0), r#"{"CpuShares":1024}"#);
        assert_eq!(weight(1.0), r#"{"CpuShares":10}"#);
    }

    #[test]
    fn restoring_shares_gives_exactly_the_original_number() {
        let odd = EngineLimits { cpu_shares: 777, ..UNSET };
        let rounded = CpuWeight::clamped(777.0 * 100.0 / 1024.0);
        assert_eq!(on_v1(Setting::CpuWeight(rounded), odd).unwrap(), r#"{"CpuShares":777}"#);
        assert_eq!(on_v1(Setting::CpuWeight(CpuWeight::clamped(50.0)), odd).unwrap(), r#"{"CpuShares":512}"#);
    }

    #[test]
    fn the_engine_never_learns_of_a_quota_of_a_container_without_one_because_it_could_not_be_unset() {
        let removed_by_an_earlier_version = EngineLimits { cpu_quota: -1, ..UNSET };
        for original in [UNSET, EngineLimits { cpu_period: 50_000, ..UNSET }, removed_by_an_earlier_version] {
            for quota in [Some(Quota(500)), Some(Quota(1)), None] {
                assert_eq!(on_v1(Setting::CpuQuota(quota), original), None);
            }
        }
    }

    #[test]
    fn a_container_with_cpus_keeps_that_option_and_its_exact_original_value() {
        let cpus = EngineLimits { nano_cpus: 1_234_567_890, ..UNSET };
        assert_eq!(on_v1(Setting::CpuQuota(Some(Quota(500))), cpus).unwrap(), r#"{"NanoCpus":500000000}"#);
        assert_eq!(on_v1(Setting::CpuQuota(Some(Quota(1_234))), cpus).unwrap(), r#"{"NanoCpus":1234567890}"#);
        assert_eq!(on_v1(Setting::CpuQuota(None), cpus), None);
    }

    #[test]
    fn a_container_of_podman_with_cpus_gets_a_quota_because_podman_ignores_cpus() {
        let cpus = EngineLimits { nano_cpus: 1_500_000_000, cpu_quota: 150_000, cpu_period: 100_000, ..UNSET };
        assert_eq!(on_v1(Setting::CpuQuota(Some(Quota(500))), cpus).unwrap(), r#"{"CpuQuota":50000}"#);
        assert_eq!(on_v1(Setting::CpuQuota(Some(Quota(1_500))), cpus).unwrap(), r#"{"CpuQuota":150000}"#);
    }

    #[test]
    fn the_period_of_a_container_is_kept() {
        let own = EngineLimits { cpu_quota: 33_333, cpu_period: 50_000, ..UNSET };
        let half = on_v1(Setting::CpuQuota(Some(Quota(500))), own).unwrap();
        assert_eq!(half, r#"{"CpuQuota":25000}"#);
        let restored = on_v1(Setting::CpuQuota(Some(Quota(666))), own).unwrap();
        assert_eq!(restored, r#"{"CpuQuota":33333}"#);
        assert_eq!(on_v1(Setting::CpuQuota(Some(Quota(1))), own).unwrap(), r#"{"CpuQuota":1000}"#);
        assert_eq!(on_v1(Setting::CpuQuota(None), own), None);
    }

    #[test]
    fn memory_protection_stays_within_the_range_of_docker() {
        let owned = EngineLimits { memory_reservation: 20 << 20, ..UNSET };
        let small = EngineLimits { memory: 64 << 20, ..owned };
        let low = |mib: u64, original| {
            body(Setting::MemoryLow(Bytes(mib << 20)), original, Conversion::Linear).unwrap().to_string()
        };
        assert_eq!(low(1, owned), r#"{"MemoryReservation":6291456}"#);
        assert_eq!(low(32, small), r#"{"MemoryReservation":33554432}"#);
        assert_eq!(low(640, small), r#"{"MemoryReservation":67108864}"#);
    }

    #[test]
    fn memory_protection_is_never_removed_through_the_engine() {
        let owned = EngineLimits { memory_reservation: 20 << 20, ..UNSET };
        for original in [UNSET, owned] {
            for conversion in [Conversion::Shares, Conversion::Linear, Conversion::Quadratic] {
                assert_eq!(body(Setting::MemoryLow(Bytes(0)), original, conversion), None);
            }
        }
    }

    #[test]
    fn on_v1_neither_a_memory_protection_nor_an_io_weight_goes_through_the_engine() {
        let owned = EngineLimits { memory_reservation: 20 << 20, blkio_weight: 500, ..UNSET };
        assert_eq!(on_v1(Setting::MemoryLow(Bytes(64 << 20)), owned), None);
        assert_eq!(on_v1(Setting::IoWeight(200), owned), None);
        let on_v2 = body(Setting::IoWeight(200), UNSET, Conversion::Linear).unwrap();
        assert_eq!(on_v2, serde_json::json!({ "BlkioWeight": 30 }));
    }

    #[test]
    fn on_v2_memory_is_protected_through_the_engine_only_if_the_owner_had_set_a_reservation() {
        let low = Setting::MemoryLow(Bytes(64 << 20));
        assert_eq!(body(low, UNSET, Conversion::Linear), None);
        let owned = EngineLimits { memory_reservation: 20 << 20, ..UNSET };
        let set = body(low, owned, Conversion::Quadratic).unwrap();
        assert_eq!(set, serde_json::json!({ "MemoryReservation": 64 << 20 }));
    }

    #[test]
    fn a_recorded_limit_is_planned_original_or_set_by_the_owner() {
        let (original, half) =
            (EngineLimits { cpu_shares: 777, ..UNSET }, Setting::CpuWeight(CpuWeight::clamped(50.0)));
        let found = |cpu_shares| {
            recorded(half, &original, Conversion::Shares, &EngineLimits { cpu_shares, memory: 1 << 30, ..UNSET })
        };
        assert_eq!((found(512), found(777), found(3000)), (Recorded::Set, Recorded::AsBefore, Recorded::Otherwise));
        let squeeze = Setting::MemoryHigh(None);
        assert_eq!(recorded(squeeze, &original, Conversion::Shares, &original), Recorded::Never);
    }

    #[test]
    fn memory_high_is_never_set_through_the_engine() {
        assert_eq!(on_v1(Setting::MemoryHigh(Some(Bytes(1 << 30))), UNSET), None);
        assert_eq!(on_v1(Setting::MemoryHigh(None), UNSET), None);
    }

    #[test]
    fn every_docker_io_weight_survives_conversion_and_back() {
        for weight in 10..=1_000 {
            assert_eq!(blkio_weight(io_weight(weight).unwrap()), weight);
        }
        assert_eq!((blkio_weight(0), blkio_weight(1), blkio_weight(u16::MAX)), (10, 10, 1_000));
    }
}
