//! Reads a stream line by line: a line of a known shape follows its plan, any other line is analysed.

use super::decode::{Rendering, pieces};
use super::parse::commas::{CommaEvidence, Commas};
use super::parse::line_tags::LineTags;
use super::parse::number::{self, Span};
use super::parse::scan::Scan;
use super::parse::table::Header;
use super::parse::{gap, notation, pattern};
use super::select::{
    allowance::{Allowance, SETTLED},
    candidates::Candidates,
    choice::{Candidate, Choice, Chooser, CountReading},
    counters::Counters,
    plans::{Cache, Epochs, Field, Known, NO_TOTAL, Plan, Use},
    series::{Form, SeriesKey},
};
use crate::{Direction, Hints};

/// Mixed into the key of a shape under an evaluation's heading, so that the same line has another plan there.
const UNDER_HEADING: u64 = 0x9E37_79B9_7F4A_7C15;

/// One value of one series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample<'a> {
    pub series: SeriesKey,
    pub value: f64,
    /// The rendering that contains it.
    pub rendering: Rendering<'a>,
}

/// An event of reading, in order: the values of a line, then its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ReadEvent<'a> {
    /// A value. The counters include this line; the choice is that of the lines before it.
    Value(Sample<'a>),
    /// The end of a line with findings. The choice has been updated.
    End,
}

/// What happened since the heading of an evaluation.
pub(super) struct UnderHeading {
    /// The counters at the heading. An evaluation uses the same counter names.
    stopped_at: Counters,
    /// Whether a value was read on a line unlike those of the training.
    has_reported: bool,
}

/// State behind the decoder.
pub(super) struct Core {
    pub(super) line_tags: LineTags,
    pub(super) scan: Scan,
    /// A line in plain notation, if it was printed in another one.
    rewritten: Vec<u8>,
    comma_evidence: CommaEvidence,
    pub(super) cache: Cache,
    pub(super) allowance: Allowance,
    pub(super) header: Option<Header>,
    pub(super) earlier_header: Option<Header>,
    /// Line of the latest header.
    pub(super) header_line: u64,
    /// The evaluation whose heading was read last ("Eval begin..."), until training continues.
    pub(super) evaluation: Option<UnderHeading>,
    pub(super) candidates: Candidates,
    pub(super) counters: Counters,
    pub(super) chooser: Chooser,
}

/// A view of the current result.
pub(crate) struct View<'a> {
    pub(super) core: &'a Core,
}

impl View<'_> {
    /// The chosen series, its direction and confidence.
    pub(crate) fn choice(&self) -> Option<Choice> {
        self.core.chooser.choice(&self.core.candidates)
    }

    /// The chosen series; cheap.
    pub(crate) fn chosen(&self) -> Option<SeriesKey> {
        self.core.chooser.chosen()
    }

    /// The direction in which the chosen series improves, if known; cheap.
    pub(crate) fn direction(&self) -> Option<Direction> {
        self.core.chooser.direction()
    }

    /// The progress counter of the job.
    pub(crate) fn progress(&self) -> Option<CountReading> {
        self.core.chooser.progress(&self.core.candidates, &self.core.counters)
    }

    /// All candidates, best first.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        self.core.chooser.candidates(&self.core.candidates)
    }
}

impl Core {
    pub(super) fn new(hints: &Hints) -> Self {
        Core {
            line_tags: LineTags::new(),
            scan: Scan::default(),
            rewritten: Vec::new(),
            comma_evidence: CommaEvidence::default(),
            cache: Cache::new(),
            allowance: Allowance::default(),
            header: None,
            earlier_header: None,
            header_line: 0,
            evaluation: None,
            candidates: Candidates::default(),
            counters: Counters::default(),
            chooser: Chooser::new(hints.clone()),
        }
    }

    pub(super) fn read(&mut self, rendering: Rendering<'_>, each: &mut impl FnMut(ReadEvent<'_>, &View<'_>)) {
        let text = self.line_tags.without(rendering.text);
        let rendering = Rendering { text, printed: text, ..rendering };
        self.read_line(rendering, each);
        if let Some(again) = self.line_tags.watch(rendering) {
            self.forget();
            again.iter().for_each(|kept| self.read(kept.rendering(), each));
        }
    }

