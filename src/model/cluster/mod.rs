//! A cluster as data: what was observed of its nodes and jobs, what is planned for them, and why.
//!
//! A *job* is trained by one or more *workers*; the workers of a job form a gang. On Docker Swarm a worker is a service with 0 or 1
//! replicas that is pinned to its node.

mod command;
mod observation;
mod plan;
mod reason;
mod settings;
mod status;

pub use command::{ClusterCommand, Submission};
pub use observation::{
    Alternative, Category, ClusterJob, ClusterNode, ClusterObservation, Constraint, Convergence, NodeState, Phase,
    Priority, Report, Resources, Worker, WorkerRange,
};
pub use plan::{Choice, ClusterPlan, Move, Start, Stop, Wait};
pub use reason::{ClusterReason, Cost, Refusals};
pub use settings::{Admission, ClusterSettings, MoveRule, PlacementRule, QueueRule};
pub use status::{AlternativeStatus, ClusterJobStatus, ClusterNodeStatus, ClusterStatus, JobState, Why, WhyKind};
