//! The simulator: training jobs in virtual time, under the product's own policy code.
//!
//! Code map: [`scenario`] draws [`job`]s with [`curve`]s from a seed → `node` runs them under a [`variant`] → [`compare`](compare::compare)
//! averages over seeds; [`cluster`] does the same with many nodes. [`policy::Governor::tick`] and [`diff`](policy::diff) are the daemon's own
//! code; the simulator makes no decisions of its own. It has no command line and prints nothing: `flowsim` does.

pub mod cluster;
pub mod compare;
pub mod curve;
pub mod fault;
pub mod forecasts;
pub mod job;
mod node;
mod outcome;
pub mod random;
pub mod scenario;
pub mod table_file;
pub mod variant;

pub use node::{Keep, simulate};
pub use outcome::{History, JobOutcome, Outcome};
