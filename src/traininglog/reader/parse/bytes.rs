//! Classifies bytes by a table, and provides constants for handling eight bytes at once.

/// A one in each byte.
pub(super) const EACH: u64 = 0x0101_0101_0101_0101;

/// The class of a byte: the kind of token that it may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Blank,
    Letter,
    Digit,
    Mark,
    /// Box drawing, or another character of three bytes.
    Box,
}

const CLASS: [Class; 256] = classes();

impl Class {
    #[inline]
    pub(super) fn of(byte: u8) -> Class {
        CLASS[usize::from(byte)]
    }
}

const fn classes() -> [Class; 256] {
    let mut table = [Class::Mark; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = match b {
            b' ' | b'\t' | 0..=8 | 11..=31 => Class::Blank,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            0xE2 => Class::Box,
            0x80..=0xFF => Class::Letter,
            _ => Class::Mark,
        };
        byte += 1;
    }
    table
}
