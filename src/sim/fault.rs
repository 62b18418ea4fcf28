//! What goes wrong with a training, as on a real box: the variation `-broken`.

/// Seconds for which a hung job does nothing; then whatever it waited for comes.
pub(super) const HANGS_S: f64 = 900.0;

/// Part of the final improvement that a job that overfits loses by its end.
pub(super) const LOST_BY_OVERFITTING: f64 = 0.4;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Its metric is NaN from then on.
    Nan,
    /// Its metric gets worse by the whole improvement, then by twice as much with each unit.
    Explodes,
    /// It waits for a quarter of an hour, without CPU.
    Hangs,
    /// It ends.
    Crashes,
    /// Its metric gets worse, slowly.
    Overfits,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [FaultKind; 5] =
        [FaultKind::Nan, FaultKind::Explodes, FaultKind::Hangs, FaultKind::Crashes, FaultKind::Overfits];
}

/// A fault of one job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// After this part of the units.
    pub after: f64,
}

/// A wait without CPU, once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hang {
    /// Core-seconds done by then.
    pub at: f64,
    /// Its length in seconds.
    pub seconds: f64,
}
