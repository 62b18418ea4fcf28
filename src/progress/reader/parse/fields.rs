//! One line → what each of its numbers is called: a series, a counter, a declared end, or nothing.
//!
//! Problem: `loss: 0.5`, `loss=0.5`, `loss 0.5`, `0.5 loss`, `{'loss': 0.5}`, `Cost after iteration 3: 0.5`, `Loss 0.5 (0.6)`.
//! Approach: a number is named by the words between it and the nearest boundary on its left; where there are none, by a
//! bracket's owner, by the words on its right, or by what an earlier counter left over. Slow and careful: its result is kept
//! for all lines of the same shape. Imports: model, its siblings.

use super::counting;
use super::gap::{self, Left};
use super::lexicon;
use super::meaning::{Count, Counted, Meaning, Split};
use super::number::Span;
use crate::model::Direction;

/// What one number of a line stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Index among the line's numbers.
    pub number: usize,
    /// Index of the number that says how many there will be.
    pub total: Option<usize>,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A value of a named series; `weight` 0 for a name that says nothing.
    Series { name: String, direction: Option<Direction>, weight: f32, split: Split },
    /// A progress counter; the label tells counters of one kind apart.
    Counter(Counted),
    /// Perhaps how many there will be.
    Declared(Count),
}

/// What the numbers of a line are, as far as the line alone says.
/// `counting`: epochs were counted on lines before.
pub fn fields(line: &[u8], from: usize, numbers: &[Span], counting: bool) -> Vec<Found> {
    let mut reader = LineReader {
        line,
        from,
        numbers,
        role: vec![Role::Free; numbers.len()],
        found: Vec::new(),
        split: Split::Unsaid,
        path: Vec::new(),
        bar_of: None,
        left_over: None,
    };
    // What is told beside a checkpoint is told again, or was measured for it.
    if gap::saves(line.get(from..).unwrap_or_default()) {
        reader.split = Split::Test;
    }
    reader.mark_times_and_dates();
    reader.mark_totals();
    reader.mark_ranges();
    for number in 0..numbers.len() {
        reader.follow_braces(number);
        match reader.role[number] {
            Role::Free => reader.read(number),
            Role::Taken => reader.overhear(number),
        }
    }
    reader.finish(counting)
}

/// Longest name with the keys of its braces, in bytes.
const PATH_MAX: usize = 96;

/// How typical a numbered part is beside the whole.
const OF_A_PART: f32 = 0.75;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    Free,
    /// Part of a time, a date, a total, or a repetition.
    Taken,
}

pub struct LineReader<'a> {
    pub line: &'a [u8],
    pub from: usize,
    pub numbers: &'a [Span],
    pub role: Vec<Role>,
    pub found: Vec<Found>,
    /// The part of the data that the line spoke of last.
    split: Split,
    /// Keys of the enclosing braces.
    path: Vec<String>,
    /// What the bar counts whose percentage was named (`Epochs:  33%|███ | 1/3`), until the count comes.
    bar_of: Option<Count>,
    /// `Cost` of `Cost after iteration 3: 0.5`, until the value comes.
    left_over: Option<String>,
}

impl<'a> LineReader<'a> {
    pub fn start(&self, number: usize) -> usize {
        usize::from(self.numbers[number].start)
    }

    /// The end of a number with the unit that is glued to it.
    fn end(&self, number: usize) -> usize {
        let end = usize::from(self.numbers[number].end);
        end + gap::unit(&self.line[end..]).len()
    }

