//! Digits in groups, and what stands directly behind digits: `1'234.5`, `2_050_346`, `12,34,567`, `1.234,56`, `1.#INF`, `0.345(12)`.

use super::form::{Rewrite, With, assigned_name};
use crate::reader::parse::commas::Commas;
use crate::reader::parse::meaning::Meaning;
use crate::reader::parse::{lexicon, numeral};

/// Separators of groups of three digits, other than the comma, which `numeral` reads.
pub(super) const GROUPING: [&str; 7] = ["_", "'", "\u{2019}", "\u{a0}", "\u{202f}", "\u{2009}", "\u{2007}"];

/// Digits of a group.
const GROUP: usize = 3;

/// Maximum digits of an uncertainty in brackets.
const UNCERTAINTY_MAX: usize = 3;

/// Reads the number at `start`; returns what becomes of it, and its end if it stays.
pub(super) fn rewrite(line: &[u8], start: usize, commas: Commas) -> (Option<Rewrite>, usize) {
    let (end, kind) = numeral::numeral(line, start, commas == Commas::Divide);
    // Most numbers are plain.
    if !matches!(line.get(start + digits(line, start)), Some(b'_' | b'\'' | b',' | b'.' | 0x80..)) {
        return (None, end);
    }
    let with_comma = || match commas {
        Commas::Divide => None,
        _ if numeral::follows_clock(line, start) => None,
        Commas::Decimal => with_decimal_comma(line, start),
        // A row of a table without a header may begin the line.
        Commas::Guessed if start == 0 => None,
        Commas::Guessed => {
            with_decimal_comma(line, start).filter(|_| has_points(line, start) || has_one_decimal(line, start))
        }
    };
    let in_lakhs = || if commas == Commas::Guessed && start > 0 { in_lakhs(line, start) } else { None };
    let rewrite = |(end, point)| Rewrite { with: With::Grouped { part: start..end, point }, end };
    let whole = |end| (end, None);
    let found = (grouped(line, start).map(whole))
        .or_else(|| with_comma().map(|end| (end, Some(b','))))
        .or_else(|| in_lakhs().map(whole))
        .map(rewrite);
    let is_plain = || kind == numeral::PLAIN;
    let found = found
        .or_else(|| if is_plain() { not_finite(line, start) } else { None })
        .or_else(|| if is_plain() { with_uncertainty(line, start, end) } else { None });
    (found, end)
}

/// Writes the digits of a number without separators of groups.
pub(super) fn write_ungrouped(number: &[u8], point: Option<u8>, plain: &mut Vec<u8>) {
    for byte in number {
        match byte {
            b'0'..=b'9' => plain.push(*byte),
            mark if point == Some(*mark) => plain.push(b'.'),
            _ => {}
        }
    }
}

