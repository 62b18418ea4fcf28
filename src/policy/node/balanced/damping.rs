//! Limits how fast shares change, because the first reports of young jobs are poor evidence.
//!
//! Without an event, no member of a domain gets more than [`FACTOR`] times, or less than a [`FACTOR`]th of, what it had ten seconds before.
//! All members go the same part of the way from what they had to what was decided, so the sum is kept.
//!
//! Until the decision is reached, the next one comes soon.
//!
//! These are events, after which the decision applies at once: a job starts, ends, freezes, thaws, breaks or recovers, its model becomes good,
//! or its end becomes known or unknown, as when it runs past the total that its command claims.

use super::{Entry, is_broken};
use crate::node::domain::Domain;
use model::{ContainerObservation, Millis, NodeObservation, RunState};
use serde::{Deserialize, Serialize};

/// Greatest change within this time.
const FACTOR: f64 = 4.0;
const WITHIN: Millis = Millis::from_secs(10);

/// Time to the next decision while shares are on their way.
pub(super) const NEXT: Millis = Millis(WITHIN.0 / 2);

/// What a container had at the last decision.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Damping {
    last: Option<Given>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Given {
    at: Millis,
    cores: f64,
    situation: Situation,
}

/// What makes a change an event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Situation {
    /// Number of members of its domain.
    members: usize,
    runs: bool,
    is_broken: bool,
    is_good: bool,
    has_end: bool,
}

impl Situation {
    fn of(container: &ContainerObservation, members: usize) -> Situation {
        let to_quality = container.learning.curve.and_then(|curve| curve.units_to_quality);
        Situation {
            members,
            runs: container.state == RunState::Running,
            is_broken: is_broken(container),
            is_good: to_quality.is_some_and(|units| units.high <= 0.0),
            has_end: container.learning.units_to_completion.is_some(),
        }
    }
}

/// Brings the cores of each member closer to those that it had, if they changed too fast, and records them. Returns whether they did.
pub(super) fn damp(node: &NodeObservation, domain: &Domain, entries: &mut [Entry<'_>], given: &mut [f64]) -> bool {
    let mut is_damped = false;
    let situation = |index: usize| Situation::of(&node.containers[index], domain.members.len());
    let before: Option<Vec<Given>> = domain
        .members
        .iter()
        .map(|&index| entries[index].memory.damping.last.filter(|last| last.situation == situation(index)))
        .collect();
    if let Some(before) = before.filter(|before| before.iter().all(|last| last.at <= node.now)) {
        let had: f64 = before.iter().map(|last| last.cores).sum();
        let scale = given.iter().sum::<f64>() / had;
        let old: Vec<f64> = before.iter().map(|last| last.cores * scale).collect();
        let passed = before.iter().map(|last| node.now.since(last.at)).min().unwrap_or_default().min(WITHIN);
        let factor = FACTOR.powf(passed.as_secs_f64() / WITHIN.as_secs_f64());
        let part =
            old.iter().zip(given.iter()).map(|(old, new)| part_of_the_way(*old, *new, factor)).fold(1.0, f64::min);
        if part < 1.0 && scale.is_finite() {
            is_damped = true;
            given.iter_mut().zip(&old).for_each(|(new, old)| *new = old + part * (*new - old));
        }
    }
    for (&index, cores) in domain.members.iter().zip(given.iter()) {
        let given = Given { at: node.now, cores: *cores, situation: situation(index) };
        entries[index].memory.damping.last = Some(given);
    }
    is_damped
}

/// The part of the way from `old` to `new` after which it has changed by `factor`; 1 if it changes by less.
fn part_of_the_way(old: f64, new: f64, factor: f64) -> f64 {
    let bound = new.clamp(old / factor, old * factor);
    if new == bound { 1.0 } else { (bound - old) / (new - old) }
}

#[cfg(test)]
mod tests {
    use crate::node::balanced::testing::{Bench, job, shares_of};
    use model::{Condition, Millis};

    /// Four jobs with work for hours. At the next tick, the first three claim to be done soon.
    fn bench() -> Bench {
        let mut bench = Bench::new(1.0, ["a", "b", "c", "d"].map(|id| job(id, 20.0, Some(4000.0), None)).to_vec());
        assert_eq!(bench.shares(), [0.25; 4]);
        for (index, (id, total)) in [("a", 60.0), ("b", 61.0), ("c", 62.0), ("d", 4000.0)].into_iter().enumerate() {
            bench.advance(index, job(id, 40.0, Some(total), None));
        }
        bench
    }

    #[test]
    fn without_an_event_a_share_changes_fourfold_at_most_in_ten_seconds() {
        let shares = shares_of(&bench().tick_after(Millis::from_secs(10)));
        assert_eq!(shares[3], 0.06, "a quarter of a quarter: {shares:?}");
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 0.02, "{shares:?}");
        let shares = shares_of(&bench().tick_after(Millis::from_secs(5)));
        assert_eq!(shares[3], 0.12, "half of a quarter: {shares:?}");
        let shares = shares_of(&bench().tick_after(Millis::from_secs(3600)));
        assert_eq!(shares[3], 0.06, "at the very moment of a decision, too: {shares:?}");
    }

    #[test]
    fn an_event_takes_effect_at_once() {
        let mut bench = bench();
        bench.node.containers[3].health.condition = Condition::Nan;
        let shares = shares_of(&bench.tick_after(Millis::from_secs(1)));
        assert_eq!(shares[3], 0.03, "a tenth of an equal share: {shares:?}");
    }
}
