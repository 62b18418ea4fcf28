//! Unwraps a container engine's `json-file` log.
//!
//! Problem: `{"log":"loss 0.1\n","stream":"stdout","time":"…"}` wraps each line, and a line of more than 16 KiB is split into several
//! entries, of which only the last ends with a newline. Approach: decode the escapes of the first member as bytes arrive, and skip the
//! rest of the entry. The engine writes `log` first; a line that begins otherwise is skipped. An entry that is cut in its text ends the
//! line of the container, because the next entry does not continue it. Line numbers are those of the file. Properties: no entry is
//! buffered, so that its length does not matter; the result does not depend on how the input is cut.

use super::lines::{LineDecoder, Rendering};
use memchr::{memchr, memchr3};

/// The beginning of each entry.
const BEGINNING: &[u8] = b"{\"log\":\"";

/// Bytes needed to recognise such a log.
pub(crate) const RECOGNISE: usize = BEGINNING.len();

/// Whether the first bytes of a stream can be such a log.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    let length = bytes.len().min(RECOGNISE);
    bytes[..length] == BEGINNING[..length]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Within {
    /// After this many bytes of the beginning.
    Beginning(usize),
    /// In the text that the container wrote.
    Text,
    /// After a backslash.
    Escape,
    /// In the digits of `\u2588`.
    Unicode { digits: u8, code: u32 },
    /// After the quote that ends the text.
    Closed,
    /// In the ignored rest of the entry.
    Rest,
}

/// Unwraps the entries of a container engine's `json-file` log as its bytes arrive. Small, without a buffer.
///
/// A [`Tracker`](crate::Tracker) and a [`Survey`](crate::survey::Survey) recognise such a log by themselves; this is for those who need its
/// text.
///
/// ```
/// let (mut file, mut text) = (traininglog::JsonFile::default(), Vec::new());
/// file.push(br#"{"log":"loss 0.5\n","stream":"stdout"}"#, |_line, piece| text.extend_from_slice(piece));
/// assert_eq!(text, b"loss 0.5\n");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct JsonFile {
    /// Line number in the file, from 1.
    line: u64,
    place: Within,
    /// The first half of a UTF-16 surrogate pair; it is dropped unless the second follows.
    half: Option<u32>,
}

impl Default for JsonFile {
    /// At the beginning of a file.
    fn default() -> Self {
        JsonFile { line: 1, place: Within::Beginning(0), half: None }
    }
}

impl JsonFile {
    /// Decodes the next bytes of the file, which may be cut anywhere. Passes the container's output to `each` in pieces, with the number
    /// of the entry's line in the file.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(u64, &[u8])) {
        let mut at = 0;
        while at < bytes.len() {
            at += match self.place {
                Within::Rest => memchr(b'\n', &bytes[at..]).unwrap_or(bytes.len() - at),
                Within::Text => self.text(&bytes[at..], &mut each),
                _ => 0,
            };
            let Some(byte) = bytes.get(at) else { return };
            at += 1;
            self.step(*byte, &mut each);
        }
    }

    /// Writes the text up to the next byte with a special meaning; returns its length.
    fn text(&mut self, bytes: &[u8], each: &mut impl FnMut(u64, &[u8])) -> usize {
        let end = memchr3(b'"', b'\\', b'\n', bytes).unwrap_or(bytes.len());
        self.write(&bytes[..end], each);
        end
    }

    fn step(&mut self, byte: u8, each: &mut impl FnMut(u64, &[u8])) {
        if byte == b'\n' {
            if matches!(self.place, Within::Text | Within::Escape | Within::Unicode { .. }) {
                self.break_off(each);
            }
            self.line += 1;
            self.place = Within::Beginning(0);
            return;
        }
        self.place = match self.place {
            Within::Beginning(seen) if BEGINNING[seen] == byte && seen + 1 == BEGINNING.len() => {
                self.half = None;
                Within::Text
            }
            Within::Beginning(seen) if BEGINNING[seen] == byte => Within::Beginning(seen + 1),
            Within::Text if byte == b'\\' => Within::Escape,
            Within::Text => Within::Closed,
            Within::Escape => self.escaped(byte, each),
            Within::Unicode { digits, code } => self.digit(byte, digits, code, each),
            // Otherwise the next entry was appended to the torn end of this one.
            Within::Closed if !matches!(byte, b',' | b'}') => self.break_off(each),
            Within::Beginning(_) | Within::Closed | Within::Rest => Within::Rest,
        };
    }

    /// Ends the line of the container, because the rest of its text is missing.
    fn break_off(&mut self, each: &mut impl FnMut(u64, &[u8])) -> Within {
        self.write(b"\n", each);
        Within::Rest
    }

    fn escaped(&mut self, byte: u8, each: &mut impl FnMut(u64, &[u8])) -> Within {
        let decoded = match byte {
            b'u' => return Within::Unicode { digits: 0, code: 0 },
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 0x08,
            b'f' => 0x0c,
            other => other,
        };
        self.write(&[decoded], each);
        Within::Text
    }

    fn digit(&mut self, byte: u8, digits: u8, code: u32, each: &mut impl FnMut(u64, &[u8])) -> Within {
        let Some(value) = char::from(byte).to_digit(16) else { return self.break_off(each) };
        let (digits, code) = (digits + 1, code << 4 | value);
        if digits < 4 {
            return Within::Unicode { digits, code };
        }
        match (self.half.take(), code) {
            (_, 0xD800..0xDC00) => self.half = Some(code),
            (Some(high), 0xDC00..0xE000) => self.character(0x1_0000 + ((high - 0xD800) << 10) + (code - 0xDC00), each),
            _ => self.character(code, each),
        }
        Within::Text
    }

    fn character(&mut self, code: u32, each: &mut impl FnMut(u64, &[u8])) {
        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.write(character.encode_utf8(&mut [0; 4]).as_bytes(), each);
    }

    fn write(&mut self, text: &[u8], each: &mut impl FnMut(u64, &[u8])) {
        if !text.is_empty() {
            self.half = None;
            each(self.line, text);
        }
    }
}

