//! Opening and closing of rented nodes.
//!
//! Nodes are opened only if all workers of a waiting job then fit, and not for a job that fits on nodes that are already starting, nor for one
//! with a deadline that it meets without them: by the plan's forecast, or because a node that is opened later is early enough. A node is
//! closed after it was idle for `close_after`: one node at a time, never while a worker is on it, never while a waiting job could use it,
//! and never the last node. So a node is opened and closed at most once in that time.

use super::capacity::{FreeCapacity, When, allows};
use super::due;
use super::price::price;
use model::Millis;
use model::cluster::{ClusterJob, ClusterObservation, ClusterPlan, ClusterReason, NodeState, Wait, Worker};
use std::borrow::Cow;

/// Maximum number of nodes that one decision opens, and of waiting jobs that it considers.
const OPENS_MOST: usize = 16;
const JOBS_MOST: usize = 64;

/// Rental state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RentalState {
    /// Neither opened nor closed at present.
    Ineligible,
    /// Open.
    Open {
        /// How long the node has been idle; `None` if a worker is on it.
        idle: Option<Millis>,
    },
    /// Asked to open, but not ready yet.
    Opening,
    /// Closed; can be opened.
    Closed,
}

/// Nodes to open and to close, as indexes into the observation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renting {
    /// Nodes to open, each with the job that needs it.
    pub opens: Vec<(usize, usize)>,
    /// The node to close.
    pub closes: Option<usize>,
}

/// Times of opening and closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long a node takes to open, at most.
    pub opens_within: Millis,
    /// A node is closed after it was idle for this long.
    pub close_after: Millis,
}

/// Decides which nodes to open for the jobs that `plan` leaves waiting, or which one to close. `rentals` are in the order of the
/// observation's nodes.
pub fn rent(
    observation: &ClusterObservation,
    plan: &ClusterPlan,
    rentals: &[RentalState],
    Times { opens_within, close_after }: Times,
) -> Renting {
    let opens = opens(observation, plan, rentals, opens_within);
    let closes = if opens.is_empty() { closes(observation, plan, rentals, close_after) } else { None };
    Renting { opens, closes }
}

/// Returns a waiting job in the alternative that the plan has chosen.
fn settled<'o>(observation: &'o ClusterObservation, plan: &ClusterPlan, at: usize) -> Cow<'o, ClusterJob> {
    let job = &observation.jobs[at];
    if job.alternatives.is_empty() {
        return Cow::Borrowed(job);
    }
    let chosen = plan.choices.iter().find(|choice| choice.job == at).map_or(0, |choice| choice.chosen);
    Cow::Owned(job.settled_on(chosen))
}

/// Whether a waiting job meets its deadline without a node that is opened now.
fn can_wait(observation: &ClusterObservation, plan: &ClusterPlan, at: usize, opens_within: Millis) -> bool {
    let job = &settled(observation, plan, at);
    let Some(deadline) = job.deadline else { return false };
    if let Some((_, end)) = plan.ends.iter().find(|(ending, _)| *ending == at) {
        return *end <= deadline;
    }
    let takes = due::known_run_time(job, observation).map(|seconds| Millis((seconds * 1000.0) as u64));
    takes.is_some_and(|takes| observation.now.after(opens_within).after(takes) < deadline)
}

