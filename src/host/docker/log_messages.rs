//! Splits the bytes of the logs API into messages with timestamps. Pure.
//!
//! Without a terminal the response consists of frames: `[stream, 0, 0, 0, length (4 bytes, big-endian)]` and a message. With a terminal it
//! is the raw output. Each message begins with a timestamp and a space.

use model::time::unix_nanos;

/// Docker splits a line into messages of this many bytes.
pub(super) const MESSAGE_LONGEST: usize = 16 << 10;
/// Maximum length of a frame; a message with its timestamp, and the longer lines of Podman, are much shorter.
pub(super) const FRAME_LONGEST: usize = 1 << 20;
const TIMESTAMP_LONGEST: usize = 40;

/// The bytes are not a frame of the logs API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid frame of the logs API")]
pub(super) struct NoFrame;

/// Stream (0 = standard output, 1 = standard error), message, and number of bytes consumed.
pub(super) type Cut<'a> = (usize, &'a [u8], usize);

/// Returns the message of the first complete frame.
pub(super) fn framed_message(bytes: &[u8]) -> Result<Option<Cut<'_>>, NoFrame> {
    let Some((header, rest)) = bytes.split_at_checked(8) else { return Ok(None) };
    let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
    if header[0] > 2 || header[1..4] != [0, 0, 0] || length > FRAME_LONGEST {
        return Err(NoFrame);
    }
    let stream = usize::from(header[0] == 2);
    Ok(rest.get(..length).map(|message| (stream, message, 8 + length)))
}

/// Returns the first message of the raw output of a terminal: up to the end of a line, or the maximum length of a message.
pub(super) fn raw_message(bytes: &[u8], in_long_line: bool) -> Option<Cut<'_>> {
    let text_from = timestamp_length(bytes);
    let longest = text_from + MESSAGE_LONGEST;
    let head = &bytes[..bytes.len().min(longest)];
    let missing_end = if in_long_line { missing_end(bytes, text_from, head.len()) } else { None };
    let length = match missing_end.or_else(|| memchr::memchr(b'\n', head).map(|end| end + 1)) {
        Some(length) => length,
        None if bytes.len() >= longest => longest,
        None => return None,
    };
    Some((0, &bytes[..length], length))
}

/// Finds the end of the last part of a long line whose newline is missing: a carriage return of the terminal, followed by the timestamp of
/// the next message.
fn missing_end(bytes: &[u8], from: usize, to: usize) -> Option<usize> {
    let returns = memchr::memchr_iter(b'\r', &bytes[from..to]).map(|at| from + at + 1);
    returns.into_iter().find(|&next| timestamp(&bytes[next..]).is_some())
}

fn timestamp_length(message: &[u8]) -> usize {
    timestamp(message).map_or(0, |(_, length)| length)
}

pub(super) fn timestamp_and_text(message: &[u8]) -> (Option<u64>, &[u8]) {
    match timestamp(message) {
        Some((at, length)) => (Some(at), &message[length..]),
        None => (None, message),
    }
}

/// Returns the instant, and the length of the timestamp including the space.
fn timestamp(message: &[u8]) -> Option<(u64, usize)> {
    let head = &message[..message.len().min(TIMESTAMP_LONGEST)];
    let end = memchr::memchr(b' ', head)?;
    Some((unix_nanos(std::str::from_utf8(&head[..end]).ok()?)?, end + 1))
}
