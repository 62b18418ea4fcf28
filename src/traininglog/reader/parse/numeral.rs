//! Finds the end of a number, and its beginning after a sign or a point.
//!
//! Problem: `1,234.5`, `0,531`, `3.2e-4`, `1.e-05`, `1.2.3`, `0x7f22` and lists such as `3,4,5` all begin with digits; `-inf` has none.

use super::bytes::{Class, EACH};

/// Returns the offset of the digits if the sign or point at `start` begins a number.
#[inline]
pub(super) fn number_behind_mark(line: &[u8], start: usize) -> Option<usize> {
    let digit = |at: usize| line.get(at).is_some_and(u8::is_ascii_digit);
    match line[start] {
        b'-' | b'+' if may_have_sign(line, start) => {
            let pointed = line.get(start + 1) == Some(&b'.') && digit(start + 2);
            (pointed || digit(start + 1)).then_some(start + 1)
        }
        b'.' if !follows_word(line, start) => digit(start + 1).then_some(start),
        _ => None,
    }
}

fn follows_word(line: &[u8], start: usize) -> bool {
    start > 0 && matches!(Class::of(line[start - 1]), Class::Letter | Class::Digit)
}

/// Whether a sign at `start` belongs to what follows; otherwise it joins two terms.
fn may_have_sign(line: &[u8], start: usize) -> bool {
    !follows_word(line, start) && (start == 0 || !matches!(line[start - 1], b')' | b']'))
}

/// Returns the end of the signed infinity or NaN that begins with the sign at `start`: `-inf`, `+Infinity`.
#[inline]
pub(super) fn signed_not_finite(line: &[u8], start: usize) -> Option<usize> {
    let is_signed = matches!(line[start], b'-' | b'+') && may_have_sign(line, start);
    if is_signed { not_finite_end(line, start + 1) } else { None }
}

fn not_finite_end(line: &[u8], start: usize) -> Option<usize> {
    let letters = line.get(start..)?.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let end = start + letters;
    let ends_there = line.get(end).is_none_or(|next| !matches!(Class::of(*next), Class::Letter | Class::Digit));
    (ends_there && is_not_finite(&line[start..end])).then_some(end)
}

/// Whether the digits at `start` are the seconds of a time: `05,123` of `17:05,123`.
pub(super) fn follows_clock(line: &[u8], start: usize) -> bool {
    matches!(line[..start], [.., b'0'..=b'9', b':'])
}

/// Whether a word is a number that is not finite.
pub(super) fn is_not_finite(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"nan") || word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"infinity")
}

/// Returns the end of the plain number at `start`, which may have a sign. A comma is no part of it.
pub(super) fn number_end(line: &[u8], start: usize) -> Option<usize> {
    let begin = start + usize::from(matches!(line.get(start)?, b'-' | b'+'));
    let pointed = usize::from(line.get(begin) == Some(&b'.'));
    if !line.get(begin + pointed).is_some_and(u8::is_ascii_digit) {
        return not_finite_end(line, begin);
    }
    let (end, kind) = numeral(line, begin, true);
    (kind == PLAIN).then_some(end)
}

/// The kind of a plain number, as opposed to a version or a hexadecimal address.
pub(super) const PLAIN: u8 = b'#';

/// Returns the end of the number whose digits begin at `digits`, and its kind.
#[inline]
pub(super) fn numeral(line: &[u8], digits: usize, commas_divide: bool) -> (usize, u8) {
    // Fast path: a few digits, possibly with a point.
    let Some(chunk) = line.get(digits..).and_then(<[u8]>::first_chunk::<8>) else {
        return other_numeral(line, digits, commas_divide);
    };
    let others = others_than_digits(*chunk);
    let Some(whole) = first_of(others) else { return other_numeral(line, digits, commas_divide) };
    let (length, pointed) = match chunk[whole] {
        b'.' => (first_of(others & (others - 1)), true),
        _ => (Some(whole), false),
    };
    match length {
        Some(length) if !pointed || length > whole + 1 => match chunk[length] {
            b'.' | b'e' | b'E' | b'd' | b'D' | b'f' => other_numeral(line, digits, commas_divide),
            b',' | b'x' if !pointed => other_numeral(line, digits, commas_divide),
            _ => (digits + length, PLAIN),
        },
        _ => other_numeral(line, digits, commas_divide),
    }
}

