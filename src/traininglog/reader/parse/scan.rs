//! Scans a line in one pass: finds its *shape* (a hash that does not depend on the numbers) and the positions of its numbers.
//!
//! Problem: lines of a log come from few templates, and analysing a line costs far more than reading it. Approach: numbers, blanks and the
//! cells of bars collapse, so that all lines of a template have the same hash; the plan of the template is then looked up. Digits inside
//! words (`top5`, `s0.loss`) belong to names and do not collapse.

use super::bytes::{Class, EACH};
use super::commas::{Commas, Shown};
use super::layout::{self, Digit, Layouts, SIGNIFICANT};
use super::notation::{self, is_missing};
use super::number::Span;
use super::numeral::{PLAIN, follows_clock, is_not_finite, number_behind_mark, numeral, signed_not_finite};
use std::ops::Range;

/// Maximum numbers read on one line; a line with more is a dump.
pub(crate) const NUMBERS_MAX: usize = 192;

/// Result of a scan; reused from line to line.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Equal for all lines of a template.
    pub shape: u64,
    /// The numbers, in order.
    pub numbers: Vec<Span>,
    /// Whether the numbers of the line are in plain notation; otherwise [`notation::rewrite`] changes it.
    pub is_plain: bool,
    /// What the commas of its numbers show.
    pub shown: Shown,
    /// The digits that distinguish the line from others of its layout.
    significant: Vec<Digit>,
    /// Whether a mark or a word may belong to a number in another notation.
    is_suspect: bool,
    /// Whether commas are decimal points, which the plain notation does not have.
    has_decimal_commas: bool,
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

    /// Mixes in `length` bytes, eight at a time; the last chunk is loaded with the following bytes and masked.
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
    /// Scans `line`. If commas divide, `1,234` is two numbers.
    pub(crate) fn read(&mut self, line: &[u8], commas: Commas) {
        let key = layout::key(line, commas);
        if let Some(known) = self.layouts.recall(key, line, &mut self.numbers) {
            (self.shape, self.is_plain, self.shown) = known;
            return;
        }
        (self.shown, self.is_suspect) = (Shown::default(), false);
        self.has_decimal_commas = commas == Commas::Decimal;
        self.numbers.clear();
        self.significant.clear();
        self.scan(line, commas == Commas::Divide);
        self.is_plain = !self.is_suspect || notation::is_plain(line, commas);
        let known = (self.shape, self.is_plain, self.shown);
        self.layouts.keep(key, line, known, &self.numbers, &self.significant);
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
        self.is_suspect |= !line[start..at].is_ascii() || line[start] == b'_' && is_between_digits(line, start);
        self.is_suspect |= match letters {
            2 | 4 => is_missing(&line[start..at]),
            3 => is_not_finite(&line[start..at]) && line.get(at).is_some_and(u8::is_ascii_digit), // `NaN32`
            _ => false,
        };
        // `第3轮`: scripts without blanks have no digits in names.
        let joins = line[at - 1].is_ascii();
        if at < line.len() && joins && (line[at].is_ascii_digit() || (joins_digits(line[at]) && letters > 0)) {
            return self.word_with_digits(line, start, at, shape);
        }
        if (letters == 3 || letters == 8) && is_not_finite(&line[start..at]) {
            self.push(start, at, shape);
        }
        at
    }

    /// Reads a word with digits: `Acc@1`, `mAP50-95`, `layer1.0`, `iter_20000`; but `epoch12` is a counter with its number.
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
            self.mark_significant(line, at..end);
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
            // A long run of digits is a counter or a hash within a name, and would give each line another shape.
            let is_variable = end - digits >= 3;
            if !is_variable {
                self.mark_significant(line, digits..end);
            }
            for byte in if is_variable { b"###" } else { &line[at..end] } {
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

    /// Reads a number that begins at `start` with its sign, and whose digits begin at `digits`.
    fn number(&mut self, line: &[u8], start: usize, digits: usize, commas_divide: bool, shape: &mut Shape) -> usize {
        let (end, kind) = numeral(line, digits, commas_divide);
        let has_comma = line[digits..end].contains(&b',') && !follows_clock(line, digits);
        self.is_suspect |= has_comma && self.has_decimal_commas;
        match kind {
            PLAIN => {
                // The first digit is significant: `0,531` has decimals and `5,531` thousands; `0x5` is hexadecimal and `5x5` is not.
                if matches!(line.get(digits + 1), Some(b',' | b'x')) {
                    self.mark_significant(line, digits..digits + 1);
                }
                if has_comma {
                    self.shown.add(&line[digits..end]);
                }
                self.push(start, end, shape);
            }
            other => {
                self.mark_significant(line, digits..end);
                shape.mix(u64::from(other));
            }
        }
        end
    }

    /// Marks the digits in a part of the line as significant: other digits may give another shape.
    fn mark_significant(&mut self, line: &[u8], part: Range<usize>) {
        let more = (SIGNIFICANT + 1).saturating_sub(self.significant.len());
        let digits = part.filter(|at| line[*at].is_ascii_digit()).take(more);
        self.significant.extend(digits.map(|at| Digit { at: at as u16, digit: line[at] }));
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
        if let Some(end) = signed_not_finite(line, start) {
            self.push(start, end, shape);
            return end;
        }
        let mut end = start + 1;
        while end < line.len() && line[end] == byte {
            end += 1;
        }
        self.is_suspect |= match byte {
            b'(' => notation::may_wrap(line, start),
            b'<' => notation::begins_in_angles(line, end - 1),
            b'\'' | b',' => is_between_digits(line, start),
            b'#' => start > 0 && line[start - 1] == b'.',
            _ => false,
        };
        // Rules and ASCII bars have any length; one or two equal marks are punctuation.
        shape.mix(u64::from(byte) | (((end - start).min(2) as u64) << 8));
        end
    }

    /// Reads box drawing and block elements: vertical lines separate cells, all others are bars and frames of any length.
    fn boxes(&mut self, line: &[u8], mut at: usize, shape: &mut Shape) -> usize {
        loop {
            match line.get(at..at + 3) {
                Some([0xE2, 0x94, 0x82 | 0x83] | [0xE2, 0x95, 0x91]) => shape.mix(u64::from(b'|') | 1 << 8),
                Some(cell) if is_cell(cell) => {}
                Some([0xE2, second, third]) => {
                    self.is_suspect |= matches!(second, 0x80 | 0x88); // blanks, dashes and signs
                    shape.mix(u64::from(*second) << 8 | u64::from(*third));
                }
                Some(_) => return at,
                None => return if line.get(at) == Some(&0xE2) { at + 1 } else { at },
            }
            at += 3;
        }
    }
}

