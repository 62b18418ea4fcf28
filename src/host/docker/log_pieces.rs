//! Bytes of the logs API → pieces of output with their place, so that reading can go on after a break. Pure.
//!
//! Without a terminal the answer is frames: `[stream, 0, 0, 0, length (4 bytes, big-endian)]` and a message; with one it
//! is the raw output. Each message begins with a timestamp and a space. A message is a line with its end, or a part of
//! a longer line: Docker cuts after 16 KiB, Podman wherever the job flushed. Parts are joined again, up to
//! [`LONGEST_JOINED`], because the two streams' messages come interleaved. Docker (seen on 20.10.24) forgets the end of
//! a line that it had cut, so a part of less than 16 KiB ends its line there. Imports: std only.

use super::engine::EngineName;
use super::instant::unix_nanos;

/// Docker's log copier cuts a line after so many bytes.
const MESSAGE_LONGEST: usize = 16 << 10;
/// A longer frame is no engine's: a message and its timestamp (or Podman's longer lines) fit many times.
const FRAME_LONGEST: usize = 1 << 20;
/// A longer line is handed on in pieces of this length.
const LONGEST_JOINED: usize = 64 << 10;
const TIMESTAMP_LONGEST: usize = 40;

/// How an engine sends a container's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFormat {
    /// Whether the container has a terminal: raw output then, frames otherwise.
    pub tty: bool,
    /// Who cuts the lines.
    pub engine: EngineName,
}

/// How far a log was read: everything before this instant, and `messages` with exactly this timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// Engine time, Unix nanoseconds; 0 = nothing read yet.
    pub unix_ns: u64,
    /// Messages with this timestamp that were read.
    pub messages: u32,
}

/// Whole lines of one stream, or 64 KiB of a line without end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPiece {
    /// The output as the job wrote it.
    pub bytes: Vec<u8>,
    /// Where to go on after this piece.
    pub position: LogPosition,
}

/// The bytes are not what a logs API sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame that is no log message")]
pub(super) struct NoFrame;

/// Decodes one answer of the logs API.
#[derive(Debug)]
pub(super) struct LogDecoder {
    format: LogFormat,
    /// Bytes that are no whole message yet.
    pending: Vec<u8>,
    /// Parts of an unfinished line: standard output, standard error.
    unfinished: [Vec<u8>; 2],
    /// The last message of a terminal was a part of 16 KiB.
    in_long_line: bool,
    read: LogPosition,
    /// The same, less the parts of unfinished lines: going on from here repeats nothing but them.
    handed_on: LogPosition,
    /// Messages at or before this were delivered by an earlier answer.
    skip: LogPosition,
}

impl LogDecoder {
    /// For an answer that was asked for with `since` set to `from`.
    pub(super) fn new(format: LogFormat, from: LogPosition) -> Self {
        let read = LogPosition { unix_ns: from.unix_ns, messages: 0 };
        LogDecoder {
            format,
            pending: Vec::new(),
            unfinished: [Vec::new(), Vec::new()],
            in_long_line: false,
            read,
            handed_on: from,
            skip: from,
        }
    }

