//! Which blocks of time are plain: a part of the time in which nothing is governed, so that governing can be measured against it.
//!
//! ## Problem
//!
//! What jobs would have got under plain sharing cannot be seen while they are governed. An operator gives a part of the time for seeing it
//! (`policy.holdback`, at most half): in a *plain* block every job has its original limits, as under the policy `fair`. To compare
//! control periods with governed ones is fair only if nothing else told them apart, so chance must say which is which.
//!
//! ## Approach
//!
//! - Wall time is cut into blocks of `policy.holdback-block`, numbered from 1970 on. So a block is the same whoever asks and whenever:
//!   a restart, a crash or a reload within one changes nothing, and there is no state that could be lost.
//! - ⌈1 / part⌉ blocks are a *group*. Each group holds its due part of plain ones, one or two, so that a short history is balanced
//!   too and no job waits long for its first. Where a group's part is no whole number the rest is carried to the next (an offset drawn
//!   once): over any time, the control periods that were due and those that came differ by less than one group's.
//! - Which of a group's blocks are plain says a keyed hash of the group's number. The key is the node's name: a cluster's nodes do not hold
//!   back together. Nothing that was observed goes in, so that no block is chosen because of what happens in it.
//!
//! ## How long a block is
//!
//! Long against what it takes until a switch has come through: limits are written within a second, and a governed block begins with
//! one decision's delay at most. Long also against the interval of decisions, or there would be nothing of governing in it; a
//! governed block may be shorter than the longest back-off, which only means that everything had converged and nobody was held down.
//! Short against jobs: a control period is compared with its neighbours, which tells the less the more jobs come and go between them, and a
//! job's own figure wants six control periods in its life. Five minutes, the default, are 15 decisions of the usual interval and a twelfth of a job
//! of an hour.
//!
//! The first part of each block is *washed out*, left out of every measurement: one interval of decisions, for policies decide anew only
//! then, and at most a quarter of the block.
//!
//! ## Properties
//!
//! - A control period gives every job its fair share, which is the worst that it can do to anybody.
//! - The policies look on in a control period: growth is measured, lists and prices are kept up, and when it ends they decide at once with
//!   what they know. Only a share that is fixed (an operator's pin, or an owner's bounds that are equal) stays as it is: that is a
//!   person's will.
//! - A hold is stronger than a control period: what must be left alone is left alone.

use crate::model::{HoldbackBlock, Millis, PolicyName, PolicySettings};

/// The part of the time is counted in these.
const PARTS: u64 = 10_000;

/// Half of the time: each group has a governed block too.
const PARTS_AT_MOST: u64 = PARTS / 2;

/// Of a block, at most this part is washed out.
const WASHED_AT_MOST: u64 = 4;

/// The blocks of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdback {
    parts: u64,
    block_ms: u64,
    wash_ms: u64,
    key: u64,
}

impl Holdback {
    /// The blocks of the node of that name; `None` = it holds nothing back, or governs nothing.
    pub fn new(settings: &PolicySettings, node: &str) -> Option<Holdback> {
        let parts = ((settings.holdback.fraction() * PARTS as f64).round() as u64).min(PARTS_AT_MOST);
        let block_ms = settings.holdback_block.0.max(1);
        let is_on = parts > 0 && settings.policy != PolicyName::Fair;
        is_on.then(|| Holdback {
            parts,
            block_ms,
            wash_ms: settings.interval.0.min(block_ms / WASHED_AT_MOST),
            key: hashed(node.bytes().fold(parts, |hash, byte| hashed(hash ^ u64::from(byte)))) ^ block_ms,
        })
    }

    /// The block at an instant of wall time; `now` is the same instant on the observer's clock.
    pub fn block_at(&self, unix_ms: u64, now: Millis) -> HoldbackBlock {
        let number = unix_ms / self.block_ms;
        let from_unix_ms = number * self.block_ms;
        let until_unix_ms = from_unix_ms.saturating_add(self.block_ms);
        HoldbackBlock {
            plain: self.is_plain(number),
            from_unix_ms,
            washed_unix_ms: from_unix_ms.saturating_add(self.wash_ms),
            until_unix_ms,
            until: now.after(Millis(until_unix_ms - unix_ms)),
        }
    }

    /// How many blocks are a group.
    fn group(&self) -> u64 {
        PARTS.div_ceil(self.parts)
    }

    fn is_plain(&self, number: u64) -> bool {
        let (group, place) = (number / self.group(), number % self.group());
        // One draw for each control period of the group, each among the places that are left (selection sampling).
        let mut due = self.due(group);
        for earlier in 0..=place {
            let chosen = below(self.drawn(group, earlier), self.group() - earlier) < due;
            if earlier == place {
                return chosen;
            }
            due -= u64::from(chosen);
        }
        false
    }

    /// Control periods of a group.
    fn due(&self, group: u64) -> u64 {
        let offset = u128::from(below(hashed(self.key), PARTS));
        let each = u128::from(self.group() * self.parts);
        let up_to = |group: u64| (u128::from(group) * each + offset) / u128::from(PARTS);
        (up_to(group + 1) - up_to(group)) as u64
    }

    fn drawn(&self, group: u64, place: u64) -> u64 {
        hashed(hashed(self.key ^ hashed(group)).wrapping_add(place))
    }
}

/// A number of all 64 bits → one below `below`, all alike.
fn below(number: u64, below: u64) -> u64 {
    ((u128::from(number) * u128::from(below)) >> 64) as u64
}

/// The mixer of SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014): written out, because a
/// later version of a library must not draw other blocks.
fn hashed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
#[path = "holdback_tests.rs"]
mod tests;
