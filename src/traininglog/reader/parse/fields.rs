//! Names the numbers of a line: a series, a counter, a declared total, or nothing.
//!
//! Problem: `loss: 0.5`, `loss=0.5`, `loss 0.5`, `0.5 loss`, `{'loss': 0.5}`, `Cost after iteration 3: 0.5`, `Loss 0.5 (0.6)`. Approach:
//! the words between a number and the nearest boundary on its left name it. Without such words, its name is that before a bracket, that on
//! its right, or the rest of an earlier counter's phrase. This is slow; the result is cached for all lines of the same shape.

use super::gap::{self, Left};
use super::meaning::{Count, Counted, Meaning, Split};
use super::number::Span;
use super::{lexicon, phrases};
use crate::Direction;

/// The finding for one number of a line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// Index among the numbers of the line.
    pub number: usize,
    /// Index of the number that is the total.
    pub total: Option<usize>,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// A value of a named series; `weight` is 0 for an unknown name.
    Series { name: String, direction: Option<Direction>, weight: f32, split: Split },
    /// A progress counter; the label distinguishes counters of one kind.
    Counter(Counted),
    /// Possibly a total.
    Declared(Count),
}

/// Returns the findings of a line. `counting`: whether earlier lines count epochs.
pub(crate) fn fields(line: &[u8], from: usize, numbers: &[Span], counting: bool) -> Vec<Found> {
    let mut reader = LineReader {
        line,
        from,
        numbers,
        role: vec![Role::Free; numbers.len()],
        found: Vec::new(),
        split: Split::Unsaid,
        path: Vec::new(),
        bar_of: None,
        is_aside: false,
        pending_name: None,
    };
    // A value beside a checkpoint is a repetition, or was measured for the checkpoint.
    if gap::repeats(line.get(from..).unwrap_or_default()) {
        reader.split = Split::Test;
    }
    reader.mark_times_and_dates();
    reader.mark_totals();
    reader.mark_ranges();
    for number in 0..numbers.len() {
        reader.follow_braces(number);
        match reader.role[number] {
            Role::Free => reader.read(number),
            Role::Taken => reader.note_context_before(number),
        }
    }
    reader.finish(counting)
}

/// Maximum bytes of a name with the keys of its braces.
const PATH_MAX: usize = 96;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    Free,
    /// Part of a time, a date, a total, or a repetition.
    Taken,
}

pub(crate) struct LineReader<'a> {
    pub line: &'a [u8],
    pub from: usize,
    pub numbers: &'a [Span],
    pub role: Vec<Role>,
    pub found: Vec<Found>,
    /// The data split that the line named last.
    split: Split,
    /// Keys of the enclosing braces.
    pub path: Vec<String>,
    /// The counter of a bar with a named percentage (`Epochs:  33%|███ | 1/3`), until its count is read.
    bar_of: Option<Count>,
    /// Whether a bar belongs to a preparation or an evaluation.
    is_aside: bool,
    /// `Cost` of `Cost after iteration 3: 0.5`, until its value is read.
    pending_name: Option<String>,
}

impl<'a> LineReader<'a> {
    pub(crate) fn start(&self, number: usize) -> usize {
        usize::from(self.numbers[number].start)
    }

    /// The end of a number with its attached unit.
    fn end(&self, number: usize) -> usize {
        let end = usize::from(self.numbers[number].end);
        end + gap::unit(&self.line[end..]).len()
    }

