//! Why a container is left alone, and which of its limits could not be written. Imports: model.

use super::target::same_kind;
use crate::model::{Hold, Millis, Setting};

/// The reasons to leave a container alone, strongest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Holds {
    pub operator: bool,
    pub foreign: Option<String>,
    /// Why writing failed, and when to try again.
    pub unwritable: Option<(String, Millis)>,
    /// Which settings failed when last written, and how often in a row.
    pub failing: Vec<(Setting, u32)>,
    pub settling_until: Option<Millis>,
}

impl Holds {
    /// These were written: they fail no longer, and the others still do.
    pub fn wrote(&mut self, asked: &[Setting]) {
        self.failing.retain(|(failing, _)| !asked.iter().any(|setting| same_kind(*failing, *setting)));
        if self.failing.is_empty() {
            self.unwritable = None;
        }
    }

    /// These failed; how often in a row the most stubborn of them has.
    pub fn failed(&mut self, settings: &[Setting]) -> u32 {
        let before = |setting: &Setting| {
            self.failing.iter().find(|(failing, _)| same_kind(*failing, *setting)).map_or(0, |(_, times)| *times)
        };
        let now: Vec<(Setting, u32)> = settings.iter().map(|setting| (*setting, before(setting) + 1)).collect();
        self.failing.retain(|(failing, _)| !settings.iter().any(|setting| same_kind(*failing, *setting)));
        self.failing.extend(&now);
        now.iter().map(|(_, times)| *times).max().unwrap_or(1)
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
