//! `flowcon-notify`: sends messages about jobs to people, from the events of the daemon.
//!
//! It is a process of its own, because the daemon runs as root and keeps no network socket. It reads the daemon's API as any member of the
//! group flowcon may.
//!
//! ```text
//! source.rs     events of the daemon, each once, also over restarts of both programs
//! route.rs      an event → messages, and for whom. Pure
//! spool.rs      messages on the disk until they are delivered, and what must outlive this process
//! schedule.rs   which messages a target gets now: the hourly limit, digests, retries. Pure
//! backend/      sends: a command, HTTP, mail
//! ```
//!
//! Guarantees: a message that is in the spool is delivered, or is in the folder `failed` with an error in the log; once, unless this process
//! or the machine dies within a delivery. A target gets at most `per-hour` messages within any hour.

mod backend;
mod message;
mod outbox;
mod route;
mod schedule;
mod serve;
mod source;
mod spool;

pub use serve::{Reread, serve, test};
