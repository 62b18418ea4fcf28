//! Joins messages of the logs API to pieces of output with positions, so that reading can be resumed. Pure.
//!
//! A message is a line with its end, or a part of a longer line: Docker splits lines after 16 KiB, Podman wherever the job flushed. Parts
//! are joined again, up to [`LONGEST_JOINED`], because the messages of the two streams are interleaved. Docker (observed with 20.10.24)
//! drops the newline of a line that it has split, so a part of less than 16 KiB ends its line.

use super::EngineName;
use super::log_messages::{MESSAGE_LONGEST, NoFrame, framed_message, raw_message, timestamp_and_text};

/// Maximum length of a joined line in bytes; a longer line is returned in pieces of this length.
const LONGEST_JOINED: usize = 64 << 10;
/// Maximum time by which a message may be in the log after a message of the other stream with a later timestamp.
const STREAM_SKEW_NS: u64 = 10_000_000_000;

/// How an engine sends a container's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFormat {
    /// Whether the container has a terminal: raw output if so, frames otherwise.
    pub tty: bool,
    /// The engine, which determines how lines are split.
    pub engine: EngineName,
}

/// Read position in a log, per stream: an engine orders the timestamps of each stream, but not those of both together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// Standard output, or the only stream of a terminal.
    pub output: LogMark,
    /// Standard error.
    pub error: LogMark,
}

/// Read position in one stream: all messages before this instant, and `messages` messages with exactly this timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogMark {
    /// Engine time, Unix nanoseconds; 0 = nothing read yet.
    pub unix_ns: u64,
    /// Number of messages with this timestamp that were read.
    pub messages: u32,
}

impl LogPosition {
    /// Returns the instant from which an engine must resend so that no message of either stream is missed, Unix nanoseconds.
    pub(super) fn since(self) -> u64 {
        let (earlier, later) =
            (self.output.unix_ns.min(self.error.unix_ns), self.output.unix_ns.max(self.error.unix_ns));
        earlier.max(later.saturating_sub(STREAM_SKEW_NS))
    }

    /// Returns the position without marks after `now_ns`: after the clock was set back, new messages would count as read until it reached
    /// such a mark. Messages between `now_ns` and the mark are read again.
    pub(super) fn not_after(self, now_ns: u64) -> LogPosition {
        let limit = |mark: LogMark| if mark.unix_ns > now_ns { LogMark { unix_ns: now_ns, messages: 0 } } else { mark };
        LogPosition { output: limit(self.output), error: limit(self.error) }
    }
}

/// Complete lines of one stream, or 64 KiB of an endless line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPiece {
    /// The output as the job wrote it.
    pub bytes: Vec<u8>,
    /// The position after this piece.
    pub position: LogPosition,
}

/// Decodes responses of the logs API.
#[derive(Debug)]
pub(super) struct LogDecoder {
    format: LogFormat,
    /// Bytes of an incomplete message.
    pending: Vec<u8>,
    /// Standard output and standard error.
    streams: [OneStream; 2],
    /// Whether the last message of a terminal was a part of 16 KiB.
    in_long_line: bool,
}

/// The lines of one stream, and which of its messages are new.
#[derive(Debug)]
struct OneStream {
    /// Parts of an incomplete line.
    unfinished: Vec<u8>,
    /// Position after the last message.
    read: LogMark,
    /// Position after the last complete line: resuming here repeats only the parts of the incomplete line.
    returned: LogMark,
    /// Position up to which earlier responses were read.
    skip: LogMark,
    /// Number of messages with the timestamp of `skip` that this response repeated.
    repeated: u32,
    /// Whether this response is past `skip`: all further messages are new, even if the clock was set back.
    past: bool,
}

impl OneStream {
    fn new(from: LogMark) -> Self {
        let mut stream =
            OneStream { unfinished: Vec::new(), read: from, returned: from, skip: from, repeated: 0, past: false };
        stream.resume();
        stream
    }

    fn resume(&mut self) {
        self.skip = self.read;
        self.repeated = 0;
        self.past = self.read == LogMark::default();
    }

    /// Counts a message, and returns whether no earlier response contained it.
    fn is_new(&mut self, at: u64) -> bool {
        if !self.past && at == self.skip.unix_ns {
            self.repeated += 1;
        }
        self.past |= at > self.skip.unix_ns || self.repeated > self.skip.messages;
        if self.past {
            let messages = if at == self.read.unix_ns { self.read.messages.saturating_add(1) } else { 1 };
            self.read = LogMark { unix_ns: at, messages };
        }
        self.past
    }

