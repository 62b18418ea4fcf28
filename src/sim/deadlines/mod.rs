//! `flowsim deadlines`: comparison of policies for deadlines and cost on a schedule of jobs, in virtual time.
//!
//! [`read`] builds [`Instance`]s from tables, [`simulate`] runs one under a [`Policy`], [`compare`] runs several. Decisions are made by the
//! product's code ([`policy::cluster::deadlines`]).

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
