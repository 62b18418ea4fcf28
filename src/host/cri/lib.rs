//! Pods, through the Container Runtime Interface (CRI) v1 of containerd or CRI-O: the interface by which a kubelet runs them.
//!
//! Only calls that read are made. [`watch()`] keeps the list of labelled pods correct. The messages are written by hand, after the
//! interface's definition: of its two dozen calls four are needed, and the crates with all of them need a compiler of protocol buffers.

mod client;
mod error;
mod grpc;
#[doc(hidden)]
pub mod messages;
mod pod;
mod watch;

pub use client::{Cri, RuntimeVersion};
pub use error::CriError;
pub use pod::{Pod, PodContainer, PodEnd};
pub use watch::{PodEvent, watch};
