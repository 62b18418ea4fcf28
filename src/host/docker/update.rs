//! Which `docker update` puts a set of limits in force. Pure. Imports: model.
//!
//! In an update 0 means "leave as it is", so what was never set needs other words to be unset again (checked on
//! Docker 20.10.24 with runc 1.1.5, cgroup v1):
//!
//! | limit | set | unset again |
//! |---|---|---|
//! | `CpuShares` | 2 ..= 262,144 | 1024; −1 is refused, *yet the kernel is left at 262,144* |
//! | `CpuQuota` | of the period that stands | −1 |
//! | `CpuPeriod` | never here: it would forbid `--cpus` to the owner for good | cannot be |
//! | `NanoCpus` | up to the machine's cores | cannot be: −1 and more than all cores are refused |
//! | `MemoryReservation` | from 6 MiB on; v2: only where the owner had one | v1: −1; v2: cannot be (−1 becomes `memory.low = max`) |
//! | `BlkioWeight` | 10 ..= 1,000 | the kernel's default |
//!
//! A container that was started with `--cpus` refuses quota and period, one with a quota refuses `NanoCpus`: each
//! keeps the words it was started with, and one started with neither gets a quota, which can be unset again.

use super::Conversion;
use crate::model::{Bytes, EngineLimits, Quota, Setting};
use serde::Serialize;

/// The kernel's scheduling period where the container names none, microseconds.
const PERIOD_DEFAULT: i64 = 100_000;
/// The kernel refuses a shorter quota, microseconds.
const QUOTA_MIN: i64 = 1_000;
/// Docker refuses fewer billionths of a core.
const NANO_CPUS_MIN: i64 = 10_000_000;
const NANOS_PER_THOUSANDTH: i64 = 1_000_000;
/// "Minimum memory reservation allowed is 6MB", which Docker counts in MiB.
const RESERVATION_MIN: i64 = 6 << 20;

/// The body of `POST /containers/{id}/update`; what is `None` is left as it is.
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
    /// Adds one limit. `false`: no update can set it, its cgroup must be written instead.
    pub(super) fn add(&mut self, setting: Setting, original: &EngineLimits, conversion: Conversion) -> bool {
        match setting {
            Setting::CpuWeight(weight) => {
                let kept = u64::try_from(original.cpu_shares).ok().filter(|&shares| shares >= 2);
                let exact = kept.filter(|&shares| conversion.weight(shares) == weight.number());
                self.cpu_shares = Some(exact.unwrap_or_else(|| conversion.shares(weight)) as i64);
                true
            }
            Setting::CpuQuota(quota) if original.nano_cpus > 0 => self.add_nano_cpus(quota, original),
            Setting::CpuQuota(quota) => {
                self.add_quota(quota, original);
                true
            }
            Setting::MemoryLow(bytes) => self.add_reservation(bytes, original, conversion),
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
        let rounded_away = original.nano_cpus.abs_diff(wanted) < NANOS_PER_THOUSANDTH as u64;
        self.nano_cpus = Some(if rounded_away { original.nano_cpus } else { wanted.max(NANO_CPUS_MIN) });
        true
    }

    fn add_quota(&mut self, quota: Option<Quota>, original: &EngineLimits) {
        let Some(Quota(thousandths)) = quota else {
            self.cpu_quota = Some(-1);
            return;
        };
        let period = if original.cpu_period > 0 { original.cpu_period } else { PERIOD_DEFAULT };
        let wanted = as_i64(thousandths).saturating_mul(period) / 1_000;
        let one_thousandth = (period / 1_000).max(1) as u64;
        let rounded_away = original.cpu_quota > 0 && original.cpu_quota.abs_diff(wanted) <= one_thousandth;
        self.cpu_quota = Some(if rounded_away { original.cpu_quota } else { wanted.max(QUOTA_MIN) });
    }

    fn add_reservation(&mut self, bytes: Bytes, original: &EngineLimits, conversion: Conversion) -> bool {
        if conversion != Conversion::Shares && original.memory_reservation <= 0 {
            // It could not be unset again, and would stand when the container is started the next time.
            return false;
        }
        if bytes == Bytes(0) {
            // On v1 "unprotected" is a soft limit without end. On v2 runc would write `max`: everything protected.
            let by_engine = conversion == Conversion::Shares;
            self.memory_reservation = by_engine.then_some(-1);
            return by_engine;
        }
        let at_most = if original.memory > 0 { original.memory.max(RESERVATION_MIN) } else { i64::MAX };
        self.memory_reservation = Some(as_i64(bytes.0).clamp(RESERVATION_MIN, at_most));
        true
    }
}

/// What the engine's record of a container has where an update with a setting of ours would have put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Exactly that.
    Set,
    /// What was there before our first update.
    AsBefore,
    /// Something else: its owner's.
    Otherwise,
    /// No update can set it, so it is never in the record.
    Never,
}

/// Finds a setting of ours in the engine's record of a container. `original`: the record before our first update.
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