    pub(crate) fn unit(&self, number: usize) -> &'a [u8] {
        gap::unit(&self.line[usize::from(self.numbers[number].end)..])
    }

    /// The text between the previous number and this one.
    pub(crate) fn gap(&self, number: usize) -> &'a [u8] {
        let begin = if number == 0 { self.from } else { self.end(number - 1).max(self.from) };
        self.line.get(begin..self.start(number)).unwrap_or_default()
    }

    /// The text between this number and the next one, or the end.
    pub(crate) fn right(&self, number: usize) -> &'a [u8] {
        let end = if number + 1 < self.numbers.len() { self.start(number + 1) } else { self.line.len() };
        self.line.get(self.end(number)..end).unwrap_or_default()
    }

    pub(crate) fn length(&self, number: usize) -> usize {
        usize::from(self.numbers[number].end - self.numbers[number].start)
    }

    /// Updates the keys of the braces that are open at `number`.
    fn follow_braces(&mut self, number: usize) {
        let text = self.gap(number);
        for (at, byte) in text.iter().enumerate() {
            match byte {
                b'{' => {
                    let key = match gap::left(&text[..at]) {
                        Left::Named { name, .. } => name,
                        _ => String::new(),
                    };
                    if self.path.len() < 8 {
                        self.path.push(key);
                    }
                }
                b'}' => drop(self.path.pop()),
                _ => {}
            }
        }
    }

    fn read(&mut self, number: usize) {
        let text = self.gap(number);
        let total = self.total_of(number);
        self.is_aside |= self.names_a_preparation(number, total.unwrap_or(number));
        if phrases::is_unit_before_value(text)
            && let Some(name) = self.pending_name.take()
            && let Meaning::Metric { direction, weight, split } = lexicon::meaning(&name)
        {
            return self.series(number, &name, direction, weight, split); // of `loss after 3 epochs: 0.5`
        }
        match gap::left(text) {
            Left::Spread => {}
            Left::Named { name, context } => {
                // `-8.9 per-word bound, 300.5 perplexity estimate …`: words before a comma may name the number before them.
                if text.trim_ascii_end().ends_with(b",") && self.named_on_right(number, &[]) {
                    return;
                }
                self.note_context(&context);
                if let Some(count) = phrases::counter_unit(self.unit(number)).filter(|_| !self.unit(number).is_ascii())
                {
                    return self.count(number, total, count, ""); // `第3轮`
                }
                if let Some(count) = phrases::counting_phrase(text, &name) {
                    self.pending_name = None;
                    self.note_context(&name);
                    return self.count(number, total, count, &name);
                }
                self.named(number, total, &name);
            }
            Left::Bare { opened, separated } => self.bare(number, total, opened, separated, text),
        }
    }

    /// Notes the data split in words before a time or a date: `valid: eta=0:01:02`.
    fn note_context_before(&mut self, number: usize) {
        if let Left::Named { context, .. } = gap::left(self.gap(number)) {
            self.note_context(&context);
        }
    }

    /// Notes the data split in words outside of a name.
    fn note_context(&mut self, context: &str) {
        match lexicon::split_of(&lexicon::words(context)) {
            Split::Unsaid => {}
            split => self.split = split,
        }
    }

    fn named(&mut self, number: usize, total: Option<usize>, name: &str) {
        self.pending_name = None;
        let percent = self.unit(number) == b"%";
        let measured = !self.unit(number).is_empty() && !percent && !gap::is_plain_unit(self.unit(number));
        if let Some(head) = phrases::head_of_a_count(name)
            && let Some(count) = self.counter_on_right(number).filter(|count| self.may_count(number, *count))
        {
            self.count(number, total, count, "");
            self.pending_name = Some(head);
            return;
        }
        if let Some((head, count)) = phrases::counter_with_rest(name)
            && self.may_count(number, count)
        {
            let label = name.strip_prefix(head.as_str()).unwrap_or(name);
            self.count(number, total, count, label);
            self.pending_name = Some(head);
            return;
        }
        if self.is_around_a_count(number, total, name) {
            self.note_context(name);
            return self.count(number, total, Count::Epoch, &format!("{name} epoch"));
        }
        match lexicon::meaning(name) {
            Meaning::Counter(count) | Meaning::Declared(count) if percent => {
                // `Training progress: 22%|███ | 6550/30000` counts percent by its name, and another unit at its end.
                self.bar_of = Some(count).filter(|count| *count != Count::Percent);
                self.count(number, None, Count::Percent, "");
            }
            // `Training: 22%|███ |`, `training 22% complete`: no evaluation.
            _ if percent && gap::is_of_progress(self.right(number)) => {
                self.note_context(name);
                self.count(number, None, Count::Percent, "");
            }
            // `Progress: 400 / 1600`
            Meaning::Counter(Count::Percent) if total.is_some() => self.count(number, total, Count::Pair, name),
            // `cycle_A: 1.943` counts nothing.
            Meaning::Counter(count) if self.may_count(number, count) => {
                self.note_context(name);
                self.count(number, total, count, name)
            }
            Meaning::Declared(count) if total.is_some() => {
                self.note_context(name);
                self.count(number, total, count, name)
            }
            Meaning::Declared(count) if self.is_whole(number) && self.may_declare(number) => {
                self.push(number, total, What::Declared(count));
            }
            // `Starting training for 50 epochs`, `max: 12 epochs`.
            _ if phrases::announces(name) && self.counter_on_right(number).is_some() => {
                if let Some(count) = self.counter_on_right(number) {
                    self.push(number, total, What::Declared(count));
                }
            }
            Meaning::Metric { direction, weight, split } if !measured && !gap::is_timed(self.right(number)) => {
                let percent = self.percent_of_ratio(number, total);
                // `[Train 10/1882]` counts, `Test: 9500/10000 (95%)` is a ratio.
                if percent.is_none() && total.is_some() && lexicon::names_a_split(name) {
                    self.note_context(name);
                    return self.count(number, total, Count::Pair, name);
                }
                let number = percent.or_else(|| self.value_after_count(number, total, name)).unwrap_or(number);
                match self.numbered(number, name) {
                    Some(part) => self.series(number, &part, direction, 0.75 * weight, split),
                    None => self.series(number, name, direction, weight, split),
                }
            }
            Meaning::Unknown if total.is_some_and(|total| self.awaits_a_stop(name, total)) => {}
            Meaning::Unknown | Meaning::Counter(_) if !measured && !gap::is_measured(self.right(number)) => {
                if let Some(total) = total
                    && let Some(count) = self.counter_on_right(total)
                {
                    return self.count(number, Some(total), count, "");
                }
                self.note_context(name);
                if self.is_whole(number) {
                    self.count(number, total, Count::Tally, name);
                }
                self.series(number, name, None, 0.0, Split::Unsaid);
            }
            Meaning::Other if self.is_whole(number) && phrases::indexes(name) => {
                self.note_context(name);
                self.count(number, total, Count::Tally, name);
            }
            // `Test net output #0: loss = 0.02`: other words may still name the data split.
            _ => self.note_context(name),
        }
    }

    fn bare(&mut self, number: usize, total: Option<usize>, opened: bool, separated: bool, text: &[u8]) {
        let unit = self.unit(number);
        let first = number == 0 || (0..number).all(|n| self.start(n) < self.from);
        let after_counter = number > 0
            && self.found.last().is_some_and(|f| {
                matches!(f.what, What::Counter(_)) && f.number + 1 + usize::from(f.total.is_some()) == number
            });
        // `Cost after iteration 3: 0.5`, and `fitness at iteration 100 -1036.2` at the end of a line.
        let last = number + 1 == self.numbers.len() && text.trim_ascii().is_empty() && !self.is_whole(number);
        if let Some(name) = self.pending_name.take()
            && (separated || last)
            && (unit.is_empty() || unit == b"%")
        {
            if let Meaning::Metric { direction, weight, split } = lexicon::meaning(&name) {
                self.series(number, &name, direction, weight, split);
            }
            return;
        }
        if let Some(count) = phrases::counter_unit(unit) {
            return self.count(number, total, count, ""); // ESPnet: `3epoch:train:`
        }
        if unit == b"%" {
            return self.percentage(number, opened, after_counter);
        }
        if !unit.is_empty() || !self.is_whole(number) {
            let named = self.named_on_right(number, unit);
            // The whole line is `Epoch 10: 0.693`, or ends like `(500 5%) 0.693`.
            let alone = after_counter && unit.is_empty() && self.right(number).trim_ascii().is_empty();
            if !named && alone && (separated || text == b") ") {
                self.series(number, "value", None, 0.4, Split::Unsaid);
            }
            return;
        }
        match total {
            Some(total) if self.awaits_a_stop("", total) || opened && self.is_ratio_of(number) => {}
            Some(_) => {
                let count = self.counter_on_right(number + 1).or(self.bar_of.take()).unwrap_or(Count::Pair);
                self.count(number, total, count, "")
            }
            None if first && gap::is_ruled_off(text, self.right(number)) => {
                self.count(number, None, Count::Iteration, "")
            }
            None if first
                && (gap::leads(text, self.right(number))
                    || self.heads_a_metric(number)
                    || text.is_empty() && self.is_share(number + 1))
                || opened && self.is_share(number + 1) =>
            {
                self.count(number, None, Count::Lead, "")
            }
            None if after_counter && gap::continues_bracket(text) => self.count(number, None, Count::Nested, ""),
            None => {
                self.named_on_right(number, unit);
            }
        }
    }

    /// Handles a number that is named by the words between it and a boundary: `2.663193 avg, 0.002 rate`. Returns whether it is.
    fn named_on_right(&mut self, number: usize, unit: &[u8]) -> bool {
        let ends_line = number + 1 >= self.numbers.len();
        let Some(name) = gap::right_name(self.right(number), ends_line) else { return false };
        if !unit.is_empty() && unit != b"%" {
            return false;
        }
        let Meaning::Metric { direction, weight, split } = lexicon::meaning(&name) else { return false };
        self.series(number, &name, direction, weight, split);
        true
    }

    pub(crate) fn count(&mut self, number: usize, total: Option<usize>, count: Count, name: &str) {
        // The first counter of a kind is that of the line; `Best is trial 2` and `best epoch: 3` refer to earlier lines.
        let again = count != Count::Tally
            && self.found.iter().any(|found| matches!(found.what, What::Counter(known) if known.count == count));
        let may_count = self.may_count(number, count);
        let is_aside = self.is_aside && matches!(count, Count::Pair | Count::Percent);
        let number = self.range_end(number);
        if !again && may_count && !is_aside {
            let label = lexicon::label_of(name);
            self.push(number, total, What::Counter(Counted { count, label }));
        }
    }

    fn series(&mut self, number: usize, name: &str, direction: Option<Direction>, weight: f32, split: Split) {
        // `{"key": "train_loss", "value": 0.5}` has the name in a string.
        if name == "value"
            && let Some(key) = gap::key_before(&self.line[..self.start(number)])
            && let Meaning::Metric { direction, weight, split } = lexicon::meaning(&key)
        {
            self.path.clear(); // the keys around the pair are not its name
            return self.series(number, &key, direction, weight, split);
        }
        let split = if split == Split::Unsaid { self.split } else { split };
        let mut path: Vec<&str> =
            self.path.iter().map(String::as_str).filter(|key| !key.is_empty() && *key != "data").collect();
        if path.is_empty() || !matches!(name, "value" | "Value" | "mean") {
            path.push(name);
        }
        let mut full = path.join("/");
        if full.len() > PATH_MAX {
            // The keys nearest to the value are the most informative.
            let cut = (full.len() - PATH_MAX..).find(|at| full.is_char_boundary(*at)).unwrap_or(0);
            full.drain(..cut);
        }
        let (direction, weight) = match (full != name).then(|| lexicon::meaning(&full)) {
            Some(Meaning::Metric { direction, weight, .. }) => (direction, weight),
            Some(Meaning::Other | Meaning::Counter(_) | Meaning::Declared(_)) => return,
            Some(Meaning::Unknown) | None => (direction, weight),
        };
        let same =
            |found: &Found| matches!(&found.what, What::Series { name, split: s, .. } if *name == full && *s == split);
        let repeats = self.found.iter().filter(|found| same(found)).count();
        // A second value with the same name is another series (`Delta_2` twice), or a repetition (`loss = 0.02 (* 1 = 0.02 loss)`).
        let name = if repeats == 0 { full } else { format!("{full}#{}", repeats + 1) };
        let weight = if repeats == 0 { weight } else { weight * 0.3 };
        self.push(number, None, What::Series { name, direction, weight, split });
    }

    fn push(&mut self, number: usize, total: Option<usize>, what: What) {
        self.found.push(Found { number, total, what });
    }
}
