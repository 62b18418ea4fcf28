//! What goes wrong with a training, as on a real box: the variation `-broken`.

use super::job::Job;
use model::Direction;

/// Seconds for which a hung job does nothing; then whatever it waited for comes.
const HANGS_S: f64 = 900.0;

/// Part of the final improvement that a job that overfits loses by its end.
const LOST_BY_OVERFITTING: f64 = 0.4;

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

impl Fault {
    /// Breaks a drawn job.
    pub(super) fn break_job(self, job: &mut Job) {
        let units = job.marks.len();
        let good = ((self.after * units as f64) as usize).clamp(1, units);
        let shown = job.plan.shown.as_ref().unwrap_or(&job.plan.curve);
        let range = (shown.to - shown.from).abs();
        let worse = if shown.direction() == Direction::Down { range } else { -range };
        let Some(&last) = job.printed.get(good - 1) else { return };
        match self.kind {
            FaultKind::Nan => job.printed[good..].fill(f64::NAN),
            FaultKind::Explodes => {
                let later = job.printed[good..].iter_mut().zip(1..);
                later.for_each(|(value, number)| *value = last + worse * 2f64.powi(number));
            }
            FaultKind::Hangs => job.hang = Some(Hang { at: job.marks[good - 1], seconds: HANGS_S }),
            FaultKind::Crashes => {
                job.marks.truncate(good);
                job.printed.truncate(good);
            }
            FaultKind::Overfits => {
                let each = LOST_BY_OVERFITTING * worse / (units - good) as f64;
                let later = job.printed[good..].iter_mut().zip(1..);
                later.for_each(|(value, number)| *value += each * f64::from(number));
            }
        }
    }
}
