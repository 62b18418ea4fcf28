//! Resource limits of all containers: original and current values, who may change them, and the steps to change and restore them.
//!
//! ```text
//!  loop     Machine: containers found and ended, decisions, drift, commands     event ─► effects
//!           Ledger of one container: original, written and current values       read · begin_write · record_outcome · check
//!  actuator Change: journal ─► read ─► write ─► read back                       Restore: read ─► write ─► read ─► forget
//! ```
//!
//! Pure: [`machine::Machine`] turns events into effects. [`Change`] and [`Restore`] ask for one step at a time ([`Ask`]) and receive its
//! result ([`StepResult`]), so the same code runs in the daemon and in the disaster simulation. Only this module knows when two values are
//! equal, who set a value, and what "restored" means.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

mod change;
mod drift;
mod effect;
#[cfg(test)]
mod effect_tests;
mod equal;
mod holds;
mod ledger;
#[cfg(test)]
mod ledger_tests;
pub mod machine;
mod restore;
mod step;

pub use change::Change;
pub use drift::Verdict;
pub use effect::{EffectMeter, NoEffect, Received};
pub use equal::{has_value, same};
pub use holds::Holds;
pub use ledger::{LastRun, Ledger};
pub use restore::Restore;
pub use step::{
    AfterRestore, Ask, End, EngineRecord, Journalled, Operation, Outcome, OutcomeReport, RecordResult, Step,
    StepResult, WriteResult,
};