/// Reads the lines in such a log.
#[derive(Debug)]
pub(crate) struct JsonFileDecoder {
    file: JsonFile,
    /// Line of the entry whose text was read last.
    line: u64,
    inner: LineDecoder,
}

impl JsonFileDecoder {
    pub(crate) fn new() -> Self {
        JsonFileDecoder { file: JsonFile::default(), line: 0, inner: LineDecoder::new() }
    }

    /// Reads the next bytes and reports each rendering that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Rendering<'_>)) {
        let JsonFileDecoder { file, line, inner } = self;
        file.push(bytes, |entry, text| {
            // Only at its first piece: lines within an entry are counted from there.
            if std::mem::replace(line, entry) != entry {
                inner.begin_at(entry);
            }
            inner.push(text, &mut each);
        });
    }

    /// Reports an unfinished last line.
    pub(crate) fn finish(&mut self, each: impl FnMut(Rendering<'_>)) {
        self.inner.finish(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;

    /// Parts of entries and of what else may be in a file.
    const PIECES: &[&str] = &[
        "{\"log\":\"",
        "\",\"stream\":\"stdout\"}\n",
        "\"",
        "\\",
        "\\n",
        "\\u",
        "00e9",
        "\\ud83d",
        "\\ude80",
        "\n",
        ",",
        "}",
        "loss 0.5",
        "é",
        "\u{0}",
    ];

    /// The container's output.
    fn unwrapped(log: &[u8], cut: usize) -> String {
        let (mut file, mut out) = (JsonFile::default(), Vec::new());
        for part in log.chunks(cut) {
            file.push(part, |_, text| out.extend_from_slice(text));
        }
        String::from_utf8_lossy(&out).into_owned()
    }

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
            (5, "torn".to_owned(), true),
            (6, " end".to_owned(), true),
        ];
        for cut in 1..=log.len() {
            assert_eq!(read(log, cut), expected, "cut every {cut} bytes");
        }
    }

    #[test]
    fn lines_within_an_entry_are_counted_from_its_line() {
        let log = "{\"log\":\"\"}\n{\"log\":\"a\\nb\\nc\\n\"}\n{\"log\":\"d\"}\n";
        let expected = [(2, "a"), (3, "b"), (4, "c"), (3, "d")].map(|(line, text)| (line, text.to_owned(), true));
        for cut in 1..=log.len() {
            assert_eq!(read(log, cut), expected, "cut every {cut} bytes");
        }
    }

    #[test]
    fn the_entry_after_an_invalid_one_is_read_whole() {
        for (invalid, text) in [
            ("", ""),
            ("not json", ""),
            ("[1,2]", ""),
            ("\u{0}\u{0}{\"log\":\"x\"}", ""),
            (r#"{"log":5}"#, ""),
            (r#"{"stream":"stdout","time":"t"}"#, ""),
            (r#"{"stream":"stdout","log":"x"}"#, ""),
            (r#"{"log"#, ""),
            (r#"{"log":"cut"#, "cut\n"),
            (r#"{"log":"cut\"#, "cut\n"),
            (r#"{"log":"cut\u26"#, "cut\n"),
            (r#"{"log":"whole\n","stream":"std"#, "whole\n"),
            (r#"{"log":"cut{"log":"lost\n","stream":"stdout"}"#, "cut{\n"),
            (r#"{"log":"cut\u26x8 lost\n"}"#, "cut\n"),
            (r#"{"log":"\q\n"}"#, "q\n"),
            (r#"{"log":"\ud83d half \ude80\n"}"#, " half \u{FFFD}\n"),
        ] {
            let log = format!("{invalid}\n{{\"log\":\"next\\n\",\"stream\":\"stdout\"}}\n");
            assert_eq!(unwrapped(log.as_bytes(), usize::MAX), format!("{text}next\n"), "{invalid:?}");
        }
    }

    #[test]
    fn an_endless_entry_is_not_buffered() {
        let (mut file, mut length) = (JsonFile::default(), 0);
        file.push(BEGINNING, |_, _| {});
        for _ in 0..1000 {
            file.push(&[b'x'; 4096], |_, text| length += text.len());
        }
        // Nothing to drop: it has no memory of its own.
        assert_eq!((length, std::mem::needs_drop::<JsonFile>()), (1000 * 4096, false));
    }

    proptest! {
        #[test]
        fn the_text_of_all_entries_is_joined(lines in prop::collection::vec(".*", 0..20), cut in 1_usize..50) {
            let entry = |line: &String| format!("{}\n", serde_json::json!({ "log": line, "stream": "stdout" }));
            let log: String = lines.iter().map(entry).collect();
            prop_assert_eq!(unwrapped(log.as_bytes(), cut), lines.concat());
        }

        #[test]
        fn the_output_does_not_depend_on_how_the_file_is_split_and_is_never_longer(
            pieces in prop::collection::vec(select(PIECES), 0..60),
            cut in 1_usize..20,
        ) {
            let log = pieces.concat();
            let whole = unwrapped(log.as_bytes(), usize::MAX);
            prop_assert!(whole.len() <= log.len());
            prop_assert_eq!(unwrapped(log.as_bytes(), cut), whole);
        }
    }
}
