//! Deadlines and cost: jobs with a deadline and a price for each second after it, on nodes that are rented by the hour.
//!
//! Source: the thesis "Analysis of Scheduling Algorithms for Deep Learning Training Jobs running on Virtualized GPU-based
//! Clusters", Politecnico di Milano, chapter 3. At each arrival and each completion a [`Situation`] becomes a [`Plan`]:
//!
//! - [`Board`] holds what every method needs: the ways to run each job, what each costs, and the order of pressure (§3.1.3).
//! - [`Board::greedy`] is one construction; [`Board::construction`] number k of a seed is a randomised one (§3.1.4), so that callers
//!   may make them in parallel; [`Board::improve`] searches the seven neighbourhoods (§3.1.5).
//! - [`split`] and [`merge`] are the controllers of the hierarchical method (§3.1.2), [`baseline`] the methods without foresight.
//! - [`exact`] finds the optimum of one step for a few jobs; [`Fleet`] opens and closes nodes with hysteresis.
//!
//! Units: seconds, prices per hour where they are read and per second inside, costs in the currency of the prices.
//! Imports: nothing of this crate.

mod baseline;
mod board;
mod catalogue;
mod construct;
mod draft;
mod draw;
mod exact;
mod fleet;
mod hierarchy;
mod learned;
mod neighbours;
mod plan;
#[cfg(test)]
mod properties;
mod scarcity;
#[cfg(test)]
mod testing;

pub use baseline::{Queue, baseline, lower_bound};
pub use board::{Board, Rule};
pub use catalogue::{Catalogue, NodeType, RunTimes};
pub use draft::Draft;
pub(super) use draw::Draw;
pub use exact::{MOST_JOBS, exact};
pub use fleet::{Action, Fleet, Hysteresis};
pub use hierarchy::{Part, merge, split};
pub use learned::{LearnedTime, RunRecord, learned};
pub use plan::{Job, Place, Plan, Situation, Violation, check};
