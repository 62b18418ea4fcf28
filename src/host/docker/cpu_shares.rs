//! Conversion between CPU weight and the engine's `cpu_shares`, for each generation of runc. Pure.
//!
//! Docker only supports shares (2 ..= 262,144). On cgroup v1 the kernel uses the same number; on v2 runc converts it to a `cpu.weight` (1
//! ..= 10,000), linearly before runc 1.3.2 and with a quadratic exponent since. Because a weight is wanted here, each conversion is
//! inverted: the result is the middle of all shares that give this weight, as far as possible from rounding on either side.

use model::CpuWeight;

const SHARES_MIN: u64 = 2;
const SHARES_MAX: u64 = 262_144;
/// Shares of a container that nobody set; cgroup v2 gives it weight 100 all the same.
pub const SHARES_DEFAULT: u64 = 1_024;

/// Conversion of `cpu_shares` to the value in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// cgroup v1: `cpu.shares` is the same number; weight = shares × 100 / 1024.
    Shares,
    /// cgroup v2 with runc before 1.3.2 (and crun before 1.23): 1 + (shares − 2) × 9999 / 262142.
    Linear,
    /// cgroup v2 with runc from 1.3.2 on: ⌈10^((l² + 125 l) / 612 − 7/34)⌉, l = log₂ shares; 1024 is 100.
    Quadratic,
}

impl Conversion {
    /// Returns the expected conversion before anything was written, from the cgroup version and the runtime as in [`super::EngineInfo`].
    pub fn expected(cgroup_version: u8, runtime: Option<&str>) -> Conversion {
        if cgroup_version == 1 {
            return Conversion::Shares;
        }
        let quadratic_since = |name: &str| if name == "crun" { [1, 23, 0] } else { [1, 3, 2] };
        match runtime.and_then(|text| text.split_once(' ')) {
            Some((name, version)) if version_numbers(version) >= quadratic_since(name) => Conversion::Quadratic,
            _ => Conversion::Linear,
        }
    }

    /// Returns this conversion and those that a runtime may have instead: on cgroup v2 it is a guess.
    pub fn possible(self) -> &'static [Conversion] {
        match self {
            Conversion::Shares => &[Conversion::Shares],
            Conversion::Linear => &[Conversion::Linear, Conversion::Quadratic],
            Conversion::Quadratic => &[Conversion::Quadratic, Conversion::Linear],
        }
    }

    /// Determines the conversion of cgroup v2 by which `shares_written` became `weight_read` (from `cpu.weight`).
    ///
    /// Returns `None` if both conversions match, or neither does (because someone else wrote meanwhile).
    pub fn detect(shares_written: u64, weight_read: u32) -> Option<Conversion> {
        let linear = Conversion::Linear.weight(shares_written) == weight_read;
        let quadratic = Conversion::Quadratic.weight(shares_written) == weight_read;
        match (linear, quadratic) {
            (true, false) => Some(Conversion::Linear),
            (false, true) => Some(Conversion::Quadratic),
            _ => None,
        }
    }

    /// Returns the weight in the kernel after `shares` were written; out-of-range shares are clamped.
    pub fn weight(self, shares: u64) -> u32 {
        let shares = shares.clamp(SHARES_MIN, SHARES_MAX);
        match self {
            Conversion::Shares => CpuWeight::clamped(shares as f64 * 100.0 / 1024.0).number(),
            Conversion::Linear => (1 + (shares - 2) * 9_999 / 262_142) as u32,
            Conversion::Quadratic => quadratic(shares),
        }
    }

    /// Returns the shares to write so that the kernel has `weight`.
    pub fn shares(self, weight: CpuWeight) -> u64 {
        if self == Conversion::Shares {
            return (u64::from(weight.number()) * SHARES_DEFAULT / 100).clamp(SHARES_MIN, SHARES_MAX);
        }
        if self.weight(SHARES_DEFAULT) == weight.number() {
            return SHARES_DEFAULT;
        }
        let first = self.first_with_at_least(weight.number());
        let beyond = self.first_with_at_least(weight.number() + 1);
        (first + beyond.saturating_sub(1).max(first)) / 2
    }

    /// Returns the smallest shares that give `weight` or more; one more than the maximum if there are none.
    fn first_with_at_least(self, weight: u32) -> u64 {
        let (mut low, mut high) = (SHARES_MIN, SHARES_MAX + 1);
        while low < high {
            let middle = (low + high) / 2;
            if self.weight(middle) >= weight { high = middle } else { low = middle + 1 }
        }
        low
    }
}

