//! Sort keys and filter of a list of jobs, in `top` and in `status`. Pure.

use crate::health;
use crate::sweep::goal;
use api::wire::Container;
use clap::ValueEnum;
use std::cmp::Ordering;

/// Key by which the rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortKey {
    /// By name, from a to z
    Name,
    /// Health, worst first
    Health,
    /// Growth efficiency, largest first
    Growth,
    /// Share of the node, largest first
    #[default]
    Share,
    /// CPU used, most first
    Cpu,
    /// Memory charged, most first
    Memory,
    /// Latest value of the metric, largest first
    Value,
    /// Progress, furthest first
    Progress,
    /// Time left, nearest end first
    Left,
    /// Start, oldest first
    Start,
    /// Sweep, and the best trial of each first
    Sweep,
}

impl SortKey {
    /// All keys, in the order of the columns.
    pub(super) const ALL: [SortKey; 11] = [
        SortKey::Name,
        SortKey::Health,
        SortKey::Growth,
        SortKey::Share,
        SortKey::Cpu,
        SortKey::Memory,
        SortKey::Value,
        SortKey::Progress,
        SortKey::Left,
        SortKey::Start,
        SortKey::Sweep,
    ];

    /// The value of `--sort`.
    pub(super) fn word(self) -> &'static str {
        match self {
            SortKey::Name => "name",
            SortKey::Health => "health",
            SortKey::Growth => "growth",
            SortKey::Share => "share",
            SortKey::Cpu => "cpu",
            SortKey::Memory => "memory",
            SortKey::Value => "value",
            SortKey::Progress => "progress",
            SortKey::Left => "left",
            SortKey::Start => "start",
            SortKey::Sweep => "sweep",
        }
    }

    /// Its index in [`SortKey::ALL`].
    pub(super) fn index(self) -> usize {
        SortKey::ALL.iter().position(|key| *key == self).unwrap_or(0)
    }

    /// The key `steps` further in [`SortKey::ALL`], wrapping around.
    pub(super) fn step(self, steps: isize) -> SortKey {
        let count = SortKey::ALL.len() as isize;
        let index = (self.index() as isize + steps).rem_euclid(count);
        SortKey::ALL[usize::try_from(index).unwrap_or(0)]
    }

    /// Whether the default order has the largest number first.
    fn is_descending(self) -> bool {
        matches!(
            self,
            SortKey::Growth | SortKey::Share | SortKey::Cpu | SortKey::Memory | SortKey::Value | SortKey::Progress
        )
    }
}

/// A sort key and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// The sort key.
    pub(crate) key: SortKey,
    /// Whether the default order is reversed.
    pub(crate) reversed: bool,
}

impl Order {
    /// `↓` if the largest value is first, else `↑`.
    pub(super) fn arrow(self) -> &'static str {
        if self.key.is_descending() == self.reversed { "↑" } else { "↓" }
    }
}

/// Sorted indices of the containers that match the filter. A container without a value comes last in both directions.
pub(crate) fn rows(containers: &[Container], order: Order, filter: &str) -> Vec<usize> {
    let mut rows = matching(containers, filter);
    rows.sort_by(|a, b| compare(&containers[*a], &containers[*b], order).then(a.cmp(b)));
    rows
}

/// Indices of the containers that match the filter.
pub(super) fn matching(containers: &[Container], filter: &str) -> Vec<usize> {
    let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
    (0..containers.len()).filter(|at| matches_filter(&containers[*at], &words)).collect()
}

/// Whether every word occurs in some text of the row.
fn matches_filter(container: &Container, words: &[String]) -> bool {
    let metric = container.metric.as_ref().and_then(|metric| metric.name.as_deref());
    let hold = container.hold.as_ref().map(|hold| hold.kind.as_str());
    let health = health::word(container.health.as_ref()).map(|(_, word)| word);
    let texts = [
        Some(container.name.as_str()),
        Some(container.id.as_str()),
        Some(container.runtime.as_str()),
        Some(container.why.as_str()),
        health.as_deref(),
        metric,
        hold,
    ];
    words.iter().all(|word| texts.iter().flatten().any(|text| text.to_lowercase().contains(word)))
}

