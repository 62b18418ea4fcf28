//! Which jobs are shown and in which order: sort keys and the filter. Pure. Imports: wire types.

use crate::api::wire::Container;
use clap::ValueEnum;
use std::cmp::Ordering;

/// What the rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// By name, from a to z
    Name,
    /// New, watching, completing
    List,
    /// Growth efficiency, largest first
    Growth,
    /// Share of the node, largest first
    #[default]
    Share,
    /// CPU used, most first
    Cpu,
    /// Memory charged, most first
    Memory,
    /// Progress, furthest first
    Progress,
    /// Time left, nearest end first
    Left,
    /// Start, oldest first
    Start,
}

impl SortKey {
    /// All keys, in the order of the columns.
    pub const ALL: [SortKey; 9] = [
        SortKey::Name,
        SortKey::List,
        SortKey::Growth,
        SortKey::Share,
        SortKey::Cpu,
        SortKey::Memory,
        SortKey::Progress,
        SortKey::Left,
        SortKey::Start,
    ];

    /// The word that `--sort` takes.
    pub fn word(self) -> &'static str {
        match self {
            SortKey::Name => "name",
            SortKey::List => "list",
            SortKey::Growth => "growth",
            SortKey::Share => "share",
            SortKey::Cpu => "cpu",
            SortKey::Memory => "memory",
            SortKey::Progress => "progress",
            SortKey::Left => "left",
            SortKey::Start => "start",
        }
    }

    /// Its place in [`SortKey::ALL`].
    pub fn place(self) -> usize {
        SortKey::ALL.iter().position(|key| *key == self).unwrap_or(0)
    }

    /// The key `steps` further in [`SortKey::ALL`], round and round.
    pub fn turned(self, steps: isize) -> SortKey {
        let count = SortKey::ALL.len() as isize;
        let place = (self.place() as isize + steps).rem_euclid(count);
        SortKey::ALL[usize::try_from(place).unwrap_or(0)]
    }

    /// Whether the natural order has the largest number first.
    fn is_descending(self) -> bool {
        matches!(self, SortKey::Growth | SortKey::Share | SortKey::Cpu | SortKey::Memory | SortKey::Progress)
    }
}

/// A key and whether its natural order is turned around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// What counts.
    pub key: SortKey,
    /// Turned around.
    pub reversed: bool,
}

impl Order {
    /// `↓` where the largest is first.
    pub fn arrow(self) -> &'static str {
        if self.key.is_descending() == self.reversed { "↑" } else { "↓" }
    }
}

/// The containers that pass the filter, as indices, in order. Whoever has no value comes last either way.
pub fn rows(containers: &[Container], order: Order, filter: &str) -> Vec<usize> {
    let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
    let mut rows: Vec<usize> = (0..containers.len()).filter(|at| passes(&containers[*at], &words)).collect();
    rows.sort_by(|a, b| compared(&containers[*a], &containers[*b], order).then(a.cmp(b)));
    rows
}

/// Every word stands somewhere in what the row says.
fn passes(container: &Container, words: &[String]) -> bool {
    let metric = container.metric.as_ref().and_then(|metric| metric.name.as_deref());
    let hold = container.hold.as_ref().map(|hold| hold.kind.as_str());
    let texts = [
        Some(container.name.as_str()),
        Some(container.id.as_str()),
        Some(container.runtime.as_str()),
        Some(container.why.as_str()),
        container.list.as_deref(),
        metric,
        hold,
    ];
    words.iter().all(|word| texts.iter().flatten().any(|text| text.to_lowercase().contains(word)))
}

fn compared(a: &Container, b: &Container, order: Order) -> Ordering {
    let turned = |natural: Ordering| if order.reversed { natural.reverse() } else { natural };
    if order.key == SortKey::Name {
        return turned(a.name.cmp(&b.name));
    }
    match (value(a, order.key), value(b, order.key)) {
        (Some(a), Some(b)) => turned(if order.key.is_descending() { b.total_cmp(&a) } else { a.total_cmp(&b) }),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

fn value(container: &Container, key: SortKey) -> Option<f64> {
    match key {
        SortKey::Name => None,
        SortKey::List => container.list.as_deref().map(list_place),
        SortKey::Growth => container.growth,
        SortKey::Share => container.share,
        SortKey::Cpu => container.cpu_used,
        SortKey::Memory => container.memory_bytes.map(|bytes| bytes as f64),
        SortKey::Progress => container.progress.as_ref()?.fraction,
        SortKey::Left => container.progress.as_ref()?.remaining_s.map(|left| left.likely),
        SortKey::Start => Some(-container.uptime_s),
    }
}

fn list_place(list: &str) -> f64 {
    match list {
        "new" => 0.0,
        "watching" => 1.0,
        "completing" => 2.0,
        _ => 3.0,
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
    fn the_largest_share_comes_first_and_who_has_none_comes_last_either_way() {
        assert_eq!(names(by(SortKey::Share), ""), ["vae", "lstm", "resnet", "sweep"]);
        assert_eq!(names(Order { key: SortKey::Share, reversed: true }, ""), ["resnet", "lstm", "vae", "sweep"]);
    }

    #[test]
    fn each_key_has_the_order_that_one_expects() {
        assert_eq!(names(by(SortKey::Name), ""), ["lstm", "resnet", "sweep", "vae"]);
        assert_eq!(names(by(SortKey::List), ""), ["vae", "lstm", "resnet", "sweep"]);
        assert_eq!(names(by(SortKey::Left), ""), ["resnet", "vae", "lstm", "sweep"]);
        assert_eq!(names(by(SortKey::Start), "")[0], "vae");
    }

    #[test]
    fn a_filter_wants_each_of_its_words_somewhere_in_the_row() {
        assert_eq!(names(by(SortKey::Name), "LOSS"), ["lstm", "vae"]);
        assert_eq!(names(by(SortKey::Name), "loss new"), ["vae"]);
        assert!(names(by(SortKey::Name), "loss nowhere").is_empty());
    }

    #[test]
    fn keys_turn_round_and_round() {
        assert_eq!(SortKey::Start.turned(1), SortKey::Name);
        assert_eq!(SortKey::Name.turned(-1), SortKey::Start);
    }

    #[test]
    fn numbers_that_are_none_break_no_order() {
        let mut broken = container("a");
        broken.share = Some(f64::NAN);
        assert_eq!(rows(&[broken, container("b")], by(SortKey::Share), "").len(), 2);
    }
}
