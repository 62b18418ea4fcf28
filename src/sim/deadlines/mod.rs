//! `flowsim deadlines`: what policies for deadlines and cost make of a schedule of jobs, on virtual time.
//!
//! [`read`] makes [`Instance`]s of tables, [`simulate`] runs one under a [`Policy`], [`compare`] runs several. Decisions are the product's
//! own ([`crate::policy::cluster::deadlines`]). Imports: policy.

mod command;
mod drawn;
mod engine;
mod history;
mod instance;
mod policy;
mod summary;

pub use command::{DeadlinesArguments, run};
pub use engine::{Outcome, simulate};
pub use instance::{Instance, InstanceJob, Tables, read};
pub use policy::{POLICIES, Policy, Solver};
pub use summary::{Comparison, Figures, compare};
