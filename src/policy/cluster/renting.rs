//! Which rented nodes are opened for jobs that wait, and which are closed because nobody has needed them for long.
//!
//! Nodes are opened where all workers of a waiting job then find room: not for half a gang, and not for a job that nodes on their way up
//! will take. A node is closed once it was idle for the whole of `close_after`: one at a time, never with anything of a job on it, never
//! while a job waits that it could take, and never the last. So it is opened and closed no more than once in that time. Imports: model.

use super::rooms::{Rooms, When, allows};
use crate::model::Millis;
use crate::model::cluster::{ClusterJob, ClusterObservation, ClusterPlan, ClusterReason, NodeState, Phase};

/// On a node: what it costs per hour, in any currency.
pub const PRICE: &str = "flowcon.price";
/// Nodes that one decision opens, and waiting jobs that it looks at.
const OPENS_MOST: usize = 16;
const JOBS_MOST: usize = 64;

/// What a node is to whoever rents it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// It is neither opened nor closed.
    Kept,
    /// It is open.
    Open {
        /// For how long nothing of any job has been there; `None` = something is.
        idle: Option<Millis>,
    },
    /// It was opened, and is not ready yet.
    Coming,
    /// It is closed, and can be opened.
    Closed,
}

/// Which nodes to open and to close, by their places in the observation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renting {
    /// Nodes to open, each with the job that waits for it.
    pub opens: Vec<(usize, usize)>,
    /// The node to close.
    pub closes: Option<usize>,
}

/// Decides after a plan, for the jobs that it leaves waiting. `tenancies` are in the order of the observation's nodes.
pub fn rent(
    observation: &ClusterObservation,
    plan: &ClusterPlan,
    tenancies: &[Tenancy],
    close_after: Millis,
) -> Renting {
    let opens = opens(observation, plan, tenancies);
    let closes = if opens.is_empty() { closes(observation, plan, tenancies, close_after) } else { None };
    Renting { opens, closes }
}

fn opens(observation: &ClusterObservation, plan: &ClusterPlan, tenancies: &[Tenancy]) -> Vec<(usize, usize)> {
    let is = |node: &usize, tenancy: Tenancy| tenancies.get(*node) == Some(&tenancy);
    let all = 0..observation.nodes.len();
    let mut closed: Vec<usize> = all.clone().filter(|node| is(node, Tenancy::Closed)).collect();
    if closed.is_empty() || plan.waits.is_empty() {
        return Vec::new();
    }
    closed.sort_by(|a, b| price(observation, *a).total_cmp(&price(observation, *b)).then(a.cmp(b)));
    let open = all.filter(|node| observation.nodes[*node].state == NodeState::Ready || is(node, Tenancy::Coming));
    let mut order: Vec<usize> = open.collect();
    let known = order.len();
    order.extend(closed);
    let mut rooms = Rooms::of(observation);
    plan.starts.iter().for_each(|start| rooms.take(start.node, observation.jobs[start.job].request));
    plan.moves.iter().for_each(|moved| rooms.take(moved.to, observation.jobs[moved.job].request));
    let mut opens: Vec<(usize, usize)> = Vec::new();
    let lacks_room =
        |reason: &ClusterReason| matches!(reason, ClusterReason::NoRoom(_) | ClusterReason::NotOvertaking { .. });
    for wait in plan.waits.iter().filter(|wait| lacks_room(&wait.reason)).take(JOBS_MOST) {
        let Some(seats) = seats(observation, &observation.jobs[wait.job], &order, &mut rooms) else { continue };
        for node in seats {
            let is_new = order[known..].contains(&node) && opens.iter().all(|(other, _)| *other != node);
            opens.extend(is_new.then_some((node, wait.job)));
        }
        if opens.len() >= OPENS_MOST {
            break;
        }
    }
    opens
}

/// Takes room for all workers of a job on the first nodes that have it; `None` takes nothing.
fn seats(
    observation: &ClusterObservation,
    job: &ClusterJob,
    order: &[usize],
    rooms: &mut Rooms<'_>,
) -> Option<Vec<usize>> {
    let workers = job.workers.min.max(1) as usize;
    let mut seats: Vec<usize> = Vec::new();
    for node in order.iter().filter(|node| allows(&observation.nodes[**node], &job.constraints)) {
        while seats.len() < workers && rooms.fits(*node, job.request, 1, When::Soon) {
            rooms.take(*node, job.request);
            seats.push(*node);
        }
    }
    if seats.len() < workers {
        seats.iter().for_each(|node| rooms.give_back(*node, job.request));
        return None;
    }
    Some(seats)
}

