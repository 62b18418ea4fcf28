//! Unwraps a container engine's `json-file` log.
//!
//! Problem: `{"log":"loss 0.1\n","stream":"stdout","time":"…"}` wraps each line, and a line of more than 16 KiB is split into several
//! entries, of which only the last ends with a newline. Approach: decode the escapes of the first member as bytes arrive, and skip the
//! rest of the entry. Anything else is skipped. Line numbers are those of the file. Properties: no entry is buffered, so that its length
//! does not matter; the result does not depend on how the input is cut. Imports: its siblings.

use super::lines::{LineDecoder, Rendering};
use memchr::{memchr, memchr3};

/// The beginning of each entry.
const BEGINNING: &[u8] = b"{\"log\":\"";

/// Bytes needed to recognise such a log.
pub const RECOGNISE: usize = BEGINNING.len();

/// Whether the first bytes of a stream can be such a log.
pub fn may_begin(bytes: &[u8]) -> bool {
    let length = bytes.len().min(RECOGNISE);
    bytes[..length] == BEGINNING[..length]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// After this many bytes of the beginning.
    Beginning(usize),
    /// In the text that the container wrote.
    Text,
    /// After a backslash.
    Escape,
    /// In the digits of `\u2588`.
    Unicode { digits: u8, code: u32 },
    /// In the ignored rest of the entry.
    Rest,
}

/// Unwraps entries; see the module.
#[derive(Debug)]
pub struct JsonFileDecoder {
    /// Line number in the file, from 1.
    line: u64,
    place: Place,
    /// The first half of a UTF-16 surrogate pair.
    half: Option<u32>,
    inner: LineDecoder,
}

impl JsonFileDecoder {
    pub fn new() -> Self {
        JsonFileDecoder { line: 1, place: Place::Beginning(0), half: None, inner: LineDecoder::new() }
    }

    /// Reads the next bytes and reports each rendering that they complete.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Rendering<'_>)) {
        let mut at = 0;
        while at < bytes.len() {
            at += match self.place {
                Place::Rest => memchr(b'\n', &bytes[at..]).unwrap_or(bytes.len() - at),
                Place::Text => self.text(&bytes[at..], &mut each),
                _ => 0,
            };
            let Some(byte) = bytes.get(at) else { return };
            at += 1;
            self.step(*byte, &mut each);
        }
    }

    /// Reports an unfinished last line.
    pub fn finish(&mut self, each: impl FnMut(Rendering<'_>)) {
        self.inner.finish(each);
    }

    /// Writes the text up to the next byte with a special meaning; returns its length.
    fn text(&mut self, bytes: &[u8], each: &mut impl FnMut(Rendering<'_>)) -> usize {
        let end = memchr3(b'"', b'\\', b'\n', bytes).unwrap_or(bytes.len());
        self.write(&bytes[..end], each);
        end
    }

    fn step(&mut self, byte: u8, each: &mut impl FnMut(Rendering<'_>)) {
        if byte == b'\n' {
            self.line += 1;
            self.place = Place::Beginning(0);
            return;
        }
        self.place = match self.place {
            Place::Beginning(seen) if BEGINNING[seen] == byte && seen + 1 == BEGINNING.len() => {
                self.inner.begin_at(self.line);
                self.half = None;
                Place::Text
            }
            Place::Beginning(seen) if BEGINNING[seen] == byte => Place::Beginning(seen + 1),
            Place::Text if byte == b'\\' => Place::Escape,
            Place::Escape => self.escaped(byte, each),
            Place::Unicode { digits, code } => self.digit(byte, digits, code, each),
            Place::Beginning(_) | Place::Text | Place::Rest => Place::Rest,
        };
    }

    fn escaped(&mut self, byte: u8, each: &mut impl FnMut(Rendering<'_>)) -> Place {
        let decoded = match byte {
            b'u' => return Place::Unicode { digits: 0, code: 0 },
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 0x08,
            b'f' => 0x0c,
            other => other,
        };
        self.write(&[decoded], each);
        Place::Text
    }

    fn digit(&mut self, byte: u8, digits: u8, code: u32, each: &mut impl FnMut(Rendering<'_>)) -> Place {
        let Some(value) = char::from(byte).to_digit(16) else { return Place::Rest };
        let (digits, code) = (digits + 1, code << 4 | value);
        if digits < 4 {
            return Place::Unicode { digits, code };
        }
        match (self.half.take(), code) {
            (_, 0xD800..0xDC00) => self.half = Some(code),
            (Some(high), 0xDC00..0xE000) => self.character(0x1_0000 + ((high - 0xD800) << 10) + (code - 0xDC00), each),
            _ => self.character(code, each),
        }
        Place::Text
    }

    fn character(&mut self, code: u32, each: &mut impl FnMut(Rendering<'_>)) {
        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.write(character.encode_utf8(&mut [0; 4]).as_bytes(), each);
    }

    fn write(&mut self, bytes: &[u8], each: &mut impl FnMut(Rendering<'_>)) {
        if !bytes.is_empty() {
            self.inner.push(bytes, each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(log: &str, cut: usize) -> Vec<(u64, String, bool)> {
        let mut seen = Vec::new();
        let mut decoder = JsonFileDecoder::new();
        for part in log.as_bytes().chunks(cut) {
            decoder.push(part, |r| seen.push((r.line, String::from_utf8_lossy(r.text).into_owned(), r.last)));
        }
        decoder.finish(|r| seen.push((r.line, String::from_utf8_lossy(r.text).into_owned(), r.last)));
        seen
    }

    #[test]
    fn entries_are_unwrapped_partial_ones_are_joined_and_lines_of_the_file_are_counted() {
        let log = concat!(
            "{\"log\":\"\\u001b[1mloss\\u001b[0m \\\"0.5\\\"\\u00a0\\ud83d\\ude80\\n\",\"stream\":\"stdout\",\"time\":\"t\"}\n",
            "{\"log\":\"\\r1/2 \\u2588\\r2/\",\"stream\":\"stderr\"}\n",
            "{\"log\":\"2\\n\",\"stream\":\"stderr\"}\n",
            "garbage \\n \"\n",
            "{\"log\":\"torn\n",
            "{\"log\":\" end\"}"
        );
        let expected = [
            (1, "loss \"0.5\"\u{a0}🚀".to_owned(), true),
            (2, "1/2 █".to_owned(), false),
            (2, "2/2".to_owned(), true),
            (5, "torn end".to_owned(), true),
        ];
        for cut in 1..=log.len() {
            assert_eq!(read(log, cut), expected, "cut every {cut} bytes");
        }
    }
}
