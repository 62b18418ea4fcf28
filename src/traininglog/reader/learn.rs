//! Analyses lines of a new shape and keeps a plan for each shape.

use super::core::{Core, ReadEvent, View};
use super::decode::Rendering;
use super::parse::fields::{self, Found, What};
use super::parse::meaning::{Count, Counted, Split};
use super::parse::table::{self, Header};
use super::parse::{lexicon, prefix};
use super::select::plans::{Epochs, Field, NO_TOTAL, Plan, Use};
use super::select::series::Named;

/// Maximum unknown names taken from one line; a line with more is a dump.
const UNKNOWN_MAX: usize = 12;

impl Core {
    /// Analyses a line of a shape that has no plan.
    pub(super) fn learn(
        &mut self,
        key: u64,
        rendering: Rendering<'_>,
        each: &mut impl FnMut(ReadEvent<'_>, &View<'_>),
    ) {
        let line = rendering.text;
        let from = prefix::end(line);
        if let Some(evaluating) =
            heading(&line[from.min(line.len())..], self.scan.numbers.iter().all(|n| usize::from(n.start) < from))
        {
            self.handle_heading(evaluating);
            self.cache.insert(key, Plan::Heading(evaluating));
            return;
        }
        if Header::read(line, from, &self.scan.numbers, self.scan.shape).is_some() {
            self.cache.insert(key, Plan::Header);
            self.remember_header(rendering);
            return;
        }
        let found = fields::fields(line, from, &self.scan.numbers, self.counters.has_outer());
        let is_informative = found.iter().any(|f| match &f.what {
            What::Series { .. } | What::Declared(_) => true,
            What::Counter(counted) => {
                !matches!(counted.count, Count::Lead | Count::Nested | Count::Percent | Count::Tally)
                    || f.total.is_some()
            }
        });
        let fits = |header: &Header| header.fits(line, from);
        let in_table = self.header.as_ref().is_some_and(fits) || self.earlier_header.as_ref().is_some_and(fits);
        if (!is_informative || in_table) && !self.scan.numbers.is_empty() && (in_table || table::is_row(line, from)) {
            self.cache.insert(key, Plan::Row);
            let key = self.scan.shape ^ self.header.as_ref().map_or(0, |header| header.hash.rotate_left(17));
            self.learn_row(key, rendering, each);
            return;
        }
        self.adopt(key, &found, false, rendering, each);
    }

    pub(super) fn learn_row(
        &mut self,
        key: u64,
        rendering: Rendering<'_>,
        each: &mut impl FnMut(ReadEvent<'_>, &View<'_>),
    ) {
        let from = prefix::end(rendering.text);
        let row = |header: &Option<Header>| header.as_ref()?.row(rendering.text, from, &self.scan.numbers);
        // Of two tables, a row belongs to the one with the same number of columns.
        let fits = |header: &Option<Header>| header.as_ref().is_some_and(|header| header.fits(rendering.text, from));
        let is_of_the_earlier = fits(&self.earlier_header) && !fits(&self.header);
        let (first, second) = match is_of_the_earlier {
            true => (&self.earlier_header, &self.header),
            false => (&self.header, &self.earlier_header),
        };
        let found = row(first).or_else(|| row(second));
        let found = found.unwrap_or_else(|| {
            let found = fields::fields(rendering.text, from, &self.scan.numbers, self.counters.has_outer());
            let named = found.iter().any(|f| matches!(f.what, What::Series { .. }));
            let bare = (!named).then(|| table::headless(rendering.text, from, &self.scan.numbers)).flatten();
            bare.unwrap_or(found)
        });
        self.adopt(key, &found, true, rendering, each);
    }

