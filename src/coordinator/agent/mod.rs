//! `flowcoord agent`: answers managers of its Swarm for one node.
//!
//! ```text
//! wire      the closed list of requests                  client    who asks: managers, and agents for a volume that was offered to them
//! connection  kept open between requests, and watched
//! server    TLS, who asks, routes                        report    flowcond's jobs and the services that they belong to
//! carry     a volume from one node to another            lease     jobs that must not outlive the managers' word
//! pack      a folder as a stream, and unpack: back into a volume, with attributes
//! record    what flowcond knows of a job, carried along with its volume
//! ```
//! It changes nothing but volumes that a manager ordered to be fetched, and stops nothing but jobs whose lease has ended. Imports: host, api.

mod attributes;
mod carry;
mod client;
mod connection;
mod lease;
mod pack;
mod record;
mod report;
mod server;
mod unpack;
mod wire;

pub use client::Client;
pub use connection::Kept;
pub use server::run;
pub use wire::Offer;
