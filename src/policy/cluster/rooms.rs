//! How much of each node is free: now, and once the workers that are stopping are gone.
//!
//! Imports: model.

use crate::model::cluster::{
    ClusterJob, ClusterNode, ClusterObservation, Constraint, NodeState, Phase, Refusals, Resources,
};

/// Cores are sums of fractions.
const ROUNDING: f64 = 1e-6;

/// What is free on one node; less than nothing where room is promised that others still have.
#[derive(Clone, Copy)]
struct Free {
    cores: f64,
    memory: i128,
    gpus: i64,
}

impl Free {
    fn of(resources: Resources) -> Free {
        let Resources { cores, memory, gpus } = resources;
        Free { cores, memory: i128::from(memory.0), gpus: i64::from(gpus) }
    }

    /// With a worker of that size more (+1) or less (−1) room.
    fn changed(self, request: Resources, sign: i8) -> Free {
        let request = Free::of(request);
        Free {
            cores: self.cores + f64::from(sign) * request.cores,
            memory: self.memory + i128::from(sign) * request.memory,
            gpus: self.gpus + i64::from(sign) * request.gpus,
        }
    }

    fn holds(self, request: Resources, times: u32) -> bool {
        let request = Free::of(request);
        // Who reserves nothing of a resource does not mind that there is none.
        let enough = |free: f64, wanted: f64| wanted == 0.0 || free + ROUNDING >= f64::from(times) * wanted;
        enough(self.cores, request.cores)
            && (request.memory == 0 || self.memory >= i128::from(times) * request.memory)
            && (request.gpus == 0 || self.gpus >= i64::from(times) * request.gpus)
    }
}

/// What is free on each node.
#[derive(Clone)]
pub(super) struct Rooms<'a> {
    nodes: &'a [ClusterNode],
    now: Vec<Free>,
    /// Free now or soon.
    soon: Vec<Free>,
}

impl<'a> Rooms<'a> {
    pub(super) fn of(observation: &'a ClusterObservation) -> Rooms<'a> {
        let capacity: Vec<Free> = observation.nodes.iter().map(|node| Free::of(node.capacity)).collect();
        let mut rooms = Rooms { nodes: &observation.nodes, now: capacity.clone(), soon: capacity };
        for job in &observation.jobs {
            for worker in &job.placed {
                match worker.phase {
                    Phase::Starting | Phase::Running => rooms.take(worker.node, job.request),
                    Phase::Stopping => change(&mut rooms.now, worker.node, job.request, -1),
                    Phase::MovingTo(to) => {
                        change(&mut rooms.now, worker.node, job.request, -1);
                        rooms.take(to, job.request);
                    }
                }
            }
        }
        rooms
    }

    /// Reserves room for a worker.
    pub(super) fn take(&mut self, node: usize, request: Resources) {
        change(&mut self.now, node, request, -1);
        change(&mut self.soon, node, request, -1);
    }

    /// A worker is told to stop: its room will be free.
    pub(super) fn will_leave(&mut self, node: usize, request: Resources) {
        change(&mut self.soon, node, request, 1);
    }

    /// Takes back [`Rooms::take`].
    pub(super) fn give_back(&mut self, node: usize, request: Resources) {
        change(&mut self.now, node, request, 1);
        change(&mut self.soon, node, request, 1);
    }

    /// Whether so many workers of that size have room there, now or soon.
    pub(super) fn fits(&self, node: usize, request: Resources, workers: u32, when: When) -> bool {
        let free = match when {
            When::Now => &self.now,
            When::Soon => &self.soon,
        };
        free[node].holds(request, workers)
    }

    /// Whether the node may take workers of this job at all, were it empty.
    pub(super) fn admits(&self, node: usize, job: &ClusterJob) -> bool {
        let node = &self.nodes[node];
        node.state == NodeState::Ready && allows(node, &job.constraints) && holds(node.capacity, job.request, 1)
    }

    /// Why no node takes a worker of this job.
    pub(super) fn refusals(&self, job: &ClusterJob) -> Refusals {
        let mut refusals = Refusals::default();
        for (at, node) in self.nodes.iter().enumerate() {
            let count = match node.state {
                NodeState::Draining => &mut refusals.draining,
                NodeState::Unreachable => &mut refusals.unreachable,
                NodeState::Ungoverned => &mut refusals.ungoverned,
                NodeState::Closed => &mut refusals.closed,
                NodeState::Ready if !allows(node, &job.constraints) => &mut refusals.constraint,
                NodeState::Ready if !holds(node.capacity, job.request, 1) => &mut refusals.too_small,
                NodeState::Ready if !self.fits(at, job.request, 1, When::Now) => &mut refusals.full,
                NodeState::Ready => continue,
            };
            *count += 1;
        }
        refusals
    }
}

/// Free when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Now,
    /// Once the workers that are stopping are gone.
    Soon,
}

/// Whether the node's labels allow it.
pub(super) fn allows(node: &ClusterNode, constraints: &[Constraint]) -> bool {
    let holds =
        |constraint: &Constraint| (node.labels.get(&constraint.label) == Some(&constraint.value)) == constraint.equal;
    constraints.iter().all(holds)
}

/// Whether what a node has holds so many workers of that size.
pub(super) fn holds(capacity: Resources, request: Resources, times: u32) -> bool {
    Free::of(capacity).holds(request, times)
}

fn change(free: &mut [Free], node: usize, request: Resources, sign: i8) {
    if let Some(free) = free.get_mut(node) {
        *free = free.changed(request, sign);
    }
}
