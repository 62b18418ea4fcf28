//! Bugs that are planted on purpose.

/// Planted bugs that the schedules must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlantedBug {
    None,
    SkipsTheJournal,
    ForgetsAFailedWrite,
    TrustsAMissingContainer,
    ClearsOursOfAll,
    /// An update resets what it does not name.
    LeavesOutTheRestartPolicy,
    /// A restore reads the cgroups in which the processes are.
    RestoresWhereProcessesAre,
    /// The numbers of the engine are not renewed with the limits that were accepted.
    RenewsOnlyTheLimits,
    /// A command to govern is answered without a look at what others did after the limits were accepted.
    GovernsWithoutALook,
}