fn other_numeral(line: &[u8], digits: usize, commas_divide: bool) -> (usize, u8) {
    let mut end = end_with_decimals(line, digits, commas_divide);
    if line.get(end) == Some(&b'.') && line.get(end + 1).is_some_and(u8::is_ascii_digit) {
        // 1.2.3 is a version or an address.
        while end < line.len() && (line[end].is_ascii_digit() || line[end] == b'.') {
            end += 1;
        }
        return (end, b'v');
    }
    if line[digits] == b'0' && line.get(end) == Some(&b'x') && end == digits + 1 {
        end += 1;
        while end < line.len() && line[end].is_ascii_hexdigit() {
            end += 1;
        }
        return (end, b'x');
    }
    (end, PLAIN)
}

fn end_with_decimals(line: &[u8], digits: usize, commas_divide: bool) -> usize {
    let mut end = digits_end(line, digits);
    if line.get(end) == Some(&b',') && !commas_divide {
        end = comma_end(line, digits, end);
    }
    if line.get(end) == Some(&b'.') && line.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = digits_end(line, end + 1);
    } else if let Some([b'.', b'e' | b'E' | b'd' | b'D', b'-' | b'+']) = line.get(end..end + 3) {
        end += 1; // NumPy prints `1.e-05`
    }
    exponent_end(line, end)
}

/// Reads eight bytes at a time, because the end of a loop over bytes is mispredicted by the branch predictor.
#[inline]
fn digits_end(line: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = line.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let others = others_than_digits(*chunk);
        if others != 0 {
            return at + others.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < line.len() && line[at].is_ascii_digit() {
        at += 1;
    }
    at
}

/// Returns the highest bit of each byte that is no digit. Only the first such byte is reliable, and the second one if the first is ASCII.
#[inline]
fn others_than_digits(chunk: [u8; 8]) -> u64 {
    // Digits become 0 ..= 9; larger values set the highest bit. Only a non-ASCII byte carries into the following bytes.
    let values = u64::from_le_bytes(chunk) ^ (EACH * 0x30);
    (values.wrapping_add(EACH * 0x76) | values) & (EACH * 0x80)
}

/// Returns the index of the first byte whose highest bit is set.
#[inline]
fn first_of(bits: u64) -> Option<usize> {
    (bits != 0).then(|| bits.trailing_zeros() as usize / 8)
}

/// Returns the end of a number with commas: thousands separators (`1,234,567`) or a decimal comma (`0,5312`), but not the separators of a
/// list (`3,4`, `5,100,0.9`).
fn comma_end(line: &[u8], digits: usize, comma: usize) -> usize {
    if digits > 0 && line[digits - 1] == b',' {
        return comma;
    }
    let mut end = comma;
    while line.get(end) == Some(&b',') {
        let group = digits_end(line, end + 1);
        if group - end - 1 != 3 || comma - digits > 3 {
            break;
        }
        end = group;
    }
    if line.get(end) == Some(&b',') && line.get(end + 1).is_some_and(u8::is_ascii_digit) {
        let after = digits_end(line, end + 1);
        let decimals = after - comma - 1;
        let zero = line[digits] == b'0' && comma == digits + 1;
        let listed = digits > 0 && matches!(line[digits - 1], b'[' | b'(' | b'{');
        // More than three digits before a comma are no group; at the beginning of a line they may be a column.
        let is_long = digits > 0 && comma - digits > 3;
        let is_point = decimals == 2 || decimals > 3 || decimals == 3 && (zero || is_long);
        let divides = end == comma && !listed && is_point;
        // A comma or a full stop may follow, but not the next number of a list.
        let continues = match line.get(after) {
            Some(b',' | b'.') => line.get(after + 1).is_some_and(u8::is_ascii_digit),
            next => matches!(next, Some(b':' | b'/')),
        };
        return if divides && !continues { after } else { comma };
    }
    end
}

fn exponent_end(line: &[u8], at: usize) -> usize {
    let Some(b'e' | b'E' | b'd' | b'D' | b'f') = line.get(at) else { return at };
    let signed = matches!(line.get(at + 1), Some(b'-' | b'+'));
    if !signed && matches!(line[at], b'd' | b'D') {
        return at;
    }
    // Julia prints `0.847f0`; `12f4` is part of an identifier.
    if line[at] == b'f' && line[..at].iter().rfind(|byte| !byte.is_ascii_digit()) != Some(&b'.') {
        return at;
    }
    let digits = at + 1 + usize::from(signed);
    let end = digits_end(line, digits);
    let ends_there = line.get(end).is_none_or(|next| !next.is_ascii_alphanumeric());
    if end > digits && end - digits <= 4 && ends_there { end } else { at }
}
