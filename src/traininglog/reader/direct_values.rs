//! Values that are read without line analysis: those that the pattern of the hints finds, and TensorBoard scalars.

use super::core::{Core, ReadEvent, Sample, View};
use super::decode::Rendering;
use super::decode::tensorboard::Scalar;
use super::parse::lexicon;
use super::parse::meaning::{Count, Counted, Meaning, Split};
use super::parse::pattern::Matched;
use super::select::series::{Named, SeriesKey};

impl Core {
    /// Handles a line that matches the pattern of the hints.
    pub(super) fn take_matched(
        &mut self,
        matched: Matched,
        rendering: Rendering<'_>,
        each: &mut impl FnMut(ReadEvent<'_>, &View<'_>),
    ) {
        let count = Counted { count: self.chooser.requested_count(), label: 0 };
        if let Some(current) = matched.current {
            self.counters.advance(count, current, matched.total, rendering.line, false);
        }
        let name = self.chooser.pattern_name();
        let named =
            Named { place: 0, name: &name, split: Split::Unsaid, signature: u16::MAX, direction: None, weight: 1.0 };
        let (slot, generation) = self.candidates.intern(&named);
        let series = SeriesKey { slot, generation };
        if let Some(known) = self.candidates.get_mut(slot, generation) {
            known.take(matched.value, rendering.line);
        }
        self.chooser.choose(series);
        each(ReadEvent::Value(Sample { series, value: matched.value, rendering }), &View { core: self });
        each(ReadEvent::End, &View { core: self });
    }

    /// Handles a TensorBoard scalar: its tag is a name, and its step is a counter.
    pub(super) fn take_scalar(&mut self, scalar: &Scalar<'_>, each: &mut impl FnMut(ReadEvent<'_>, &View<'_>)) {
        let tag = String::from_utf8_lossy(&scalar.tag[..scalar.tag.len().min(128)]);
        self.counters.advance(Counted { count: Count::Step, label: 0 }, scalar.step as f64, None, scalar.record, false);
        let (direction, weight, split) = match lexicon::meaning(&tag) {
            Meaning::Metric { direction, weight, split } => (direction, weight, split),
            Meaning::Counter(count) => {
                let counted = Counted { count, label: lexicon::label_of(&tag) };
                self.counters.advance(counted, scalar.value, None, scalar.record, false);
                return;
            }
            Meaning::Unknown => (None, 0.0, Split::Unsaid),
            Meaning::Other | Meaning::Declared(_) => return,
        };
        let signature = 1 << Count::Step as u16;
        let (slot, generation) =
            self.candidates.intern(&Named { place: 0, name: &tag, split, signature, direction, weight });
        if let Some(series) = self.candidates.get_mut(slot, generation) {
            series.take(scalar.value, scalar.record);
        }
        let rendering = Rendering { line: scalar.record, text: scalar.tag, printed: scalar.tag, last: true };
        let sample = Sample { series: SeriesKey { slot, generation }, value: scalar.value, rendering };
        each(ReadEvent::Value(sample), &View { core: self });
        self.chooser.after_line(&self.candidates);
        each(ReadEvent::End, &View { core: self });
    }
}