    /// Makes a plan from the findings and follows it.
    fn adopt(
        &mut self,
        key: u64,
        found: &[Found],
        in_row: bool,
        rendering: Rendering<'_>,
        each: &mut impl FnMut(ReadEvent<'_>, &View<'_>),
    ) {
        let bits_of = |is_kept: fn(Count) -> bool| {
            found.iter().fold(0u16, |bits, f| match f.what {
                What::Counter(Counted { count, .. }) if is_kept(count) => bits | 1 << count as u16,
                _ => bits,
            })
        };
        // A percentage beside a bar is optional; any other counter makes it another kind of line.
        let signature = match bits_of(|count| !matches!(count, Count::Percent | Count::Tally)) {
            0 => bits_of(|count| count == Count::Percent),
            bits => bits,
        };
        self.candidates.at_line(rendering.line);
        let mut unknown = 0;
        let mut known = 0u8;
        let mut fields = Vec::with_capacity(found.len());
        for f in found {
            let use_as = match &f.what {
                What::Counter(counted) => Use::Counter(*counted),
                What::Declared(count) => Use::Declared(*count),
                What::Series { name, direction, weight, split } => {
                    unknown += usize::from(*weight == 0.0);
                    if unknown > UNKNOWN_MAX {
                        continue;
                    }
                    let split =
                        if self.evaluation.is_some() && *split == Split::Unsaid { Split::Valid } else { *split };
                    // Cells of a row may be missing, so that only names outside of tables have a stable place.
                    let place = if in_row { 0 } else { known };
                    known += u8::from(*weight > 0.0);
                    let named = Named { place, name, split, signature, direction: *direction, weight: *weight };
                    // Lines like the one before the first count no longer belong to this series.
                    if let Some(begun) = self.candidates.beginning_of(&named) {
                        self.cache.forget(begun);
                    }
                    let (slot, generation) = self.candidates.intern(&named);
                    Use::Series { slot, generation }
                }
            };
            let (Ok(number), total) = (u8::try_from(f.number), f.total.and_then(|t| u8::try_from(t).ok())) else {
                continue;
            };
            fields.push(Field { number, total: total.unwrap_or(NO_TOTAL), use_as });
        }
        if fields.is_empty() {
            self.cache.set_nothing(key);
            return;
        }
        let epochs = if signature & (1 << Count::Epoch as u16) == 0 {
            Epochs::NotCounted
        } else if found.len() == 1 && announces_epoch(rendering.text) {
            Epochs::Announced
        } else {
            Epochs::Counted
        };
        self.apply_fields(&fields, epochs, rendering, each);
        self.cache.insert(key, Plan::Fields { fields: fields.into_boxed_slice(), epochs });
    }

    pub(super) fn remember_header(&mut self, rendering: Rendering<'_>) {
        let line = rendering.text;
        let follows = std::mem::replace(&mut self.header_line, rendering.line) + 1 == rendering.line;
        if self.header.as_ref().is_some_and(|header| header.hash == self.scan.shape) {
            return;
        }
        // Two alternating tables, with a header before each row.
        if self.earlier_header.as_ref().is_some_and(|header| header.hash == self.scan.shape) {
            return std::mem::swap(&mut self.header, &mut self.earlier_header);
        }
        if let Some(header) = Header::read(line, prefix::end(line), &self.scan.numbers, self.scan.shape) {
            let joined = self.header.as_ref().filter(|_| follows).and_then(|above| above.over(&header));
            if joined.is_some() {
                self.header = joined;
                return;
            }
            self.earlier_header = self.header.replace(header);
        }
    }
}

/// Words before the one that says what begins, and words behind it.
const BEFORE: [&str; 7] = ["start", "starting", "begin", "beginning", "run", "running", "now"];
const BEHIND: [&str; 6] = ["at", "on", "of", "epoch", "step", "iteration"];

/// Returns whether a line is the heading of an evaluation ("Eval begin...", "++> Evaluate at epoch 4", `true`) or of training (`false`);
/// `None` for other lines.
fn heading(message: &[u8], has_no_numbers: bool) -> Option<bool> {
    // `TEST:`, `EVAL: False`: keys of a configuration.
    let is_title = message.iter().any(u8::is_ascii_lowercase) || !message.ends_with(b":");
    // `test_pipeline = [` begins a setting; `valid {` begins a section.
    let is_setting =
        message.trim_ascii_end().strip_suffix(b"[").is_some_and(|name| name.trim_ascii_end().ends_with(b"="));
    if message.len() > 64 || !is_title || is_setting {
        return None;
    }
    let text = String::from_utf8_lossy(message);
    let title = text.trim_matches(|c: char| !c.is_alphanumeric());
    // `train epoch  loss` and `train epoch,loss` are headings of columns, and `eval 3/40` counts.
    if title.contains("  ") || title.contains(": ") || title.contains(['\t', '|', ',', '=', '/', '%', '.']) {
        return None;
    }
    let words = lexicon::words(title);
    let mut said = words.iter().map(|word| &**word).skip_while(|word| BEFORE.contains(word));
    let evaluates = match said.next()? {
        "evaluate" | "evaluating" | "evaluation" | "validate" | "validating" | "validation" => true,
        "eval" | "valid" | "testing" | "test" if has_no_numbers => true,
        "train" | "training" if has_no_numbers => false,
        _ => return None,
    };
    let is_count = |word: &str| BEHIND.contains(&word) || word.bytes().all(|byte| byte.is_ascii_digit());
    let fits = words.len() <= 6 && (has_no_numbers || said.all(|word| is_count(word) || lexicon::names_a_split(word)));
    fits.then_some(evaluates)
}

/// Whether a line with a count of epochs says nothing else: `Epoch 3/40`, `--- Starting epoch 3 of 40 ---`.
fn announces_epoch(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line.get(prefix::end(line)..).unwrap_or_default());
    let is_part = |word: &str| {
        let starts = matches!(word, "start" | "starting" | "begin" | "beginning" | "train" | "training");
        starts || matches!(word, "epoch" | "epochs" | "ep" | "of") || word.bytes().all(|byte| byte.is_ascii_digit())
    };
    lexicon::words(&text).iter().all(|word| is_part(word))
}
