//! The simulator: training jobs in virtual time, under the product's own policy code.
//!
//! Code map: `scenario` draws [`job`]s with [`curve`]s from a seed → `node` runs them under a [`variant`] → `compare` averages over seeds →
//! `report` shows the results. [`policy::Governor::tick`] and [`diff`](policy::diff) are the daemon's
//! own code; the simulator makes no decisions of its own.

pub mod cluster;
pub mod compare;
pub mod curve;
pub mod job;
mod node;
mod outcome;
pub mod random;
pub mod scenario;
pub mod table_file;
pub mod variant;

pub use node::{Keep, simulate};
pub use outcome::{History, JobOutcome, Outcome};
