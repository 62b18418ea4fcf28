//! Rewrites a line in plain notation.

use super::form::{Rewrite, With, identifier_end};
use super::{call, digits, marks};
use crate::reader::parse::commas::Commas;
use crate::reader::parse::number;

/// Whether `line` is in plain notation.
pub(crate) fn is_plain(line: &[u8], commas: Commas) -> bool {
    next(line, 0, commas).is_none()
}

/// Writes `line` in plain notation to `plain`.
pub(crate) fn rewrite(line: &[u8], commas: Commas, plain: &mut Vec<u8>) {
    plain.clear();
    let mut copied = 0;
    while let Some((start, Rewrite { with, end })) = next(line, copied, commas) {
        plain.extend_from_slice(&line[copied..start]);
        match with {
            With::Text(text) => plain.extend_from_slice(text.as_bytes()),
            With::Part(part) => plain.extend_from_slice(&line[part]),
            With::Grouped { part, point } => digits::write_ungrouped(&line[part], point, plain),
        }
        copied = end;
    }
    plain.extend_from_slice(&line[copied..]);
}

/// Returns the next part of the line that is not in plain notation, at or after `at`, with its start.
fn next(line: &[u8], mut at: usize, commas: Commas) -> Option<(usize, Rewrite)> {
    while at < line.len() {
        let (rewrite, end) = match line[at] {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => word(line, at),
            b'0'..=b'9' => digits::rewrite(line, at, commas),
            b'<' => (call::of_angles(line, at), at + 1),
            0x80.. => (marks::rewrite(line, at), at + 1),
            _ => (None, at + 1),
        };
        if let Some(rewrite) = rewrite {
            return Some((at, rewrite));
        }
        at = end;
    }
    None
}

/// A word: the name of a call, a spelling of infinity, or any other.
fn word(line: &[u8], start: usize) -> (Option<Rewrite>, usize) {
    let end = identifier_end(line, start);
    if start > 0 && line[start - 1].is_ascii_alphanumeric() {
        return (None, end); // a unit
    }
    (call::rewrite(line, start, end).or_else(|| marks::word(line, start, end)), end)
}

/// Parses a number in any notation, as captured by the pattern of the hints.
pub(crate) fn parse(text: &[u8]) -> Option<f64> {
    let mut plain = Vec::new();
    rewrite(text, Commas::Guessed, &mut plain);
    number::parse(&plain)
}
