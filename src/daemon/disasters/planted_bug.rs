//! Bugs that are planted on purpose. Imports: nothing.

/// Planted bugs that the schedules must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    None,
    SkipsTheJournal,
    ForgetsAFailedWrite,
    TrustsAMissingContainer,
    ClearsOursOfAll,
}
