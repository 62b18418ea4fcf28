//! The limits of all containers: events in, effects out.
//!
//! ```text
//! engine, kernel, operators ──► Event ──► Machine ──► Effect ──► work (actuator), answers, notices
//! ```
//!
//! It decides who may change a limit and when: what is found and what ends, what the policy wants, changes by others, commands, the end
//! of the daemon. It never waits and never reads: each event brings what was read, and the moment. The daemon runs it, and so does the
//! simulation of disasters. No decision is made over limits that are being written. Imports: ledger and operations, model.

mod adopt;
mod command;
mod event;
mod govern;
mod handle;
mod state;

pub use event::{
    Asker, At, Came, Candidate, Command, Effect, Event, Found, Intervals, Memory, Piece, Readings, Remembered,
    Restored, Run, Work,
};
pub use state::{Machine, WORK_AT_MOST};