    /// Adds bytes of the answer and gives the pieces that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<LogPiece>, NoFrame> {
        self.pending.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_slice();
        loop {
            let cut = if self.format.tty { raw_message(rest, self.in_long_line) } else { framed_message(rest)? };
            let Some((stream, message, length)) = cut else { break };
            pieces.extend(self.message(stream, message));
            rest = &rest[length..];
        }
        self.pending = rest.to_vec();
        Ok(pieces)
    }

    /// Prepares for another answer, asked for with `since` set to the returned position. Unfinished lines stay.
    pub(super) fn go_on(&mut self) -> LogPosition {
        self.skip = self.read;
        self.read.messages = 0;
        self.pending.clear();
        self.skip
    }

    /// What is left when the answer ended: lines without end.
    pub(super) fn finish(&mut self) -> Vec<LogPiece> {
        let mut pieces = Vec::new();
        if self.format.tty {
            let last = std::mem::take(&mut self.pending);
            if !last.is_empty() {
                pieces.extend(self.message(0, &last));
            }
        }
        let position = self.read.max(self.skip);
        let left = self.unfinished.iter_mut().map(std::mem::take).filter(|bytes| !bytes.is_empty());
        pieces.extend(left.map(|bytes| LogPiece { bytes, position }));
        pieces
    }

    fn message(&mut self, stream: usize, message: &[u8]) -> Option<LogPiece> {
        let (at, text) = timestamp_and_text(message);
        let cut_here = text.len() >= MESSAGE_LONGEST && !text.ends_with(b"\n");
        self.in_long_line = cut_here;
        if let Some(at) = at
            && !self.is_new(at)
        {
            return None;
        }
        let line = &mut self.unfinished[stream];
        line.extend_from_slice(text);
        if self.format.engine == EngineName::Docker && !cut_here && !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        if line.ends_with(b"\n") || line.len() >= LONGEST_JOINED {
            let bytes = std::mem::take(line);
            if self.unfinished.iter().all(Vec::is_empty) {
                self.handed_on = self.read;
            }
            return Some(LogPiece { bytes, position: self.handed_on });
        }
        None
    }

    /// Counts a message, and says whether no earlier answer delivered it.
    fn is_new(&mut self, at: u64) -> bool {
        match at.cmp(&self.read.unix_ns) {
            // Two streams' messages can be a little out of order; what was read stays read.
            std::cmp::Ordering::Less => return at >= self.skip.unix_ns,
            std::cmp::Ordering::Equal => self.read.messages = self.read.messages.saturating_add(1),
            std::cmp::Ordering::Greater => self.read = LogPosition { unix_ns: at, messages: 1 },
        }
        self.read > self.skip
    }
}

/// A message, whose it is (0 = standard output, 1 = standard error), and how many bytes it took.
type Cut<'a> = (usize, &'a [u8], usize);

/// The first whole frame's message.
fn framed_message(bytes: &[u8]) -> Result<Option<Cut<'_>>, NoFrame> {
    let Some((header, rest)) = bytes.split_at_checked(8) else { return Ok(None) };
    let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
    if header[0] > 2 || header[1..4] != [0, 0, 0] || length > FRAME_LONGEST {
        return Err(NoFrame);
    }
    let stream = usize::from(header[0] == 2);
    Ok(rest.get(..length).map(|message| (stream, message, 8 + length)))
}

/// The same for a terminal's raw output: up to a line's end, or as much as one message can hold.
fn raw_message(bytes: &[u8], in_long_line: bool) -> Option<Cut<'_>> {
    let text_from = timestamp_length(bytes);
    let longest = text_from + MESSAGE_LONGEST;
    let head = &bytes[..bytes.len().min(longest)];
    let forgotten_end = if in_long_line { forgotten_end(bytes, text_from, head.len()) } else { None };
    let length = match forgotten_end.or_else(|| memchr::memchr(b'\n', head).map(|end| end + 1)) {
        Some(length) => length,
        None if bytes.len() >= longest => longest,
        None => return None,
    };
    Some((0, &bytes[..length], length))
}

/// Where a long line's last part ends without its end: a terminal's carriage return, and the next message's timestamp.
fn forgotten_end(bytes: &[u8], from: usize, to: usize) -> Option<usize> {
    let returns = memchr::memchr_iter(b'\r', &bytes[from..to]).map(|at| from + at + 1);
    returns.into_iter().find(|&next| timestamp(&bytes[next..]).is_some())
}

fn timestamp_length(message: &[u8]) -> usize {
    timestamp(message).map_or(0, |(_, length)| length)
}

fn timestamp_and_text(message: &[u8]) -> (Option<u64>, &[u8]) {
    match timestamp(message) {
        Some((at, length)) => (Some(at), &message[length..]),
        None => (None, message),
    }
}

