//! Bytes of any training log → the series it prints, which of them measures learning, and how far the job is.
//!
//! No framework is known by name: lines are read as names, numbers, tables and counters, and the series are ranked.
//!
//! ```text
//! bytes → lines → scan (shape) → cache ─hit→ read the numbers that matter ─→ series, counters → choice
//!                                  └miss→ prefix, fields | table ↗
//! ```
//!
//! Pure and bounded: at most 64 KiB a stream. Imports: model only.

mod allowance;
mod cache;
mod choice;
mod columns;
mod counter;
mod counters;
mod entries;
mod events;
mod fields;
mod gap;
mod labels;
mod layout;
mod learn;
mod lexicon;
mod lines;
mod memory;
mod number;
mod numeral;
mod outside;
mod pattern;
mod prefix;
mod records;
mod roles;
mod scan;
mod series;
mod table;
mod validation;
mod vocabulary;

pub(super) use choice::{Candidate, Choice, CountReading, Wishes};
pub(super) use lines::Rendering;
pub(super) use memory::Memory;

use crate::model::Direction;
use allowance::{Allowance, SETTLED};
use cache::{Cache, Field, Known, NO_TOTAL, Plan, Use};
use choice::Chooser;
use counters::Counters;
use entries::EntryDecoder;
use events::EventDecoder;
use labels::Labels;
use lines::LineDecoder;
use scan::Scan;
use series::Candidates;
use table::Header;

/// Bits that set the same line apart under an evaluation's heading.
const UNDER_HEADING: u64 = 0x9E37_79B9_7F4A_7C15;

/// One value of one series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample<'a> {
    /// Which series.
    pub series: SeriesKey,
    pub value: f64,
    /// The rendering that it stands on.
    pub rendering: Rendering<'a>,
}

/// What a line says, in order: its values, then that it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Heard<'a> {
    /// The choice and the counters are those of this line's counters and of the lines before it.
    Value(Sample<'a>),
    /// A line with findings is over, and the choice has been looked at again.
    End,
}

/// A series, as long as it is not evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SeriesKey {
    slot: u16,
    generation: u16,
}

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
    Events(EventDecoder),
}

/// Everything behind the decoder.
struct Core {
    labels: Labels,
    scan: Scan,
    cache: Cache,
    allowance: Allowance,
    header: Option<Header>,
    earlier_header: Option<Header>,
    /// Under a heading such as "Eval begin...", until the next epoch.
    evaluating: bool,
    candidates: Candidates,
    counters: Counters,
    chooser: Chooser,
}

impl Reader {
    pub(super) fn new(wishes: Wishes) -> Self {
        Reader {
            source: Source::Unknown(Vec::new()),
            core: Core {
                labels: Labels::new(),
                scan: Scan::default(),
                cache: Cache::new(),
                allowance: Allowance::default(),
                header: None,
                earlier_header: None,
                evaluating: false,
                candidates: Candidates::default(),
                counters: Counters::default(),
                chooser: Chooser::new(wishes),
            },
        }
    }

