//! The lines that come most, kept as they are printed: another print of one is recognised without hashing its text.
//!
//! Problem: most lines of a log are prints of few templates in a row or in turn, and each byte of them is hashed again.
//! Approach: an *outline* is one line's text with gaps for its numbers, blanks and bars. A line is walked along the outlines that
//! followed the latest one before; one that differs is scanned. Properties: a line that fits has the shape and the numbers that
//! a scan of it finds; what could read otherwise between other numbers gets no outline. Imports: its siblings.

use super::numeral::{self, PLAIN};
use super::scan::{self, Class, NUMBERS_MAX, Span};

/// Outlines kept; then one that was not used of late makes room.
pub(super) const OUTLINES_MAX: usize = 40;

/// Longest outline, in bytes. A longer line is scanned each time.
const LENGTH_MAX: usize = 800;

/// All outlines together, in bytes.
pub(super) const BYTES_MAX: usize = 8 * 1024;

/// Scanned shapes that are remembered: one that comes again is worth an outline.
const SCANNED: usize = 32;

/// Bytes compared at once.
const CHUNK: usize = 8;

// The parts of an outline, a byte each (`SPACED` is blanks and a number); `TEXT` and `WORD` (`nan`, a number in
// letters) are followed by their length and their bytes, `RUN` by the byte that repeats.
const END: u8 = 0;
const NUMBER: u8 = 1;
const BLANKS: u8 = 2;
const BAR: u8 = 3;
const RUN: u8 = 4;
const TEXT: u8 = 5;
const WORD: u8 = 6;
const SPACED: u8 = 7;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Outlines {
    /// Of each outline; zero where it made room.
    shapes: Vec<u64>,
    known: Vec<Outline>,
    /// The one that a line fitted last.
    latest: usize,
    /// The next that may make room.
    hand: usize,
    bytes: usize,
    scanned: [u64; SCANNED],
    oldest_scanned: usize,
    /// Whether a comma is never part of a number.
    commas_divide: bool,
}

#[derive(Debug)]
struct Outline {
    parts: Box<[u8]>,
    /// The outlines that came after this one, the latest first.
    next: [u8; 2],
    /// Since the hand passed.
    used: bool,
}

impl Outlines {
    /// Whether a comma is never part of a number from now on.
    #[inline]
    pub(super) fn divide_at_commas(&mut self, commas_divide: bool) {
        if self.commas_divide != commas_divide {
            *self = Outlines { commas_divide, ..Outlines::default() };
        }
    }

    /// The shape of `line` if it fits an outline, and its numbers; `None` and no numbers otherwise.
    #[inline]
    pub(super) fn recognise(&mut self, line: &[u8], numbers: &mut Vec<Span>) -> Option<u64> {
        let [first, second] = self.known.get(self.latest)?.next;
        for next in [first, second] {
            if let Some(outline) = self.known.get_mut(usize::from(next))
                && fits(&outline.parts, line, self.commas_divide, numbers)
            {
                outline.used = true;
                self.turn_to(usize::from(next));
                return Some(self.shapes[usize::from(next)]);
            }
            numbers.clear();
        }
        None
    }

    /// Takes a line that was scanned.
    pub(super) fn scanned(&mut self, shape: u64, line: &[u8], numbers: &[Span]) {
        if let Some(known) = self.shapes.iter().position(|known| *known == shape) {
            self.known[known].used = true;
            return self.turn_to(known);
        }
        if !self.scanned.contains(&shape) {
            self.scanned[self.oldest_scanned] = shape;
            self.oldest_scanned = (self.oldest_scanned + 1) % SCANNED;
            return;
        }
        // A line without an outline takes a place, so that this is not found out again and again.
        let parts = parts(line, self.commas_divide, numbers).unwrap_or_default();
        let place = self.room_for(parts.len());
        self.bytes += parts.len();
        let outline = Outline { parts, next: [place as u8, self.latest as u8], used: true };
        if place == self.known.len() {
            self.known.push(outline);
            self.shapes.push(shape);
        } else {
            (self.known[place], self.shapes[place]) = (outline, shape);
        }
        self.turn_to(place);
    }

