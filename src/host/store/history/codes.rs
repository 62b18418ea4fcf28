//! Encodes values as small numbers. A number is never reused for another meaning; an unknown one decodes to `None`.

use crate::number;
use model::{
    Condition, Direction, End, EventKind, Hold, List, Millis, PolicyName, ProgressUnit, Reason, RunState, Runtime,
    Share, TrialStanding,
};

/// Defines a code for each value: its index in the table.
macro_rules! coded {
    ($(#[$doc:meta])* $code:ident, $decode:ident, $type:ty, [$($variant:expr),+ $(,)?]) => {
        $(#[$doc])*
        pub(super) fn $code(value: $type) -> i64 {
            const TABLE: &[$type] = &[$($variant),+];
            TABLE.iter().position(|known| *known == value).and_then(|place| i64::try_from(place).ok()).unwrap_or(-1)
        }

        pub(super) fn $decode(code: i64) -> Option<$type> {
            const TABLE: &[$type] = &[$($variant),+];
            TABLE.get(usize::try_from(code).ok()?).copied()
        }
    };
}

coded!(runtime_code, runtime, Runtime, [Runtime::Docker, Runtime::Scope, Runtime::Pod, Runtime::Containerd]);
coded!(direction_code, direction, Direction, [Direction::Down, Direction::Up]);
coded!(
    unit_code,
    unit,
    ProgressUnit,
    [
        ProgressUnit::Epoch,
        ProgressUnit::Step,
        ProgressUnit::Iteration,
        ProgressUnit::Percent,
        ProgressUnit::Round,
        ProgressUnit::Sample,
    ]
);
coded!(
    policy_code,
    policy,
    PolicyName,
    [PolicyName::Flowcon, PolicyName::Fair, PolicyName::Balanced, PolicyName::Flowcon2019]
);
coded!(
    kind_code,
    kind,
    EventKind,
    [
        EventKind::Started,
        EventKind::Ended,
        EventKind::List,
        EventKind::Limit,
        EventKind::Hold,
        EventKind::Runtime,
        EventKind::Command,
        EventKind::Notice,
        EventKind::Holdback,
        EventKind::Health,
        EventKind::GroupStop,
    ]
);

coded!(
    condition_code,
    condition,
    Condition,
    [
        Condition::Starting,
        Condition::Learning,
        Condition::Plateau,
        Condition::Done,
        Condition::StarvingGpu,
        Condition::Overfitting,
        Condition::Late,
        Condition::ShortOfMemory,
        Condition::Stalled,
        Condition::Diverging,
        Condition::Nan,
    ]
);

/// The code of an end: the index of its kind. Its number is the exit code, which has a column of its own.
pub(super) fn end_code(end: End) -> Option<i64> {
    End::KINDS.iter().position(|kind| *kind == end.kind()).and_then(|at| i64::try_from(at).ok())
}

pub(super) fn end(code: i64, exit_code: Option<i32>) -> Option<End> {
    End::of_kind(End::KINDS.get(usize::try_from(code).ok()?)?, exit_code)
}

/// Number of digits of a packed number.
const DIGITS: i32 = 6;
const NOT_A_NUMBER: i64 = 63;
const INFINITE: i64 = 62;
/// Offset of the exponent, which has six bits.
const ZERO: i32 = 31;

/// Packs a number with six digits and a decimal exponent into one integer: mantissa × 64 + exponent + 31. Numbers that are too small become
/// zero, too large ones infinite.
pub(super) fn packed(number: f64) -> i64 {
    if number.is_nan() {
        return NOT_A_NUMBER;
    }
    if number.is_infinite() {
        return 64 * (number.signum() as i64) + INFINITE;
    }
    if number == 0.0 {
        return i64::from(ZERO);
    }
    let mut exponent = number.abs().log10().floor() as i32 + 1 - DIGITS;
    let mut mantissa = scaled(number, -exponent).round();
    while mantissa != 0.0 && mantissa % 10.0 == 0.0 {
        mantissa /= 10.0;
        exponent += 1;
    }
    if exponent > 30 {
        return 64 * (number.signum() as i64) + INFINITE;
    }
    if exponent < -ZERO {
        return i64::from(ZERO);
    }
    64 * (mantissa as i64) + i64::from(exponent + ZERO)
}

/// Unpacks a number from [`packed`].
pub(super) fn unpacked(code: i64) -> f64 {
    let (mantissa, exponent) = (code.div_euclid(64), code.rem_euclid(64));
    match exponent {
        NOT_A_NUMBER => f64::NAN,
        INFINITE => f64::INFINITY * (mantissa as f64).signum(),
        exponent => scaled(mantissa as f64, exponent as i32 - ZERO),
    }
}

/// Division by a power of ten gives the double nearest to the decimal number; multiplication by its inverse may not.
fn scaled(number: f64, power: i32) -> f64 {
    if power < 0 { number / 10f64.powi(-power) } else { number * 10f64.powi(power) }
}

/// Encodes a share in ten-thousandths.
pub(super) fn share_code(share: Share) -> i64 {
    (share.fraction() * 10_000.0).round() as i64
}

pub(super) fn share(code: i64) -> Share {
    Share::clamped(code as f64 / 10_000.0)
}

/// The stored form of a reason: its rule, two numbers, and a text.
pub(super) struct CodedReason<'a> {
    pub rule: i64,
    pub a: Option<i64>,
    pub b: Option<i64>,
    pub text: Option<&'a str>,
}

/// Base for packing a rank and a number of jobs into one integer; larger values are clamped.
const RANKS: i64 = 8192;

pub(super) fn reason_code(reason: &Reason) -> CodedReason<'_> {
    let plain = |rule| CodedReason { rule, a: None, b: None, text: None };
    let place = |number: usize| i64::try_from(number).unwrap_or(i64::MAX).min(RANKS - 1);
    let numbers = |rule, a, b| CodedReason { rule, a: Some(a), b, text: None };
    match reason {
        Reason::NotMeasured => plain(0),
        Reason::Silent => plain(1),
        Reason::Unranked => plain(2),
        Reason::Paused => plain(3),
        Reason::Broken { condition } => numbers(14, condition_code(*condition), None),
        Reason::Growing { growth, part } => numbers(4, packed(*growth), Some(share_code(*part))),
        Reason::Watching { growth } => numbers(5, packed(*growth), None),
        Reason::Converged { growth, floor } => numbers(6, packed(*growth), Some(share_code(*floor))),
        Reason::AllConverged { interval } => numbers(7, i64::try_from(interval.0).unwrap_or(i64::MAX), None),
        Reason::ObserveOnly => plain(8),
        Reason::Bounded { wanted, bound } => numbers(9, share_code(*wanted), Some(share_code(*bound))),
        Reason::Held { why } => CodedReason { text: Some(why), ..plain(10) },
        Reason::PlainBlock { until_unix_ms } => numbers(12, number(*until_unix_ms), None),
        Reason::Ranked { milestone, work, rank, of } => {
            let ranks = place(*rank) * RANKS + place(*of);
            CodedReason { rule: 11, a: Some(packed(*work)), b: Some(ranks), text: Some(milestone) }
        }
        Reason::Trial { standing, units, rank, of } => {
            let standing = TrialStanding::ALL.iter().position(|known| known == standing).unwrap_or(0);
            let ranks = (place(standing) * RANKS + place(*rank)) * RANKS + place(*of);
            numbers(15, packed(*units), Some(ranks))
        }
        Reason::Turn { is_on, of } => numbers(16, i64::from(*is_on), Some(place(*of))),
        Reason::RankedOnGpu { gpu, milestone, work, rank, of } => {
            let ranks = (i64::from(*gpu) * RANKS + place(*rank)) * RANKS + place(*of);
            CodedReason { rule: 13, a: Some(packed(*work)), b: Some(ranks), text: Some(milestone) }
        }
    }
}

