//! Test clusters: nodes without labels, jobs of one worker.

use model::cluster::{
    ClusterJob, ClusterNode, ClusterObservation, NodeState, Phase, Priority, Resources, Worker, WorkerRange,
};
use model::{Bytes, Estimate, Millis};
use std::collections::BTreeMap;

/// Returns a cluster without jobs.
pub(super) fn cluster(nodes: usize, cores: f64) -> ClusterObservation {
    let node = |number: usize| ClusterNode {
        name: format!("node-{number}").into(),
        state: NodeState::Ready,
        capacity: Resources { cores, memory: Bytes(64 << 30), gpus: 0 },
        used_cores: None,
        labels: BTreeMap::new(),
    };
    ClusterObservation { now: Millis::from_secs(100), nodes: (0..nodes).map(node).collect(), ..Default::default() }
}

/// Returns a waiting job.
pub(super) fn waiting(name: &str, change: impl FnOnce(&mut ClusterJob)) -> ClusterJob {
    let mut job = ClusterJob {
        name: name.into(),
        arrived: Millis(0),
        priority: Priority::default(),
        request: Resources::default(),
        workers: WorkerRange::ONE,
        constraints: Vec::new(),
        work: None,
        deadline: None,
        takes_s: None,
        late_cost: None,
        alternatives: Vec::new(),
        movable: true,
        moves: 0,
        placed: Vec::new(),
    };
    change(&mut job);
    job
}

/// Returns a waiting job that runs with all of `workers` or not at all, with `cores` for each.
pub(super) fn gang(name: &str, workers: u32, cores: f64) -> ClusterJob {
    waiting(name, |job| {
        job.request.cores = cores;
        job.workers = WorkerRange { min: workers, initial: workers, max: workers };
    })
}

/// Returns a forecast that is certain.
pub(super) fn exactly(work: f64) -> Option<Estimate> {
    Some(Estimate::exactly(work))
}

/// Returns a job of one worker that runs on `node`.
pub(super) fn worker(node: usize, change: impl FnOnce(&mut Worker)) -> ClusterJob {
    let mut worker = Worker {
        number: 0,
        node,
        phase: Phase::Running,
        cores: None,
        work_left: None,
        report: None,
        convergence: None,
        move_s: 10.0,
    };
    change(&mut worker);
    waiting("running", |job| job.placed = vec![worker])
}
