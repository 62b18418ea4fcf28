//! Opening and closing of nodes, with hysteresis.
//!
//! Renting and returning machines whenever a plan changes would cost more than it saves. A node is opened once plans have wanted the same
//! type without interruption for a while. It is closed once no plan has wanted its type for a while and no job is on it. Imports: nothing.

/// How long plans must agree before a node changes, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hysteresis {
    /// Before a closed node is opened.
    pub open_after_s: f64,
    /// Before an open node is closed.
    pub close_after_s: f64,
}

/// Change of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open it as this type.
    Open {
        /// The node.
        node: usize,
        /// Its type.
        node_type: usize,
    },
    /// Close it; no job is on it.
    Close {
        /// The node.
        node: usize,
    },
}

/// The wanted type of each node, and since when it is wanted.
#[derive(Clone, Debug)]
pub struct Fleet {
    hysteresis: Hysteresis,
    wishes: Vec<Option<(Option<usize>, f64)>>,
}

impl Fleet {
    /// Creates a fleet of `nodes` nodes without any wanted types.
    pub fn new(nodes: usize, hysteresis: Hysteresis) -> Fleet {
        Fleet { hysteresis, wishes: vec![None; nodes] }
    }

    /// Returns the changes to make at `now_s`, given the open types, the types that a plan wants, and which nodes have jobs. If the clock was
    /// set back, all waits restart. Nodes beyond the end of the slices are left alone.
    pub fn step(&mut self, now_s: f64, open: &[Option<usize>], wanted: &[Option<usize>], busy: &[bool]) -> Vec<Action> {
        let mut actions = Vec::new();
        let states = open.iter().zip(wanted).zip(busy);
        for (node, (wish, ((open, wanted), busy))) in self.wishes.iter_mut().zip(states).enumerate() {
            let since = match wish {
                Some((what, since)) if what == wanted && *since <= now_s => *since,
                _ => now_s,
            };
            *wish = Some((*wanted, since));
            let lasted_s = now_s - since;
            match (open, wanted) {
                (None, Some(node_type)) if lasted_s >= self.hysteresis.open_after_s => {
                    actions.push(Action::Open { node, node_type: *node_type });
                }
                (Some(_), wanted) if wanted != open && !busy && lasted_s >= self.hysteresis.close_after_s => {
                    actions.push(Action::Close { node });
                }
                _ => {}
            }
        }
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYSTERESIS: Hysteresis = Hysteresis { open_after_s: 60.0, close_after_s: 300.0 };

    fn fleet() -> Fleet {
        Fleet::new(1, HYSTERESIS)
    }

    #[test]
    fn a_node_is_opened_once_the_same_type_was_wanted_long_enough() {
        let mut fleet = fleet();
        assert_eq!(fleet.step(0.0, &[None], &[Some(2)], &[false]), []);
        assert_eq!(fleet.step(59.0, &[None], &[Some(2)], &[false]), []);
        assert_eq!(fleet.step(60.0, &[None], &[Some(2)], &[false]), [Action::Open { node: 0, node_type: 2 }]);
    }

    #[test]
    fn another_wanted_type_restarts_the_wait() {
        let mut fleet = fleet();
        fleet.step(0.0, &[None], &[Some(2)], &[false]);
        fleet.step(50.0, &[None], &[Some(1)], &[false]);
        assert_eq!(fleet.step(100.0, &[None], &[Some(1)], &[false]), []);
        assert_eq!(fleet.step(110.0, &[None], &[Some(1)], &[false]), [Action::Open { node: 0, node_type: 1 }]);
    }

    #[test]
    fn a_node_is_closed_after_a_delay_and_never_with_jobs_on_it() {
        let mut fleet = fleet();
        fleet.step(0.0, &[Some(2)], &[None], &[true]);
        assert_eq!(fleet.step(299.0, &[Some(2)], &[None], &[false]), []);
        assert_eq!(fleet.step(300.0, &[Some(2)], &[None], &[true]), []);
        assert_eq!(fleet.step(301.0, &[Some(2)], &[None], &[false]), [Action::Close { node: 0 }]);
    }

    #[test]
    fn a_flapping_wanted_type_changes_nothing() {
        let mut fleet = fleet();
        let actions: Vec<_> = (0..1000)
            .flat_map(|step| {
                let wanted = (step % 2 == 0).then_some(2);
                fleet.step(f64::from(step) * 30.0, &[Some(2)], &[wanted], &[false])
            })
            .collect();
        assert_eq!(actions, []);
    }

    #[test]
    fn a_node_is_closed_before_it_is_opened_as_another_type() {
        let mut fleet = fleet();
        fleet.step(0.0, &[Some(2)], &[Some(1)], &[false]);
        assert_eq!(fleet.step(300.0, &[Some(2)], &[Some(1)], &[false]), [Action::Close { node: 0 }]);
        assert_eq!(fleet.step(301.0, &[None], &[Some(1)], &[false]), [Action::Open { node: 0, node_type: 1 }]);
    }

    #[test]
    fn a_clock_that_is_set_back_restarts_the_wait() {
        let mut fleet = fleet();
        fleet.step(1e6, &[None], &[Some(2)], &[false]);
        assert_eq!(fleet.step(0.0, &[None], &[Some(2)], &[false]), []);
        assert_eq!(fleet.step(59.0, &[None], &[Some(2)], &[false]), []);
        assert_eq!(fleet.step(60.0, &[None], &[Some(2)], &[false]).len(), 1);
    }
}
