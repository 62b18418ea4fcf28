//! Decodes the engine's `json-file` log driver: `{"log":"loss 0.1\n","stream":"stdout","time":"…"}`, one entry per line.
//!
//! A line of the container that is longer than 16 KiB is split into several entries, of which only the last ends with a newline, so
//! concatenating the `log` fields rejoins it. Never fails: invalid entries are counted and left out.

use serde::Deserialize;
use std::borrow::Cow;

/// Maximum size of an entry in bytes. The engine splits at 16 KiB; with six-fold escapes and attributes, an entry stays below this.
const LONGEST_ENTRY: usize = 256 << 10;

/// Converts pieces of a `json-file` log to the output of the container.
#[derive(Debug, Default)]
pub struct JsonLog {
    /// The beginning of an incomplete entry.
    unfinished: Vec<u8>,
    /// Whether the current entry is too long and is dropped up to its end.
    dropping: bool,
    garbage: u64,
}

#[derive(Deserialize)]
struct Entry<'line> {
    #[serde(borrow)]
    log: Cow<'line, str>,
}

impl JsonLog {
    /// Returns the number of invalid lines so far.
    pub fn garbage(&self) -> u64 {
        self.garbage
    }

    /// Decodes the next piece of the file, and appends the container's output to `out`.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let mut rest = piece;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.finish(&rest[..end], out);
            rest = &rest[end + 1..];
        }
        self.begin(rest);
    }

    fn finish(&mut self, end: &[u8], out: &mut Vec<u8>) {
        if std::mem::take(&mut self.dropping) {
            return;
        }
        if self.unfinished.is_empty() {
            self.garbage += u64::from(!decode(end, out));
            return;
        }
        self.begin(end);
        if !std::mem::take(&mut self.dropping) {
            self.garbage += u64::from(!decode(&self.unfinished, out));
        }
        self.unfinished.clear();
    }

    fn begin(&mut self, part: &[u8]) {
        if self.dropping {
            return;
        }
        if self.unfinished.len() + part.len() > LONGEST_ENTRY {
            self.unfinished = Vec::new();
            self.dropping = true;
            self.garbage += 1;
            return;
        }
        self.unfinished.extend_from_slice(part);
    }
}

/// Decodes a line; returns whether it was an entry. An empty line is valid.
fn decode(line: &[u8], out: &mut Vec<u8>) -> bool {
    if line.iter().all(u8::is_ascii_whitespace) {
        return true;
    }
    match serde_json::from_slice::<Entry<'_>>(line) {
        Ok(entry) => {
            out.extend_from_slice(entry.log.as_bytes());
            true
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(pieces: &[&[u8]]) -> (String, u64) {
        let (mut log, mut out) = (JsonLog::default(), Vec::new());
        for piece in pieces {
            log.push(piece, &mut out);
        }
        (String::from_utf8(out).unwrap(), log.garbage())
    }

    #[test]
    fn escapes_are_decoded_and_streams_and_times_are_left_out() {
        let line = br#"{"log":"loss \u003d 0.1\t\"a\"\r\n","stream":"stderr","time":"2024-01-01T00:00:00.0Z"}"#;
        assert_eq!(decoded(&[line, b"\n"]), ("loss = 0.1\t\"a\"\r\n".to_owned(), 0));
    }

    #[test]
    fn partial_entries_are_rejoined() {
        let (first, last) = (br#"{"log":"lo","stream":"stdout"}"#, br#"{"log":"ss 1\n","stream":"stdout"}"#);
        assert_eq!(decoded(&[first, b"\n", last, b"\n"]), ("loss 1\n".to_owned(), 0));
    }

    #[test]
    fn invalid_lines_are_counted_and_the_next_entry_is_read() {
        let text = b"not json\n{\"log\":5}\n\xff\xfe\n\n[1,2]\n{\"log\":\"ok\\n\"}\n";
        assert_eq!(decoded(&[text]), ("ok\n".to_owned(), 4));
    }

    #[test]
    fn an_endless_entry_uses_limited_memory() {
        let mut log = JsonLog::default();
        let mut out = Vec::new();
        for _ in 0..1000 {
            log.push(&[b'x'; 4096], &mut out);
            assert!(log.unfinished.capacity() <= 2 * LONGEST_ENTRY);
        }
        log.push(b"\n{\"log\":\"after\\n\"}\n", &mut out);
        assert_eq!((out.as_slice(), log.garbage()), (&b"after\n"[..], 1));
    }

    proptest! {
        #[test]
        fn the_output_does_not_depend_on_how_the_file_is_split(
            lines in prop::collection::vec(".*", 0..20),
            cut in 1_usize..50,
        ) {
            let file: String =
                lines.iter().map(|line| format!("{}\n", serde_json::json!({ "log": line, "stream": "stdout" }))).collect();
            let pieces: Vec<&[u8]> = file.as_bytes().chunks(cut).collect();
            prop_assert_eq!(decoded(&pieces), (lines.concat(), 0));
        }
    }
}
