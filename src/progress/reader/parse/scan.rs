//! One pass over a line: its *shape* (a hash in which every number is the same) and where its numbers stand.
//!
//! Problem: lines of a log are printed from few templates, and analysing a line costs far more than reading it.
//! Approach: numbers, blanks and the cells of bars collapse, so that two prints of one template hash alike; what a template
//! means is then looked up. Digits inside words (`top5`, `s0.loss`) are names and stay. Imports: its siblings.

use super::bytes::{Class, EACH};
use super::layout::{self, Digit, Layouts, MEANT};
use super::number::Span;
use super::numeral::{PLAIN, number_behind_mark, numeral};
use std::ops::Range;

/// Numbers on one line that are looked at; a line with more is a dump.
pub const NUMBERS_MAX: usize = 192;

/// What one pass found; reused from line to line.
#[derive(Debug, Default)]
pub struct Scan {
    /// Equal for two lines of one template.
    pub shape: u64,
    /// The numbers, in order.
    pub numbers: Vec<Span>,
    /// The digits by which the line is told from others of its layout.
    meant: Vec<Digit>,
    layouts: Layouts,
}

/// The hash under construction (FxHash's mixing step).
#[derive(Clone, Copy)]
struct Shape(u64);

impl Shape {
    #[inline]
    fn mix(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Mixes `length` bytes in, eight at a time; the last ones are loaded with what follows them and cut to size.
    #[inline]
    fn mix_text(&mut self, line: &[u8], start: usize, length: usize) {
        let mut text = &line[start..];
        let mut left = length;
        while left > 0 {
            let chunk = match text.split_first_chunk::<8>() {
                Some((chunk, rest)) => {
                    text = rest;
                    u64::from_le_bytes(*chunk)
                }
                None => text.iter().rev().fold(0, |chunk, byte| (chunk << 8) | u64::from(*byte)),
            };
            let kept = left.min(8);
            self.mix(chunk & (u64::MAX >> (64 - 8 * kept)));
            left -= kept;
        }
        self.mix(length as u64);
    }
}

impl Scan {
    /// Scans `line`. `commas_divide`: this stream is comma separated, so `1,234` is two numbers.
    pub fn read(&mut self, line: &[u8], commas_divide: bool) {
        let key = layout::key(line, commas_divide);
        if let Some(shape) = self.layouts.recall(key, line, &mut self.numbers) {
            self.shape = shape;
            return;
        }
        self.numbers.clear();
        self.meant.clear();
        self.scan(line, commas_divide);
        self.layouts.keep(key, line, self.shape, &self.numbers, &self.meant);
    }

    fn scan(&mut self, line: &[u8], commas_divide: bool) {
        let mut shape = Shape(0);
        let mut at = 0;
        while at < line.len() {
            let byte = line[at];
            at = match Class::of(byte) {
                Class::Letter => self.word(line, at, &mut shape),
                Class::Digit => self.number(line, at, at, commas_divide, &mut shape),
                Class::Blank => at + 1 + line[at + 1..].iter().take_while(|byte| **byte == b' ').count(),
                Class::Box => self.boxes(line, at, &mut shape),
                _ => self.mark(line, at, commas_divide, &mut shape),
            };
        }
        self.shape = shape.0;
    }

    fn word(&mut self, line: &[u8], start: usize, shape: &mut Shape) -> usize {
        let at = letters_end(line, start);
        let letters = at - start;
        shape.mix_text(line, start, letters);
        // `第3轮`: scripts without blanks do not put digits into names.
        let joins = line[at - 1].is_ascii();
        if at < line.len() && joins && (line[at].is_ascii_digit() || (joins_digits(line[at]) && letters > 0)) {
            return self.word_with_digits(line, start, at, shape);
        }
        if (letters == 3 || letters == 8) && is_not_finite(&line[start..at]) {
            self.push(start, at, shape);
        }
        at
    }

