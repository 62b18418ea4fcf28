//! Test fixtures: an ordinary node and an ordinary container, to be changed field by field.

use model::{Bytes, ContainerObservation, Millis, NodeObservation, Pressure};

/// A running container with the kernel's default limits, no usage and no output.
pub(super) fn container(id: &str) -> ContainerObservation {
    ContainerObservation::new(id)
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
        users: Vec::new(),
        containers,
    }
}