    /// Forgets the results of lines that were read with their tags, or with another meaning of their commas.
    fn forget(&mut self) {
        self.cache = Cache::new();
        (self.header, self.earlier_header, self.evaluation) = (None, None, None);
        self.candidates.clear();
        self.counters = Counters::default();
        self.chooser.reset();
    }

    fn read_line(&mut self, rendering: Rendering<'_>, each: &mut impl FnMut(ReadEvent<'_>, &View<'_>)) {
        let line = rendering.text;
        if let Some(matched) = self.chooser.pattern().and_then(|pattern| pattern::matched(pattern, line)) {
            return self.take_matched(matched, rendering, each);
        }
        self.read_record(rendering, each);
    }

    fn read_record(&mut self, rendering: Rendering<'_>, each: &mut impl FnMut(ReadEvent<'_>, &View<'_>)) {
        let mut commas = self.commas();
        self.scan.read(rendering.text, commas);
        if commas == Commas::Guessed && self.comma_evidence.add(self.scan.shown) {
            self.forget();
        }
        if self.commas() != commas {
            commas = self.commas();
            self.scan.read(rendering.text, commas);
        }
        if self.scan.is_plain {
            return self.read_scanned(rendering, each);
        }
        let mut rewritten = std::mem::take(&mut self.rewritten);
        notation::rewrite(rendering.text, commas, &mut rewritten);
        self.scan.read(&rewritten, commas);
        self.read_scanned(Rendering { text: &rewritten, ..rendering }, each);
        self.rewritten = rewritten;
    }

    /// What commas in numbers mean.
    fn commas(&self) -> Commas {
        let divide = self.header.as_ref().is_some_and(Header::has_commas);
        if divide { Commas::Divide } else { self.comma_evidence.commas() }
    }

    /// Reads a line in plain notation, after its scan.
    fn read_scanned(&mut self, rendering: Rendering<'_>, each: &mut impl FnMut(ReadEvent<'_>, &View<'_>)) {
        let line = rendering.text;
        self.allowance.earn();
        if self.goes_on_training(line) {
            self.evaluation = None;
        }
        let key = if self.evaluation.is_some() { self.scan.shape ^ UNDER_HEADING } else { self.scan.shape };
        match self.cache.find(key) {
            Some(place) => self.follow(place, rendering, each),
            None if self.cache.known(key) == Known::Nothing => {}
            // A line that is divided has no plan.
            None if pieces::are_in(rendering.printed) => pieces::each(rendering, |piece| self.read_record(piece, each)),
            None if self.may_learn(key) => self.learn(key, rendering, each),
            None => {}
        }
    }

    /// Whether to analyse a line of a shape without a plan.
    pub(super) fn may_learn(&mut self, key: u64) -> bool {
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

    /// Whether the chosen series has so many values that another choice is unlikely.
    fn is_settled(&self) -> bool {
        let chosen = self.chooser.chosen().and_then(|key| self.candidates.get(key.slot, key.generation));
        chosen.is_some_and(|series| series.count >= SETTLED)
    }

    /// Handles the heading of an evaluation or of training.
    pub(super) fn handle_heading(&mut self, evaluates: bool) {
        let evaluation = self.evaluation.take();
        let begin = || UnderHeading { stopped_at: self.counters.clone(), has_reported: false };
        self.evaluation = evaluates.then(|| evaluation.unwrap_or_else(begin));
    }

    /// Whether a line under an evaluation's heading continues the counters of the training, which ends the evaluation. The steps of an
    /// evaluation start again and have another total. A line like those of the training also ends it, once the evaluation has printed
    /// a value in another form.
    fn goes_on_training(&self, line: &[u8]) -> bool {
        let Some(UnderHeading { stopped_at, has_reported }) = &self.evaluation else { return false };
        let Some(Plan::Fields { fields, .. }) =
            self.cache.find(self.scan.shape).and_then(|place| self.cache.plan(place))
        else {
            return false;
        };
        if *has_reported && fields.iter().any(|field| matches!(field.use_as, Use::Series { .. })) {
            return true;
        }
        let value = |index: u8| self.scan.numbers.get(usize::from(index)).and_then(|span| number::parse(span.of(line)));
        fields.iter().any(|field| match field.use_as {
            Use::Counter(counted) => value(field.number).is_some_and(|read| {
                let total = if field.total == NO_TOTAL { None } else { value(field.total) };
                stopped_at.would_advance(counted, read, total)
            }),
            _ => false,
        })
    }

    /// Reads a line of a known shape.
    fn follow(
        &mut self,
        place: (usize, usize),
        rendering: Rendering<'_>,
        each: &mut impl FnMut(ReadEvent<'_>, &View<'_>),
    ) {
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
            Some(Plan::Header) => self.remember_header(rendering),
            Some(Plan::Heading(evaluates)) => self.handle_heading(*evaluates),
            None => {}
        }
    }

