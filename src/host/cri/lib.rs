//! Pods, through the Container Runtime Interface (CRI) v1 of containerd or CRI-O: the interface by which a kubelet runs them. And the
//! containers that nerdctl or ctr start in containerd, which CRI does not list, through containerd's own interface. Both are services of
//! one socket, so they have one client and one list.
//!
//! Only calls that read are made. [`watch()`] keeps the list of labelled workloads correct. The messages are written by hand, after the
//! definitions of the interfaces: of their dozens of calls eight are needed, and the crates with all of them need a compiler of protocol
//! buffers.

mod client;
mod containerd;
mod error;
mod grpc;
#[doc(hidden)]
pub mod messages;
mod pod;
mod watch;
mod workload;

pub use client::{Cri, RuntimeVersion};
pub use error::CriError;
pub use watch::{WorkloadEvent, watch};
pub use workload::{ContainerEnd, ContainerLog, MainContainer, Workload};
