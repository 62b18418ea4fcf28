//! Comparison of policies for deadlines and cost on a schedule of jobs, in virtual time.
//!
//! [`read`] builds [`Instance`]s from tables, [`simulate`] runs one under a [`Policy`], [`compare`] runs several. Decisions are made by the
//! product's code ([`policy::cluster::deadlines`](::policy::cluster::deadlines)).

mod drawn;
mod engine;
mod history;
mod instance;
mod policy;
mod summary;

pub use drawn::{Drawn, GAP_S, LOOSE, PUBLISHED, TIGHT};
pub use engine::{Outcome, simulate};
pub use history::{NodeHistory, learned};
pub use instance::{Instance, InstanceJob, Tables, read};
pub use policy::{POLICIES, Policy, Solver};
pub use summary::{Comparison, Figures, compare};