fn opens(
    observation: &ClusterObservation,
    plan: &ClusterPlan,
    rentals: &[RentalState],
    opens_within: Millis,
) -> Vec<(usize, usize)> {
    let is = |node: &usize, rental: RentalState| rentals.get(*node) == Some(&rental);
    let all = 0..observation.nodes.len();
    let mut closed: Vec<usize> = all.clone().filter(|node| is(node, RentalState::Closed)).collect();
    if closed.is_empty() || plan.waits.is_empty() {
        return Vec::new();
    }
    closed.sort_by(|a, b| price(observation, *a).total_cmp(&price(observation, *b)).then(a.cmp(b)));
    let open = all.filter(|node| observation.nodes[*node].state == NodeState::Ready || is(node, RentalState::Opening));
    let mut order: Vec<usize> = open.collect();
    let known = order.len();
    order.extend(closed);
    let mut free = FreeCapacity::of(observation);
    plan.starts.iter().for_each(|start| free.take(start.node, observation.jobs[start.job].request));
    plan.moves.iter().for_each(|moved| free.take(moved.to, observation.jobs[moved.job].request));
    let mut opens: Vec<(usize, usize)> = Vec::new();
    let lacks_room = |reason: &ClusterReason| {
        use ClusterReason::{ClusterTooSmall, NoRoom, NotOvertaking};
        matches!(reason, NoRoom(_) | ClusterTooSmall { .. } | NotOvertaking { .. })
    };
    let needs_one = |wait: &&Wait| lacks_room(&wait.reason) && !can_wait(observation, plan, wait.job, opens_within);
    for wait in plan.waits.iter().filter(needs_one).take(JOBS_MOST) {
        let job = &settled(observation, plan, wait.job);
        let wished = plan.choices.iter().find(|choice| choice.job == wait.job).and_then(|choice| choice.node);
        let (known, closed) = order.split_at(known);
        let wished = wished.filter(|node| closed.contains(node));
        let in_order =
            known.iter().copied().chain(wished).chain(closed.iter().copied().filter(|node| Some(*node) != wished));
        let allowed = in_order.filter(|node| allows(&observation.nodes[*node], &job.constraints));
        let Some(seats) = free.seat(job, allowed, When::Soon) else { continue };
        for node in seats {
            let is_new = closed.contains(&node) && opens.iter().all(|(other, _)| *other != node);
            opens.extend(is_new.then_some((node, wait.job)));
        }
        if opens.len() >= OPENS_MOST {
            break;
        }
    }
    opens
}