    /// An empty place for an outline of `length` bytes.
    fn room_for(&mut self, length: usize) -> usize {
        if self.known.len() < OUTLINES_MAX && self.bytes + length <= BYTES_MAX {
            return self.known.len();
        }
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.known.len();
            let outline = &mut self.known[place];
            if std::mem::take(&mut outline.used) {
                continue;
            }
            self.bytes -= outline.parts.len();
            (self.shapes[place], outline.parts) = (0, Box::new([]));
            if self.bytes + length <= BYTES_MAX {
                return place;
            }
        }
    }

    /// How many there are, and their bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        let bytes = self.known.iter().map(|outline| outline.parts.len()).sum();
        assert_eq!(bytes, self.bytes);
        (self.known.len(), bytes)
    }

    #[inline]
    fn turn_to(&mut self, place: usize) {
        if let Some(Outline { next, .. }) = self.known.get_mut(self.latest)
            && usize::from(next[0]) != place
        {
            *next = [place as u8, next[0]];
        }
        self.latest = place;
    }
}

/// Whether `line` is another print of the outline; its numbers are appended.
#[inline]
fn fits(parts: &[u8], line: &[u8], commas_divide: bool, numbers: &mut Vec<Span>) -> bool {
    let (mut part, mut at) = (0, 0);
    while let Some(kind) = parts.get(part) {
        match *kind {
            TEXT | WORD => {
                let length = usize::from(parts[part + 1]);
                part += 2;
                if !begins_with(&line[at..], &parts[part..], length) {
                    return false;
                }
                if *kind == WORD {
                    numbers.extend(Span::of_number(at, at + length));
                }
                (part, at) = (part + length, at + length);
                continue;
            }
            NUMBER | SPACED => {
                if *kind == SPACED {
                    let Some(end) = blanks_end(line, at) else { return false };
                    at = end;
                }
                let Some(digits) = number_at(line, at) else { return false };
                let (end, kind) = numeral::numeral(line, digits, commas_divide);
                let Some(span) = Span::of_number(at, end).filter(|_| kind == PLAIN) else { return false };
                numbers.push(span);
                at = end;
            }
            BLANKS => {
                let Some(end) = blanks_end(line, at) else { return false };
                at = end;
            }
            BAR => {
                let end = bar_end(line, at);
                if end == at {
                    return false;
                }
                at = end;
            }
            RUN => {
                part += 1;
                let run = line[at..].iter().take_while(|byte| **byte == parts[part]).count();
                if run < 2 {
                    return false;
                }
                at += run;
            }
            _ => return at == line.len(),
        }
        part += 1;
    }
    false
}

/// The end of the blanks at `at`, of which there must be one.
#[inline]
fn blanks_end(line: &[u8], at: usize) -> Option<usize> {
    let blank = |at: usize| line.get(at).is_some_and(|byte| Class::of(*byte) == Class::Blank);
    let mut end = at;
    while blank(end) {
        end += 1;
    }
    (end > at).then_some(end)
}

/// Whether `line` begins with the first `length` bytes of `text`, behind which more than [`CHUNK`] bytes stand.
#[inline]
fn begins_with(mut line: &[u8], mut text: &[u8], mut length: usize) -> bool {
    loop {
        let (Some(here), Some(there)) = (line.first_chunk::<CHUNK>(), text.first_chunk::<CHUNK>()) else {
            return line.starts_with(&text[..length]);
        };
        let differing = u64::from_le_bytes(*here) ^ u64::from_le_bytes(*there);
        if length <= CHUNK {
            return length == 0 || differing << (64 - 8 * length) == 0;
        }
        if differing != 0 {
            return false;
        }
        (line, text, length) = (&line[CHUNK..], &text[CHUNK..], length - CHUNK);
    }
}

/// Where the digits of a number that begins at `at` begin, as a scan would find it there.
#[inline]
fn number_at(line: &[u8], at: usize) -> Option<usize> {
    let byte = *line.get(at)?;
    if byte.is_ascii_digit() {
        return Some(at);
    }
    // Two equal marks are punctuation.
    let repeats = at > 0 && line[at - 1] == byte;
    if repeats { None } else { numeral::number_behind_mark(line, at) }
}

/// The end of the blanks and bar cells that begin at `at`.
fn bar_end(line: &[u8], mut at: usize) -> usize {
    loop {
        match line.get(at) {
            Some(0xE2) if line.get(at..at + 3).is_some_and(scan::is_cell) => at += 3,
            Some(byte) if Class::of(*byte) == Class::Blank => at += 1,
            _ => return at,
        }
    }
}

