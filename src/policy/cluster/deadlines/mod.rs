//! Deadlines and cost: jobs with a deadline and a cost for each second after it, on nodes that are rented by the hour.
//!
//! Source: the thesis "Analysis of Scheduling Algorithms for Deep Learning Training Jobs running on Virtualized GPU-based
//! Clusters", Politecnico di Milano, chapter 3. At each arrival and each completion a [`Situation`] becomes a [`Plan`]:
//!
//! - [`Board`] holds the input of every method: the ways to run each job, their costs, and the order of pressure (§3.1.3).
//! - [`Board::greedy`] is the greedy construction (§3.1.3). [`Board::construction`] is a randomised one (§3.1.4); constructions are
//!   independent and may run in parallel. [`Board::improve`] searches the seven neighbourhoods (§3.1.5).
//! - [`split`] and [`merge`] implement the controllers of the hierarchical method (§3.1.2); [`baseline`] implements the baselines.
//! - [`rollout`] is the cost of a plan to the end of its jobs; [`super`] decides by it on machines that exist ([`Situation::fixed`]).
//! - [`exact`] finds the optimum of one step for a few jobs.
//!
//! Units: seconds; prices per hour in the input and per second internally; costs in the currency of the prices.

mod baseline;
mod board;
mod catalogue;
mod construct;
mod draft;
mod draw;
mod exact;
mod hierarchy;
mod learned;
mod neighbours;
mod plan;
#[cfg(test)]
mod properties;
mod rollout;
mod scarcity;
#[cfg(test)]
mod testing;

pub use baseline::{Queue, baseline, lower_bound};
pub use board::{Board, Rule};
pub use catalogue::{Catalogue, NodeType, RunTimes};
pub use draft::Draft;
pub(super) use draw::Draw;
pub use exact::{MOST_JOBS, exact};
pub use hierarchy::{Part, merge, split};
pub use learned::{LearnedTime, RunRecord, learned};
pub use plan::{Assignment, Plan, Situation, SubmittedJob, Violation, check};
pub use rollout::rollout;
