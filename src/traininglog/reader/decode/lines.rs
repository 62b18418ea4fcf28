//! Turns the byte stream of a terminal into the texts that were visible on each line.
//!
//! Problem: a progress bar redraws itself with `\r`, backspaces or cursor movement, colour codes split words, and a write may end
//! anywhere. Approach: the text of a line when it is overwritten is a *rendering*; its text at `\n` is the last rendering. Properties: the
//! renderings do not depend on how the input is cut; memory is at most [`LINE_MAX`].

use memchr::{memchr, memchr3};

/// Maximum bytes of a buffered line; a longer line is read in pieces that are split at a blank. Engines split lines at the same 16 KiB.
pub(crate) const LINE_MAX: usize = 16 * 1024;

/// Maximum bytes of a control sequence; the rest of a longer one is text.
const ESCAPE_MAX: u8 = 64;

/// This many consecutive backspaces return a bar to its start; fewer correct the last characters.
const BACKSPACES_THAT_REDRAW: usize = 8;

/// One visible state of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rendering<'a> {
    /// Line number, from 1.
    pub line: u64,
    /// The text without control characters and trailing blanks; blank renderings are not reported.
    pub text: &'a [u8],
    /// The text as a program printed it; `text` may have its numbers in plain notation.
    pub printed: &'a [u8],
    /// Whether it is the last rendering of the line.
    pub last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Escape {
    None,
    Started,
    Control { length: u8, first: u8 },
    Text { length: u8, closing: bool },
}

/// Turns bytes into renderings; see the module.
#[derive(Debug)]
pub(crate) struct LineDecoder {
    line: u64,
    text: Vec<u8>,
    returned: bool,
    backspaces: usize,
    escape: Escape,
}

impl LineDecoder {
    pub(crate) fn new() -> Self {
        LineDecoder { line: 1, text: Vec::new(), returned: false, backspaces: 0, escape: Escape::None }
    }

    /// Sets the line number of the next bytes, unless they continue an unfinished line.
    pub(crate) fn begin_at(&mut self, line: u64) {
        if self.is_clean() {
            self.line = line;
        }
    }

