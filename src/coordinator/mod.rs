//! `flowcoord`: what needs several nodes, on Docker Swarm. It places jobs, moves them, and empties nodes.
//!
//! ```text
//! flowcoord run      machine   events in, effects out: no clock, files or network; all that lasts is labels on Swarm's services
//!                    run       carries its effects out; publish shows what it says
//!                    outside   the engine, and the agents of all nodes; hook runs the commands that open and close nodes
//! flowcoord agent    agent     answers managers for one node: what runs here, whether a job is gone, its saved state
//! ```
//! Imports: as its parts.

pub mod agent;
#[cfg(test)]
mod disasters;
mod hook;
pub mod machine;
mod outside;
mod publish;
mod run;
mod settings;

pub use run::{Control, CoordinatorError, run};
pub use settings::{AgentSettings, CertificateFiles, PORT, Settings, SettingsError};
