//! Exact numbers of limits in the units of the engine and of the kernel, which [`Limits`](model::Limits) round: `docker update
//! --cpu-shares 660` is weight 64, and so are 655 shares. Which number is an owner's, and which is ours. Pure.

use docker::{Conversion, Recorded, SHARES_DEFAULT, recorded};
use model::{EngineLimits, Setting};

/// Looks up a setting of ours in the record. The engine's conversion of weights may have been detected after it was written.
pub(super) fn in_record(setting: Setting, original: &EngineLimits, now: Conversion, record: &EngineLimits) -> Recorded {
    let of = |conversion: &Conversion| recorded(setting, original, *conversion, record);
    if now.possible().iter().any(|conversion| of(conversion) == Recorded::Set) { Recorded::Set } else { of(&now) }
}

/// Whether the record has one of our values, and not the original in its place.
pub(super) fn has_ours(ours: &[Setting], original: &EngineLimits, now: Conversion, record: &EngineLimits) -> bool {
    let is_set = |setting: Setting, record| in_record(setting, original, now, record) == Recorded::Set;
    ours.iter().any(|ours| is_set(*ours, record) && !is_set(*ours, original))
}

/// Returns the numbers with which the engine is asked to restore or to keep these values: those of its `present` record where an owner has
/// set them, or else those of the original. `shares`: the kernel's, for a value that its owner set only there.
pub(super) fn exact(
    settings: &[Setting],
    ours: &[Setting],
    original: &EngineLimits,
    conversion: Conversion,
    (present, shares): (&EngineLimits, Option<u64>),
) -> EngineLimits {
    let kernels = shares.map(|shares| EngineLimits { cpu_shares: shares as i64, ..*original });
    let of = |setting: &Setting| {
        let others: Vec<Setting> =
            ours.iter().copied().filter(|ours| ours.kind() == setting.kind() && ours != setting).collect();
        let gives = |numbers: &&EngineLimits| recorded(*setting, numbers, conversion, numbers) == Recorded::Set;
        let is_owners = !has_ours(&others, original, conversion, present);
        let owners = Some(present).filter(|_| is_owners);
        *owners.into_iter().chain([original]).chain(&kernels).find(gives).unwrap_or(original)
    };
    let numbers = settings.iter().fold(*original, |numbers, setting| numbers.with(setting.kind(), &of(setting)));
    // The bounds of an update, which flowcon never changes: an owner may have changed them before a value.
    EngineLimits { memory: present.memory, cpu_period: present.cpu_period, ..numbers }
}

/// Returns the engine's record with the kernel's shares, where its owner set them only there. Version 2 has none.
pub(super) fn numbers_of(record: Option<EngineLimits>, shares: Option<u64>) -> Option<EngineLimits> {
    let Some(shares) = shares else { return record };
    let record = record.unwrap_or_default();
    let recorded = u64::try_from(record.cpu_shares).ok().filter(|shares| *shares > 0).unwrap_or(SHARES_DEFAULT);
    Some(if recorded == shares { record } else { EngineLimits { cpu_shares: shares as i64, ..record } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{CpuWeight, Quota};

    const ON_V1: Conversion = Conversion::Shares;

    fn weight(number: u32) -> Setting {
        Setting::CpuWeight(CpuWeight::clamped(f64::from(number)))
    }

    fn shares(cpu_shares: i64) -> EngineLimits {
        EngineLimits { cpu_shares, ..EngineLimits::default() }
    }

    #[test]
    fn an_owners_number_is_kept_and_ours_is_replaced_by_the_originals() {
        let chosen = |setting, original, present, kernels| {
            exact(&[setting], &[weight(76), weight(20)], &shares(original), ON_V1, (&shares(present), kernels))
                .cpu_shares
        };
        assert_eq!(chosen(weight(64), 1024, 660, Some(660)), 660, "the owner's");
        assert_eq!(chosen(weight(64), 1024, 204, Some(660)), 660, "the owner's, set only in the cgroup");
        assert_eq!(chosen(weight(100), 1027, 204, Some(204)), 1027, "the original in place of ours");
        assert_eq!(
            chosen(weight(100), 1027, 1020, Some(1020)),
            1020,
            "the owner has set another number of this weight"
        );
    }

    #[test]
    fn an_owner_who_sets_cpus_is_asked_for_cpus() {
        let cpus = EngineLimits { nano_cpus: 1_500_000_123, cpu_quota: -1, ..EngineLimits::default() };
        let ours = [Setting::CpuQuota(Some(Quota(500)))];
        let theirs = Setting::CpuQuota(Some(Quota(1500)));
        let numbers = exact(&[theirs], &ours, &EngineLimits::default(), ON_V1, (&cpus, None));
        assert_eq!(numbers.nano_cpus, 1_500_000_123);
    }

    #[test]
    fn a_record_with_the_original_has_none_of_ours_even_if_we_have_written_that_too() {
        let ours = [weight(50), weight(20)];
        assert!(has_ours(&ours, &shares(513), ON_V1, &shares(204)));
        assert!(!has_ours(&ours, &shares(513), ON_V1, &shares(513)));
        assert!(!has_ours(&ours, &shares(513), ON_V1, &shares(660)));
    }

    #[test]
    fn the_kernels_shares_count_where_the_owner_has_set_only_them() {
        assert_eq!(numbers_of(Some(shares(0)), Some(1024)), Some(shares(0)));
        assert_eq!(numbers_of(Some(shares(513)), Some(415)), Some(shares(415)));
        assert_eq!((numbers_of(None, Some(415)), numbers_of(None, None)), (Some(shares(415)), None));
    }
}
