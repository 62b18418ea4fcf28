//! The limits of all containers: who may change one and when, what was and what stands, and the steps by which it is changed and put back.
//!
//! ```text
//!  loop     Machine: finds, ends, decisions, drift, commands                    event ─► effects
//!           Ledger, of one container: what was, what we asked for, what stands  read · asked · noted · check
//!  actuator Change: promise ─► look ─► write ─► read back                       Return: look ─► write ─► look ─► forget
//! ```
//!
//! Pure: a [`machine::Machine`] is told what happened and says what to do; a [`Change`] or [`Return`] says what to do next ([`Ask`]) and is told what came of it ([`Answer`]), so the same code runs in
//! the daemon and in the simulation of disasters. It is the only place that knows when two values are equal, whose a value is, and what
//! "restored" means. Imports: model.

mod change;
mod drift;
mod equal;
mod holds;
mod ledger;
#[cfg(test)]
mod ledger_tests;
pub mod machine;
mod put_back;
mod step;

pub use change::Change;
pub use equal::{same, stands_in};
pub use holds::Holds;
pub use ledger::{LastRun, Ledger, Noted, Verdict};
pub use put_back::{Return, Then};
pub use step::{Answer, Ask, End, Operation, Outcome, Promised, Record, Step, Wrote};
