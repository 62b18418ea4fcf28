//! A job's share with its floor and its bound, as numbers and as a bar. Pure.

use api::wire::{Container, Node};

/// A share with its lower and upper limit, as fractions of the node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ShareSpan {
    /// The share that the job gets at least if it needs it.
    pub floor: f64,
    /// The current share; `None` before the first decision.
    pub now: Option<f64>,
    /// The share that the job gets at most while other jobs need CPU.
    pub bound: f64,
}

impl ShareSpan {
    /// The share of one of `jobs` containers on the node. The floor is the larger of the owner's `flowcon.min-share` and the floor of the
    /// policy: FlowCon leaves a converged job 1/(β·n) (Algorithm 1, line 21), the default policy leaves each job a fraction of an equal
    /// share.
    pub(super) fn of(container: &Container, node: &Node, jobs: usize) -> ShareSpan {
        let jobs = jobs.max(1) as f64;
        let policy = match node.policy.policy.as_str() {
            "balanced" => node.policy.floor / jobs,
            "flowcon-2019" => 1.0 / (jobs + 1.0),
            "flowcon" if node.policy.share_floor > 0.0 => 1.0 / (node.policy.share_floor * jobs),
            _ => 0.0,
        };
        let (floor, bound) = match container.pinned_share {
            Some(pin) => (pin, pin),
            None => (container.min_share.max(policy.min(container.max_share)), container.max_share),
        };
        ShareSpan { floor, now: container.share, bound: bound.max(floor) }
    }

    /// Draws a bar of the whole node: `█` floor, `▓` share above it, `░` up to the bound, `·` beyond the bound.
    /// A floor that is not reached, as in a released job, is `▒`. The characters are distinct without colour.
    pub(super) fn bar(&self, columns: usize) -> String {
        let Some(now) = self.now else { return "·".repeat(columns) };
        let cells = |fraction: f64| (fraction.clamp(0.0, 1.0) * columns as f64).round() as usize;
        // A share above zero takes at least one cell.
        let now_cells = if now > 0.0 { cells(now).max(1) } else { 0 };
        let (floor, bound) = (cells(self.floor), cells(self.bound).max(now_cells));
        (0..columns)
            .map(|cell| match cell {
                cell if cell < now_cells && cell < floor.max(1) => '█',
                cell if cell < now_cells => '▓',
                cell if cell < floor => '▒',
                cell if cell < bound => '░',
                _ => '·',
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{container, status};
    use super::*;

    fn span(floor: f64, now: f64, bound: f64) -> ShareSpan {
        ShareSpan { floor, now: Some(now), bound }
    }

    #[test]
    fn floor_share_and_bound_are_distinct_without_colour() {
        assert_eq!(span(0.2, 0.5, 0.8).bar(10), "██▓▓▓░░░··");
        assert_eq!(span(0.0, 1.0, 1.0).bar(4), "█▓▓▓");
        assert_eq!(span(0.5, 0.2, 1.0).bar(10), "██▒▒▒░░░░░");
        assert_eq!(span(0.0, 0.01, 1.0).bar(4), "█░░░", "a small share is visible");
        assert_eq!(ShareSpan { floor: 0.1, now: None, bound: 1.0 }.bar(3), "···");
    }

    #[test]
    fn invalid_numbers_still_make_a_bar() {
        assert_eq!(span(f64::NAN, f64::INFINITY, -1.0).bar(4).chars().count(), 4);
    }

    #[test]
    fn the_floor_is_the_larger_of_the_owners_and_the_policys() {
        let node = status(Vec::new()).node;
        let mut job = container("a");
        assert!((ShareSpan::of(&job, &node, 4).floor - 0.125).abs() < 1e-12, "1/(2·4) under FlowCon");
        job.min_share = 0.3;
        assert!((ShareSpan::of(&job, &node, 4).floor - 0.3).abs() < 1e-12);
        job.max_share = 0.1;
        job.min_share = 0.0;
        assert!((ShareSpan::of(&job, &node, 4).floor - 0.1).abs() < 1e-12, "no floor above the bound");
        job.pinned_share = Some(0.4);
        assert_eq!(ShareSpan::of(&job, &node, 4), ShareSpan { floor: 0.4, now: job.share, bound: 0.4 });
    }
}