fn compare(a: &Container, b: &Container, order: Order) -> Ordering {
    let directed = |default: Ordering| if order.reversed { default.reverse() } else { default };
    if order.key == SortKey::Name {
        return directed(a.name.cmp(&b.name));
    }
    let sweep = |container: &Container| container.trial.as_ref().map(|trial| trial.group.clone());
    if let (SortKey::Sweep, Some(one), Some(other)) = (order.key, sweep(a), sweep(b)) {
        return one.cmp(&other).then(directed(goal(a).total_cmp(&goal(b))));
    }
    match (value(a, order.key), value(b, order.key)) {
        (Some(a), Some(b)) => directed(if order.key.is_descending() { b.total_cmp(&a) } else { a.total_cmp(&b) }),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

fn value(container: &Container, key: SortKey) -> Option<f64> {
    match key {
        SortKey::Name => None,
        SortKey::Health => health::rank(container.health.as_ref()),
        SortKey::Growth => container.growth,
        SortKey::Share => container.share,
        SortKey::Cpu => container.cpu_used,
        SortKey::Memory => container.memory_bytes.map(|bytes| bytes as f64),
        SortKey::Value => container.metric.as_ref()?.value,
        SortKey::Progress => container.progress.as_ref()?.fraction,
        SortKey::Left => container.progress.as_ref()?.remaining_s.map(|left| left.likely),
        SortKey::Start => Some(-container.uptime_s),
        SortKey::Sweep => container.trial.as_ref().map(|_| 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{container, containers};
    use super::*;

    fn names(order: Order, filter: &str) -> Vec<String> {
        let containers = containers();
        rows(&containers, order, filter).into_iter().map(|at| containers[at].name.clone()).collect()
    }

    fn by(key: SortKey) -> Order {
        Order { key, reversed: false }
    }

    #[test]
    fn the_largest_share_comes_first_and_a_missing_one_last_in_both_directions() {
        assert_eq!(names(by(SortKey::Share), ""), ["vae", "lstm", "resnet", "sweep"]);
        assert_eq!(names(Order { key: SortKey::Share, reversed: true }, ""), ["resnet", "lstm", "vae", "sweep"]);
    }

    #[test]
    fn each_key_has_its_default_order() {
        assert_eq!(names(by(SortKey::Name), ""), ["lstm", "resnet", "sweep", "vae"]);
        assert_eq!(names(by(SortKey::Health), ""), ["lstm", "resnet", "vae", "sweep"]);
        assert_eq!(names(by(SortKey::Left), ""), ["resnet", "vae", "lstm", "sweep"]);
        assert_eq!(names(by(SortKey::Value), ""), ["lstm", "resnet", "vae", "sweep"]);
        assert_eq!(names(by(SortKey::Start), "")[0], "vae");
    }

    #[test]
    fn every_word_of_a_filter_must_occur_in_the_row() {
        assert_eq!(names(by(SortKey::Name), "LOSS"), ["lstm", "vae"]);
        assert_eq!(names(by(SortKey::Name), "loss learning"), ["vae"]);
        assert!(names(by(SortKey::Name), "loss nowhere").is_empty());
    }

    #[test]
    fn stepping_through_the_keys_wraps_around() {
        assert_eq!(SortKey::Sweep.step(1), SortKey::Name);
        assert_eq!(SortKey::Name.step(-1), SortKey::Sweep);
    }

    #[test]
    fn sorting_accepts_nan() {
        let mut broken = container("a");
        broken.share = Some(f64::NAN);
        assert_eq!(rows(&[broken, container("b")], by(SortKey::Share), "").len(), 2);
    }
}