    /// Reads the next bytes, cut anywhere; reports each value of each series and each line's end to `each`, together with the present choice.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Heard<'_>, &View<'_>)) {
        let core = &mut self.core;
        match &mut self.source {
            Source::Text(decoder) => decoder.push(bytes, |rendering| core.read(rendering, &mut each)),
            Source::Entries(decoder) => decoder.push(bytes, |rendering| core.read(rendering, &mut each)),
            Source::Events(decoder) => decoder.push(bytes, |scalar| core.take_scalar(&scalar, &mut each)),
            Source::Unknown(begun) => {
                begun.extend_from_slice(bytes);
                let events = events::may_begin(begun);
                let entries = entries::may_begin(begun);
                if events && begun.len() < events::RECOGNISE || entries && begun.len() < entries::RECOGNISE {
                    return;
                }
                let begun = std::mem::take(begun);
                self.source = match (events, entries) {
                    (true, _) => Source::Events(EventDecoder::default()),
                    (_, true) => Source::Entries(EntryDecoder::new()),
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

/// A look at what has been understood so far.
pub(super) struct View<'a> {
    core: &'a Core,
}

impl View<'_> {
    /// The chosen series, its direction and confidence.
    pub(super) fn choice(&self) -> Option<Choice> {
        self.core.chooser.choice(&self.core.candidates)
    }

    /// Only which series is chosen: cheap.
    pub(super) fn chosen(&self) -> Option<SeriesKey> {
        self.core.chooser.chosen()
    }

    /// Which way the chosen series improves, as far as it is known: cheap.
    pub(super) fn direction(&self) -> Option<Direction> {
        self.core.chooser.direction()
    }

    /// The progress counter of the job.
    pub(super) fn progress(&self) -> Option<CountReading> {
        self.core.chooser.progress(&self.core.candidates, &self.core.counters)
    }

    /// All candidates, best first.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        self.core.chooser.candidates(&self.core.candidates)
    }
}

impl Core {
    fn read(&mut self, rendering: Rendering<'_>, each: &mut impl FnMut(Heard<'_>, &View<'_>)) {
        let rendering = Rendering { text: self.labels.without(rendering.text), ..rendering };
        self.read_line(rendering, each);
        if let Some(again) = self.labels.watch(rendering) {
            self.forget();
            again.iter().for_each(|kept| self.read(kept.rendering(), each));
        }
    }

    /// Forgets what was understood of lines that were read with their labels.
    fn forget(&mut self) {
        self.cache = Cache::new();
        (self.header, self.earlier_header, self.evaluating) = (None, None, false);
        self.candidates.clear();
        self.counters = Counters::default();
        self.chooser.begin_again();
    }

    fn read_line(&mut self, rendering: Rendering<'_>, each: &mut impl FnMut(Heard<'_>, &View<'_>)) {
        let line = rendering.text;
        if let Some(matched) = self.chooser.pattern().and_then(|pattern| pattern::read(pattern, line)) {
            return self.take_matched(matched, rendering, each);
        }
        if let Some(begins) = records::beginnings(line, 0) {
            let ends = begins.iter().skip(1).copied().chain([line.len()]);
            for (begin, end) in begins.iter().zip(ends) {
                self.read_record(Rendering { text: &line[*begin..end], ..rendering }, each);
            }
            return;
        }
        self.read_record(rendering, each);
    }

    fn read_record(&mut self, rendering: Rendering<'_>, each: &mut impl FnMut(Heard<'_>, &View<'_>)) {
        let line = rendering.text;
        let commas = self.header.as_ref().is_some_and(Header::has_commas);
        self.scan.read(line, commas);
        self.allowance.earn();
        self.evaluating &= !self.goes_on_training(line);
        let key = if self.evaluating { self.scan.shape ^ UNDER_HEADING } else { self.scan.shape };
        match self.cache.find(key) {
            Some(place) => self.follow(place, rendering, each),
            None if self.may_learn(key) => self.learn(key, rendering, each),
            None => {}
        }
    }

    /// Whether to analyse a line of a shape without a plan.
    fn may_learn(&mut self, key: u64) -> bool {
        let known = self.cache.known(key);
        if known == Known::Nothing {
            return false;
        }
        let may = !self.is_settled() || self.allowance.spend(known == Known::Seen);
        if !may && known == Known::New {
            self.cache.set_seen(key);
        }
        may
    }

    /// Whether the evaluation was read so often that nothing else is likely to be it.
    fn is_settled(&self) -> bool {
        let chosen = self.chooser.chosen().and_then(|key| self.candidates.get(key.slot, key.generation));
        chosen.is_some_and(|series| series.count >= SETTLED)
    }

