//! `flowcoord agent`: serves the managers of its Swarm for one node.
//!
//! ```text
//! wire        the closed list of requests              client    for managers, and for agents that fetch a volume
//! connection_pool  with keepalive                      server    TLS and routes; guard: authorisation and limits
//! report      flowcond's jobs by Swarm service         lease     leases on disk; expiry: stops jobs whose lease has expired
//! transfer    of volumes between nodes                 owner     whose state a volume holds; claim: of a job that starts
//! failure     outcomes of transfers that fail
//! pack        a folder as a tar stream; unpack: back into a volume; attributes: times and extended attributes
//! record      flowcond's job record, transferred with the volume; sandbox: whether the unit allows access to volumes
//! ```
//! It writes only into volumes that a manager told it to fetch, and stops only jobs whose lease has expired.

mod attributes;
mod claim;
mod client;
mod connection_pool;
mod expiry;
mod failure;
mod guard;
mod lease;
mod owner;
mod pack;
mod record;
mod report;
mod sandbox;
mod server;
mod transfer;
mod unpack;
mod wire;

pub use client::Client;
pub use connection_pool::ConnectionPool;
pub use guard::WORKER_REFUSED;
pub use server::run;
pub use wire::Offer;
