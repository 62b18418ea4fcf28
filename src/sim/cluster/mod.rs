//! Many virtual nodes, and the cluster policy that decides which job runs where.
//!
//! A [`ClusterScenario`] draws the submissions; a [`World`](world) runs them. Every node is the simulator's node with its own governor and
//! its own forecasts, right or wrong. [`plan`](policy::cluster::plan) decides as in the coordinator, and each plan is checked before
//! it is applied.

mod compare;
mod fleet;
mod job;
mod scenario;
mod submission;
mod variant;
mod view;
mod world;

pub use compare::{ClusterComparison, ClusterSummary, compare, run};
pub use scenario::{CLUSTER_SCENARIOS, ClusterScenario};
pub use submission::Submission;
pub use variant::{CLUSTER_VARIANTS, ClusterVariant};
pub use world::{ClusterOutcome, Costs, Stay, simulate};
