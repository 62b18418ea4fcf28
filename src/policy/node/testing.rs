//! Test fixtures: an ordinary node and an ordinary container, to be changed field by field.

use model::{
    Bounds, Bytes, ContainerId, ContainerObservation, CpuWeight, Learning, Limits, Millis, NodeObservation, Pressure,
    RunState, Runtime, Usage,
};

/// A running container with the kernel's default limits, no usage and no output.
pub(super) fn container(id: &str) -> ContainerObservation {
    let limits = Limits {
        cpu_weight: Some(CpuWeight::DEFAULT),
        cpu_quota: Some(None),
        memory_low: Some(Bytes(0)),
        memory_high: Some(None),
        io_weight: Some(100),
    };
    ContainerObservation {
        id: ContainerId::new(id),
        name: id.to_owned(),
        runtime: Runtime::Docker,
        started: Millis(0),
        state: RunState::Running,
        place: Default::default(),
        hold: None,
        bounds: Bounds::default(),
        weight: 1.0,
        memory_floor: None,
        deadline: None,
        usage: Usage::default(),
        gpus: Vec::new(),
        limits,
        original: limits,
        learning: Learning::default(),
    }
}

/// A node with two cores, eight GiB of memory and these containers.
pub(super) fn node(containers: Vec<ContainerObservation>) -> NodeObservation {
    NodeObservation {
        now: Millis(0),
        cores: 2.0,
        idle: Vec::new(),
        memory: Bytes(8 << 30),
        pressure: Pressure { cpu: Some(0.0), memory: Some(0.0), io: Some(0.0) },
        holdback: None,
        gpus: Vec::new(),
        containers,
    }
}