fn closes(
    observation: &ClusterObservation,
    plan: &ClusterPlan,
    tenancies: &[Tenancy],
    close_after: Millis,
) -> Option<usize> {
    let nodes = &observation.nodes;
    let idle = |node: usize| match tenancies.get(node) {
        Some(Tenancy::Open { idle: Some(idle) }) if *idle >= close_after => Some(*idle),
        _ => None,
    };
    let is_ready = |node: &usize| nodes[*node].state == NodeState::Ready;
    let candidates: Vec<usize> = (0..nodes.len()).filter(|node| is_ready(node) && idle(*node).is_some()).collect();
    if candidates.is_empty() || (0..nodes.len()).filter(is_ready).count() < 2 {
        return None;
    }
    let mut used = vec![false; nodes.len()];
    for worker in observation.jobs.iter().flat_map(|job| &job.placed) {
        used[worker.node] = true;
        if let Phase::MovingTo(to) = worker.phase {
            used[to] = true;
        }
    }
    let going = plan.starts.iter().map(|start| start.node).chain(plan.moves.iter().map(|moved| moved.to));
    going.for_each(|node| used[node] = true);
    let rooms = Rooms::of(observation);
    let is_wanted = |node: usize| plan.waits.iter().any(|wait| rooms.admits(node, &observation.jobs[wait.job]));
    let free = candidates.into_iter().filter(|node| !used[*node] && !is_wanted(*node));
    // The dearest first, then who has been idle for longest.
    free.max_by(|a, b| {
        let by_price = price(observation, *a).total_cmp(&price(observation, *b));
        by_price.then_with(|| idle(*a).cmp(&idle(*b))).then(b.cmp(a))
    })
}

