//! Mistakes that are planted on purpose. Imports: nothing.

/// Mistakes that the schedules must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    None,
    /// Nobody is asked whether anything lives.
    SkipsTheProof,
    /// Swarm's list of tasks is taken for a proof.
    TrustsSwarmsList,
    /// A change acts before its labels are written.
    ActsBeforeTheLabels,
    /// A change of a service that somebody has changed since is carried out.
    IgnoresVersions,
    /// An agent carries an older state over a newer one.
    CarriesTwice,
    /// Agents promise to stop what has no lease, and do not.
    BreaksTheLease,
}
