//! A container engine's `json-file` log → what the container wrote.
//!
//! Problem: `{"log":"loss 0.1\n","stream":"stdout","time":"…"}` wraps each line, and cuts a line of more than 16 KiB into several
//! entries of which only the last ends with a newline. Approach: undo the escapes of the first member as the bytes come, pass over
//! the rest of the entry. What is no entry is left out. Lines are counted in the file, as everybody who opens it counts them.
//! Properties: no entry is kept, so that its length does not matter; cut anywhere, the same is read. Imports: its siblings.

use super::lines::{LineDecoder, Rendering};
use memchr::{memchr, memchr3};

/// How the engine begins each entry.
const BEGINNING: &[u8] = b"{\"log\":\"";

/// Bytes needed to recognise such a log.
pub const RECOGNISE: usize = BEGINNING.len();

/// Whether these first bytes of a stream can begin such a log.
pub fn may_begin(bytes: &[u8]) -> bool {
    let length = bytes.len().min(RECOGNISE);
    bytes[..length] == BEGINNING[..length]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// So many bytes of the beginning were seen.
    Beginning(usize),
    /// In the text that the container wrote.
    Text,
    /// Behind a backslash.
    Escape,
    /// In the digits of `\u2588`.
    Unicode { digits: u8, code: u32 },
    /// In what does not matter, up to the end of the entry.
    Rest,
}

/// Unwraps entries; see the module.
#[derive(Debug)]
pub struct EntryDecoder {
    /// Newlines of the file, plus one.
    line: u64,
    place: Place,
    /// The first half of a character beyond 16 bits.
    half: Option<u32>,
    inner: LineDecoder,
}

impl EntryDecoder {
    pub fn new() -> Self {
        EntryDecoder { line: 1, place: Place::Beginning(0), half: None, inner: LineDecoder::new() }
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

    /// Reports what stands on an unfinished last line.
    pub fn finish(&mut self, each: impl FnMut(Rendering<'_>)) {
        self.inner.finish(each);
    }

    /// The text up to the next byte that is not meant as it stands.
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
        let meant = match byte {
            b'u' => return Place::Unicode { digits: 0, code: 0 },
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 0x08,
            b'f' => 0x0c,
            other => other,
        };
        self.write(&[meant], each);
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
        let mut decoder = EntryDecoder::new();
        for part in log.as_bytes().chunks(cut) {
            decoder.push(part, |r| seen.push((r.line, String::from_utf8_lossy(r.text).into_owned(), r.last)));
        }
        decoder.finish(|r| seen.push((r.line, String::from_utf8_lossy(r.text).into_owned(), r.last)));
        seen
    }

    #[test]
    fn entries_are_unwrapped_and_partial_ones_joined_and_the_files_lines_counted() {
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