    /// Whether a line under an evaluation's heading counts on where training stopped: then the evaluation is over. An
    /// evaluation has steps of its own, which begin anew and have another total.
    fn goes_on_training(&self, line: &[u8]) -> bool {
        if !self.evaluating {
            return false;
        }
        let Some(Plan::Fields { fields, .. }) =
            self.cache.find(self.scan.shape).and_then(|place| self.cache.plan(place))
        else {
            return false;
        };
        let value = |index: u8| self.scan.numbers.get(usize::from(index)).and_then(|span| number::parse(span.of(line)));
        fields.iter().any(|field| match field.use_as {
            Use::Counter(counted) => value(field.number).is_some_and(|read| {
                let total = if field.total == NO_TOTAL { None } else { value(field.total) };
                self.counters.would_advance(counted, read, total)
            }),
            _ => false,
        })
    }

    /// A line of a known shape.
    fn follow(&mut self, place: (usize, usize), rendering: Rendering<'_>, each: &mut impl FnMut(Heard<'_>, &View<'_>)) {
        match self.cache.plan(place) {
            Some(Plan::Fields { .. }) => self.apply(place, rendering, each),
            Some(Plan::Row) => {
                let key = self.scan.shape ^ self.header.as_ref().map_or(0, |header| header.hash.rotate_left(17));
                match self.cache.find(key) {
                    Some(place) => self.apply(place, rendering, each),
                    None if self.may_learn(key) => self.learn_row(key, rendering, each),
                    None => {}
                }
            }
            Some(Plan::Header) => self.remember_header(rendering.text),
            Some(Plan::Heading(evaluating)) => self.evaluating = *evaluating,
            None => {}
        }
    }

    fn apply(&mut self, place: (usize, usize), rendering: Rendering<'_>, each: &mut impl FnMut(Heard<'_>, &View<'_>)) {
        let Some(plan) = self.cache.take(place) else { return };
        let fresh = match &plan {
            Plan::Fields { fields, has_epoch } => self.apply_fields(fields, *has_epoch, rendering, each),
            _ => true,
        };
        // A plan that names an evicted series is learnt again, if that is not too much.
        if fresh || self.is_settled() && !self.allowance.spend(true) {
            self.cache.put_back(place, plan);
        }
    }

    /// Reads the numbers of a line; false if a series of the plan was evicted.
    fn apply_fields(
        &mut self,
        fields: &[Field],
        has_epoch: bool,
        rendering: Rendering<'_>,
        each: &mut impl FnMut(Heard<'_>, &View<'_>),
    ) -> bool {
        let value = |numbers: &[scan::Span], index: u8| {
            numbers.get(usize::from(index)).and_then(|span| number::parse(span.of(rendering.text)))
        };
        self.evaluating &= !has_epoch;
        let mut beside = 0;
        for field in fields {
            let Some(read) = value(&self.scan.numbers, field.number) else { continue };
            match field.use_as {
                Use::Counter(counted) => {
                    let total = if field.total == NO_TOTAL { None } else { value(&self.scan.numbers, field.total) };
                    beside |= self.counters.advance(counted, read, total, rendering.line, has_epoch);
                }
                Use::Declared(count) => self.counters.declare(count, read, rendering.line),
                Use::Series { .. } => {}
            }
        }
        let mut fresh = true;
        for field in fields {
            let Use::Series { slot, generation } = field.use_as else { continue };
            let Some(value) = value(&self.scan.numbers, field.number) else { continue };
            match self.candidates.get_mut(slot, generation) {
                Some(series) => {
                    series.beside = beside;
                    let pace = self.counters.outer_advances();
                    series.paces = Some((series.paces.map_or(pace, |(first, _)| first), pace));
                    series.take(value, rendering.line);
                }
                None => {
                    fresh = false;
                    continue;
                }
            }
            let series = SeriesKey { slot, generation };
            each(Heard::Value(Sample { series, value, rendering }), &View { core: self });
        }
        self.chooser.after_line(&self.candidates);
        each(Heard::End, &View { core: self });
        fresh
    }
}