    fn apply(
        &mut self,
        place: (usize, usize),
        rendering: Rendering<'_>,
        each: &mut impl FnMut(ReadEvent<'_>, &View<'_>),
    ) {
        let Some(plan) = self.cache.take(place) else { return };
        let fresh = match &plan {
            Plan::Fields { fields, epochs } => self.apply_fields(fields, *epochs, rendering, each),
            _ => true,
        };
        // A plan that refers to an evicted series is analysed again if the budget allows it.
        if fresh || self.is_settled() && !self.allowance.spend(true) {
            self.cache.put_back(place, plan);
        }
    }

    /// Reads the numbers of a line. Returns false if a series of the plan was evicted.
    pub(super) fn apply_fields(
        &mut self,
        fields: &[Field],
        epochs: Epochs,
        rendering: Rendering<'_>,
        each: &mut impl FnMut(ReadEvent<'_>, &View<'_>),
    ) -> bool {
        let value = |numbers: &[Span], index: u8| {
            numbers.get(usize::from(index)).and_then(|span| number::parse(span.of(rendering.text)))
        };
        let has_epoch = epochs != Epochs::NotCounted;
        if has_epoch {
            self.evaluation = None;
            self.counters.set_announced(epochs == Epochs::Announced);
        }
        let mut beside = 0;
        for field in fields {
            let Some(read) = value(&self.scan.numbers, field.number) else { continue };
            match field.use_as {
                Use::Counter(counted) => {
                    let scaled = |index: u8, value: f64| {
                        let end = self.scan.numbers.get(usize::from(index)).map_or(0, |span| usize::from(span.end));
                        value * gap::scale(&rendering.text[end..])
                    };
                    let total = if field.total == NO_TOTAL { None } else { value(&self.scan.numbers, field.total) };
                    let (read, total) = (scaled(field.number, read), total.map(|total| scaled(field.total, total)));
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
            self.counters.set_announced(false);
            if let Some(evaluation) = &mut self.evaluation {
                evaluation.has_reported |= self.cache.find(self.scan.shape).is_none();
            }
            match self.candidates.get_mut(slot, generation) {
                Some(series) => {
                    let pace = self.counters.outer_advances();
                    let span = self.scan.numbers[usize::from(field.number)];
                    let length = (span.end - span.start) as u8;
                    let form = Form { shape: self.scan.shape as u16, length, at: self.counters.advances() };
                    if series.is_redrawn(value, rendering.line, pace) || series.is_repeated(value, form) {
                        continue;
                    }
                    let fell = self.counters.fell() & beside;
                    if fell != 0
                        && self.chooser.chosen() == Some(SeriesKey { slot, generation })
                        && !series.is_back_at_start(value)
                    {
                        self.counters.go_on(fell);
                    }
                    series.beside = beside;
                    series.paces = Some((series.paces.map_or(pace, |(first, _)| first), pace));
                    series.take_printed(value, rendering.line, form);
                }
                None => {
                    fresh = false;
                    continue;
                }
            }
            let series = SeriesKey { slot, generation };
            each(ReadEvent::Value(Sample { series, value, rendering }), &View { core: self });
        }
        self.chooser.after_line(&self.candidates);
        each(ReadEvent::End, &View { core: self });
        fresh
    }
}