fn quadratic(shares: u64) -> u32 {
    match shares {
        SHARES_MIN => return 1,
        SHARES_MAX => return 10_000,
        _ => {}
    }
    let l = (shares as f64).log2();
    let exponent = (l * l + 125.0 * l) / 612.0 - 7.0 / 34.0;
    10f64.powf(exponent).ceil() as u32
}

/// Parses `1.1.5+ds1` to `[1, 1, 5]`; invalid numbers become 0. A release candidate counts as its release: a wrong guess is detected by
/// reading back.
fn version_numbers(text: &str) -> [u32; 3] {
    let mut numbers = [0; 3];
    for (number, part) in numbers.iter_mut().zip(text.split('.')) {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        *number = digits.parse().unwrap_or(0);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_conversions_agree_with_published_values() {
        // 2,000 shares: observed with runc 1.3.1 and 1.4.0-rc.1 (opencontainers/runc#4896).
        for (shares, weight) in [(2, 1), (1024, 39), (2_000, 77), (262_144, 10_000)] {
            assert_eq!(Conversion::Linear.weight(shares), weight, "{shares}");
        }
        for (shares, weight) in [(2, 1), (1024, 100), (2_000, 170), (22_000, 1_204), (262_144, 10_000)] {
            assert_eq!(Conversion::Quadratic.weight(shares), weight, "{shares}");
        }
    }

    #[test]
    fn every_weight_survives_conversion_to_shares_and_back() {
        for conversion in [Conversion::Linear, Conversion::Quadratic] {
            for weight in 1..=10_000 {
                let shares = conversion.shares(CpuWeight::clamped(f64::from(weight)));
                assert_eq!(conversion.weight(shares), weight, "{conversion:?}: weight {weight} became {shares} shares");
            }
        }
        for weight in 1..=10_000 {
            let shares = Conversion::Shares.shares(CpuWeight::clamped(f64::from(weight)));
            assert_eq!(Conversion::Shares.weight(shares), weight);
        }
    }

    #[test]
    fn more_shares_never_give_a_smaller_weight() {
        for conversion in [Conversion::Shares, Conversion::Linear, Conversion::Quadratic] {
            let weights: Vec<u32> = (2..=262_144).map(|shares| conversion.weight(shares)).collect();
            assert!(weights.is_sorted(), "{conversion:?}");
        }
    }

    #[test]
    fn the_default_weight_is_written_as_the_default_shares() {
        assert_eq!(Conversion::Shares.shares(CpuWeight::DEFAULT), 1024);
        assert_eq!(Conversion::Quadratic.shares(CpuWeight::DEFAULT), 1024);
    }

    #[test]
    fn the_conversion_is_detected_by_reading_back() {
        assert_eq!(Conversion::detect(1024, 39), Some(Conversion::Linear));
        assert_eq!(Conversion::detect(1024, 100), Some(Conversion::Quadratic));
        assert_eq!(Conversion::detect(2, 1), None);
        assert_eq!(Conversion::detect(1024, 77), None);
    }

    #[test]
    fn the_expected_conversion_follows_the_version_of_the_runtime() {
        assert_eq!(Conversion::expected(1, Some("runc 1.4.0")), Conversion::Shares);
        for (runtime, expected) in [
            (Some("runc 1.1.5+ds1"), Conversion::Linear),
            (Some("runc 1.3.1"), Conversion::Linear),
            (Some("runc 1.3.2"), Conversion::Quadratic),
            (Some("runc 1.4.0-rc.1"), Conversion::Quadratic),
            (Some("crun 1.8.1"), Conversion::Linear),
            (Some("crun 1.23"), Conversion::Quadratic),
            (Some("runc"), Conversion::Linear),
            (None, Conversion::Linear),
        ] {
            assert_eq!(Conversion::expected(2, runtime), expected, "{runtime:?}");
        }
    }
}
