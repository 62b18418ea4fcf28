//! `flowsim cluster`: many virtual nodes, and the cluster's own policy deciding what runs where.
//!
//! A [`ClusterScenario`] draws what is submitted; a [`World`](world) runs it: every node is the simulator's node with its own governor, the
//! forecasts are the nodes' own (as wrong as they are), and [`plan`](crate::policy::cluster::plan) decides as the coordinator does, each plan
//! checked before it is carried out. Imports: model, policy.

mod command;
mod compare;
mod fleet;
mod job;
mod report;
mod scenario;
mod submission;
mod variant;
mod view;
mod world;

pub use command::{ClusterArguments, run};
pub use compare::{ClusterComparison, ClusterSummary, compare};
pub use scenario::{CLUSTER_SCENARIOS, ClusterScenario};
pub use submission::Submission;
pub use variant::{CLUSTER_VARIANTS, ClusterVariant};
pub use world::{ClusterOutcome, Costs, Stay, simulate};
