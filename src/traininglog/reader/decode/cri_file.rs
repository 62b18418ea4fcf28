//! Unwraps the log of a pod's container, as the container runtimes of Kubernetes write it.
//!
//! Problem: `2016-10-06T00:17:09.669794202Z stdout F loss 0.1` puts time, stream and tag before each line, and a line of more than 16 KiB is
//! split into several entries with the tag `P` (partial) and a last one with `F` (full). Approach: check time, stream and tag as bytes
//! arrive, and pass the rest on; only a full entry ends the line. A line of the file that begins otherwise is skipped. A partial entry that
//! is followed by one of the other stream ends its line. Properties: no entry is buffered, so that its length does not matter; the result
//! does not depend on how the input is cut.

use memchr::memchr;

const STREAMS: [&[u8]; 2] = [b"stdout ", b"stderr "];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Within {
    /// After this many bytes of the time.
    Time(u8),
    /// After this many bytes of the stream's name.
    Stream(u8),
    /// In the tags, of which the first says whether the entry is full.
    Tags { are_known: bool },
    /// In the text that the container wrote.
    Text,
    /// In a line that is no entry.
    Rest,
}

/// Unwraps the entries of a log in CRI's format as its bytes arrive. Small, without a buffer.
///
/// ```
/// let (mut file, mut text) = (traininglog::CriFile::default(), Vec::new());
/// file.push(b"2016-10-06T00:17:09.669794202Z stdout F loss 0.5\n", |piece| text.extend_from_slice(piece));
/// assert_eq!(text, b"loss 0.5\n");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CriFile {
    place: Within,
    /// The stream of the present entry, as a place in [`STREAMS`].
    stream: usize,
    is_full: bool,
    /// The stream of the partial entry before this one.
    unfinished: Option<usize>,
}

impl Default for CriFile {
    /// At the beginning of a file.
    fn default() -> Self {
        CriFile { place: Within::Time(0), stream: 0, is_full: true, unfinished: None }
    }
}

impl CriFile {
    /// Decodes the next bytes of the file, which may be cut anywhere. Passes the container's output to `each` in pieces.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        let mut at = 0;
        while at < bytes.len() {
            let line_end = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |end| at + end);
            match self.place {
                Within::Text if at < line_end => each(&bytes[at..line_end]),
                Within::Text | Within::Rest => {}
                _ if at < line_end => {
                    self.step(bytes[at], &mut each);
                    at += 1;
                    continue;
                }
                _ => {}
            }
            at = line_end;
            if at < bytes.len() {
                self.end_line(&mut each);
                at += 1;
            }
        }
    }

    /// Reads a byte before the text of an entry.
    fn step(&mut self, byte: u8, each: &mut impl FnMut(&[u8])) {
        let is_of_time = byte.is_ascii_digit() || b"-:.TZ+".contains(&byte);
        self.place = match self.place {
            Within::Time(seen) if is_of_time && seen < 40 => Within::Time(seen + 1),
            Within::Time(20..) if byte == b' ' => Within::Stream(0),
            Within::Stream(seen) => {
                if seen == 3 {
                    self.stream = usize::from(byte == b'e');
                }
                match STREAMS[self.stream].get(usize::from(seen)) {
                    Some(expected) if *expected == byte && usize::from(seen) + 1 == STREAMS[self.stream].len() => {
                        Within::Tags { are_known: false }
                    }
                    Some(expected) if *expected == byte => Within::Stream(seen + 1),
                    _ => Within::Rest,
                }
            }
            Within::Tags { are_known: false } if matches!(byte, b'F' | b'P') => {
                self.is_full = byte == b'F';
                Within::Tags { are_known: true }
            }
            Within::Tags { are_known: true } if byte == b' ' => {
                if self.unfinished.take().is_some_and(|before| before != self.stream) {
                    each(b"\n");
                }
                Within::Text
            }
            Within::Tags { are_known: true } => self.place,
            _ => Within::Rest,
        };
    }

    fn end_line(&mut self, each: &mut impl FnMut(&[u8])) {
        if self.place == Within::Text {
            self.unfinished = (!self.is_full).then_some(self.stream);
            if self.is_full {
                each(b"\n");
            }
        }
        self.place = Within::Time(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TIME: &str = "2016-10-06T00:17:09.669794202Z";

    fn unwrapped(log: &str, cut: usize) -> String {
        let (mut file, mut out) = (CriFile::default(), Vec::new());
        for part in log.as_bytes().chunks(cut) {
            file.push(part, |text| out.extend_from_slice(text));
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn entries_are_unwrapped_and_partial_ones_are_joined() {
        let log = format!(
            "{TIME} stdout F loss 0.5\n{TIME} stderr P progress: \n{TIME} stderr P 50 %\n{TIME} stderr F  done\n\
             {TIME} stdout F \n2016-10-06T00:17:09.66+02:00 stdout F:tag a  b\n{TIME} stdout P open"
        );
        let expected = "loss 0.5\nprogress: 50 % done\n\na  b\nopen";
        for cut in 1..=log.len() {
            assert_eq!(unwrapped(&log, cut), expected, "cut every {cut} bytes");
        }
    }

    #[test]
    fn a_partial_entry_that_the_other_stream_follows_ends_its_line() {
        let log = format!("{TIME} stdout P half\n{TIME} stderr F warning\n{TIME} stdout F rest\n");
        assert_eq!(unwrapped(&log, usize::MAX), "half\nwarning\nrest\n");
    }

    #[test]
    fn what_is_no_entry_is_skipped_and_the_next_one_is_read() {
        for invalid in [
            "",
            "loss 0.5",
            "0.5 stdout F loss",
            "ss 0.5 step 3",
            &format!("{TIME} stdin F x"),
            &format!("{TIME} stdout X x"),
            &format!("{TIME} stdout F"),
            &format!("{TIME}  stdout F x"),
            &"1".repeat(300),
        ] {
            let log = format!("{invalid}\n{TIME} stdout F next\n");
            assert_eq!(unwrapped(&log, usize::MAX), "next\n", "{invalid:?}");
        }
    }

    proptest! {
        #[test]
        fn the_lines_of_a_container_survive_wrapping(lines in prop::collection::vec("[ -~]{0,30}", 0..20), cut in 1_usize..50) {
            let log: String = lines.iter().map(|line| format!("{TIME} stdout F {line}\n")).collect();
            let expected: String = lines.iter().map(|line| format!("{line}\n")).collect();
            prop_assert_eq!(unwrapped(&log, cut), expected);
        }
    }
}
