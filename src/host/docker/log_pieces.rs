//! Bytes of the logs API → pieces of output with their place, so that reading can go on after a break. Pure.
//!
//! A message is a line with its end, or a part of a longer line: Docker cuts after 16 KiB, Podman wherever the job
//! flushed. Parts are joined again, up to [`LONGEST_JOINED`], because the two streams' messages come interleaved.
//! Docker (seen on 20.10.24) forgets the end of a line that it had cut, so a part of less than 16 KiB ends its line
//! there. Imports: std only.

use super::EngineName;
use super::log_messages::{MESSAGE_LONGEST, NoFrame, framed_message, raw_message, timestamp_and_text};

/// A longer line is handed on in pieces of this length.
const LONGEST_JOINED: usize = 64 << 10;
/// A stream's message is in the log at most so long after a later-stamped one of the other stream.
const STREAMS_APART_NS: u64 = 10_000_000_000;

/// How an engine sends a container's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFormat {
    /// Whether the container has a terminal: raw output then, frames otherwise.
    pub tty: bool,
    /// Who cuts the lines.
    pub engine: EngineName,
}

/// How far a log was read, stream by stream: an engine stamps each stream's messages in order, but not the two together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// Standard output, and a terminal's only stream.
    pub output: LogMark,
    /// Standard error.
    pub error: LogMark,
}

/// How far one stream was read: everything before this instant, and `messages` with exactly this timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogMark {
    /// Engine time, Unix nanoseconds; 0 = nothing read yet.
    pub unix_ns: u64,
    /// Messages with this timestamp that were read.
    pub messages: u32,
}

impl LogPosition {
    /// The instant from which an engine must send again so that no message of either stream is missed, Unix nanoseconds.
    pub(super) fn since(self) -> u64 {
        let (earlier, later) =
            (self.output.unix_ns.min(self.error.unix_ns), self.output.unix_ns.max(self.error.unix_ns));
        earlier.max(later.saturating_sub(STREAMS_APART_NS))
    }
}

/// Whole lines of one stream, or 64 KiB of a line without end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPiece {
    /// The output as the job wrote it.
    pub bytes: Vec<u8>,
    /// Where to go on after this piece.
    pub position: LogPosition,
}

/// Decodes answers of the logs API.
#[derive(Debug)]
pub(super) struct LogDecoder {
    format: LogFormat,
    /// Bytes that are no whole message yet.
    pending: Vec<u8>,
    /// Standard output, standard error.
    streams: [OneStream; 2],
    /// The last message of a terminal was a part of 16 KiB.
    in_long_line: bool,
}

/// One stream's lines, and which of its messages are new.
#[derive(Debug)]
struct OneStream {
    /// Parts of an unfinished line.
    unfinished: Vec<u8>,
    /// Up to the last message.
    read: LogMark,
    /// The same, less the parts of the unfinished line: going on from here repeats nothing but them.
    handed_on: LogMark,
    /// What was read in earlier answers.
    skip: LogMark,
    /// Messages with the timestamp of `skip` that this answer repeated.
    repeated: u32,
    /// This answer is beyond `skip`: all that follows is new, even if the clock was set back.
    beyond: bool,
}

impl OneStream {
    fn new(from: LogMark) -> Self {
        let mut stream =
            OneStream { unfinished: Vec::new(), read: from, handed_on: from, skip: from, repeated: 0, beyond: false };
        stream.go_on();
        stream
    }

    fn go_on(&mut self) {
        self.skip = self.read;
        self.repeated = 0;
        self.beyond = self.read == LogMark::default();
    }

    /// Counts a message, and says whether no earlier answer had it.
    fn is_new(&mut self, at: u64) -> bool {
        if !self.beyond && at == self.skip.unix_ns {
            self.repeated += 1;
        }
        self.beyond |= at > self.skip.unix_ns || self.repeated > self.skip.messages;
        if self.beyond {
            let messages = if at == self.read.unix_ns { self.read.messages.saturating_add(1) } else { 1 };
            self.read = LogMark { unix_ns: at, messages };
        }
        self.beyond
    }

    /// Adds a message's text, and gives the line that it completes.
    fn add(&mut self, text: &[u8], line_ends_here: bool) -> Option<Vec<u8>> {
        self.unfinished.extend_from_slice(text);
        if line_ends_here && !self.unfinished.ends_with(b"\n") {
            self.unfinished.push(b'\n');
        }
        let complete = self.unfinished.ends_with(b"\n") || self.unfinished.len() >= LONGEST_JOINED;
        complete.then(|| self.take())
    }

    fn take(&mut self) -> Vec<u8> {
        self.handed_on = self.read;
        std::mem::take(&mut self.unfinished)
    }
}

