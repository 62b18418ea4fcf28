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
    /// What was on its way to a node at the fence is not waited for.
    DoesNotSettle,
    /// Nobody is asked again after a carriage.
    SkipsTheSecondProof,
    /// Whoever is asked again tells what lives, and not that the state has changed since it was carried.
    StartsWithAnEarlierState,
}
