//! The state of a reader that survives a restart: the chosen series, the header of its table, the counters. A few KiB.

use super::Reader;
use super::parse::table::Header;
use super::select::counters::Counters;
use super::select::series::{SeriesKey, SeriesState};
use serde::{Deserialize, Serialize};

/// Maximum bytes of a stored header.
const MAX_HEADER: usize = 4096;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReaderState {
    chosen: Option<SeriesState>,
    header: Option<(String, u64)>,
    counters: Counters,
}

impl ReaderState {
    /// Whether all values are plausible.
    pub(crate) fn is_plausible(&self) -> bool {
        self.chosen.as_ref().is_none_or(SeriesState::is_plausible)
            && self.header.as_ref().is_none_or(|(text, _)| text.len() <= MAX_HEADER)
            && self.counters.is_plausible()
    }
}

impl Reader {
    /// Returns the state that [`Reader::restore`] needs.
    pub(crate) fn state(&self) -> ReaderState {
        let core = &self.core;
        let chosen = core.chooser.chosen().and_then(|key| core.candidates.get(key.slot, key.generation));
        ReaderState {
            chosen: chosen.map(SeriesState::from),
            header: core.header.as_ref().map(|header| (header.text().to_owned(), header.hash)),
            counters: core.counters.clone(),
        }
    }

    /// Restores the state of an earlier reader; returns the chosen series.
    pub(crate) fn restore(&mut self, state: &ReaderState) -> Option<SeriesKey> {
        let core = &mut self.core;
        core.counters = state.counters.clone();
        core.counters.forget_lines();
        core.header = state.header.as_ref().and_then(|(text, hash)| Header::read(text.as_bytes(), 0, &[], *hash));
        let (slot, generation) = core.candidates.restore(state.chosen.as_ref()?);
        core.chooser.choose(SeriesKey { slot, generation });
        core.chooser.chosen()
    }
}
