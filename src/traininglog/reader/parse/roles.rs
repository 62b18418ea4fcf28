//! Roles of numbers: whole numbers, counts, and numbers that are part of a time, a date, a range or a total.

use super::fields::{Found, LineReader, Role, What};
use super::gap::{self, Left};
use super::lexicon;
use super::meaning::{Count, Counted, Meaning, OF_COUNTER};
use super::phrases;
use crate::Direction;
use memchr::memmem;

impl LineReader<'_> {
    pub(crate) fn is_whole(&self, number: usize) -> bool {
        self.numbers[number].of(self.line).iter().all(|byte| byte.is_ascii_digit() || *byte == b',')
    }

    /// Whether `number` is a possible value of such a counter: most counters are whole.
    pub(crate) fn may_count(&self, number: usize, count: Count) -> bool {
        let has_parts = matches!(count, Count::Epoch | Count::Kimg | Count::Percent);
        has_parts
            || self.is_whole(number)
            || gap::is_whole_decimal(self.numbers[number].of(self.line))
            || gap::scale(self.unit(number)) > 1.0
    }

    /// Whether a number may be a total. In `decoder out (5 frames): 400`, 400 is no number of frames, and a section of a section of a
    /// configuration is about something else.
    pub(crate) fn may_declare(&self, number: usize) -> bool {
        let behind_name = self.gap(number).iter().rev().take_while(|byte| !byte.is_ascii_alphabetic());
        let is_indented = self.line[..self.from].ends_with(b"  ");
        behind_name.into_iter().all(|byte| *byte != b')') && self.path.len() + usize::from(is_indented) < 2
    }

    /// Whether the words between `number` and the next one name a metric: `0 Train total loss: 32440.1`, `94 train 6.12`.
    pub(crate) fn heads_a_metric(&self, number: usize) -> bool {
        let words = self.right(number);
        let names = |name: &str| matches!(lexicon::meaning(name), Meaning::Metric { .. });
        // Whether the value ends the line.
        let is_all = || {
            let value = number + 1;
            value + 1 == self.numbers.len() && !self.is_whole(value) && self.right(value).trim_ascii().is_empty()
        };
        number + 1 < self.numbers.len()
            && (words.trim_ascii_end().ends_with(b":") || is_all())
            && matches!(gap::left(words), Left::Named { name, context } if context.is_empty() && names(&name))
    }

    /// Whether a number is named only by a data split, and a count in brackets follows: `Train: 0 [ 100/1251`, `Train: [0/300][100/1251]`.
    pub(crate) fn is_around_a_count(&self, number: usize, total: Option<usize>, name: &str) -> bool {
        let last = total.unwrap_or(number);
        // `6/80 (  7%) [ 450/464`
        let last = if total.is_some() && self.is_share(last + 1) { last + 1 } else { last };
        let inner = last + 1;
        let is_followed = match self.right(last).trim_ascii() {
            b"[" | b") [" => true,
            b"][" | b"] [" => total.is_some(), // `[0][870/3416]`: the number may be of anything
            _ => false,
        };
        self.is_whole(number)
            && inner < self.numbers.len()
            && is_followed
            && self.total_of(inner).is_some()
            && lexicon::names_a_split(name)
    }

    /// Handles a percentage without a name. In brackets it counts if it is that of the counter before it, which has no total.
    pub(crate) fn percentage(&mut self, number: usize, opened: bool, after_counter: bool) {
        let has_total = self.found.last().is_some_and(|found| found.total.is_some());
        if !opened {
            self.count(number, None, Count::Percent, "");
        } else if after_counter && !has_total && self.is_share(number) {
            self.found.push(Found { number, total: None, what: What::Counter(OF_COUNTER) });
        }
    }

    /// Whether a number is the percentage of the one directly before it: `4310 (86.18%)`, `(4310 86%)`.
    pub(crate) fn is_share(&self, number: usize) -> bool {
        let is_beside = || match self.gap(number).trim_ascii() {
            b"(" => self.right(number).first() == Some(&b')'),
            before => before.is_empty() && self.gap(number - 1).ends_with(b"("),
        };
        number > 0 && number < self.numbers.len() && self.unit(number) == b"%" && is_beside()
    }

    /// Whether the words of a bar, or behind the first count of a line, name a preparation or an evaluation: `Downloading: 12%|`,
    /// `[3/40] Compiling`; or whether it counts bytes.
    pub(crate) fn names_a_preparation(&self, number: usize, last: usize) -> bool {
        let names = |text: &[u8]| phrases::prepares(&String::from_utf8_lossy(text));
        let is_first = number == 0 || self.start(number - 1) < self.from;
        let is_bar = self.unit(number) == b"%" || last > number;
        let behind = || {
            let text = self.right(last);
            gap::first_word(text.strip_prefix(b"]").unwrap_or(text)).is_some_and(|word| names(word.as_bytes()))
        };
        is_bar && (names(self.gap(number)) || is_first && (behind() || memmem::find(self.line, b"B/s").is_some()))
    }

    /// Whether a pair in brackets is the ratio of the score before it: `Acc: 45.1% (1234/2735)`.
    pub(crate) fn is_ratio_of(&self, number: usize) -> bool {
        let is_score = |found: &Found| matches!(found.what, What::Series { direction: Some(Direction::Up), .. });
        self.found.last().is_some_and(|found| found.number + 1 == number && is_score(found))
    }

    /// Returns the kind of counter that the word after a number names.
    pub(crate) fn counter_on_right(&self, number: usize) -> Option<Count> {
        let word = gap::first_word(self.right(number))?;
        match lexicon::meaning(&word) {
            Meaning::Counter(count) | Meaning::Declared(count) => Some(count),
            _ => None,
        }
    }

    /// Whether a count with this total and name ends in an early stop: `No improvement for 2/10 epochs`.
    pub(crate) fn awaits_a_stop(&self, name: &str, total: usize) -> bool {
        let behind = String::from_utf8_lossy(self.right(total));
        self.counter_on_right(total).is_some() && [name, &*behind].iter().any(|text| phrases::is_about_a_stop(text))
    }

    fn joined_by(&self, number: usize, mark: u8) -> bool {
        let between = usize::from(self.numbers[number].end)..self.start(number + 1);
        self.line.get(between).is_some_and(|text| text == [mark])
    }

    /// Marks numbers that are part of a time or a date: `1:28:35`, `00:29<1`, `2022-04-12`, `06/21/18`.
    pub(crate) fn mark_times_and_dates(&mut self) {
        let mut at = 0;
        while at < self.numbers.len() {
            if self.start(at) < self.from {
                self.role[at] = Role::Taken;
            }
            for (mark, least) in [(b':', 2), (b'-', 3), (b'/', 3)] {
                let mut last = at;
                while last + 1 < self.numbers.len() && self.joined_by(last, mark) {
                    last += 1;
                }
                let two_digits = (at + 1..=last).all(|n| self.length(n) >= 2);
                // `2022-04-12` and `06/21/18` are dates; `1425/1500/1500` is a count.
                let lengths: Vec<usize> = (at..=last).map(|n| self.length(n)).collect();
                let dated = mark == b':' || matches!(lengths[..], [2 | 4, 2, 2] | [2, 2, 4]);
                if last + 1 - at >= least && two_digits && dated && self.is_whole(at) {
                    self.role[at..=last].fill(Role::Taken);
                }
            }
            at += 1;
        }
    }

    /// Marks totals, which belong to the number before: `3/40`, `3 / 40`, `3 of 40`.
    pub(crate) fn mark_totals(&mut self) {
        for number in 1..self.numbers.len() {
            let free = self.role[number] == Role::Free && self.role[number - 1] == Role::Free;
            let unit = self.unit(number - 1);
            let counted = unit.is_empty() || !unit.is_ascii() && phrases::counter_unit(unit).is_some();
            if free && self.is_whole(number) && counted && self.divides(number) {
                self.role[number] = Role::Taken;
                // `1502/2900/2900` is a single count without a total; the last number is the overall count.
                let third = number + 1;
                if third < self.numbers.len() && self.joined_by(number, b'/') && self.is_whole(third) {
                    self.role[third] = Role::Taken;
                }
            }
        }
    }

    /// Whether `number` is the total of the one before it: `3/40`, or `[3 | 40]` alone in brackets.
    fn divides(&self, number: usize) -> bool {
        let in_brackets = || {
            let before = self.gap(number - 1).trim_ascii_end().last();
            let after = self.right(number).trim_ascii_start().first();
            matches!((before, after), (Some(b'['), Some(b']')) | (Some(b'('), Some(b')')))
        };
        gap::divides(self.gap(number)) || self.gap(number).trim_ascii() == b"|" && in_brackets()
    }

    /// Marks the ends of ranges, which are the counts: `minibatches 10-19`.
    pub(crate) fn mark_ranges(&mut self) {
        for number in 1..self.numbers.len() {
            let free = self.role[number] == Role::Free && self.role[number - 1] == Role::Free;
            let value = |n: usize| super::number::parse(self.numbers[n].of(self.line));
            let joined = free && self.joined_by(number - 1, b'-') && self.is_whole(number) && self.is_whole(number - 1);
            if joined && value(number - 1) < value(number) {
                self.role[number] = Role::Taken;
            }
        }
    }

    /// Returns the end of the range that `number` begins, or `number`.
    pub(crate) fn range_end(&self, number: usize) -> usize {
        let next = number + 1;
        let joined = |number: usize, mark: u8| {
            number + 1 < self.numbers.len() && self.role[number + 1] == Role::Taken && self.joined_by(number, mark)
        };
        match (joined(number, b'-'), joined(number, b'/') && joined(next, b'/')) {
            (true, _) => next,
            (_, true) => next + 1,
            _ => number,
        }
    }

    pub(crate) fn total_of(&self, number: usize) -> Option<usize> {
        let next = number + 1;
        let taken = next < self.numbers.len()
            && self.role[next] == Role::Taken
            && self.role[number] == Role::Free
            && self.range_end(number) == number;
        (taken && self.divides(next)).then_some(next)
    }

    /// Returns the full name of a numbered part: `Style 2 loss`.
    pub(crate) fn numbered(&mut self, number: usize, name: &str) -> Option<String> {
        let before = number.checked_sub(1)?;
        let part = matches!(self.found.last()?, Found { number, what: What::Series { weight: 0.0, .. }, .. } if *number == before);
        let text = String::from_utf8_lossy(self.gap(before)).into_owned();
        let head = text.trim_end().rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
        let straight = text.ends_with(' ') && self.gap(number).first() == Some(&b' ') && !head.is_empty();
        if !(part && straight && self.is_whole(before)) {
            return None;
        }
        self.found.pop();
        let digits = String::from_utf8_lossy(self.numbers[before].of(self.line));
        Some(format!("{head} {digits} {name}"))
    }

    /// Returns the value after a count between it and its name, and takes the count: `Train loss 40 0.853`, `Validation loss 40: 0.9`.
    pub(crate) fn value_after_count(&mut self, number: usize, total: Option<usize>, name: &str) -> Option<usize> {
        let value = number + 1;
        let is_counted = total.is_some() || self.found.iter().any(|found| matches!(found.what, What::Counter(_)));
        if is_counted || value >= self.numbers.len() || self.role[value] != Role::Free {
            return None;
        }
        let is_plain = self.unit(number).is_empty() && self.unit(value).is_empty();
        let is_beside = self.gap(value).iter().all(|byte| matches!(byte, b' ' | b':'));
        if !(is_plain && is_beside && self.is_whole(number) && !self.is_whole(value)) {
            return None;
        }
        self.role[value] = Role::Taken;
        let what = What::Counter(Counted { count: Count::Lead, label: lexicon::label_of(name) });
        self.found.push(Found { number, total: None, what });
        Some(value)
    }

    /// Returns the percentage after a ratio, which is the value: `Accuracy: 9500/10000 (95%)`.
    pub(crate) fn percent_of_ratio(&mut self, number: usize, total: Option<usize>) -> Option<usize> {
        let percent = total? + 1;
        let is_percent =
            percent < self.numbers.len() && self.unit(percent) == b"%" && self.gap(percent).trim_ascii() == b"(";
        if !is_percent {
            return None;
        }
        self.role[percent] = Role::Taken;
        debug_assert!(percent > number);
        Some(percent)
    }
}