    /// `Acc@1`, `mAP50-95`, `layer1.0`, `iter_20000`: digits that belong to the word; but `epoch12` ends in a counter.
    fn word_with_digits(&mut self, line: &[u8], start: usize, letters_end: usize, shape: &mut Shape) -> usize {
        let mut at = letters_end;
        let joined = !line[at].is_ascii_digit();
        if line[at] == b'@' && line.get(at + 1) == Some(&b'.') {
            // `mAP@.5:.95` is one name.
            let tail = line[at..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'@' | b'.' | b':' | b'-'))
                .count();
            let end = at + line[at..at + tail].trim_ascii_end().len();
            self.mean(line, at..end);
            for byte in &line[at..end] {
                shape.mix(u64::from(*byte));
            }
            return end;
        }
        if joined && !line.get(at + 1).is_some_and(u8::is_ascii_digit) {
            return at;
        }
        if ends_in_counter(&line[start..letters_end]) {
            return if joined { at } else { self.number(line, at, at, false, shape) };
        }
        loop {
            let digits = at + usize::from(!line[at].is_ascii_digit());
            let mut end = digits;
            while end < line.len() && line[end].is_ascii_digit() {
                end += 1;
            }
            // A long run is a counter or a hash within a name: it would make each line a shape of its own.
            let any = end - digits >= 3;
            if !any {
                self.mean(line, digits..end);
            }
            for byte in if any { b"###" } else { &line[at..end] } {
                shape.mix(u64::from(*byte));
            }
            at = end;
            match line.get(at) {
                Some(next) if Class::of(*next) == Class::Letter => return self.word(line, at, shape),
                Some(next) if joins_digits(*next) && line.get(at + 1).is_some_and(u8::is_ascii_digit) => {}
                _ => return at,
            }
        }
    }

    /// A number whose text begins at `start` (its sign) and whose digits begin at `digits`.
    fn number(&mut self, line: &[u8], start: usize, digits: usize, commas_divide: bool, shape: &mut Shape) -> usize {
        let (end, kind) = numeral(line, digits, commas_divide);
        match kind {
            PLAIN => {
                // `0,531` has decimals and `5,531` thousands; `0x5` is no `5x5`.
                if matches!(line.get(digits + 1), Some(b',' | b'x')) {
                    self.mean(line, digits..digits + 1);
                }
                self.push(start, end, shape);
            }
            other => {
                self.mean(line, digits..end);
                shape.mix(u64::from(other));
            }
        }
        end
    }

    /// Another digit in this part of the line might make it another shape.
    fn mean(&mut self, line: &[u8], part: Range<usize>) {
        let more = (MEANT + 1).saturating_sub(self.meant.len());
        let digits = part.filter(|at| line[*at].is_ascii_digit()).take(more);
        self.meant.extend(digits.map(|at| Digit { at: at as u16, digit: line[at] }));
    }

    fn push(&mut self, start: usize, end: usize, shape: &mut Shape) {
        shape.mix(u64::from(b'#'));
        if self.numbers.len() < NUMBERS_MAX {
            self.numbers.extend(Span::of_number(start, end));
        }
    }

    fn mark(&mut self, line: &[u8], start: usize, commas_divide: bool, shape: &mut Shape) -> usize {
        let byte = line[start];
        if let Some(digits) = number_behind_mark(line, start) {
            return self.number(line, start, digits, commas_divide, shape);
        }
        let mut end = start + 1;
        while end < line.len() && line[end] == byte {
            end += 1;
        }
        // Rules and the cells of ASCII bars have any length; one or two of a kind are punctuation.
        shape.mix(u64::from(byte) | (((end - start).min(2) as u64) << 8));
        end
    }

    /// Box drawing and block elements: vertical ones divide cells, all others are bars and frames of any length.
    fn boxes(&mut self, line: &[u8], mut at: usize, shape: &mut Shape) -> usize {
        loop {
            match line.get(at..at + 3) {
                Some([0xE2, 0x94, 0x82 | 0x83] | [0xE2, 0x95, 0x91]) => shape.mix(u64::from(b'|') | 1 << 8),
                Some(cell) if is_cell(cell) => {}
                Some([0xE2, second, third]) => shape.mix(u64::from(*second) << 8 | u64::from(*third)),
                Some(_) => return at,
                None => return if line.get(at) == Some(&0xE2) { at + 1 } else { at },
            }
            at += 3;
        }
    }
}