/// The instant, and the length of the timestamp with its space.
fn timestamp(message: &[u8]) -> Option<(u64, usize)> {
    let head = &message[..message.len().min(TIMESTAMP_LONGEST)];
    let end = memchr::memchr(b' ', head)?;
    Some((unix_nanos(std::str::from_utf8(&head[..end]).ok()?)?, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAMED: LogFormat = LogFormat { tty: false, engine: EngineName::Docker };
    const TERMINAL: LogFormat = LogFormat { tty: true, engine: EngineName::Docker };
    const PODMAN: LogFormat = LogFormat { tty: false, engine: EngineName::Podman };

    fn frame(stream: u8, second: u8, text: &str) -> Vec<u8> {
        let message = format!("1970-01-01T00:00:{second:02}Z {text}");
        let mut bytes = vec![stream, 0, 0, 0];
        bytes.extend((message.len() as u32).to_be_bytes());
        bytes.extend(message.as_bytes());
        bytes
    }

    fn texts(pieces: &[LogPiece]) -> Vec<String> {
        pieces.iter().map(|piece| String::from_utf8_lossy(&piece.bytes).into_owned()).collect()
    }

    fn at(second: u64, messages: u32) -> LogPosition {
        LogPosition { unix_ns: second * 1_000_000_000, messages }
    }

    #[test]
    fn two_streams_lines_come_whole_though_their_parts_interleave() {
        let bytes = [frame(1, 1, "epoch 1 "), frame(2, 2, "warning\n"), frame(1, 3, "loss 0.5\n")].concat();
        let pieces = LogDecoder::new(PODMAN, LogPosition::default()).push(&bytes).unwrap();
        assert_eq!(texts(&pieces), ["warning\n", "epoch 1 loss 0.5\n"]);
        assert_eq!(pieces[0].position, LogPosition::default(), "going on from here must not lose the first part");
        assert_eq!(pieces[1].position, at(3, 1));
    }

    #[test]
    fn a_cut_lines_forgotten_end_is_put_back() {
        let long = "x".repeat(MESSAGE_LONGEST);
        let framed = [frame(1, 1, &long), frame(1, 1, "tail"), frame(1, 2, "next\n")].concat();
        let pieces = LogDecoder::new(FRAMED, LogPosition::default()).push(&framed).unwrap();
        assert_eq!(texts(&pieces), [format!("{long}tail\n"), "next\n".to_owned()]);
        let raw = format!("1970-01-01T00:00:01Z {long}1970-01-01T00:00:01Z a\rtail\r1970-01-01T00:00:02Z next\r\n");
        let pieces = LogDecoder::new(TERMINAL, LogPosition::default()).push(raw.as_bytes()).unwrap();
        assert_eq!(texts(&pieces), [format!("{long}a\rtail\r\n"), "next\r\n".to_owned()]);
    }

    #[test]
    fn going_on_from_a_position_neither_repeats_nor_loses_messages_of_one_instant() {
        let bytes =
            [frame(1, 1, "a\n"), frame(1, 2, "b\n"), frame(1, 2, "c\n"), frame(1, 2, "d\n"), frame(1, 4, "e\n")];
        let all = LogDecoder::new(FRAMED, LogPosition::default()).push(&bytes.concat()).unwrap();
        for read in 0..=all.len() {
            let from = if read == 0 { LogPosition::default() } else { all[read - 1].position };
            // The engine's `since` is inclusive, and some engines round it down.
            let first_of_instant = all.iter().position(|p| p.position.unix_ns == from.unix_ns).unwrap_or(0);
            for since in [0, first_of_instant] {
                let again = LogDecoder::new(FRAMED, from).push(&bytes[since..].concat()).unwrap();
                assert_eq!(texts(&again), texts(&all[read..]), "read {read}, since message {since}");
            }
        }
    }

    #[test]
    fn a_second_answer_goes_on_where_the_first_ended() {
        let bytes = [frame(1, 1, "a\n"), frame(1, 2, "b\n"), frame(1, 2, "c\n"), frame(2, 3, "d\n")];
        for ended_after in 0..=bytes.len() {
            let mut decoder = LogDecoder::new(FRAMED, LogPosition::default());
            let mut pieces = decoder.push(&bytes[..ended_after].concat()).unwrap();
            let since = decoder.go_on();
            assert_eq!(since.unix_ns, pieces.last().map_or(0, |piece| piece.position.unix_ns));
            pieces.extend(decoder.push(&bytes[if since.unix_ns == 2_000_000_000 { 1 } else { 0 }..].concat()).unwrap());
            pieces.extend(decoder.finish());
            assert_eq!(texts(&pieces), ["a\n", "b\n", "c\n", "d\n"], "ended after {ended_after}");
            assert_eq!(pieces[3].position, at(3, 1));
        }
    }

    #[test]
    fn a_terminals_lines_are_cut_at_their_ends_and_at_the_engines_own_cuts() {
        let long = "x".repeat(MESSAGE_LONGEST);
        let raw = format!("1970-01-01T00:00:01Z {long}1970-01-01T00:00:01Z tail\r\n1970-01-01T00:00:02Z next\r\n");
        let pieces = LogDecoder::new(TERMINAL, LogPosition::default()).push(raw.as_bytes()).unwrap();
        assert_eq!(texts(&pieces), [format!("{long}tail\r\n"), "next\r\n".to_owned()]);
    }

    #[test]
    fn a_line_without_end_is_handed_on_in_bounded_pieces() {
        let mut decoder = LogDecoder::new(FRAMED, LogPosition::default());
        let part = frame(1, 1, &"y".repeat(MESSAGE_LONGEST));
        let mut total = 0;
        for _ in 0..1_000 {
            for piece in decoder.push(&part).unwrap() {
                assert_eq!(piece.bytes.len(), LONGEST_JOINED);
                total += piece.bytes.len();
            }
            assert!(decoder.unfinished[0].len() < LONGEST_JOINED && decoder.pending.len() < FRAME_LONGEST);
        }
        assert_eq!(total, 1_000 * MESSAGE_LONGEST);
    }

    #[test]
    fn the_end_of_the_answer_gives_what_is_left() {
        let mut framed = LogDecoder::new(PODMAN, LogPosition::default());
        assert_eq!(framed.push(&frame(1, 1, "no newline")).unwrap(), []);
        assert_eq!(texts(&framed.finish()), ["no newline"]);
        let mut raw = LogDecoder::new(TERMINAL, LogPosition::default());
        assert_eq!(raw.push(b"1970-01-01T00:00:01Z no newline").unwrap(), []);
        assert_eq!(texts(&raw.finish()), ["no newline\n"]);
    }

    #[test]
    fn garbage_is_an_error_and_never_a_wait_for_gigabytes() {
        let mut decoder = LogDecoder::new(FRAMED, LogPosition::default());
        assert_eq!(decoder.push(b"HTTP/1.1 200 OK\r\n"), Err(NoFrame));
        let mut decoder = LogDecoder::new(FRAMED, LogPosition::default());
        assert_eq!(decoder.push(&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]), Err(NoFrame));
    }

    proptest! {
        #[test]
        fn the_pieces_are_the_same_however_the_answer_is_cut(
            lines in proptest::collection::vec("[a-z]{0,30}", 1..12), tty: bool, cut in 1usize..40,
        ) {
            let bytes: Vec<u8> = lines.iter().enumerate().flat_map(|(i, line)| {
                let text = format!("{line}\n");
                if tty { format!("1970-01-01T00:00:{i:02}Z {text}").into_bytes() } else { frame(1, i as u8, &text) }
            }).collect();
            let mut decoder = LogDecoder::new(if tty { TERMINAL } else { FRAMED }, LogPosition::default());
            let mut pieces = Vec::new();
            for part in bytes.chunks(cut) {
                pieces.extend(decoder.push(part).unwrap());
            }
            let wanted: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
            prop_assert_eq!(texts(&pieces), wanted);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400), tty: bool) {
            let mut decoder = LogDecoder::new(if tty { TERMINAL } else { FRAMED }, LogPosition::default());
            let _ = decoder.push(&bytes);
            decoder.finish();
        }
    }
}
