//! A call or a wrapper around one number: `np.float32(0.5)`, `tensor([0.5], device='cuda:0')`, `<tf.Tensor: shape=(), numpy=0.5>`.
//!
//! Problem: `loss: tensor(0.5)` names its value `loss`, and `rho(0.5)` names it `rho`. Approach: a call is a wrapper if its name is a type
//! of numbers, or if a name with a colon or `=` stands before it. Of its arguments exactly one is a number, a string of a number or a list
//! of numbers; the others have keys or are strings. Properties: a call with two numbers stays, because neither is certainly the value.

use super::form::{Rewrite, With, after_blanks, assigned_name, identifier_end};
use crate::reader::parse::meaning::Meaning;
use crate::reader::parse::{lexicon, numeral};
use std::ops::Range;

/// Endings of the names of types.
const TYPES: [&str; 7] = ["array", "decimal", "double", "float", "scalar", "tensor", "variable"];

/// Names of types that are also endings of other words.
const SHORT_TYPES: [&str; 2] = ["int", "uint"];

/// Keys of the argument that is the value.
const VALUE_KEYS: [&[u8]; 3] = [b"numpy=", b"data=", b"value="];

/// Maximum bytes of a call.
const CALL_MAX: usize = 256;

/// Maximum depth of calls in calls and lists in lists.
const DEPTH_MAX: usize = 2;

/// A value inside of a wrapper.
struct Value {
    /// The number, or the list of numbers with its brackets.
    part: Range<usize>,
    end: usize,
}

/// Whether the bracket at `open` may belong to a wrapper, to an uncertainty, or to the kind of a NaN: a quick look at the word before it.
pub(crate) fn may_wrap(line: &[u8], open: usize) -> bool {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let start = open - line[..open].iter().rev().take_while(is_part).count();
    let name = &line[start..open];
    let has_digits = name.iter().any(u8::is_ascii_digit);
    let has_mark = || line[..start].iter().any(|byte| matches!(byte, b':' | b'=' | 0x80..));
    let may_be_assigned = || start > CALL_MAX || has_mark();
    match name.first() {
        None => false,
        Some(first) if first.is_ascii_digit() => true,
        Some(_) => is_type(name) || name.eq_ignore_ascii_case(b"nan") || !has_digits && may_be_assigned(),
    }
}

/// Whether a value in angle brackets begins at `start`.
pub(crate) fn begins_in_angles(line: &[u8], start: usize) -> bool {
    of_angles(line, start).is_some()
}

/// Returns what becomes of the identifier if it calls a wrapper.
pub(super) fn rewrite(line: &[u8], start: usize, end: usize) -> Option<Rewrite> {
    if line.get(end) != Some(&b'(') {
        return None;
    }
    let name = last_part(&line[start..end]);
    let is_wrapper = is_type(name) || names_nothing(name) && assigned_name(line, start).is_some();
    if !is_wrapper {
        return None;
    }
    let Value { part, end } = arguments(&line[..line.len().min(end + CALL_MAX)], end, 0)?;
    Some(Rewrite { with: With::Part(part), end })
}

/// Returns what becomes of `<Type: key=value, numpy=NUMBER>` at `start`.
pub(super) fn of_angles(line: &[u8], start: usize) -> Option<Rewrite> {
    let Value { part, end } = angles(&line[..line.len().min(start + CALL_MAX)], start, 0)?;
    Some(Rewrite { with: With::Part(part), end })
}

fn last_part(identifier: &[u8]) -> &[u8] {
    identifier.rsplit(|byte| matches!(byte, b'.' | b':')).next().unwrap_or_default()
}

fn is_type(name: &[u8]) -> bool {
    let letters = name.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |last| last + 1);
    let name = &name[..letters];
    let ends_in = |ending: &str| {
        let begin = name.len().checked_sub(ending.len());
        begin.is_some_and(|begin| name[begin..].eq_ignore_ascii_case(ending.as_bytes()))
    };
    TYPES.iter().any(|ending| ends_in(ending))
        || SHORT_TYPES.iter().any(|short| name.eq_ignore_ascii_case(short.as_bytes()))
}

/// Whether a name is no name of a value. Digits distinguish values: `L1(0.5)`.
fn names_nothing(name: &[u8]) -> bool {
    !name.iter().any(u8::is_ascii_digit) && lexicon::meaning(&String::from_utf8_lossy(name)) == Meaning::Unknown
}

