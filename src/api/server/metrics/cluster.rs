//! Metrics of a coordinator: nodes and jobs by state, moves.

use super::family::{Kind, family, single};
use crate::cluster::ClusterFeed;
use model::cluster::{JobState, NodeState};
use model::word;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt::Error;

/// Metrics of a coordinator.
pub(in crate::server) struct ClusterMetrics(pub(in crate::server) ClusterFeed);

impl std::fmt::Debug for ClusterMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterMetrics")
    }
}

impl Collector for ClusterMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let out = &mut encoder;
        let status = self.0.status.borrow().clone();
        let moves = *self.0.moves.borrow() as f64;
        single(out, Kind::Gauge, "flowcoord_acts", "1 on Swarm's leader", Some(f64::from(u8::from(status.acts))))?;
        single(out, Kind::Counter, "flowcoord_moves", "Completed moves", Some(moves))?;
        let nodes = |state: NodeState| status.nodes.iter().filter(|node| node.state == state).count() as f64;
        let by_state = NodeState::ALL.map(|state| ([("state", word(state))], nodes(state)));
        family(out, Kind::Gauge, "flowcoord_nodes", "Nodes by state", by_state)?;
        let jobs = |state: JobState| status.jobs.iter().filter(|job| job.state == state).count() as f64;
        let by_state = JobState::ALL.map(|state| ([("state", word(state))], jobs(state)));
        family(out, Kind::Gauge, "flowcoord_jobs", "Workers by state", by_state)
    }
}