/// `io.weight` (1 ..= 10,000) as Docker's 10 ..= 1,000: the inverse of runc's 1 + (w − 10) × 9999 / 990.
fn blkio_weight(io_weight: u16) -> i64 {
    let from_one = i64::from(io_weight.clamp(1, 10_000)) - 1;
    10 + (from_one * 990 + 9_998) / 9_999
}

/// What runc makes of Docker's weight; `None` for "never set".
fn io_weight(blkio_weight: i64) -> Option<u16> {
    if !(10..=1_000).contains(&blkio_weight) {
        return None;
    }
    u16::try_from(1 + (blkio_weight - 10) * 9_999 / 990).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CpuWeight;

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
    fn restoring_an_odd_number_of_shares_gives_exactly_that_number() {
        let odd = EngineLimits { cpu_shares: 777, ..UNSET };
        let rounded = CpuWeight::clamped(777.0 * 100.0 / 1024.0);
        assert_eq!(on_v1(Setting::CpuWeight(rounded), odd).unwrap(), r#"{"CpuShares":777}"#);
        assert_eq!(on_v1(Setting::CpuWeight(CpuWeight::clamped(50.0)), odd).unwrap(), r#"{"CpuShares":512}"#);
    }

    #[test]
    fn a_container_without_cpus_gets_a_quota_that_can_be_unset() {
        let half = Setting::CpuQuota(Some(Quota(500)));
        assert_eq!(on_v1(half, UNSET).unwrap(), r#"{"CpuQuota":50000}"#);
        assert_eq!(on_v1(Setting::CpuQuota(None), UNSET).unwrap(), r#"{"CpuQuota":-1}"#);
        assert_eq!(on_v1(Setting::CpuQuota(Some(Quota(1))), UNSET).unwrap(), r#"{"CpuQuota":1000}"#);
    }

    #[test]
    fn a_cpus_container_keeps_its_words_and_gets_back_exactly_what_it_had() {
        let cpus = EngineLimits { nano_cpus: 1_234_567_890, ..UNSET };
        assert_eq!(on_v1(Setting::CpuQuota(Some(Quota(500))), cpus).unwrap(), r#"{"NanoCpus":500000000}"#);
        assert_eq!(on_v1(Setting::CpuQuota(Some(Quota(1_234))), cpus).unwrap(), r#"{"NanoCpus":1234567890}"#);
        assert_eq!(on_v1(Setting::CpuQuota(None), cpus), None);
    }

    #[test]
    fn a_period_of_its_own_is_kept() {
        let own = EngineLimits { cpu_quota: 33_333, cpu_period: 50_000, ..UNSET };
        let half = on_v1(Setting::CpuQuota(Some(Quota(500))), own).unwrap();
        assert_eq!(half, r#"{"CpuQuota":25000}"#);
        let restored = on_v1(Setting::CpuQuota(Some(Quota(666))), own).unwrap();
        assert_eq!(restored, r#"{"CpuQuota":33333}"#);
    }

    #[test]
    fn memory_protection_respects_what_docker_accepts() {
        let small = EngineLimits { memory: 64 << 20, ..UNSET };
        let low = |mib: u64, original| on_v1(Setting::MemoryLow(Bytes(mib << 20)), original).unwrap();
        assert_eq!(low(1, UNSET), r#"{"MemoryReservation":6291456}"#);
        assert_eq!(low(32, small), r#"{"MemoryReservation":33554432}"#);
        assert_eq!(low(640, small), r#"{"MemoryReservation":67108864}"#);
    }

    #[test]
    fn unprotecting_goes_through_the_engine_on_v1_only() {
        let unprotected = Setting::MemoryLow(Bytes(0));
        assert_eq!(on_v1(unprotected, UNSET).unwrap(), r#"{"MemoryReservation":-1}"#);
        assert_eq!(body(unprotected, UNSET, Conversion::Linear), None);
        assert_eq!(body(unprotected, UNSET, Conversion::Quadratic), None);
    }

    #[test]
    fn on_v2_a_reservation_goes_through_the_engine_only_where_the_owner_had_one() {
        let low = Setting::MemoryLow(Bytes(64 << 20));
        assert_eq!(body(low, UNSET, Conversion::Linear), None);
        let owned = EngineLimits { memory_reservation: 20 << 20, ..UNSET };
        let set = body(low, owned, Conversion::Quadratic).unwrap();
        assert_eq!(set, serde_json::json!({ "MemoryReservation": 64 << 20 }));
    }

    #[test]
    fn what_the_record_has_is_ours_the_original_or_the_owners() {
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
    fn the_squeeze_never_goes_through_the_engine() {
        assert_eq!(on_v1(Setting::MemoryHigh(Some(Bytes(1 << 30))), UNSET), None);
        assert_eq!(on_v1(Setting::MemoryHigh(None), UNSET), None);
    }

    #[test]
    fn every_docker_io_weight_survives_the_way_there_and_back() {
        for weight in 10..=1_000 {
            assert_eq!(blkio_weight(io_weight(weight).unwrap()), weight);
        }
        assert_eq!((blkio_weight(0), blkio_weight(1), blkio_weight(u16::MAX)), (10, 10, 1_000));
    }
}