/// The outline of a line with these numbers; `None` if the text before a number could read otherwise before another one.
fn parts(line: &[u8], commas_divide: bool, numbers: &[Span]) -> Option<Box<[u8]>> {
    if line.len() > 2 * LENGTH_MAX || numbers.len() >= NUMBERS_MAX || line.windows(2).any(|pair| pair == b"@.") {
        return None;
    }
    let mut parts = Parts::default();
    let mut at = 0;
    for number in numbers {
        let (start, end) = (usize::from(number.start), usize::from(number.end));
        let gap = line.get(at..start)?;
        let word = Class::of(line[start]) == Class::Letter;
        // What is glued to a word is read without regard to commas.
        let glued = commas_divide && gap.last().is_some_and(|last| Class::of(*last) == Class::Letter);
        let behind_word = at > 0 && Class::of(line[at - 1]) == Class::Letter && matches!(gap, [b'@' | b'-' | b'.']);
        if glued || behind_word || (gap.is_empty() && at > 0) || may_join(gap, at > 0) {
            return None;
        }
        parts.gap(line, at, start)?;
        match word {
            true => parts.word(&line[start..end]),
            false => parts.number(),
        }
        at = end;
    }
    parts.gap(line, at, line.len())?;
    parts.part(END);
    parts.parts.extend([0; CHUNK]);
    (parts.parts.len() <= LENGTH_MAX).then(|| parts.parts.into_boxed_slice())
}

/// Whether what ends this text might become a part of the number behind it, or that number a part of it.
fn may_join(gap: &[u8], behind_number: bool) -> bool {
    match gap {
        // `2026-01-02`: nothing but a mark between two numbers.
        [mark] if behind_number && *mark != b'.' => Class::of(*mark) == Class::Digit,
        [.., last] => Class::of(*last) == Class::Digit || matches!(last, b'@' | b'-' | b'+' | b'.'),
        [] => false,
    }
}

/// An outline under construction.
#[derive(Default)]
struct Parts {
    parts: Vec<u8>,
    /// Where the text that is being gathered begins, if there is one.
    text: Option<usize>,
    /// Whether the last part is blanks.
    spaced: bool,
}

impl Parts {
    fn part(&mut self, part: u8) {
        self.text = None;
        self.spaced = part == BLANKS;
        self.parts.push(part);
    }

    fn number(&mut self) {
        if self.spaced {
            self.parts.pop();
        }
        let part = if self.spaced { SPACED } else { NUMBER };
        self.part(part);
    }

    fn word(&mut self, word: &[u8]) {
        self.part(WORD);
        self.parts.push(word.len() as u8);
        self.parts.extend_from_slice(word);
    }

    fn text(&mut self, bytes: &[u8]) {
        let begun = self.text.filter(|at| usize::from(self.parts[*at]) + bytes.len() <= usize::from(u8::MAX));
        let length = begun.unwrap_or_else(|| {
            self.parts.extend([TEXT, 0]);
            self.parts.len() - 1
        });
        (self.text, self.spaced) = (Some(length), false);
        self.parts[length] += bytes.len() as u8;
        self.parts.extend_from_slice(bytes);
    }

    /// The text of `line` between `at` and `end`, where no numbers are.
    fn gap(&mut self, line: &[u8], mut at: usize, end: usize) -> Option<()> {
        let begin = at;
        while at < end {
            let byte = line[at];
            let next = match Class::of(byte) {
                Class::Blank | Class::Box if bar_end(&line[..end], at) > at => {
                    let next = bar_end(&line[..end], at);
                    // One blank between words is always one blank.
                    if byte == b' ' && next == at + 1 && at > begin && next < end {
                        self.text(b" ");
                    } else {
                        let cells = line[at..next].contains(&0xE2);
                        // A sign behind a blank is a sign; behind a cell it is none.
                        if cells && matches!(line.get(next), Some(b'-' | b'+' | b'.')) {
                            return None;
                        }
                        self.part(if cells { BAR } else { BLANKS });
                    }
                    next
                }
                Class::Box => {
                    let next = (at + 3 <= end).then_some(at + 3)?;
                    self.text(&line[at..next]);
                    next
                }
                Class::Mark => {
                    let run = line[at..end].iter().take_while(|other| **other == byte).count();
                    if run >= 2 {
                        self.part(RUN);
                        self.parts.push(byte);
                    } else {
                        self.text(&[byte]);
                    }
                    at + run
                }
                _ => {
                    self.text(&[byte]);
                    at + 1
                }
            };
            at = next;
        }
        Some(())
    }
}
