//! The values of limits in the simulation; each value shows who set it: a plan, an owner, or nobody (the original).
//!
//! An owner's values differ from each other and from ours by more than kernels round. A plan's may be that close to the original.

use model::{Bytes, CpuWeight, LimitKind, Quota, Setting};

/// The governed kinds. An engine keeps all but the third in its record, and of quotas those of a container whose owner set one.
pub(super) const KINDS: [LimitKind; 5] =
    [LimitKind::CpuWeight, LimitKind::MemoryLow, LimitKind::MemoryHigh, LimitKind::IoWeight, LimitKind::CpuQuota];

pub(super) fn place(kind: LimitKind) -> usize {
    KINDS.iter().position(|known| *known == kind).expect("a kind that is governed here")
}

pub(super) fn is_recorded(kind: LimitKind) -> bool {
    kind != LimitKind::MemoryHigh
}

/// Value with which a container starts.
pub(super) fn original(kind: LimitKind) -> Setting {
    match kind {
        LimitKind::MemoryHigh => Setting::MemoryHigh(None),
        LimitKind::CpuQuota => Setting::CpuQuota(None),
        LimitKind::MemoryLow => value(kind, 8),
        _ => value(kind, 100),
    }
}

/// Returns one of the planned values.
pub(super) fn planned(kind: LimitKind, number: u32) -> Setting {
    let number = number as usize % 7;
    match kind {
        LimitKind::MemoryLow => value(kind, [1, 3, 5, 7, 9, 12, 16][number]),
        LimitKind::CpuWeight => value(kind, [20, 24, 28, 99, 101, 40, 44][number]),
        LimitKind::IoWeight => value(kind, [40, 97, 60, 104, 80, 20, 109][number]),
        LimitKind::CpuQuota => value(kind, [200, 240, 280, 400, 500, 600, 700][number]),
        _ => value(kind, 20 + number as u32 * 4),
    }
}

/// Returns the value that an engine sets for this one: it protects at least 6 MiB of memory.
pub(super) fn raised(setting: Setting) -> Setting {
    match setting {
        Setting::MemoryLow(bytes) => Setting::MemoryLow(bytes.max(Bytes(6 << 20))),
        setting => setting,
    }
}

/// Returns the weight while turns are taken; the other kinds keep their values.
pub(super) fn in_turns(kind: LimitKind, has_turn: bool) -> Option<Setting> {
    matches!(kind, LimitKind::CpuWeight | LimitKind::IoWeight).then(|| value(kind, if has_turn { 900 } else { 4 }))
}

/// Whether it is a planned value.
pub(super) fn is_ours(setting: Setting) -> bool {
    let is_of_turn = |has_turn: &bool| in_turns(setting.kind(), *has_turn) == Some(setting);
    (0..7).any(|number| raised(planned(setting.kind(), number)) == setting) || [true, false].iter().any(is_of_turn)
}

/// Returns one of an owner's values, of which there are 1,000 or fewer.
pub(super) fn of_owner(kind: LimitKind, number: u32) -> Setting {
    let (count, step) = of_owners(kind);
    value(kind, 1000 + number % count * step)
}

/// How many values of this kind an owner sets, and the difference between them.
fn of_owners(kind: LimitKind) -> (u32, u32) {
    match kind {
        LimitKind::IoWeight => (40, 220),
        LimitKind::CpuQuota => (40, 500),
        _ => (1000, 8),
    }
}

pub(super) fn is_an_owners(setting: Setting) -> bool {
    let (_, step) = of_owners(setting.kind());
    let number = match setting {
        Setting::CpuWeight(weight) => u64::from(weight.number()),
        Setting::MemoryLow(bytes) | Setting::MemoryHigh(Some(bytes)) => bytes.0 >> 20,
        Setting::IoWeight(weight) => u64::from(weight),
        Setting::CpuQuota(Some(quota)) => quota.0,
        Setting::MemoryHigh(None) | Setting::CpuQuota(None) => return false,
    };
    number >= 1000 && of_owner(setting.kind(), (number as u32 - 1000) / step) == setting
}

fn value(kind: LimitKind, number: u32) -> Setting {
    match kind {
        LimitKind::CpuWeight => Setting::CpuWeight(CpuWeight::clamped(f64::from(number))),
        LimitKind::MemoryLow => Setting::MemoryLow(Bytes(u64::from(number) << 20)),
        LimitKind::IoWeight => Setting::IoWeight(u16::try_from(number).expect("a weight")),
        LimitKind::CpuQuota => Setting::CpuQuota(Some(Quota(u64::from(number)))),
        _ => Setting::MemoryHigh(Some(Bytes(u64::from(number) << 20))),
    }
}