fn closes(
    observation: &ClusterObservation,
    plan: &ClusterPlan,
    rentals: &[RentalState],
    close_after: Millis,
) -> Option<usize> {
    let nodes = &observation.nodes;
    let idle = |node: usize| match rentals.get(node) {
        Some(RentalState::Open { idle: Some(idle) }) if *idle >= close_after => Some(*idle),
        _ => None,
    };
    let is_ready = |node: &usize| nodes[*node].state == NodeState::Ready;
    let candidates: Vec<usize> = (0..nodes.len()).filter(|node| is_ready(node) && idle(*node).is_some()).collect();
    if candidates.is_empty() || (0..nodes.len()).filter(is_ready).count() < 2 {
        return None;
    }
    let mut used = vec![false; nodes.len()];
    let workers = observation.jobs.iter().flat_map(|job| &job.placed);
    let targets = plan.starts.iter().map(|start| start.node).chain(plan.moves.iter().map(|moved| moved.to));
    workers.flat_map(Worker::occupies).chain(targets).for_each(|node| used[node] = true);
    let free = FreeCapacity::of(observation);
    let is_wanted =
        |node: usize| plan.waits.iter().any(|wait| free.admits(node, &settled(observation, plan, wait.job)));
    let unneeded = candidates.into_iter().filter(|node| !used[*node] && !is_wanted(*node));
    // The most expensive node first, then the one with the longest idle time.
    unneeded.max_by(|a, b| {
        let by_price = price(observation, *a).total_cmp(&price(observation, *b));
        by_price.then_with(|| idle(*a).cmp(&idle(*b))).then(b.cmp(a))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::plan;
    use crate::cluster::price::PRICE;
    use crate::cluster::testing::{self, cluster, worker};
    use model::cluster::{ClusterSettings, QueueRule};
    use proptest::prelude::*;

    const CLOSE_AFTER: Millis = Millis::from_secs(600);
    const TIMES: Times = Times { opens_within: Millis::from_secs(300), close_after: CLOSE_AFTER };

    fn rented(observation: &ClusterObservation, rentals: &[RentalState]) -> Renting {
        rent(observation, &plan(observation, &ClusterSettings::default()), rentals, TIMES)
    }

    fn gang(workers: u32) -> ClusterJob {
        testing::gang("gang", workers, 4.0)
    }

    /// One open node of four cores, and two closed ones.
    fn two_closed() -> (ClusterObservation, [RentalState; 3]) {
        let mut observation = cluster(3, 4.0);
        observation.nodes[1..].iter_mut().for_each(|node| node.state = NodeState::Closed);
        (observation, [RentalState::Ineligible, RentalState::Closed, RentalState::Closed])
    }

    #[test]
    fn the_cheapest_nodes_that_a_whole_gang_needs_are_opened() {
        let (mut observation, rentals) = two_closed();
        observation.nodes[1].labels.insert(PRICE.into(), "2.5".into());
        observation.nodes[2].labels.insert(PRICE.into(), "0.9".into());
        observation.jobs = vec![gang(2)];
        assert_eq!(rented(&observation, &rentals).opens, [(2, 0)], "one worker has room on the open node");
        observation.jobs = vec![gang(3)];
        assert_eq!(rented(&observation, &rentals).opens, [(2, 0), (1, 0)]);
        observation.jobs = vec![gang(4)];
        assert_eq!(rented(&observation, &rentals).opens, [], "not for half a gang");
        observation.jobs = vec![gang(1)];
        assert_eq!(rented(&observation, &rentals).opens, [], "the open node has room");
    }

    #[test]
    fn a_job_with_a_deadline_opens_a_node_only_if_it_would_be_late_without_it() {
        let (mut observation, rentals) = two_closed();
        let mut busy =
            worker(0, |worker| worker.report = Some(model::cluster::Report { unit_s: 50.0, units_left: 1.0 }));
        busy.request.cores = 4.0;
        let mut job = gang(1);
        (job.takes_s, job.deadline) = (Some(60.0), Some(observation.now.after(Millis::from_secs(36_000))));
        observation.jobs = vec![busy, job];
        for queue in [QueueRule::Weighted, QueueRule::Deadlines] {
            let settings = ClusterSettings { queue, ..ClusterSettings::default() };
            let opens = |observation: &ClusterObservation| {
                rent(observation, &plan(observation, &settings), &rentals, TIMES).opens
            };
            let due_in = |observation: &mut ClusterObservation, seconds: u64| {
                observation.jobs[1].deadline = Some(observation.now.after(Millis::from_secs(seconds)));
            };
            due_in(&mut observation, 36_000);
            assert_eq!(opens(&observation), [], "{queue:?}: a node that is opened later is early enough");
            due_in(&mut observation, 100);
            assert_eq!(opens(&observation), [(1, 1)], "{queue:?}: it would be late");
        }
        let by_forecast = ClusterSettings { queue: QueueRule::Deadlines, ..ClusterSettings::default() };
        observation.jobs[1].deadline = Some(observation.now.after(Millis::from_secs(120)));
        let planned = plan(&observation, &by_forecast);
        assert_eq!(rent(&observation, &planned, &rentals, TIMES).opens, [], "the open node is free in 50 s");
        observation.jobs[1].takes_s = None;
        assert_eq!(rented(&observation, &rentals).opens, [(1, 1)], "nobody knows how long it takes");
    }

    #[test]
    fn no_further_node_is_opened_for_a_job_that_fits_on_a_starting_node() {
        let (mut observation, mut rentals) = two_closed();
        observation.jobs = vec![gang(1), gang(1)];
        assert_eq!(rented(&observation, &rentals).opens.len(), 1);
        rentals[1] = RentalState::Opening;
        assert_eq!(rented(&observation, &rentals), Renting::default());
        observation.jobs.push(gang(1));
        assert_eq!(rented(&observation, &rentals).opens, [(2, 2)]);
    }

    #[test]
    fn an_idle_node_is_closed_unless_it_is_the_last_or_needed() {
        let idle = |secs| RentalState::Open { idle: Some(Millis::from_secs(secs)) };
        let mut observation = cluster(3, 4.0);
        assert_eq!(rented(&observation, &[idle(599), RentalState::Ineligible, idle(599)]).closes, None);
        assert_eq!(rented(&observation, &[idle(600), RentalState::Ineligible, idle(601)]).closes, Some(2));
        observation.nodes[0].labels.insert(PRICE.into(), "1".into());
        assert_eq!(
            rented(&observation, &[idle(600), RentalState::Ineligible, idle(601)]).closes,
            Some(0),
            "most expensive"
        );
        observation.jobs = vec![worker(0, |_| {})];
        assert_eq!(rented(&observation, &[idle(600), RentalState::Ineligible, idle(601)]).closes, Some(2));
        observation.jobs.push(gang(9));
        assert_eq!(
            rented(&observation, &[idle(600), RentalState::Ineligible, idle(601)]).closes,
            None,
            "a job waits for it"
        );
        observation.jobs.clear();
        observation.nodes[1..].iter_mut().for_each(|node| node.state = NodeState::Unreachable);
        assert_eq!(rented(&observation, &[idle(600), RentalState::Ineligible, idle(601)]).closes, None, "the last");
    }

    /// A cluster whose nodes open and close as decided, with random arrivals.
    struct Life {
        observation: ClusterObservation,
        idle_since: Vec<Millis>,
        /// When a node that is not ready yet was opened.
        coming: Vec<Option<Millis>>,
        ends: Vec<Millis>,
        /// When each node was last opened (true) or closed (false).
        turned: Vec<(Millis, bool)>,
    }

    impl Life {
        fn step(&mut self) -> Result<(), TestCaseError> {
            let now = self.observation.now.after(Millis::from_secs(30));
            self.observation.now = now;
            for (_, end) in self.observation.jobs.iter().zip(&mut self.ends).filter(|(job, _)| job.placed.is_empty()) {
                *end = now.after(Millis::from_secs(300));
            }
            let mut ends = self.ends.iter();
            self.observation.jobs.retain(|_| ends.next().is_none_or(|end| *end > now));
            self.ends.retain(|end| *end > now);
            for node in 0..self.coming.len() {
                if self.coming[node].is_some_and(|opened| now.since(opened) >= Millis::from_secs(120)) {
                    self.coming[node] = None;
                    self.observation.nodes[node].state = NodeState::Ready;
                }
                if self.observation.jobs.iter().flat_map(|job| &job.placed).any(|worker| worker.node == node) {
                    self.idle_since[node] = now;
                }
            }
            let rental = |node: usize| match (node, self.observation.nodes[node].state, self.coming[node]) {
                (0, ..) => RentalState::Ineligible,
                (_, _, Some(_)) => RentalState::Opening,
                (_, NodeState::Ready, _) => RentalState::Open { idle: Some(now.since(self.idle_since[node])) },
                _ => RentalState::Closed,
            };
            let rentals: Vec<RentalState> = (0..self.coming.len()).map(rental).collect();
            let plan = plan(&self.observation, &ClusterSettings::default());
            let decided = rent(&self.observation, &plan, &rentals, TIMES);
            for start in &plan.starts {
                let placed = worker(start.node, |worker| worker.number = start.worker).placed;
                self.observation.jobs[start.job].placed.extend(placed);
                self.idle_since[start.node] = now;
            }
            for (node, _) in decided.opens {
                prop_assert_eq!(rentals[node], RentalState::Closed);
                (self.coming[node], self.idle_since[node]) = (Some(now), now.after(Millis::from_secs(120)));
                self.turned[node] = (now, true);
            }
            if let Some(node) = decided.closes {
                let is_there = |job: &ClusterJob| job.placed.iter().any(|worker| worker.node == node);
                prop_assert!(node != 0 && !self.observation.jobs.iter().any(is_there), "node {} is in use", node);
                let (since, was_opened) = self.turned[node];
                prop_assert!(!was_opened || now.since(since) >= CLOSE_AFTER, "{} flaps", node);
                self.observation.nodes[node].state = NodeState::Closed;
                self.turned[node] = (now, false);
            }
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn no_node_flaps_and_every_waiting_job_starts(
            arrivals in prop::collection::vec((0..200_usize, 1..4_u32), 1..20),
        ) {
            let nodes = 4;
            let mut life = Life {
                observation: cluster(nodes, 4.0),
                idle_since: vec![Millis::from_secs(100); nodes],
                coming: vec![None; nodes],
                ends: Vec::new(),
                turned: vec![(Millis(0), false); nodes],
            };
            for step in 0..420 {
                for (_, workers) in arrivals.iter().filter(|(at, _)| *at == step) {
                    life.observation.jobs.push(gang(*workers));
                    life.ends.push(life.observation.now.after(Millis::from_secs(300)));
                }
                life.step()?;
            }
            // Twenty jobs of five minutes start within 110 minutes; then at least one node stays open.
            prop_assert!(life.observation.jobs.iter().all(|job| !job.placed.is_empty()), "{:?}", life.observation.jobs);
            let open = life.observation.nodes.iter().filter(|node| node.state == NodeState::Ready).count();
            prop_assert!(open <= nodes && open >= 1);
        }
    }
}
