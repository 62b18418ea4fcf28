//! `flowcoord agent`: answers managers of its Swarm for one node.
//!
//! ```text
//! wire      the closed list of requests                  client    who asks: managers, and agents for a volume that was offered to them
//! server    TLS, who asks, routes                        report    flowcond's jobs and the services that they belong to
//! carry     a volume from one node to another            lease     jobs that must not outlive the managers' word
//! ```
//! It changes nothing but volumes that a manager ordered to be fetched, and stops nothing but jobs whose lease has ended. Imports: host, api.

mod carry;
mod client;
mod lease;
mod pack;
mod report;
mod server;
mod unpack;
mod wire;

pub use client::Client;
pub use server::run;
pub use wire::Offer;
