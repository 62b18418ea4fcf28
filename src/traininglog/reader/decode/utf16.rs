//! Decodes UTF-16 with a byte order mark, as written by output redirection in PowerShell.
//!
//! The result does not depend on how the input is cut. Invalid characters become the replacement character.

use super::lines::{LineDecoder, Rendering};

/// Bytes needed to recognise such a log.
pub(crate) const RECOGNISE: usize = 2;

/// Byte order marks of little and big endian.
const MARKS: [[u8; 2]; 2] = [[0xFF, 0xFE], [0xFE, 0xFF]];

/// Whether the first bytes of a stream can be such a log.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    let length = bytes.len().min(RECOGNISE);
    MARKS.iter().any(|mark| bytes[..length] == mark[..length])
}

/// Turns UTF-16 into lines; see the module.
#[derive(Debug)]
pub(crate) struct Utf16Decoder {
    /// Decodes a code unit in the byte order of the mark.
    unit_of: fn([u8; 2]) -> u16,
    /// The first byte of an incomplete code unit.
    odd: Option<u8>,
    /// The first half of a surrogate pair.
    half: Option<u16>,
    inner: LineDecoder,
}

impl Utf16Decoder {
    pub(crate) fn new() -> Self {
        Utf16Decoder { unit_of: u16::from_le_bytes, odd: None, half: None, inner: LineDecoder::new() }
    }

    /// Reads the next bytes and reports each rendering that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], each: impl FnMut(Rendering<'_>)) {
        let mut text = String::new();
        for &byte in bytes {
            let Some(first) = self.odd.take() else {
                self.odd = Some(byte);
                continue;
            };
            match ([first, byte], (self.unit_of)([first, byte])) {
                (mark, _) if mark == MARKS[0] => self.unit_of = u16::from_le_bytes,
                (mark, _) if mark == MARKS[1] => self.unit_of = u16::from_be_bytes,
                (_, unit @ 0xD800..0xDC00) => self.half = Some(unit),
                (_, unit) => {
                    let units = self.half.take().into_iter().chain([unit]);
                    text.extend(char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)));
                }
            }
        }
        self.inner.push(text.as_bytes(), each);
    }

    /// Reports an unfinished last line.
    pub(crate) fn finish(&mut self, each: impl FnMut(Rendering<'_>)) {
        self.inner.finish(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_byte_orders_are_read_for_any_cut() {
        let text = "\u{feff}第1轮 loss: 0.5 🚀\r\nend";
        for order in [u16::to_le_bytes as fn(u16) -> [u8; 2], u16::to_be_bytes] {
            let log: Vec<u8> = text.encode_utf16().flat_map(order).collect();
            assert!(may_begin(&log) && may_begin(&log[..1]));
            for cut in 1..log.len() {
                let mut seen = Vec::new();
                let mut decoder = Utf16Decoder::new();
                for part in log.chunks(cut) {
                    decoder.push(part, |r| seen.push((r.line, String::from_utf8_lossy(r.text).into_owned())));
                }
                decoder.finish(|r| seen.push((r.line, String::from_utf8_lossy(r.text).into_owned())));
                assert_eq!(
                    seen,
                    [(1, "第1轮 loss: 0.5 🚀".to_owned()), (2, "end".to_owned())],
                    "cut every {cut} bytes"
                );
            }
        }
    }
}
