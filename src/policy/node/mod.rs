//! Decisions on one node: the limits of each container, with the reason. The daemon and the simulator call the same [`Governor::tick`] and
//! [`diff`].

mod allocation;
mod backoff;
mod balanced;
mod capacity;
mod check;
#[cfg(test)]
mod cost_tests;
mod decision;
mod diff;
mod domain;
mod favour;
mod flowcon;
mod flowcon_2019;
mod governor;
mod gpu_time;
mod growth;
mod holdback;
mod lists;
mod memory;
#[cfg(test)]
mod properties;
mod quota;
mod recollection;
mod remembered;
#[cfg(test)]
mod scenarios;
mod situation;
#[cfg(test)]
mod testing;
mod time_left;
mod wording;

use model::{ContainerObservation, CpuWeight};

pub use check::{Violation, check, drop_violating};
pub use diff::diff;
pub use favour::{Favour, GpuJob, TURN_PERIOD};
pub use governor::Governor;
pub use holdback::Holdback;

/// The weight of a container under plain sharing: the owner's weight times the container's original CPU weight, as a multiple of the
/// default.
fn importance(container: &ContainerObservation) -> f64 {
    let original = container.original.cpu_weight.unwrap_or(CpuWeight::DEFAULT);
    sane_weight(container.weight) * f64::from(original.number()) / f64::from(CpuWeight::DEFAULT.number())
}

/// The owner's weight within 0.01 ..= 100; invalid numbers count as 1.
fn sane_weight(weight: f64) -> f64 {
    if weight.is_finite() && weight > 0.0 { weight.clamp(0.01, 100.0) } else { 1.0 }
}