/// What a node costs per hour; one without a price costs nothing.
pub(super) fn price(observation: &ClusterObservation, node: usize) -> f64 {
    let price = observation.nodes[node].labels.get(PRICE).and_then(|price| price.parse().ok());
    price.filter(|price: &f64| price.is_finite() && *price >= 0.0).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cluster::{ClusterSettings, WorkerRange};
    use crate::policy::cluster::plan;
    use crate::policy::cluster::testing::{cluster, waiting, worker};
    use proptest::prelude::*;

    const CLOSE_AFTER: Millis = Millis::from_secs(600);

    fn rented(observation: &ClusterObservation, tenancies: &[Tenancy]) -> Renting {
        rent(observation, &plan(observation, &ClusterSettings::default()), tenancies, CLOSE_AFTER)
    }

    fn gang(workers: u32) -> ClusterJob {
        waiting("gang", |job| {
            job.request.cores = 4.0;
            job.workers = WorkerRange { min: workers, initial: workers, max: workers };
        })
    }

    /// One open node of four cores, and two closed ones.
    fn two_closed() -> (ClusterObservation, [Tenancy; 3]) {
        let mut observation = cluster(3, 4.0);
        observation.nodes[1..].iter_mut().for_each(|node| node.state = NodeState::Closed);
        (observation, [Tenancy::Kept, Tenancy::Closed, Tenancy::Closed])
    }

    #[test]
    fn the_cheapest_nodes_are_opened_that_a_whole_gang_needs() {
        let (mut observation, tenancies) = two_closed();
        observation.nodes[1].labels.insert(PRICE.into(), "2.5".into());
        observation.nodes[2].labels.insert(PRICE.into(), "0.9".into());
        observation.jobs = vec![gang(2)];
        assert_eq!(rented(&observation, &tenancies).opens, [(2, 0)], "one worker has room on the open node");
        observation.jobs = vec![gang(3)];
        assert_eq!(rented(&observation, &tenancies).opens, [(2, 0), (1, 0)]);
        observation.jobs = vec![gang(4)];
        assert_eq!(rented(&observation, &tenancies).opens, [], "not for half a gang");
        observation.jobs = vec![gang(1)];
        assert_eq!(rented(&observation, &tenancies).opens, [], "it has room");
    }

    #[test]
    fn a_node_on_its_way_up_is_waited_for() {
        let (mut observation, mut tenancies) = two_closed();
        observation.jobs = vec![gang(1), gang(1)];
        assert_eq!(rented(&observation, &tenancies).opens.len(), 1);
        tenancies[1] = Tenancy::Coming;
        assert_eq!(rented(&observation, &tenancies), Renting::default());
        observation.jobs.push(gang(1));
        assert_eq!(rented(&observation, &tenancies).opens, [(2, 2)]);
    }

    #[test]
    fn an_idle_node_is_closed_unless_it_is_the_last_or_wanted() {
        let idle = |secs| Tenancy::Open { idle: Some(Millis::from_secs(secs)) };
        let mut observation = cluster(3, 4.0);
        assert_eq!(rented(&observation, &[idle(599), Tenancy::Kept, idle(599)]).closes, None);
        assert_eq!(rented(&observation, &[idle(600), Tenancy::Kept, idle(601)]).closes, Some(2));
        observation.nodes[0].labels.insert(PRICE.into(), "1".into());
        assert_eq!(rented(&observation, &[idle(600), Tenancy::Kept, idle(601)]).closes, Some(0), "the dearest");
        observation.jobs = vec![worker(0, |_| {})];
        assert_eq!(rented(&observation, &[idle(600), Tenancy::Kept, idle(601)]).closes, Some(2));
        observation.jobs.push(gang(9));
        assert_eq!(rented(&observation, &[idle(600), Tenancy::Kept, idle(601)]).closes, None, "a job waits for it");
        observation.jobs.clear();
        observation.nodes[1..].iter_mut().for_each(|node| node.state = NodeState::Unreachable);
        assert_eq!(rented(&observation, &[idle(600), Tenancy::Kept, idle(601)]).closes, None, "the last");
    }

    /// A cluster whose nodes open and close as decided, and whose jobs come and end as drawn.
    struct Life {
        observation: ClusterObservation,
        idle_since: Vec<Millis>,
        /// When a node was opened, until it is ready.
        coming: Vec<Option<Millis>>,
        ends: Vec<Millis>,
        /// When each was opened or closed last.
        turned: Vec<(Millis, bool)>,
    }

    impl Life {
        fn step(&mut self) -> Result<(), TestCaseError> {
            let now = self.observation.now.after(Millis::from_secs(30));
            self.observation.now = now;
            let mut ends = self.ends.iter();
            self.observation.jobs.retain(|job| ends.next().is_none_or(|end| *end > now || job.placed.is_empty()));
            self.ends.retain(|end| *end > now);
            self.ends.resize(self.observation.jobs.len(), now.after(Millis::from_secs(300)));
            for node in 0..self.coming.len() {
                if self.coming[node].is_some_and(|opened| now.since(opened) >= Millis::from_secs(120)) {
                    self.coming[node] = None;
                    self.observation.nodes[node].state = NodeState::Ready;
                }
                if self.observation.jobs.iter().flat_map(|job| &job.placed).any(|worker| worker.node == node) {
                    self.idle_since[node] = now;
                }
            }
            let tenancy = |node: usize| match (node, self.observation.nodes[node].state, self.coming[node]) {
                (0, ..) => Tenancy::Kept,
                (_, _, Some(_)) => Tenancy::Coming,
                (_, NodeState::Ready, _) => Tenancy::Open { idle: Some(now.since(self.idle_since[node])) },
                _ => Tenancy::Closed,
            };
            let tenancies: Vec<Tenancy> = (0..self.coming.len()).map(tenancy).collect();
            let plan = plan(&self.observation, &ClusterSettings::default());
            let decided = rent(&self.observation, &plan, &tenancies, CLOSE_AFTER);
            for start in &plan.starts {
                let placed = worker(start.node, |worker| worker.number = start.worker).placed;
                self.observation.jobs[start.job].placed.extend(placed);
                self.idle_since[start.node] = now;
            }
            for (node, _) in decided.opens {
                prop_assert_eq!(tenancies[node], Tenancy::Closed);
                (self.coming[node], self.idle_since[node]) = (Some(now), now.after(Millis::from_secs(120)));
                self.turned[node] = (now, true);
            }
            if let Some(node) = decided.closes {
                let is_there = |job: &ClusterJob| job.placed.iter().any(|worker| worker.node == node);
                prop_assert!(node != 0 && !self.observation.jobs.iter().any(is_there), "something is on {}", node);
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
        fn no_node_flaps_and_whoever_waits_gets_what_can_be_opened(
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
            for step in 0..320 {
                for (_, workers) in arrivals.iter().filter(|(at, _)| *at == step) {
                    life.observation.jobs.push(gang(*workers));
                    life.ends.push(life.observation.now.after(Millis::from_secs(300)));
                }
                life.step()?;
            }
            // Twenty jobs of five minutes are done in an hour, and then only what must stay is open.
            prop_assert!(life.observation.jobs.iter().all(|job| !job.placed.is_empty()), "{:?}", life.observation.jobs);
            let open = life.observation.nodes.iter().filter(|node| node.state == NodeState::Ready).count();
            prop_assert!(open <= nodes && open >= 1);
        }
    }
}
