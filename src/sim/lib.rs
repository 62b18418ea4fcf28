//! The simulator: training jobs in virtual time, under the product's own policy code.
//!
//! Code map: `scenario` draws [`job`]s with [`curve`]s from a seed → `node` runs them under a [`variant`] → `compare` averages over seeds →
//! `report` shows the results. [`policy::Governor::tick`] and [`diff`](policy::diff) are the daemon's
//! own code; the simulator makes no decisions of its own.

mod args;
pub mod cluster;
mod commands;
pub mod compare;
pub mod curve;
pub mod deadlines;
pub mod job;
mod node;
mod options;
mod outcome;
mod output;
mod overrides;
pub mod paper;
mod random;
pub mod replay;
pub mod report;
pub mod scenario;
pub mod sharing;
mod table_file;
pub mod trace;
pub mod variant;

pub use commands::{command, run};
pub use node::{Keep, simulate};
pub use outcome::{History, JobOutcome, Outcome};
