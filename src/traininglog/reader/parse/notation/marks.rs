//! Signs, blanks and words of a number outside of ASCII or plain English: `−0.5`, `∞`, `NaN32`, `34,5 %` with a narrow blank.

use super::digits::GROUPING;
use super::form::{MINUS, Rewrite, With, assigned_name};

/// A dash that some programs print as a minus sign.
const DASH: &str = "\u{2013}";

const INFINITY: &str = "∞";

/// Words for a value that is missing.
const MISSING: [&[u8]; 3] = [b"None", b"null", b"NA"];

/// Words for values that are not finite, with and without the number of bits or the kind behind them.
const NOT_FINITE: [&str; 2] = ["nan", "inf"];

/// Returns what becomes of the character at `at`, which is not ASCII.
pub(super) fn rewrite(line: &[u8], at: usize) -> Option<Rewrite> {
    let rest = &line[at..];
    // Bars consist of other characters.
    if !matches!(rest, [0xE2, 0x80 | 0x88, ..] | [0xEF | 0xC2, ..]) {
        return None;
    }
    let replaced = |sign: &str, with: &'static str| Rewrite { with: With::Text(with), end: at + sign.len() };
    let is = |sign: &&&str| rest.starts_with(sign.as_bytes());
    if let Some(sign) = MINUS.iter().find(is) {
        let joins = at > 0 && (line[at - 1].is_ascii_alphanumeric() || line[at - 1] == b'_');
        return (!joins).then(|| replaced(sign, "-"));
    }
    if is(&&DASH) {
        let is_sign = is_digit(line.get(at + DASH.len())) && assigned_name(line, at).is_some();
        return is_sign.then(|| replaced(DASH, "-"));
    }
    if is(&&INFINITY) {
        return Some(replaced(INFINITY, "inf"));
    }
    let blank = GROUPING.iter().filter(|sign| sign.chars().all(char::is_whitespace)).find(is)?;
    let beside = is_digit(line.get(at + blank.len())) || at > 0 && is_digit(line.get(at - 1));
    beside.then(|| replaced(blank, " "))
}

fn is_digit(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// Whether a word stands for a missing value.
pub(crate) fn is_missing(word: &[u8]) -> bool {
    MISSING.contains(&word)
}

/// Returns what becomes of a word, if it is a missing value or not finite: `NaN32`, `nan(ind)`, `loss=None`.
pub(super) fn word(line: &[u8], start: usize, end: usize) -> Option<Rewrite> {
    let word = &line[start..end];
    if is_missing(word) && assigned_name(line, start).is_some() {
        return Some(Rewrite { with: With::Text("-"), end });
    }
    let kind = NOT_FINITE.iter().find(|kind| word.len() >= 3 && word[..3].eq_ignore_ascii_case(kind.as_bytes()))?;
    match (&word[3..], line.get(end)) {
        ([b'0'..=b'9', b'0'..=b'9'], _) => Some(Rewrite { with: With::Text(kind), end }),
        (b"", Some(b'(')) => {
            let inside = line[end + 1..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            let closed = line.get(end + 1 + inside) == Some(&b')') && *kind == "nan";
            closed.then_some(Rewrite { with: With::Text(kind), end: end + inside + 2 })
        }
        _ => None,
    }
}