/// Whether a character is a cell of a bar or a frame, which may have any length.
#[inline]
pub(crate) fn is_cell(sign: &[u8]) -> bool {
    let divides = matches!(sign, [0xE2, 0x94, 0x82 | 0x83] | [0xE2, 0x95, 0x91]);
    !divides && matches!(sign, [0xE2, 0x94..=0x97 | 0xA0..=0xA3, _])
}

/// Returns the end of the letters that begin at `at`.
#[inline]
fn letters_end(line: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = line.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        // Bytes below `a` or above `z` set the highest bit; underscores and other scripts are checked one by one.
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

fn is_between_digits(line: &[u8], at: usize) -> bool {
    at > 0 && line[at - 1].is_ascii_digit() && line.get(at + 1).is_some_and(u8::is_ascii_digit)
}

fn joins_digits(byte: u8) -> bool {
    matches!(byte, b'@' | b'-' | b'.')
}

/// Whether a word is a counter to which a number may be attached (`epoch12`, `Step-3`), as opposed to names that end in digits.
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
        scan.read(line.as_bytes(), Commas::Guessed);
        scan.numbers.iter().map(|n| String::from_utf8_lossy(n.of(line.as_bytes())).into_owned()).collect()
    }

    fn shape(line: &str) -> u64 {
        let mut scan = Scan::default();
        scan.read(line.as_bytes(), Commas::Guessed);
        scan.shape
    }

    #[test]
    fn numbers_are_distinguished_from_digits_in_names() {
        let cases: &[(&str, &[&str])] = &[
            ("Epoch 3/40 loss=0.1234", &["3", "40", "0.1234"]),
            ("mAP50-95: -0.61 Acc@1 12.5%", &["-0.61", "12.5"]),
            ("Sen. 133,000 : 5,100,0.93 [1,  2000] 0,5312", &["133,000", "5", "100", "0.93", "1", "2000", "0,5312"]),
            ("2022-04-12 17:05:16", &["2022", "04", "12", "17", "05", "16"]),
            // The sign of an infinity is part of it: a log-likelihood of -inf is the worst one.
            ("loss:nan l1: -inf f= 6.9D+01 1e-4.", &["nan", "-inf", "6.9D+01", "1e-4"]),
            ("mse: 7,64196, f: 0,20. 3,4,5 1,25,0.5", &["7,64196", "0,20", "3", "4", "5", "1", "25", "0.5"]),
            ("-Infinity, +inf -nan a-inf 1.e-05 2.", &["-Infinity", "+inf", "-nan", "inf", "1.e-05", "2"]),
            ("v1.2.3 10.0.0.1 0x7f22 iter_20000.state epoch12:", &["12"]),
            ("1.5G 23.53s 2.29it/s inertia 3.5.", &["1.5", "23.53", "2.29", "3.5"]),
        ];
        for (line, expected) in cases {
            assert_eq!(numbers(line), *expected, "{line}");
        }
    }

    #[test]
    fn lines_of_one_template_have_one_shape() {
        assert_eq!(shape("loss: 0.5 [####    ] 3/40"), shape("loss:   12.25e-3 [##  ] 39/40"));
        assert_eq!(shape("50%|█████     | 5/10"), shape("60%|██████    | 6/10"));
        assert_ne!(shape("s0.loss: 0.5"), shape("s1.loss: 0.5"));
        assert_ne!(shape("train loss 1"), shape("valid loss 1"));
    }
}
