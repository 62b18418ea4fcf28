//! Mistakes that are planted on purpose. Imports: nothing.

/// Mistakes that the schedules must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    None,
    SkipsThePromise,
    ForgetsAFailedWrite,
    TrustsAMissingContainer,
    ClearsOursOfAll,
}
