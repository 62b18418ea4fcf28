//! Free resources of each node: now, and once the stopping workers have exited.

use model::Bytes;
use model::cluster::{ClusterJob, ClusterNode, ClusterObservation, Constraint, NodeState, Phase, Refusals, Resources};

/// Tolerance in cores: they are sums of fractions.
const ROUNDING: f64 = 1e-6;

/// Free resources of one node. Negative where resources are reserved that a stopping worker still uses.
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

    /// Adds (+1) or subtracts (−1) the resources of one worker.
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
        // A job that requests none of a resource fits even on a node that is overcommitted in it.
        let enough = |free: f64, wanted: f64| wanted == 0.0 || free + ROUNDING >= f64::from(times) * wanted;
        enough(self.cores, request.cores)
            && (request.memory == 0 || self.memory >= i128::from(times) * request.memory)
            && (request.gpus == 0 || self.gpus >= i64::from(times) * request.gpus)
    }
}

/// Free resources of all nodes.
#[derive(Clone)]
pub(super) struct FreeCapacity<'a> {
    nodes: &'a [ClusterNode],
    now: Vec<Free>,
    /// Free once the stopping workers have exited.
    soon: Vec<Free>,
}

impl<'a> FreeCapacity<'a> {
    pub(super) fn of(observation: &'a ClusterObservation) -> FreeCapacity<'a> {
        let capacity: Vec<Free> = observation.nodes.iter().map(|node| Free::of(node.capacity)).collect();
        let mut free = FreeCapacity { nodes: &observation.nodes, now: capacity.clone(), soon: capacity };
        for job in &observation.jobs {
            for worker in &job.placed {
                match worker.phase {
                    Phase::Starting | Phase::Running => free.take(worker.node, job.request),
                    Phase::Stopping => change(&mut free.now, worker.node, job.request, -1),
                    Phase::MovingTo(to) => {
                        change(&mut free.now, worker.node, job.request, -1);
                        free.take(to, job.request);
                    }
                }
            }
        }
        free
    }

    /// Reserves the resources of one worker.
    pub(super) fn take(&mut self, node: usize, request: Resources) {
        change(&mut self.now, node, request, -1);
        change(&mut self.soon, node, request, -1);
    }

    /// Records that a worker will stop: its resources become free soon.
    pub(super) fn will_leave(&mut self, node: usize, request: Resources) {
        change(&mut self.soon, node, request, 1);
    }

    /// Reverts [`FreeCapacity::take`].
    pub(super) fn give_back(&mut self, node: usize, request: Resources) {
        change(&mut self.now, node, request, 1);
        change(&mut self.soon, node, request, 1);
    }

    /// Returns the free resources of a node once the stopping workers have exited.
    pub(super) fn left(&self, node: usize) -> Resources {
        let Free { cores, memory, gpus } = self.soon[node];
        Resources {
            cores: cores.max(0.0),
            memory: Bytes(u64::try_from(memory).unwrap_or(0)),
            gpus: u32::try_from(gpus).unwrap_or(0),
        }
    }

    /// Reserves room for a job's minimum number of workers on the first nodes that have it. Returns `None` and reserves nothing if they do
    /// not fit.
    pub(super) fn seat(
        &mut self,
        job: &ClusterJob,
        nodes: impl Iterator<Item = usize>,
        when: When,
    ) -> Option<Vec<usize>> {
        let workers = job.workers.min.max(1) as usize;
        let mut seats = Vec::new();
        for node in nodes {
            while seats.len() < workers && self.fits(node, job.request, 1, when) {
                self.take(node, job.request);
                seats.push(node);
            }
        }
        if seats.len() < workers {
            seats.iter().for_each(|node| self.give_back(*node, job.request));
            return None;
        }
        Some(seats)
    }

    /// Whether this many workers of that size fit on the node, now or soon.
    pub(super) fn fits(&self, node: usize, request: Resources, workers: u32, when: When) -> bool {
        let free = match when {
            When::Now => &self.now,
            When::Soon => &self.soon,
        };
        free[node].holds(request, workers)
    }

    /// Whether the node could run a worker of this job if it were empty.
    pub(super) fn admits(&self, node: usize, job: &ClusterJob) -> bool {
        let node = &self.nodes[node];
        node.state == NodeState::Ready && allows(node, &job.constraints) && holds(node.capacity, job.request, 1)
    }

    /// Returns the number of workers of this job, up to its minimum, for which there would be room without all other jobs, on nodes that are
    /// ready or can be opened.
    pub(super) fn room_when_empty(&self, job: &ClusterJob) -> u32 {
        let workers = job.workers.min.max(1);
        let fit =
            |node: &ClusterNode| (1..=workers).take_while(|times| holds(node.capacity, job.request, *times)).count();
        let can_run = |node: &&ClusterNode| matches!(node.state, NodeState::Ready | NodeState::Closed);
        let nodes = self.nodes.iter().filter(can_run).filter(|node| allows(node, &job.constraints));
        let room = nodes.map(fit).fold(0, usize::saturating_add);
        u32::try_from(room).map_or(workers, |room| room.min(workers))
    }

    /// Counts, by reason, the nodes that cannot run a worker of this job.
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

/// Point in time for which free resources are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Now,
    /// Once the stopping workers have exited.
    Soon,
}

/// Whether the node's labels satisfy the constraints.
pub fn allows(node: &ClusterNode, constraints: &[Constraint]) -> bool {
    let holds =
        |constraint: &Constraint| (node.labels.get(&constraint.label) == Some(&constraint.value)) == constraint.equal;
    constraints.iter().all(holds)
}

/// Whether this capacity holds `times` workers of that size.
pub fn holds(capacity: Resources, request: Resources, times: u32) -> bool {
    Free::of(capacity).holds(request, times)
}

fn change(free: &mut [Free], node: usize, request: Resources, sign: i8) {
    if let Some(free) = free.get_mut(node) {
        *free = free.changed(request, sign);
    }
}