impl LogDecoder {
    /// For an answer that was asked for with `since` set to that of `from`.
    pub(super) fn new(format: LogFormat, from: LogPosition) -> Self {
        let streams = [OneStream::new(from.output), OneStream::new(from.error)];
        LogDecoder { format, pending: Vec::new(), streams, in_long_line: false }
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

    /// Prepares for another answer, asked for with `since` set to that of the returned position. Unfinished lines stay.
    pub(super) fn go_on(&mut self) -> LogPosition {
        self.streams.iter_mut().for_each(OneStream::go_on);
        self.pending.clear();
        LogPosition { output: self.streams[0].read, error: self.streams[1].read }
    }

    /// What is left when the answer ended: lines without end.
    pub(super) fn finish(&mut self) -> Vec<LogPiece> {
        let last = std::mem::take(&mut self.pending);
        let mut pieces = Vec::new();
        if self.format.tty && !last.is_empty() {
            pieces.extend(self.message(0, &last));
        }
        for stream in 0..self.streams.len() {
            if !self.streams[stream].unfinished.is_empty() {
                let bytes = self.streams[stream].take();
                pieces.push(LogPiece { bytes, position: self.position() });
            }
        }
        pieces
    }

    fn message(&mut self, stream: usize, message: &[u8]) -> Option<LogPiece> {
        let (at, text) = timestamp_and_text(message);
        let cut_here = text.len() >= MESSAGE_LONGEST && !text.ends_with(b"\n");
        self.in_long_line = cut_here;
        let forgets_ends = self.format.engine == EngineName::Docker;
        let stream = &mut self.streams[stream];
        if at.is_some_and(|at| !stream.is_new(at)) {
            return None;
        }
        let bytes = stream.add(text, forgets_ends && !cut_here)?;
        Some(LogPiece { bytes, position: self.position() })
    }

    fn position(&self) -> LogPosition {
        LogPosition { output: self.streams[0].handed_on, error: self.streams[1].handed_on }
    }
}

#[cfg(test)]
mod tests {
    use super::super::log_messages::FRAME_LONGEST;
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

    fn at(second: u64, messages: u32) -> LogMark {
        LogMark { unix_ns: second * 1_000_000_000, messages }
    }

    /// What an engine sends for `since`.
    fn from_second(messages: &[(u8, u8, &str)], since_ns: u64) -> Vec<u8> {
        let late_enough = messages.iter().filter(|(_, second, _)| u64::from(*second) * 1_000_000_000 >= since_ns);
        late_enough.flat_map(|(stream, second, text)| frame(*stream, *second, text)).collect()
    }

    #[test]
    fn two_streams_lines_come_whole_though_their_parts_interleave() {
        let bytes = [frame(1, 1, "epoch 1 "), frame(2, 2, "warning\n"), frame(1, 3, "loss 0.5\n")].concat();
        let pieces = LogDecoder::new(PODMAN, LogPosition::default()).push(&bytes).unwrap();
        assert_eq!(texts(&pieces), ["warning\n", "epoch 1 loss 0.5\n"]);
        let unread = LogMark::default();
        assert_eq!(pieces[0].position, LogPosition { output: unread, error: at(2, 1) }, "the first part is not lost");
        assert_eq!(pieces[1].position, LogPosition { output: at(3, 1), error: at(2, 1) });
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

    /// Within a stream stamped in order, together not; three messages of one instant.
    const DISORDERED: [(u8, u8, &str); 7] =
        [(1, 3, "a\n"), (2, 1, "b\n"), (2, 2, "c\n"), (1, 4, "d\n"), (1, 4, "e\n"), (2, 2, "f\n"), (1, 5, "g\n")];

    #[test]
    fn going_on_neither_repeats_nor_loses_a_message() {
        let whole = from_second(&DISORDERED, 0);
        let all = LogDecoder::new(FRAMED, LogPosition::default()).push(&whole).unwrap();
        assert_eq!(all.len(), DISORDERED.len());
        for read in 1..=all.len() {
            let from = all[read - 1].position;
            // Some engines round `since` down.
            for since in [from.since(), 0] {
                let again = LogDecoder::new(FRAMED, from).push(&from_second(&DISORDERED, since)).unwrap();
                assert_eq!(texts(&again), texts(&all[read..]), "read {read}, since {since}");
            }
        }
    }

    #[test]
    fn a_second_answer_goes_on_where_the_first_ended() {
        for ended_after in 0..=DISORDERED.len() {
            let mut decoder = LogDecoder::new(FRAMED, LogPosition::default());
            let mut pieces = decoder.push(&from_second(&DISORDERED[..ended_after], 0)).unwrap();
            let since = decoder.go_on().since();
            pieces.extend(decoder.push(&from_second(&DISORDERED, since)).unwrap());
            pieces.extend(decoder.finish());
            assert_eq!(texts(&pieces), ["a\n", "b\n", "c\n", "d\n", "e\n", "f\n", "g\n"], "ended after {ended_after}");
            assert_eq!(pieces[6].position, LogPosition { output: at(5, 1), error: at(2, 2) });
        }
    }

    #[test]
    fn a_silent_stream_does_not_make_an_engine_send_everything_again() {
        let position = LogPosition { output: at(100, 1), error: LogMark::default() };
        assert_eq!(position.since(), 90_000_000_000);
        assert_eq!(LogPosition::default().since(), 0);
    }

    #[test]
    fn a_clock_that_is_set_back_loses_nothing() {
        let bytes = [frame(1, 50, "a\n"), frame(1, 10, "b\n"), frame(1, 11, "c\n")].concat();
        let from = LogPosition { output: at(49, 1), error: LogMark::default() };
        assert_eq!(texts(&LogDecoder::new(FRAMED, from).push(&bytes).unwrap()), ["a\n", "b\n", "c\n"]);
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
            assert!(decoder.streams[0].unfinished.len() < LONGEST_JOINED && decoder.pending.len() < FRAME_LONGEST);
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
