//! Control periods: a part of the time in which nothing is governed, so that the effect of governing can be measured (a switchback
//! experiment).
//!
//! ## Problem
//!
//! The outcome under plain sharing cannot be observed while jobs are governed. An operator can reserve a part of the time for it
//! (`policy.holdback`, at most half): in a control period, also called a *plain* block, every job has its original limits, as under the
//! policy `fair`. The comparison of control periods with governed blocks is fair only if they differ in nothing else, so they are assigned
//! at random.
//!
//! ## Approach
//!
//! - Wall time is cut into blocks of `policy.holdback-block`, numbered from 1970 on. So a block is the same for every observer at any time:
//!   a restart, a crash or a reload changes nothing, and there is no state to lose.
//! - ⌈1 / part⌉ blocks are a *group*. Each group has one or two control periods, so that a short history is balanced too and no job waits
//!   long for its first. Where the expected number per group is not whole, the rest is carried to the next group (from an offset drawn
//!   once): over any time, the expected and the actual number of control periods differ by less than one group's.
//! - A keyed hash of the group's number selects the control periods of the group. The key is the node's name, so that the nodes of a
//!   cluster do not have their control periods together. No observation goes in, so no block is selected for what happens in it.
//!
//! ## Length of a block
//!
//! A block must be long compared with the time that a switch takes: limits are written within a second, and a governed block begins with
//! at most one decision's delay. It must also be long compared with the decision interval, or it would contain hardly any governing. A
//! governed block may be shorter than the longest back-off: then everything had converged and no job was held down. A block must be short
//! compared with jobs: a control period is compared with its neighbours, which says less the more jobs start and end between them, and the
//! figure of a single job needs six control periods in its life. The default of five minutes is 15 decisions at the usual interval, and a
//! twelfth of a job of one hour.
//!
//! The first part of each block, the *wash-out*, is left out of every measurement: one decision interval, since policies decide again only
//! then, and at most a quarter of the block.
//!
//! ## Properties
//!
//! - A control period gives every job its fair share, so this is the most that it can cost a job.
//! - The policies keep observing in a control period: growth, lists and costs per unit are updated, and they decide at once when it ends.
//!   Only a fixed share (an operator's pin, or an owner's equal bounds) is kept: it was set by a person.
//! - A hold has priority over a control period: a held container is left alone.

use model::{HoldbackBlock, Millis, PolicyName, PolicySettings};

/// Unit in which the part of the time is counted.
const PARTS: u64 = 10_000;

/// Half of the time, so that each group has a governed block too.
const PARTS_AT_MOST: u64 = PARTS / 2;

/// The wash-out is at most one block divided by this.
const WASHED_AT_MOST: u64 = 4;

/// The assignment of control periods on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdback {
    parts: u64,
    block_ms: u64,
    wash_ms: u64,
    key: u64,
}

impl Holdback {
    /// Returns the assignment for the node of that name; `None` if control periods are off or the policy is `fair`.
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

    /// Returns the block at an instant of wall time; `now` is the same instant on the observer's clock.
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

    /// Number of blocks in a group.
    fn group(&self) -> u64 {
        PARTS.div_ceil(self.parts)
    }

    fn is_plain(&self, number: u64) -> bool {
        let (group, place) = (number / self.group(), number % self.group());
        // One draw for each control period of the group, each among the remaining places (selection sampling).
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

    /// Number of control periods in a group.
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

/// Maps a random 64-bit number to a uniform one below `below`.
fn below(number: u64, below: u64) -> u64 {
    ((u128::from(number) * u128::from(below)) >> 64) as u64
}

/// The mixer of SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014). Written here because
/// another version of a library must not select other blocks.
fn hashed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
#[path = "holdback_tests.rs"]
mod tests;
