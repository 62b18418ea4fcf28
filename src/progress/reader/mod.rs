//! Bytes of any training log → the series it prints, which of them measures learning, and how far the job is.
//!
//! No framework is known by name: lines are read as names, numbers, tables and counters, and the series are ranked.
//!
//! ```text
//! bytes → lines → scan (shape) → plans ─hit→ read the numbers that matter ─→ series, counters → choice
//!                                  └miss→ prefix, fields | table ↗
//! ```
//!
//! Pure and bounded: at most 64 KiB a stream. Imports: model only.

mod core;
mod decode;
mod learn;
mod memory;
mod outside;
mod parse;
mod select;

pub(super) use core::{Heard, Sample, View};
pub(super) use decode::Rendering;
pub(super) use memory::Memory;
pub(super) use select::choice::{Candidate, Choice, CountReading, Wishes};
pub(super) use select::series::SeriesKey;

use core::Core;
use decode::{
    entries::{self, EntryDecoder},
    events::{self, EventDecoder},
    lines::LineDecoder,
    wide::{self, WideDecoder},
};

/// Reads one log; see the module.
pub(super) struct Reader {
    source: Source,
    core: Core,
}

/// What kind of stream it is, by its first bytes.
enum Source {
    /// Too few bytes to say.
    Unknown(Vec<u8>),
    Text(LineDecoder),
    Entries(EntryDecoder),
    Wide(WideDecoder),
    Events(EventDecoder),
}

impl Reader {
    pub(super) fn new(wishes: Wishes) -> Self {
        Reader { source: Source::Unknown(Vec::new()), core: Core::new(wishes) }
    }

    /// Reads the next bytes, cut anywhere; reports each value of each series and each line's end to `each`, together with the present choice.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Heard<'_>, &View<'_>)) {
        let core = &mut self.core;
        match &mut self.source {
            Source::Text(decoder) => decoder.push(bytes, |rendering| core.read(rendering, &mut each)),
            Source::Entries(decoder) => decoder.push(bytes, |rendering| core.read(rendering, &mut each)),
            Source::Wide(decoder) => decoder.push(bytes, |rendering| core.read(rendering, &mut each)),
            Source::Events(decoder) => decoder.push(bytes, |scalar| core.take_scalar(&scalar, &mut each)),
            Source::Unknown(begun) => {
                begun.extend_from_slice(bytes);
                let events = events::may_begin(begun);
                let entries = entries::may_begin(begun);
                let wide = wide::may_begin(begun);
                let known = [(events, events::RECOGNISE), (entries, entries::RECOGNISE), (wide, wide::RECOGNISE)];
                if known.into_iter().any(|(may_be, enough)| may_be && begun.len() < enough) {
                    return;
                }
                let begun = std::mem::take(begun);
                self.source = match (events, entries, wide) {
                    (true, ..) => Source::Events(EventDecoder::default()),
                    (_, true, _) => Source::Entries(EntryDecoder::new()),
                    (.., true) => Source::Wide(WideDecoder::new()),
                    _ => Source::Text(LineDecoder::new()),
                };
                self.push(&begun, each);
            }
        }
    }

    /// Reads what stands on an unfinished last line, at the end of a file. What is pushed next is another file of the same job.
    pub(super) fn finish(&mut self, mut each: impl FnMut(Heard<'_>, &View<'_>)) {
        let core = &mut self.core;
        match std::mem::replace(&mut self.source, Source::Unknown(Vec::new())) {
            Source::Text(mut decoder) => decoder.finish(|rendering| core.read(rendering, &mut each)),
            Source::Entries(mut decoder) => decoder.finish(|rendering| core.read(rendering, &mut each)),
            Source::Wide(mut decoder) => decoder.finish(|rendering| core.read(rendering, &mut each)),
            Source::Unknown(begun) => {
                let mut decoder = LineDecoder::new();
                decoder.push(&begun, |rendering| core.read(rendering, &mut each));
                decoder.finish(|rendering| core.read(rendering, &mut each));
            }
            // A torn record will never be whole.
            Source::Events(_) => {}
        }
        self.core.chooser.look(&self.core.candidates);
    }

    /// What has been understood.
    pub(super) fn view(&self) -> View<'_> {
        View { core: &self.core }
    }
}