/// A cell of a bar or a frame, of which there may be any number.
#[inline]
pub fn is_cell(sign: &[u8]) -> bool {
    let divides = matches!(sign, [0xE2, 0x94, 0x82 | 0x83] | [0xE2, 0x95, 0x91]);
    !divides && matches!(sign, [0xE2, 0x94..=0x97 | 0xA0..=0xA3, _])
}

/// The end of the letters that begin at `at`.
#[inline]
fn letters_end(line: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = line.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        // What is below `a` or above `z` sets the highest bit, as above; underscores and other scripts are looked at one by one.
        let small = u64::from_le_bytes(*chunk) | (EACH * 0x20);
        let plain = small & (EACH * 0x7F);
        let others = (!(plain + EACH * 0x1F) | (plain + EACH * 0x05) | small) & (EACH * 0x80);
        if others != 0 {
            at += others.trailing_zeros() as usize / 8;
            if Class::of(line[at]) != Class::Letter {
                return at;
            }
            at += 1;
        } else {
            at += 8;
        }
    }
    at + line[at..].iter().take_while(|byte| Class::of(**byte) == Class::Letter).count()
}

fn joins_digits(byte: u8) -> bool {
    matches!(byte, b'@' | b'-' | b'.')
}

fn is_not_finite(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"nan") || word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"infinity")
}

/// Words to which a count is glued (`epoch12`, `Step-3`), unlike names that end in digits.
fn ends_in_counter(word: &[u8]) -> bool {
    const COUNTERS: [&[u8]; 6] = [b"epoch", b"step", b"iter", b"iteration", b"episode", b"batch"];
    COUNTERS.iter().any(|counter| {
        word.len() >= counter.len()
            && word[word.len() - counter.len()..].eq_ignore_ascii_case(counter)
            && (word.len() == counter.len() || !word[word.len() - counter.len() - 1].is_ascii_alphabetic())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(line: &str) -> Vec<String> {
        let mut scan = Scan::default();
        scan.read(line.as_bytes(), false);
        scan.numbers.iter().map(|n| String::from_utf8_lossy(n.of(line.as_bytes())).into_owned()).collect()
    }

    fn shape(line: &str) -> u64 {
        let mut scan = Scan::default();
        scan.read(line.as_bytes(), false);
        scan.shape
    }

    #[test]
    fn numbers_are_told_from_digits_in_names() {
        let cases: &[(&str, &[&str])] = &[
            ("Epoch 3/40 loss=0.1234", &["3", "40", "0.1234"]),
            ("mAP50-95: -0.61 Acc@1 12.5%", &["-0.61", "12.5"]),
            ("Sen. 133,000 : 5,100,0.93 [1,  2000] 0,5312", &["133,000", "5", "100", "0.93", "1", "2000", "0,5312"]),
            ("2022-04-12 17:05:16", &["2022", "04", "12", "17", "05", "16"]),
            ("loss:nan l1: -inf f= 6.9D+01 1e-4.", &["nan", "inf", "6.9D+01", "1e-4"]),
            ("v1.2.3 10.0.0.1 0x7f22 iter_20000.state epoch12:", &["12"]),
            ("1.5G 23.53s 2.29it/s inertia 3.5.", &["1.5", "23.53", "2.29", "3.5"]),
        ];
        for (line, expected) in cases {
            assert_eq!(numbers(line), *expected, "{line}");
        }
    }

    #[test]
    fn prints_of_one_template_have_one_shape() {
        assert_eq!(shape("loss: 0.5 [####    ] 3/40"), shape("loss:   12.25e-3 [##  ] 39/40"));
        assert_eq!(shape("50%|█████     | 5/10"), shape("60%|██████    | 6/10"));
        assert_ne!(shape("s0.loss: 0.5"), shape("s1.loss: 0.5"));
        assert_ne!(shape("train loss 1"), shape("valid loss 1"));
    }
}
