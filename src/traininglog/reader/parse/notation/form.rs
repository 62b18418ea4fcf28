//! What a part of a line becomes in plain notation, and the text around it.

use crate::reader::parse::lexicon;
use std::ops::Range;

/// Minus signs other than `-`.
pub(super) const MINUS: [&str; 3] = ["\u{2212}", "\u{ff0d}", "\u{fe63}"];

/// A part of a line and what it becomes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rewrite {
    pub with: With,
    /// Offset of the byte after the part.
    pub end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum With {
    Text(&'static str),
    /// This part of the line.
    Part(Range<usize>),
    /// The digits of this part of the line, without separators of groups. `point`: the decimal point, if it is part of it.
    Grouped {
        part: Range<usize>,
        point: Option<u8>,
    },
}

/// Returns the end of the dotted identifier at `start`: `np.float32`, `decimal::Decimal`.
pub(super) fn identifier_end(line: &[u8], start: usize) -> usize {
    let begins = |at: usize| line.get(at).is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let mut end = start;
    loop {
        end += line[end..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        end += match line.get(end..) {
            Some([b'.', ..]) if begins(end + 1) => 1,
            Some([b':', b':', ..]) if begins(end + 2) => 2,
            _ => return end,
        };
    }
}

/// Returns the offset of the first byte at or after `at` that is no blank.
pub(super) fn after_blanks(line: &[u8], at: usize) -> usize {
    at + line.get(at..).unwrap_or_default().iter().take_while(|byte| **byte == b' ').count()
}

/// Returns the last word of the name before `start` and a sign, if a colon or `=` follows it: `loss: `, `'acc': "`. A number before the colon
/// (`Epoch 3: `) and a data split (`train: `) name no value.
pub(super) fn assigned_name(line: &[u8], start: usize) -> Option<String> {
    let quotes = |byte: &&u8| matches!(byte, b' ' | b'"' | b'\'' | b'<');
    let trimmed = |end: usize| end - line[..end].iter().rev().take_while(quotes).count();
    let sign = ["-", "+"].iter().chain(&MINUS).find(|sign| line[..start].ends_with(sign.as_bytes()));
    let before = &line[..trimmed(start - sign.map_or(0, |sign| sign.len()))];
    let marks = [":", "=", "："];
    let name = marks.iter().find_map(|mark| before.strip_suffix(mark.as_bytes()))?;
    let name = &name[..trimmed(name.len())];
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'@') || !byte.is_ascii();
    let word = String::from_utf8_lossy(&name[name.len() - name.iter().rev().take_while(part).count()..]).into_owned();
    (word.contains(char::is_alphabetic) && !lexicon::names_a_split(&word)).then_some(word)
}