    /// Adds the text of a message, and returns the line that it completes.
    fn add(&mut self, text: &[u8], line_ends_here: bool) -> Option<Vec<u8>> {
        self.unfinished.extend_from_slice(text);
        if line_ends_here && !self.unfinished.ends_with(b"\n") {
            self.unfinished.push(b'\n');
        }
        let complete = self.unfinished.ends_with(b"\n") || self.unfinished.len() >= LONGEST_JOINED;
        complete.then(|| self.take())
    }

    fn take(&mut self) -> Vec<u8> {
        self.returned = self.read;
        std::mem::take(&mut self.unfinished)
    }
}

impl LogDecoder {
    /// Creates a decoder for a response that was requested with `since` set to that of `from`.
    pub(super) fn new(format: LogFormat, from: LogPosition) -> Self {
        let streams = [OneStream::new(from.output), OneStream::new(from.error)];
        LogDecoder { format, pending: Vec::new(), streams, in_long_line: false }
    }

    /// Adds bytes of the response, and returns the pieces that they complete.
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

    /// Prepares for another response, requested with `since` set to that of the returned position. Incomplete lines are kept.
    pub(super) fn resume(&mut self) -> LogPosition {
        self.streams.iter_mut().for_each(OneStream::resume);
        self.pending.clear();
        LogPosition { output: self.streams[0].read, error: self.streams[1].read }
    }

