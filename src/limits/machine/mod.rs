//! The limits of all containers: events in, effects out.
//!
//! ```text
//! engine, kernel, operators ──► Event ──► Machine ──► Effect ──► work (actuator), replies, notices
//! ```
//!
//! It decides when limits may change: it handles found and ended containers, the policy's decisions, changes by others, commands and the
//! end of the daemon. It never waits and reads nothing: each event carries what was read, and the time. The daemon and the disaster
//! simulation run it. No decision is made while limits are being written.

mod adopt;
mod command;
mod event;
mod govern;
mod handle;
mod state;

pub use event::{
    At, Candidate, Command, ContainerOutcome, Effect, Event, Found, Intervals, LimitNotice, Memory, Piece, Readings,
    Remembered, RequestId, Restored, Run, Work,
};
pub use state::{Machine, WORK_AT_MOST};
