//! Why a container is left alone, and which of its limits could not be written. Imports: model.

use crate::model::{Hold, LimitKind, Millis, Setting};

/// How long limits that could not be written are left alone at first; doubles up to the longest interval.
const WRITE_AGAIN: Millis = Millis::from_secs(30);

/// The reasons to leave a container alone, strongest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holds {
    /// Somebody said so.
    pub operator: bool,
    /// Somebody else changed a limit: which.
    pub foreign: Option<String>,
    /// Why writing failed, and when to try again.
    pub unwritable: Option<(String, Millis)>,
    /// It ran before the daemon did: until then.
    pub settling_until: Option<Millis>,
    /// Which limits failed when last written, and how often in a row.
    failing: Vec<(LimitKind, u32)>,
}

impl Holds {
    /// These were written: they fail no longer, and the others still do.
    pub(super) fn wrote(&mut self, asked: &[Setting]) {
        self.failing.retain(|(failing, _)| !asked.iter().any(|setting| setting.kind() == *failing));
        if self.failing.is_empty() {
            self.unwritable = None;
        }
    }

    /// These failed: they are left alone, the longer the more often in a row.
    pub(super) fn failed(&mut self, why: &str, settings: &[Setting], now: Millis, longest: Millis) {
        let mut times = 1;
        for setting in settings {
            let kind = setting.kind();
            match self.failing.iter_mut().find(|(failing, _)| *failing == kind) {
                Some((_, row)) => {
                    *row += 1;
                    times = times.max(*row);
                }
                None => self.failing.push((kind, 1)),
            }
        }
        let wait = Millis(WRITE_AGAIN.0.saturating_mul(1 << (times - 1).min(10))).min(longest.max(WRITE_AGAIN));
        self.unwritable = Some((why.to_owned(), now.after(wait)));
    }

    /// The one that counts at `now`.
    pub fn strongest(&self, now: Millis, everything_paused: bool) -> Option<Hold> {
        if self.operator || everything_paused {
            return Some(Hold::Operator);
        }
        if let Some(text) = &self.foreign {
            return Some(Hold::Foreign(text.clone()));
        }
        match &self.unwritable {
            Some((text, until)) if now < *until => return Some(Hold::Unwritable(text.clone())),
            _ => {}
        }
        self.settling_until.filter(|until| now < *until).map(|_| Hold::Settling)
    }
}
