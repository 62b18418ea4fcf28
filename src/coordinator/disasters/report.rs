//! Reports of the simulated agents.

use super::fault::Fault;
use super::node::ContainerState;
use super::volume::service_id;
use super::world::World;
use model::swarm::{HeldLease, NodeReport, WorkerReport};
use model::{Estimate, Millis};

pub(super) fn report(world: &World, node: usize) -> NodeReport {
    let running = world.nodes[node].containers.iter().filter(|container| container.state == ContainerState::Running);
    let worker = |container: &super::node::Container| {
        let units = container.units as f64 / 1000.0;
        let likely = 300.0 + 100.0 * container.service as f64;
        WorkerReport {
            service: service_id(container.service),
            task: format!("t{}", container.task).into(),
            up_s: 1.0,
            units: world.behaviours[container.service].saves.then_some(units),
            total: Some(1e9),
            unit_s: Some(1.0),
            work_left: Some(Estimate { low: likely * 0.9, likely, high: likely * 1.1 }),
            cores: Some(1.0),
            cpu_time_s: Some(100.0),
            value: Some(1.0 / (1.0 + units)),
        }
    };
    let held =
        |(service, renewed): (&usize, &u64)| HeldLease { service: service_id(*service), until: Millis(*renewed) };
    let stopped: &[u64] = match world.fault {
        Fault::ForgetsWhatItStopped => &[],
        _ => &world.nodes[node].stopped,
    };
    NodeReport {
        version: "1".into(),
        clock: world.unix(),
        is_governed: true,
        cores: None,
        used_cores: Some(1.0),
        workers: running.map(worker).collect(),
        others: 0,
        ended: Vec::new(),
        held: world.nodes[node].leases.iter().map(held).collect(),
        stopped: stopped.iter().map(|task| format!("t{task}").into()).collect(),
        saved: world.nodes[node].volumes.saved().collect(),
    }
}