fn digits(line: &[u8], at: usize) -> usize {
    line.get(at..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn is_word(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Whether the digits at `start` begin a number that may have several groups.
fn begins(line: &[u8], start: usize) -> bool {
    let before = start.checked_sub(1).map(|at| line[at]);
    !before.is_some_and(|byte| matches!(byte, b'.' | b',' | b'\'' | b'_') || byte.is_ascii_alphanumeric())
}

/// Returns the end of groups of three digits after `first` digits, each behind `separator`.
fn groups_end(line: &[u8], start: usize, separator: &[u8]) -> Option<usize> {
    let first = digits(line, start);
    let (mut end, mut groups) = (start + first, 0);
    while line[end..].starts_with(separator) && digits(line, end + separator.len()) == GROUP {
        (end, groups) = (end + separator.len() + GROUP, groups + 1);
    }
    ((1..=GROUP).contains(&first) && groups > 0).then_some(end)
}

/// `1'234`, `2_050_346`, `2 050 346` with a narrow blank: one separator between groups of three.
fn grouped(line: &[u8], start: usize) -> Option<usize> {
    let has_separator = |separator: &&&str| line[start + digits(line, start)..].starts_with(separator.as_bytes());
    let separator = GROUPING.iter().find(has_separator).filter(|_| begins(line, start))?.as_bytes();
    let end = groups_end(line, start, separator)?;
    // `100_200.pt` and `2024_001_a` are names.
    let continues = line[end..].starts_with(separator) && is_word(line.get(end + separator.len()));
    let is_name = is_word(line.get(end)) || line.get(end) == Some(&b'.') && is_letter(line.get(end + 1));
    let is_part_of_name = continues || is_name && separator == b"_";
    (!is_part_of_name).then_some(end)
}

fn is_letter(byte: Option<&u8>) -> bool {
    byte.is_some_and(u8::is_ascii_alphabetic)
}

/// Whether digits at `start` are in a list without blanks, and whether a number that ends at `end` is followed by another one.
fn is_listed(line: &[u8], start: usize, end: usize) -> bool {
    let opened = start > 0 && matches!(line[start - 1], b'[' | b'(' | b'{');
    let followed = matches!(line.get(end), Some(b',' | b'.' | b':')) && digits(line, end + 1) > 0;
    opened || followed || is_word(line.get(end))
}

/// `1.234,56`, `0,531`: points between groups, and a decimal comma.
fn with_decimal_comma(line: &[u8], start: usize) -> Option<usize> {
    let comma = groups_end(line, start, b".").unwrap_or(start + digits(line, start));
    let decimals = if line.get(comma) == Some(&b',') { digits(line, comma + 1) } else { 0 };
    let end = comma + 1 + decimals;
    (decimals > 0 && begins(line, start) && !is_listed(line, start, end)).then_some(end)
}

fn has_points(line: &[u8], start: usize) -> bool {
    line.get(start + digits(line, start)) == Some(&b'.')
}

/// `34,5 %`, or `Verlust: 2,3` under the name of a metric: one decimal.
fn has_one_decimal(line: &[u8], start: usize) -> bool {
    let comma = start + digits(line, start);
    let rest = line.get(comma + 2..).unwrap_or_default();
    let is_one = line.get(comma) == Some(&b',') && digits(line, comma + 1) == 1;
    let names_metric = || {
        let name = assigned_name(line, start);
        name.is_some_and(|name| matches!(lexicon::meaning(&name), Meaning::Metric { .. }))
    };
    is_one && (rest.trim_ascii_start().starts_with(b"%") || names_metric())
}

/// `12,34,567`: groups of two digits before a group of three.
fn in_lakhs(line: &[u8], start: usize) -> Option<usize> {
    let first = digits(line, start);
    let (mut end, mut pairs) = (start + first, 0);
    let group = |end: usize| if line.get(end) == Some(&b',') { digits(line, end + 1) } else { 0 };
    while group(end) == 2 {
        (end, pairs) = (end + 3, pairs + 1);
    }
    let is_whole = (1..=2).contains(&first) && pairs > 0 && group(end) == GROUP && begins(line, start);
    end += 1 + GROUP;
    let is_decimal = line.get(end) == Some(&b'.') && digits(line, end + 1) > 0;
    (is_whole && (is_decimal || !is_listed(line, start, end))).then_some(end)
}

/// `1.#INF`, `1.#QNAN0`, as the C library of older Windows versions prints.
fn not_finite(line: &[u8], start: usize) -> Option<Rewrite> {
    let text = line[start + 1..].strip_prefix(b".#")?; // always after 1
    let letters = text.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let with = match &text[..letters] {
        b"INF" => With::Text("inf"),
        b"QNAN" | b"SNAN" | b"IND" => With::Text("nan"),
        _ => return None,
    };
    Some(Rewrite { with, end: start + 3 + letters + digits(text, letters) })
}

/// `0.345(12)`: the uncertainty of the last digits.
fn with_uncertainty(line: &[u8], start: usize, end: usize) -> Option<Rewrite> {
    if line.get(end) != Some(&b'(') || !line[start..end].contains(&b'.') {
        return None;
    }
    let count = digits(line, end + 1);
    let is_uncertainty = (1..=UNCERTAINTY_MAX).contains(&count) && line.get(end + 1 + count) == Some(&b')');
    is_uncertainty.then_some(Rewrite { with: With::Part(start..end), end: end + count + 2 })
}
