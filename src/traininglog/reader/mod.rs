//! Reads the bytes of any training log: finds the printed series, the one that measures learning, and the job's progress.
//!
//! No framework is known by name. Lines are read as names, numbers, tables and counters, and the series are ranked.
//!
//! ```text
//! bytes → lines → plain notation → scan (shape) → plans ─hit→ read the relevant numbers ─→ series, counters → choice
//!                                                   └miss→ prefix, fields | table ↗
//! ```
//!
//! A line that holds several writes, such as a report behind a progress bar, is divided before it is analysed (`decode/pieces`).
//!
//! A progress bar (tqdm, Keras, …): `decode/lines` keeps the last state of a redrawn line, `parse/scan` collapses the cells of the bar, and
//! `parse/fields` reads its percentage and counts.
//!
//! Pure and bounded: at most 64 KiB per stream.

mod core;
mod decode;
mod direct_values;
mod learn;
mod parse;
mod select;
mod state;

pub(super) use core::{ReadEvent, Sample, View};
pub(super) use decode::Rendering;
pub use decode::cri_file::CriFile;
pub use decode::json_file::JsonFile;
pub use decode::log_file::LogFile;
pub(super) use select::choice::{Candidate, Choice, CountReading};
pub(super) use select::series::SeriesKey;
pub(super) use state::ReaderState;

use crate::Hints;
use core::Core;
use decode::{
    json_file::{self, JsonFileDecoder},
    lines::LineDecoder,
    tensorboard::{self, TensorboardDecoder},
    utf16::{self, Utf16Decoder},
};

/// The byte order mark with which some editors and shells begin UTF-8.
const UTF8_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Reads one log; see the module.
pub(super) struct Reader {
    source: Source,
    core: Core,
}

/// Format of the stream, recognised by its first bytes.
enum Source {
    /// Too few bytes so far.
    Unknown(Vec<u8>),
    Text(LineDecoder),
    JsonFile(JsonFileDecoder),
    Utf16(Utf16Decoder),
    Tensorboard(TensorboardDecoder),
}

impl Reader {
    pub(super) fn new(hints: &Hints) -> Self {
        Reader { source: Source::Unknown(Vec::new()), core: Core::new(hints) }
    }

    /// Reads the next bytes, which may be cut anywhere. Reports each value of each series and the end of each line to `each`, with the
    /// current choice.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(ReadEvent<'_>, &View<'_>)) {
        let core = &mut self.core;
        match &mut self.source {
            Source::Text(decoder) => decoder.push(bytes, |rendering| core.read(rendering, &mut each)),
            Source::JsonFile(decoder) => decoder.push(bytes, |rendering| core.read(rendering, &mut each)),
            Source::Utf16(decoder) => decoder.push(bytes, |rendering| core.read(rendering, &mut each)),
            Source::Tensorboard(decoder) => decoder.push(bytes, |scalar| core.take_scalar(&scalar, &mut each)),
            Source::Unknown(beginning) => {
                beginning.extend_from_slice(bytes);
                let tensorboard = tensorboard::may_begin(beginning);
                let json_file = json_file::may_begin(beginning);
                let utf16 = utf16::may_begin(beginning);
                let known = [
                    (tensorboard, tensorboard::RECOGNISE),
                    (json_file, json_file::RECOGNISE),
                    (utf16, utf16::RECOGNISE),
                    (UTF8_MARK.starts_with(&beginning[..beginning.len().min(UTF8_MARK.len())]), UTF8_MARK.len()),
                ];
                if known.into_iter().any(|(may_be, enough)| may_be && beginning.len() < enough) {
                    return;
                }
                let beginning = std::mem::take(beginning);
                self.source = match (tensorboard, json_file, utf16) {
                    (true, ..) => Source::Tensorboard(TensorboardDecoder::default()),
                    (_, true, _) => Source::JsonFile(JsonFileDecoder::new()),
                    (.., true) => Source::Utf16(Utf16Decoder::new()),
                    _ => Source::Text(LineDecoder::new()),
                };
                self.push(beginning.strip_prefix(UTF8_MARK).unwrap_or(&beginning), each);
            }
        }
    }

    /// Reads an unfinished last line at the end of a file. Bytes pushed later belong to another file of the same job.
    pub(super) fn finish(&mut self, mut each: impl FnMut(ReadEvent<'_>, &View<'_>)) {
        let core = &mut self.core;
        match std::mem::replace(&mut self.source, Source::Unknown(Vec::new())) {
            Source::Text(mut decoder) => decoder.finish(|rendering| core.read(rendering, &mut each)),
            Source::JsonFile(mut decoder) => decoder.finish(|rendering| core.read(rendering, &mut each)),
            Source::Utf16(mut decoder) => decoder.finish(|rendering| core.read(rendering, &mut each)),
            Source::Unknown(beginning) => {
                let mut decoder = LineDecoder::new();
                decoder.push(&beginning, |rendering| core.read(rendering, &mut each));
                decoder.finish(|rendering| core.read(rendering, &mut each));
            }
            // A truncated record is dropped.
            Source::Tensorboard(_) => {}
        }
        self.core.chooser.update(&self.core.candidates);
    }

    /// The current result.
    pub(super) fn view(&self) -> View<'_> {
        View { core: &self.core }
    }
}