pub(super) fn reason(rule: i64, a: Option<i64>, b: Option<i64>, text: Option<String>) -> Option<Reason> {
    Some(match rule {
        0 => Reason::NotMeasured,
        1 => Reason::Silent,
        2 => Reason::Unranked,
        3 => Reason::Paused,
        14 => Reason::Broken { condition: condition(a?)? },
        4 => Reason::Growing { growth: unpacked(a?), part: share(b?) },
        5 => Reason::Watching { growth: unpacked(a?) },
        6 => Reason::Converged { growth: unpacked(a?), floor: share(b?) },
        7 => Reason::AllConverged { interval: Millis(u64::try_from(a?).ok()?) },
        8 => Reason::ObserveOnly,
        9 => Reason::Bounded { wanted: share(a?), bound: share(b?) },
        10 => Reason::Held { why: text? },
        11 => Reason::Ranked {
            milestone: text?.into(),
            work: unpacked(a?),
            rank: usize::try_from(b? / RANKS).ok()?,
            of: usize::try_from(b? % RANKS).ok()?,
        },
        16 => Reason::Turn { is_on: a? != 0, of: usize::try_from(b?).ok()? },
        15 => Reason::Trial {
            standing: *TrialStanding::ALL.get(usize::try_from(b? / RANKS / RANKS).ok()?)?,
            units: unpacked(a?),
            rank: usize::try_from(b? / RANKS % RANKS).ok()?,
            of: usize::try_from(b? % RANKS).ok()?,
        },
        13 => Reason::RankedOnGpu {
            gpu: u32::try_from(b? / RANKS / RANKS).ok()?,
            milestone: text?.into(),
            work: unpacked(a?),
            rank: usize::try_from(b? / RANKS % RANKS).ok()?,
            of: usize::try_from(b? % RANKS).ok()?,
        },
        12 => Reason::PlainBlock { until_unix_ms: u64::try_from(a?).ok()? },
        _ => return None,
    })
}