    /// Returns the incomplete lines at the end of a response.
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
        let drops_newlines = self.format.engine == EngineName::Docker;
        let stream = &mut self.streams[stream];
        if at.is_some_and(|at| !stream.is_new(at)) {
            return None;
        }
        let bytes = stream.add(text, drops_newlines && !cut_here)?;
        Some(LogPiece { bytes, position: self.position() })
    }

    fn position(&self) -> LogPosition {
        LogPosition { output: self.streams[0].returned, error: self.streams[1].returned }
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

    /// Returns what an engine sends for `since`.
    fn from_second(messages: &[(u8, u8, &str)], since_ns: u64) -> Vec<u8> {
        let late_enough = messages.iter().filter(|(_, second, _)| u64::from(*second) * 1_000_000_000 >= since_ns);
        late_enough.flat_map(|(stream, second, text)| frame(*stream, *second, text)).collect()
    }

    #[test]
    fn lines_of_two_streams_are_complete_although_their_parts_interleave() {
        let bytes = [frame(1, 1, "epoch 1 "), frame(2, 2, "warning\n"), frame(1, 3, "loss 0.5\n")].concat();
        let pieces = LogDecoder::new(PODMAN, LogPosition::default()).push(&bytes).unwrap();
        assert_eq!(texts(&pieces), ["warning\n", "epoch 1 loss 0.5\n"]);
        let unread = LogMark::default();
        assert_eq!(pieces[0].position, LogPosition { output: unread, error: at(2, 1) }, "the first part is not lost");
        assert_eq!(pieces[1].position, LogPosition { output: at(3, 1), error: at(2, 1) });
    }

    #[test]
    fn the_dropped_newline_of_a_split_line_is_restored() {
        let long = "x".repeat(MESSAGE_LONGEST);
        let framed = [frame(1, 1, &long), frame(1, 1, "tail"), frame(1, 2, "next\n")].concat();
        let pieces = LogDecoder::new(FRAMED, LogPosition::default()).push(&framed).unwrap();
        assert_eq!(texts(&pieces), [format!("{long}tail\n"), "next\n".to_owned()]);
        let raw = format!("1970-01-01T00:00:01Z {long}1970-01-01T00:00:01Z a\rtail\r1970-01-01T00:00:02Z next\r\n");
        let pieces = LogDecoder::new(TERMINAL, LogPosition::default()).push(raw.as_bytes()).unwrap();
        assert_eq!(texts(&pieces), [format!("{long}a\rtail\r\n"), "next\r\n".to_owned()]);
    }

    /// Ordered within each stream, but not together; three messages at one instant.
    const DISORDERED: [(u8, u8, &str); 7] =
        [(1, 3, "a\n"), (2, 1, "b\n"), (2, 2, "c\n"), (1, 4, "d\n"), (1, 4, "e\n"), (2, 2, "f\n"), (1, 5, "g\n")];

    #[test]
    fn resuming_neither_repeats_nor_loses_a_message() {
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
    fn a_second_response_continues_where_the_first_ended() {
        for ended_after in 0..=DISORDERED.len() {
            let mut decoder = LogDecoder::new(FRAMED, LogPosition::default());
            let mut pieces = decoder.push(&from_second(&DISORDERED[..ended_after], 0)).unwrap();
            let since = decoder.resume().since();
            pieces.extend(decoder.push(&from_second(&DISORDERED, since)).unwrap());
            pieces.extend(decoder.finish());
            assert_eq!(texts(&pieces), ["a\n", "b\n", "c\n", "d\n", "e\n", "f\n", "g\n"], "ended after {ended_after}");
            assert_eq!(pieces[6].position, LogPosition { output: at(5, 1), error: at(2, 2) });
        }
    }

    #[test]
    fn a_silent_stream_does_not_make_the_engine_resend_everything() {
        let position = LogPosition { output: at(100, 1), error: LogMark::default() };
        assert_eq!(position.since(), 90_000_000_000);
        assert_eq!(LogPosition::default().since(), 0);
    }

    #[test]
    fn no_message_is_lost_if_the_clock_is_set_back() {
        let bytes = [frame(1, 50, "a\n"), frame(1, 10, "b\n"), frame(1, 11, "c\n")].concat();
        let from = LogPosition { output: at(49, 1), error: LogMark::default() };
        assert_eq!(texts(&LogDecoder::new(FRAMED, from).push(&bytes).unwrap()), ["a\n", "b\n", "c\n"]);
    }

    #[test]
    fn a_mark_after_the_present_time_does_not_hide_new_messages() {
        let from = LogPosition { output: at(50, 2), error: at(9, 1) }.not_after(10_000_000_000);
        assert_eq!(from, LogPosition { output: at(10, 0), error: at(9, 1) });
        let messages = [(1, 50, "a\n"), (1, 8, "b\n"), (1, 11, "c\n"), (2, 9, "d\n"), (2, 12, "e\n")];
        let pieces = LogDecoder::new(FRAMED, from).push(&from_second(&messages, from.since())).unwrap();
        assert_eq!(texts(&pieces), ["a\n", "c\n", "e\n"]);
    }

    #[test]
    fn terminal_output_is_split_at_line_ends_and_rejoined_at_the_splits_of_the_engine() {
        let long = "x".repeat(MESSAGE_LONGEST);
        let raw = format!("1970-01-01T00:00:01Z {long}1970-01-01T00:00:01Z tail\r\n1970-01-01T00:00:02Z next\r\n");
        let pieces = LogDecoder::new(TERMINAL, LogPosition::default()).push(raw.as_bytes()).unwrap();
        assert_eq!(texts(&pieces), [format!("{long}tail\r\n"), "next\r\n".to_owned()]);
    }

    #[test]
    fn an_endless_line_is_returned_in_pieces_of_limited_length() {
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
    fn the_end_of_the_response_returns_incomplete_lines() {
        let mut framed = LogDecoder::new(PODMAN, LogPosition::default());
        assert_eq!(framed.push(&frame(1, 1, "no newline")).unwrap(), []);
        assert_eq!(texts(&framed.finish()), ["no newline"]);
        let mut raw = LogDecoder::new(TERMINAL, LogPosition::default());
        assert_eq!(raw.push(b"1970-01-01T00:00:01Z no newline").unwrap(), []);
        assert_eq!(texts(&raw.finish()), ["no newline\n"]);
    }

    #[test]
    fn invalid_data_is_an_error_at_once() {
        let mut decoder = LogDecoder::new(FRAMED, LogPosition::default());
        assert_eq!(decoder.push(b"HTTP/1.1 200 OK\r\n"), Err(NoFrame));
        let mut decoder = LogDecoder::new(FRAMED, LogPosition::default());
        assert_eq!(decoder.push(&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]), Err(NoFrame));
    }

    proptest! {
        #[test]
        fn the_pieces_do_not_depend_on_how_the_response_is_split(
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
        fn any_bytes_can_be_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..400), tty: bool) {
            let mut decoder = LogDecoder::new(if tty { TERMINAL } else { FRAMED }, LogPosition::default());
            let _ = decoder.push(&bytes);
            decoder.finish();
        }
    }
}
