//! Faults planted on purpose, to prove that the schedules find them.

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Every attestation is `Gone`.
    SkipsTheProof,
    /// Swarm's task list is used as the proof.
    TrustsSwarmsList,
    /// A change takes effect before its labels are written.
    ActsBeforeTheLabels,
    /// Changes with an outdated service version are executed.
    IgnoresVersions,
    /// An agent overwrites a newer state with an older one.
    CarriesTwice,
    /// Agents do not stop jobs whose lease has expired.
    BreaksTheLease,
    /// Agents do not report the tasks that they stopped.
    ForgetsWhatItStopped,
    /// The time to settle is zero.
    DoesNotSettle,
    /// Every attestation after a transfer is `Gone`.
    SkipsTheSecondProof,
    /// Every claim is granted without asking the agent.
    SkipsTheClaim,
    /// Agents grant every claim.
    StealsVolumes,
    /// Agents transfer and overwrite the state of other jobs.
    CarriesOverOthers,
    /// Attestations after a transfer do not compare the saved state.
    StartsWithAnEarlierState,
}
