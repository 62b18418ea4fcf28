//! A job's share between its floor and its bound, as numbers and as a bar. Pure. Imports: wire types.

use crate::api::wire::{Container, Node};

/// A share and what it moves between, each as a fraction of the node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareSpan {
    /// It gets no less when it wants it.
    pub floor: f64,
    /// What it gets now; `None` before the first decision.
    pub now: Option<f64>,
    /// It is given no more while others want it.
    pub bound: f64,
}

impl ShareSpan {
    /// Of one container among `jobs` on the node. The floor is the larger of the owner's `flowcon.min-share` and the policy's own:
    /// FlowCon leaves a converged job 1/(β·n) (Algorithm 1, line 21), the default policy leaves everybody a part of an equal share.
    pub fn of(container: &Container, node: &Node, jobs: usize) -> ShareSpan {
        let jobs = jobs.max(1) as f64;
        let policy = match node.policy.policy.as_str() {
            "balanced" => node.policy.floor / jobs,
            "flowcon" if node.policy.share_floor > 0.0 => 1.0 / (node.policy.share_floor * jobs),
            _ => 0.0,
        };
        let (floor, bound) = match container.pinned_share {
            Some(pin) => (pin, pin),
            None => (container.min_share.max(policy.min(container.max_share)), container.max_share),
        };
        ShareSpan { floor, now: container.share, bound: bound.max(floor) }
    }

    /// A bar of the whole node: `█` its floor, `▓` what it has above that, `░` what it may still get, `·` what it may not.
    /// A floor that it does not reach is `▒`, as in a paused job. The signs differ without colour.
    pub fn bar(&self, columns: usize) -> String {
        let Some(now) = self.now else { return "·".repeat(columns) };
        let cells = |fraction: f64| (fraction.clamp(0.0, 1.0) * columns as f64).round() as usize;
        // Whoever has something has at least a cell.
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
    fn floor_now_and_bound_are_told_apart_without_colour() {
        assert_eq!(span(0.2, 0.5, 0.8).bar(10), "██▓▓▓░░░··");
        assert_eq!(span(0.0, 1.0, 1.0).bar(4), "█▓▓▓");
        assert_eq!(span(0.5, 0.2, 1.0).bar(10), "██▒▒▒░░░░░");
        assert_eq!(span(0.0, 0.01, 1.0).bar(4), "█░░░", "whoever has something is seen");
        assert_eq!(ShareSpan { floor: 0.1, now: None, bound: 1.0 }.bar(3), "···");
    }

    #[test]
    fn wrong_numbers_still_make_a_bar() {
        assert_eq!(span(f64::NAN, f64::INFINITY, -1.0).bar(4).chars().count(), 4);
    }

    #[test]
    fn the_floor_is_the_owners_or_the_policys_whichever_is_more() {
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