/// Encodes state, turn, list and kind of hold in one number.
pub(super) fn flags(state: RunState, is_turn: bool, list: Option<List>, hold: Option<&Hold>) -> i64 {
    let list = match list {
        None => 0,
        Some(List::New) => 1,
        Some(List::Watching) => 2,
        Some(List::Completing) => 3,
    };
    let hold = match hold {
        None => 0,
        Some(Hold::Released) => 1,
        Some(Hold::Foreign(_)) => 2,
        Some(Hold::Settling) => 3,
        Some(Hold::Unwritable(_)) => 4,
        Some(Hold::Moved(_)) => 5,
    };
    i64::from(state == RunState::Paused) | i64::from(is_turn) << 1 | list << 2 | hold << 4
}

pub(super) fn state(flags: i64) -> RunState {
    if flags & 1 == 1 { RunState::Paused } else { RunState::Running }
}

pub(super) fn is_turn(flags: i64) -> bool {
    flags >> 1 & 1 == 1
}

pub(super) fn list(flags: i64) -> Option<List> {
    [None, Some(List::New), Some(List::Watching), Some(List::Completing)][(flags >> 2 & 3) as usize]
}

pub(super) fn hold(flags: i64, text: Option<String>) -> Option<Hold> {
    let text = text.unwrap_or_default();
    match flags >> 4 & 7 {
        1 => Some(Hold::Released),
        2 => Some(Hold::Foreign(text)),
        3 => Some(Hold::Settling),
        4 => Some(Hold::Unwritable(text)),
        5 => Some(Hold::Moved(text)),
        _ => None,
    }
}

/// Returns the text of a hold.
pub(super) fn hold_text(hold: Option<&Hold>) -> Option<&str> {
    match hold? {
        Hold::Foreign(text) | Hold::Unwritable(text) | Hold::Moved(text) => Some(text),
        Hold::Released | Hold::Settling => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn typical_numbers_survive_packing() {
        for number in [0.0, 1.0, -1.0, 0.1, 2.303, 0.000_123_456, 12_345.6, -987_654.0, 1e12, 100_000.0, 1e-12] {
            assert_eq!(unpacked(packed(number)), number, "{number}");
        }
        assert!(unpacked(packed(f64::NAN)).is_nan());
        assert_eq!(unpacked(packed(f64::INFINITY)), f64::INFINITY);
        assert_eq!(unpacked(packed(f64::NEG_INFINITY)), f64::NEG_INFINITY);
        assert_eq!(unpacked(packed(f64::MAX)), f64::INFINITY);
        assert_eq!(unpacked(packed(f64::MIN_POSITIVE)), 0.0);
    }

    #[test]
    fn every_reason_survives_encoding() {
        let reasons = [
            Reason::NotMeasured,
            Reason::Silent,
            Reason::Unranked,
            Reason::Paused,
            Reason::Broken { condition: Condition::Stalled },
            Reason::Growing { growth: 0.25, part: Share::ALL },
            Reason::Watching { growth: 0.25 },
            Reason::Converged { growth: 0.001, floor: Share::clamped(0.125) },
            Reason::AllConverged { interval: Millis::from_secs(320) },
            Reason::ObserveOnly,
            Reason::PlainBlock { until_unix_ms: 1_700_000_000_000 },
            Reason::Bounded { wanted: Share::ALL, bound: Share::clamped(0.3) },
            Reason::Held { why: "somebody else set cpu.weight to 40".to_owned() },
            Reason::Ranked { milestone: "95 % quality".into(), work: 35_999.0, rank: 128, of: 1000 },
            Reason::Trial { standing: TrialStanding::Behind, units: 14.0, rank: 16, of: 1000 },
            Reason::Turn { is_on: true, of: 4 },
            Reason::Turn { is_on: false, of: 4 },
            Reason::RankedOnGpu { gpu: 7, milestone: "completion".into(), work: 35_999.0, rank: 2, of: 1000 },
        ];
        for known in reasons {
            let coded = reason_code(&known);
            assert_eq!(reason(coded.rule, coded.a, coded.b, coded.text.map(str::to_owned)), Some(known));
        }
        assert_eq!(reason(99, None, None, None), None, "a rule of a later version decodes to None");
    }

    #[test]
    fn flags_survive_encoding() {
        let foreign = Hold::Foreign("x".to_owned());
        let moved = Hold::Moved("/x".to_owned());
        let holds = [None, Some(Hold::Released), Some(foreign), Some(moved), Some(Hold::Settling)];
        for held in holds {
            for listed in [None, Some(List::New), Some(List::Watching), Some(List::Completing)] {
                for turn in [false, true] {
                    let code = flags(RunState::Paused, turn, listed, held.as_ref());
                    let text = hold_text(held.as_ref()).map(str::to_owned);
                    assert_eq!((state(code), is_turn(code), list(code)), (RunState::Paused, turn, listed));
                    assert_eq!(hold(code, text), held);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_packed_number_is_exact_to_six_digits(number in prop::num::f64::NORMAL.prop_filter("in range", |n| (1e-24..1e30).contains(&n.abs()))) {
            let back = unpacked(packed(number));
            prop_assert!((back - number).abs() <= number.abs() * 1.000_001e-5, "{number} {back}");
        }
    }
}
