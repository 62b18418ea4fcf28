//! The claimed total that is used, and where it was found.

use serde::{Deserialize, Serialize};

/// The source of a claimed total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimOrigin {
    /// The command line of one of the job's processes.
    Command,
    /// The environment of one of the processes.
    Environment,
    /// A configuration file named on a command line.
    ConfigFile,
}

/// The length of the training according to the job's command or configuration, for logs that do not state it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TotalClaim {
    /// Total units, in the unit of [`Learning::progress`](crate::Learning::progress); in printed evaluations, if the log counts nothing.
    pub total: f64,
    /// The option or variable that sets it, as written: `--epochs`.
    pub key: String,
    /// Where it was found.
    pub origin: ClaimOrigin,
    /// Confidence that the key means this total, 0 ..= 1.
    pub confidence: f64,
}
