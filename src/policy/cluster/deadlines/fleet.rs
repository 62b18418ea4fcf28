//! Opening and closing nodes, with hysteresis.
//!
//! A plan says what it would have open now; renting and returning machines at every change of mind would cost more than it saves. So a
//! node is opened when plans have wanted the same type for a while without a break, and closed when none has wanted what is open for a
//! while and nobody is on it. Imports: nothing.

/// How long a wish must last, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hysteresis {
    /// Before a closed node is opened.
    pub open_after_s: f64,
    /// Before an open node is closed.
    pub close_after_s: f64,
}

/// What is to be done with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open it as this type.
    Open {
        /// The node.
        node: usize,
        /// Its type.
        node_type: usize,
    },
    /// Close it; nobody is on it.
    Close {
        /// The node.
        node: usize,
    },
}

/// What is wanted of each node, and since when.
#[derive(Clone, Debug)]
pub struct Fleet {
    hysteresis: Hysteresis,
    wishes: Vec<Option<(Option<usize>, f64)>>,
}

impl Fleet {
    /// A fleet of so many nodes, of which nothing has been wanted yet.
    pub fn new(nodes: usize, hysteresis: Hysteresis) -> Fleet {
        Fleet { hysteresis, wishes: vec![None; nodes] }
    }

    /// What to do at `now_s`, given what is open, what a plan wants open, and where jobs are. A clock that went back begins each wait
    /// anew. Nodes that the slices do not tell of are left alone.
    pub fn step(&mut self, now_s: f64, open: &[Option<usize>], wanted: &[Option<usize>], busy: &[bool]) -> Vec<Action> {
        let mut actions = Vec::new();
        let told = open.iter().zip(wanted).zip(busy);
        for (node, (wish, ((open, wanted), busy))) in self.wishes.iter_mut().zip(told).enumerate() {
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
    fn a_node_is_opened_when_the_same_wish_has_lasted() {
        let mut fleet = fleet();
        assert_eq!(fleet.step(0.0, &[None], &[Some(2)], &[false]), []);
        assert_eq!(fleet.step(59.0, &[None], &[Some(2)], &[false]), []);
        assert_eq!(fleet.step(60.0, &[None], &[Some(2)], &[false]), [Action::Open { node: 0, node_type: 2 }]);
    }

    #[test]
    fn another_wish_begins_the_wait_anew() {
        let mut fleet = fleet();
        fleet.step(0.0, &[None], &[Some(2)], &[false]);
        fleet.step(50.0, &[None], &[Some(1)], &[false]);
        assert_eq!(fleet.step(100.0, &[None], &[Some(1)], &[false]), []);
        assert_eq!(fleet.step(110.0, &[None], &[Some(1)], &[false]), [Action::Open { node: 0, node_type: 1 }]);
    }

    #[test]
    fn a_node_is_closed_late_and_never_with_somebody_on_it() {
        let mut fleet = fleet();
        fleet.step(0.0, &[Some(2)], &[None], &[true]);
        assert_eq!(fleet.step(299.0, &[Some(2)], &[None], &[false]), []);
        assert_eq!(fleet.step(300.0, &[Some(2)], &[None], &[true]), []);
        assert_eq!(fleet.step(301.0, &[Some(2)], &[None], &[false]), [Action::Close { node: 0 }]);
    }

    #[test]
    fn a_wish_that_flaps_changes_nothing() {
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
    fn another_type_closes_the_node_first() {
        let mut fleet = fleet();
        fleet.step(0.0, &[Some(2)], &[Some(1)], &[false]);
        assert_eq!(fleet.step(300.0, &[Some(2)], &[Some(1)], &[false]), [Action::Close { node: 0 }]);
        assert_eq!(fleet.step(301.0, &[None], &[Some(1)], &[false]), [Action::Open { node: 0, node_type: 1 }]);
    }

    #[test]
    fn a_clock_that_goes_back_opens_nothing() {
        let mut fleet = fleet();
        fleet.step(1e6, &[None], &[Some(2)], &[false]);
        assert_eq!(fleet.step(0.0, &[None], &[Some(2)], &[false]), []);
        assert_eq!(fleet.step(59.0, &[None], &[Some(2)], &[false]), []);
        assert_eq!(fleet.step(60.0, &[None], &[Some(2)], &[false]).len(), 1);
    }
}
