//! What a reader remembers over a restart: the chosen series, the header of its table, the counters. A few KiB.
//!
//! Imports: the reader, `parse`, `select`.

use super::Reader;
use super::parse::table::Header;
use super::select::counters::Counters;
use super::select::series::{SeriesKey, SeriesMemory};
use serde::{Deserialize, Serialize};

/// Bytes of a header: longer ones are not read.
const TEXT_AT_MOST: usize = 4096;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::progress) struct Memory {
    chosen: Option<SeriesMemory>,
    header: Option<(String, u64)>,
    counters: Counters,
}

impl Memory {
    /// Whether this can be ours.
    pub(in crate::progress) fn is_plausible(&self) -> bool {
        self.chosen.as_ref().is_none_or(SeriesMemory::is_plausible)
            && self.header.as_ref().is_none_or(|(text, _)| text.len() <= TEXT_AT_MOST)
            && self.counters.is_plausible()
    }
}

impl Reader {
    /// What [`Reader::remember`] needs.
    pub(in crate::progress) fn memory(&self) -> Memory {
        let core = &self.core;
        let chosen = core.chooser.chosen().and_then(|key| core.candidates.get(key.slot, key.generation));
        Memory {
            chosen: chosen.map(SeriesMemory::from),
            header: core.header.as_ref().map(|header| (header.text().to_owned(), header.hash)),
            counters: core.counters.clone(),
        }
    }

    /// Goes on with an earlier reader's choice; returns it.
    pub(in crate::progress) fn remember(&mut self, memory: &Memory) -> Option<SeriesKey> {
        let core = &mut self.core;
        core.counters = memory.counters.clone();
        core.counters.forget_lines();
        core.header = memory.header.as_ref().and_then(|(text, hash)| Header::read(text.as_bytes(), 0, &[], *hash));
        let (slot, generation) = core.candidates.restore(memory.chosen.as_ref()?);
        core.chooser.choose(SeriesKey { slot, generation });
        core.chooser.chosen()
    }
}