    /// Reads the next bytes and reports each rendering that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Rendering<'_>)) {
        let mut at = 0;
        let mut control = next_control(bytes, 0);
        while at < bytes.len() {
            if control < at {
                control = next_control(bytes, at);
            }
            let newline = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |offset| at + offset);
            if newline < control && newline - at <= LINE_MAX && newline < bytes.len() && self.is_clean() {
                emit(&mut each, self.line, &bytes[at..newline], true);
                self.line += 1;
                at = newline + 1;
                continue;
            }
            at = self.push_controlled(bytes, at, newline.min(bytes.len()), &mut each);
        }
    }

    /// Reports an unfinished last line.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(Rendering<'_>)) {
        self.resolve_backspaces();
        emit(&mut each, self.line, &self.text, true);
        self.text.clear();
        self.returned = false;
        self.escape = Escape::None;
    }

    fn is_clean(&self) -> bool {
        self.text.is_empty() && !self.returned && self.backspaces == 0 && self.escape == Escape::None
    }

    /// Reads to the end of the line (`newline`, or the end of the input) and handles control characters. Returns the offset after it.
    fn push_controlled(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        newline: usize,
        each: &mut impl FnMut(Rendering<'_>),
    ) -> usize {
        while at < newline {
            if self.escape != Escape::None {
                self.push_escape(bytes[at]);
                at += 1;
                continue;
            }
            match bytes[at] {
                b'\r' => self.returned = true,
                0x08 => self.backspaces += 1,
                0x1b => self.escape = Escape::Started,
                _ => {
                    let end = memchr3(b'\r', 0x08, 0x1b, &bytes[at..newline]).map_or(newline, |offset| at + offset);
                    self.begin_text(each);
                    let redrawn_here = end < newline && bytes[end] == b'\r' && bytes.get(end + 1) != Some(&b'\n');
                    if redrawn_here && self.text.is_empty() && end - at <= LINE_MAX && end + 1 < newline {
                        // Fast path for a common bar: a whole rendering between two carriage returns needs no copy. Only plain text
                        // after the return certainly overwrites it.
                        if !matches!(bytes[end + 1], b'\r' | 0x08 | 0x1b) {
                            emit(each, self.line, &bytes[at..end], false);
                            at = end + 1;
                            continue;
                        }
                    }
                    self.append(&bytes[at..end], each);
                    at = end;
                    continue;
                }
            }
            at += 1;
        }
        if newline < bytes.len() {
            self.resolve_backspaces();
            emit(each, self.line, &self.text, true);
            self.text.clear();
            self.returned = false;
            self.escape = Escape::None;
            self.line += 1;
            return newline + 1;
        }
        newline
    }

    /// Reports the rendering that new text overwrites.
    fn begin_text(&mut self, each: &mut impl FnMut(Rendering<'_>)) {
        self.resolve_backspaces();
        if self.returned {
            emit(each, self.line, &self.text, false);
            self.text.clear();
            self.returned = false;
        }
    }

    fn resolve_backspaces(&mut self) {
        if self.backspaces >= BACKSPACES_THAT_REDRAW {
            self.returned = true;
        } else if !self.returned {
            for _ in 0..self.backspaces {
                while self.text.pop().is_some_and(|byte| byte & 0xC0 == 0x80) {}
            }
        }
        self.backspaces = 0;
    }

    fn append(&mut self, mut bytes: &[u8], each: &mut impl FnMut(Rendering<'_>)) {
        // The default growth (doubling) would exceed the bound.
        let wanted = (self.text.len() + bytes.len()).min(LINE_MAX);
        if wanted > self.text.capacity() {
            self.text.reserve_exact(wanted.max(2 * self.text.capacity()).min(LINE_MAX) - self.text.len());
        }
        while self.text.len() + bytes.len() > LINE_MAX {
            let room = LINE_MAX - self.text.len();
            self.text.extend_from_slice(&bytes[..room]);
            bytes = &bytes[room..];
            let cut = self.text.iter().rposition(|byte| *byte == b' ').map_or(LINE_MAX, |blank| blank + 1);
            emit(each, self.line, &self.text[..cut], false);
            self.text.drain(..cut);
        }
        self.text.extend_from_slice(bytes);
    }

    fn push_escape(&mut self, byte: u8) {
        self.escape = match self.escape {
            Escape::None => Escape::None,
            Escape::Started => match byte {
                b'[' => Escape::Control { length: 0, first: 0 },
                b']' | b'P' | b'_' | b'^' => Escape::Text { length: 0, closing: false },
                0x1b => Escape::Started,
                _ => Escape::None,
            },
            Escape::Control { length, first } => match byte {
                0x40..=0x7e => {
                    // Cursor movement or "erase the whole line": the next text overwrites.
                    let moves = matches!(byte, b'A' | b'B' | b'E' | b'F' | b'G' | b'H' | b'f');
                    self.returned |= moves || (byte == b'K' && first == b'2');
                    Escape::None
                }
                _ if length >= ESCAPE_MAX => Escape::None,
                _ => Escape::Control { length: length + 1, first: if length == 0 { byte } else { first } },
            },
            Escape::Text { closing, length } => match byte {
                0x07 => Escape::None,
                b'\\' if closing => Escape::None,
                _ if length >= ESCAPE_MAX => Escape::None,
                _ => Escape::Text { length: length + 1, closing: byte == 0x1b },
            },
        };
    }
}

fn next_control(bytes: &[u8], from: usize) -> usize {
    memchr3(b'\r', 0x08, 0x1b, &bytes[from..]).map_or(usize::MAX, |offset| from + offset)
}

fn emit(each: &mut impl FnMut(Rendering<'_>), line: u64, text: &[u8], last: bool) {
    // Leading blanks are kept: they give the position of cells in a table.
    let text = text.trim_ascii_end();
    if !text.is_empty() {
        each(Rendering { line, text, printed: text, last });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Seen = Vec<(u64, Vec<u8>, bool)>;

    fn renderings(parts: &[&[u8]]) -> Seen {
        let mut seen = Seen::new();
        let mut decoder = LineDecoder::new();
        for part in parts {
            decoder.push(part, |r| seen.push((r.line, r.text.to_vec(), r.last)));
        }
        decoder.finish(|r| seen.push((r.line, r.text.to_vec(), r.last)));
        seen
    }

    fn shown(text: &str) -> Vec<(u64, String, bool)> {
        renderings(&[text.as_bytes()])
            .into_iter()
            .map(|(line, text, last)| (line, String::from_utf8_lossy(&text).into_owned(), last))
            .collect()
    }

    #[test]
    fn a_redrawn_bar_is_several_renderings_of_one_line() {
        assert_eq!(
            shown("start\r\n\r 1/3\r 2/3\r 3/3\nend"),
            [
                (1, "start".into(), true),
                (2, " 1/3".into(), false),
                (2, " 2/3".into(), false),
                (2, " 3/3".into(), true),
                (3, "end".into(), true)
            ]
        );
    }

    #[test]
    fn backspaces_redraw_or_correct_and_colour_codes_are_removed() {
        assert_eq!(
            shown("\x1b[1m1/2\x1b[0m\x08\x08\x08\x08\x08\x08\x08\x08\x08\r\x1b[1m2/2\x1b[0m done\n"),
            [(1, "1/2".into(), false), (1, "2/2 done".into(), true)]
        );
        assert_eq!(shown("lois\x08\x08ss 1\x1b]0;title\x07\n"), [(1, "loss 1".into(), true)]);
        assert_eq!(
            shown("a\n\x1b[Ab\x1b[2K\rc"),
            [(1, "a".into(), true), (2, "b".into(), false), (2, "c".into(), true)]
        );
    }

    #[test]
    fn an_endless_line_is_read_in_bounded_pieces() {
        let text = "loss 0.5 ".repeat(10_000);
        let seen = shown(&text);
        assert!(seen.iter().all(|(line, text, _)| *line == 1 && text.len() <= LINE_MAX));
        assert!(seen.iter().all(|(_, text, _)| text.starts_with("loss") || text.starts_with("0.5")));
    }

    proptest! {
        #[test]
        fn renderings_do_not_depend_on_how_the_input_is_cut(
            pieces in proptest::collection::vec("[a-c0-9 \r\n\u{8}\u{1b}\\[A2Km\\]\u{7}█]{0,12}", 0..12),
            cuts in proptest::collection::vec(0usize..120, 0..8),
        ) {
            let whole: String = pieces.concat();
            let bytes = whole.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut parts = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                parts.push(&bytes[from..cut]);
                from = cut;
            }
            prop_assert_eq!(renderings(&[bytes]), renderings(&parts));
        }
    }
}