/// Reads the arguments of a call whose bracket opens at `open`.
fn arguments(line: &[u8], open: usize, depth: usize) -> Option<Value> {
    let (mut found, mut at) = (None, open + 1);
    loop {
        at = after_blanks(line, at);
        let (part, end) = argument(line, at, depth)?;
        if part.is_some() && std::mem::replace(&mut found, part).is_some() {
            return None;
        }
        at = after_blanks(line, end);
        match line.get(at)? {
            b',' => at += 1,
            b')' => return found.map(|part| Value { part, end: at + 1 }),
            _ => return None,
        }
    }
}

/// Reads one argument: returns the value that it is, if any, and its end. `None` if it is neither a value, nor a string, nor has a key.
fn argument(line: &[u8], at: usize, depth: usize) -> Option<(Option<Range<usize>>, usize)> {
    if let Some(key) = VALUE_KEYS.iter().find(|key| line[at..].starts_with(key))
        && let Some(Value { part, end }) = value(line, at + key.len(), depth)
    {
        return Some((Some(part), end));
    }
    let name = identifier_end(line, at);
    if name > at && line.get(name) == Some(&b'=') {
        return Some((None, skipped(line, name + 1)?));
    }
    if let Some(Value { part, end }) = value(line, at, depth) {
        return Some((Some(part), end));
    }
    let is_string = matches!(line.get(at), Some(b'\'' | b'"'));
    if is_string { Some((None, skipped(line, at)?)) } else { None }
}

/// Reads a value: a number, a quoted number, a list of numbers, or another wrapper.
fn value(line: &[u8], at: usize, depth: usize) -> Option<Value> {
    if depth > DEPTH_MAX {
        return None;
    }
    match line.get(at)? {
        quote @ (b'\'' | b'"') => {
            let Value { part, end } = number(line, at + 1)?;
            (line.get(end) == Some(quote)).then_some(Value { part, end: end + 1 })
        }
        b'[' => list(line, at),
        b'<' => angles(line, at, depth + 1),
        _ => number(line, at).or_else(|| {
            let end = identifier_end(line, at);
            let is_wrapper = line.get(end) == Some(&b'(') && is_type(last_part(&line[at..end]));
            if is_wrapper { arguments(line, end, depth + 1) } else { None }
        }),
    }
}

/// Reads a number; a point without decimals is no part of it: `tensor(1.)`.
fn number(line: &[u8], at: usize) -> Option<Value> {
    let end = numeral::number_end(line, at)?;
    Some(Value { part: at..end, end: end + usize::from(line.get(end) == Some(&b'.')) })
}

/// Reads a list of numbers. If it has one, this is the value: `[[0.5]]`.
fn list(line: &[u8], start: usize) -> Option<Value> {
    let (mut at, mut depth, mut only, mut count) = (start, 0, None, 0);
    loop {
        match line.get(at)? {
            b'[' => depth += 1,
            b']' => depth -= 1,
            b' ' | b',' => {}
            _ => {
                let Value { part, end } = number(line, at)?;
                (only, count) = (Some(part), count + 1);
                at = end;
                continue;
            }
        }
        at += 1;
        if depth == 0 {
            let part = if count == 1 { only? } else { start..at };
            return (count > 0).then_some(Value { part, end: at });
        }
    }
}

/// Reads `<Type: key=value, numpy=NUMBER>`.
fn angles(line: &[u8], start: usize, depth: usize) -> Option<Value> {
    let name = identifier_end(line, start + 1);
    if !is_type(last_part(&line[start + 1..name])) {
        return None;
    }
    let begins =
        |at: &usize| matches!(line[at - 1], b' ' | b',') && VALUE_KEYS.iter().any(|key| line[*at..].starts_with(key));
    let key = (name + 1..line.len()).take_while(|at| line[*at] != b'<').find(begins)?;
    let begin = key + line[key..].iter().position(|byte| *byte == b'=')? + 1;
    let Value { part, end } = value(line, begin, depth)?;
    (line.get(end) == Some(&b'>')).then_some(Value { part, end: end + 1 })
}

/// Returns the end of an argument: the offset of the comma or bracket after it, outside of inner brackets and quotes.
fn skipped(line: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        match line.get(at)? {
            quote @ (b'\'' | b'"') => at += 1 + line[at + 1..].iter().position(|byte| byte == quote)?,
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' | b'>' if depth > 0 => depth -= 1,
            b',' | b')' if depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
}