    pub fn unit(&self, number: usize) -> &'a [u8] {
        gap::unit(&self.line[usize::from(self.numbers[number].end)..])
    }

    /// The text between the previous number and this one.
    pub fn gap(&self, number: usize) -> &'a [u8] {
        let begin = if number == 0 { self.from } else { self.end(number - 1).max(self.from) };
        self.line.get(begin..self.start(number)).unwrap_or_default()
    }

    /// The text between this number and the next one, or the end.
    pub fn right(&self, number: usize) -> &'a [u8] {
        let end = if number + 1 < self.numbers.len() { self.start(number + 1) } else { self.line.len() };
        self.line.get(self.end(number)..end).unwrap_or_default()
    }

    pub fn length(&self, number: usize) -> usize {
        usize::from(self.numbers[number].end - self.numbers[number].start)
    }

    /// Keeps the keys of the braces that are open where `number` stands.
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
        if counting::is_counted_and_told(text)
            && let Some(name) = self.left_over.take()
            && let Meaning::Metric { direction, weight, split } = lexicon::meaning(&name)
        {
            return self.series(number, &name, direction, weight, split); // of `loss after 3 epochs: 0.5`
        }
        match gap::left(text) {
            Left::Spread => {}
            Left::Named { name, context } => {
                // `-8.9 per-word bound, 300.5 perplexity estimate …`: what a comma closes may name the number before it.
                if text.trim_ascii_end().ends_with(b",") && self.named_on_right(number, &[]) {
                    return;
                }
                self.hear(&context);
                if let Some(count) = counting::counter_unit(self.unit(number)).filter(|_| !self.unit(number).is_ascii())
                {
                    return self.count(number, total, count, ""); // `第3轮`
                }
                if let Some(count) = counting::counting_phrase(text, &name) {
                    self.left_over = None;
                    self.hear(&name);
                    return self.count(number, total, count, &name);
                }
                self.named(number, total, &name);
            }
            Left::Bare { opened, separated } => self.bare(number, total, opened, separated, text),
        }
    }

    /// Before a time or a date, too, there may stand which part of the data the line speaks of: `valid: eta=0:01:02`.
    fn overhear(&mut self, number: usize) {
        if let Left::Named { context, .. } = gap::left(self.gap(number)) {
            self.hear(&context);
        }
    }

    /// Words outside a name may say which part of the data the line speaks of.
    fn hear(&mut self, context: &str) {
        match lexicon::split_of(&lexicon::words(context)) {
            Split::Unsaid => {}
            split => self.split = split,
        }
    }

    fn named(&mut self, number: usize, total: Option<usize>, name: &str) {
        self.left_over = None;
        let percent = self.unit(number) == b"%";
        let measured = !self.unit(number).is_empty() && !percent && !gap::is_plain_unit(self.unit(number));
        if let Some(head) = counting::head_of_a_count(name)
            && let Some(count) = self.counter_on_right(number).filter(|count| self.may_count(number, *count))
        {
            self.count(number, total, count, "");
            self.left_over = Some(head);
            return;
        }
        if let Some((head, count)) = counting::counter_with_rest(name) {
            let label = name.strip_prefix(head.as_str()).unwrap_or(name);
            self.count(number, total, count, label);
            self.left_over = Some(head);
            return;
        }
        match lexicon::meaning(name) {
            Meaning::Counter(count) | Meaning::Declared(count) if percent => {
                // `Training progress: 22%|███ | 6550/30000` counts percent by name, and something else by its end.
                self.bar_of = Some(count).filter(|count| *count != Count::Percent);
                self.count(number, None, Count::Percent, "");
            }
            // `Training: 22%|███ |`: what a bar begins with is no quality.
            _ if percent && self.right(number).starts_with(b"|") => {
                self.hear(name);
                self.count(number, None, Count::Percent, "");
            }
            // `cycle_A: 1.943` counts nothing.
            Meaning::Counter(count) if self.may_count(number, count) => {
                self.hear(name);
                self.count(number, total, count, name)
            }
            // What stands beside its own end is no end: `epochs 3/40`.
            Meaning::Declared(count) if total.is_some() => {
                self.hear(name);
                self.count(number, total, count, name)
            }
            // The 400 of `decoder out (5 frames): 400` are no frames.
            Meaning::Declared(_) if self.gap(number).contains(&b')') => {}
            Meaning::Declared(count) if self.is_whole(number) => self.push(number, total, What::Declared(count)),
            // `Starting training for 50 epochs`, `max: 12 epochs`.
            _ if counting::announces(name) && self.counter_on_right(number).is_some() => {
                if let Some(count) = self.counter_on_right(number) {
                    self.push(number, total, What::Declared(count));
                }
            }
            Meaning::Metric { direction, weight, split } if !measured && !gap::is_timed(self.right(number)) => {
                let number = self.percent_of_ratio(number, total).unwrap_or(number);
                match self.numbered(number, name) {
                    Some(part) => self.series(number, &part, direction, weight * OF_A_PART, split),
                    None => self.series(number, name, direction, weight, split),
                }
            }
            Meaning::Unknown | Meaning::Counter(_) if !measured && !gap::is_measured(self.right(number)) => {
                if let Some(total) = total
                    && let Some(count) = self.counter_on_right(total)
                {
                    return self.count(number, Some(total), count, "");
                }
                self.hear(name);
                if self.is_whole(number) {
                    self.count(number, total, Count::Tally, name);
                }
                self.series(number, name, None, 0.0, Split::Unsaid);
            }
            Meaning::Other if self.is_whole(number) && counting::indexes(name) => {
                self.hear(name);
                self.count(number, total, Count::Tally, name);
            }
            // `Test net output #0: loss = 0.02`: what is no name of a value may still say where it was measured.
            _ => self.hear(name),
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
        if let Some(name) = self.left_over.take()
            && (separated || last)
            && (unit.is_empty() || unit == b"%")
        {
            if let Meaning::Metric { direction, weight, split } = lexicon::meaning(&name) {
                self.series(number, &name, direction, weight, split);
            }
            return;
        }
        if let Some(count) = counting::counter_unit(unit) {
            return self.count(number, total, count, ""); // ESPnet: `3epoch:train:`
        }
        if unit == b"%" {
            if !opened {
                self.count(number, None, Count::Percent, "");
            }
            return;
        }
        if !unit.is_empty() || !self.is_whole(number) {
            let named = self.named_on_right(number, unit);
            // `Epoch 10: 0.693`, and nothing more.
            let alone = after_counter && separated && unit.is_empty() && self.right(number).trim_ascii().is_empty();
            if !named && alone {
                self.series(number, "value", None, 0.4, Split::Unsaid);
            }
            return;
        }
        match total {
            Some(_) => {
                let count = self.counter_on_right(number + 1).or(self.bar_of.take()).unwrap_or(Count::Pair);
                self.count(number, total, count, "")
            }
            None if first && gap::is_ruled_off(text, self.right(number)) => {
                self.count(number, None, Count::Iteration, "")
            }
            None if first && (gap::leads(text, self.right(number)) || self.heads_a_metric(number)) => {
                self.count(number, None, Count::Lead, "")
            }
            None if after_counter && gap::continues_bracket(text) => self.count(number, None, Count::Nested, ""),
            None => {
                self.named_on_right(number, unit);
            }
        }
    }

    /// `2.663193 avg, 0.002 rate`: words between a nameless number and a boundary name it.
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

    fn counter_on_right(&self, number: usize) -> Option<Count> {
        let word = gap::first_word(self.right(number))?;
        match lexicon::meaning(&word) {
            Meaning::Counter(count) | Meaning::Declared(count) => Some(count),
            _ => None,
        }
    }

    fn count(&mut self, number: usize, total: Option<usize>, count: Count, name: &str) {
        // The first counter of a kind on a line is the line's own; `Best is trial 2` and `best epoch: 3` look back.
        let again = count != Count::Tally
            && self.found.iter().any(|found| matches!(found.what, What::Counter(known) if known.count == count));
        let may_count = self.may_count(number, count);
        let number = self.range_end(number);
        if !again && may_count {
            let label = lexicon::label_of(name);
            self.push(number, total, What::Counter(Counted { count, label }));
        }
    }

    fn series(&mut self, number: usize, name: &str, direction: Option<Direction>, weight: f32, split: Split) {
        // `{"key": "train_loss", "value": 0.5}` names its value in words.
        if name == "value"
            && let Some(key) = gap::key_before(&self.line[..self.start(number)])
            && let Meaning::Metric { direction, weight, split } = lexicon::meaning(&key)
        {
            return self.series(number, &key, direction, weight, split);
        }
        let split = if split == Split::Unsaid { self.split } else { split };
        let mut path: Vec<&str> = self.path.iter().map(String::as_str).filter(|key| !key.is_empty()).collect();
        if path.is_empty() || !matches!(name, "value" | "Value" | "mean") {
            path.push(name);
        }
        let mut full = path.join("/");
        if full.len() > PATH_MAX {
            // What is nearest to the value says most.
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
        // A second column of one name is another series (`Delta_2` twice), and `loss = 0.02 (* 1 = 0.02 loss)` none.
        let name = if repeats == 0 { full } else { format!("{full}#{}", repeats + 1) };
        let weight = if repeats == 0 { weight } else { weight * 0.3 };
        self.push(number, None, What::Series { name, direction, weight, split });
    }

    fn push(&mut self, number: usize, total: Option<usize>, what: What) {
        self.found.push(Found { number, total, what });
    }
}
