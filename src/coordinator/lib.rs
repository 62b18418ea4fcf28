//! `flowcoord`: the cluster coordinator on Docker Swarm. It places jobs, moves them, and drains nodes.
//!
//! ```text
//! flowcoord run      machine   events in, effects out: no clock, files or network; its only durable state is labels of Swarm services
//!                    run       executes the effects; publish holds the status and events that the API serves
//!                    backends  the local engine and the agents of all nodes; hook runs the commands that open and close nodes
//!                    rendezvous  network and variables by which the workers of a gang find each other
//! flowcoord agent    agent     serves managers for one node: its jobs, proofs that a job is gone, transfers of saved state
//! ```

pub mod agent;
mod backends;
#[cfg(test)]
mod disasters;
mod hook;
pub mod machine;
mod publish;
mod rendezvous;
mod run;
mod settings;

pub use run::{Control, CoordinatorError, run};
pub use settings::{AgentSettings, CertificateFiles, PORT, Settings, SettingsError};
