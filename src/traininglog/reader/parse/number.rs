//! Parses printed numbers.
//!
//! Supports `3.2e-4`, `1.e-05`, Fortran's `1.2D+00`, Julia's `0.847f0`, `1,234.5`, a decimal comma, `nan`, `inf`, leading zeros. Other
//! forms are rewritten before, by `notation`.

/// Powers of ten that an `f64` represents exactly. Dividing an exact integer by one of them rounds once and is therefore correct.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Maximum bytes of a number; a longer one is a hash or a dump.
pub(crate) const NUMBER_MAX: usize = 40;

/// Position of a number in its line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Span {
    pub start: u16,
    pub end: u16,
}

impl Span {
    /// Returns the span of a number; `None` if it is too long, or too far from the start of the line.
    #[inline]
    pub(crate) fn of_number(start: usize, end: usize) -> Option<Span> {
        (end <= usize::from(u16::MAX) && end - start <= NUMBER_MAX)
            .then_some(Span { start: start as u16, end: end as u16 })
    }

    pub(crate) fn of<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        &line[usize::from(self.start)..usize::from(self.end)]
    }
}

/// Parses a number found by the scanner; `None` if it is not a number.
pub(crate) fn parse(text: &[u8]) -> Option<f64> {
    plain(text).or_else(|| general(text))
}

/// Parses `[-+]digits[.digits]` with an optional exponent, if the result is exact.
fn plain(text: &[u8]) -> Option<f64> {
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let mut mantissa = 0u64;
    let mut digits_from = |mut at: usize| {
        while let Some(digit) = digits.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
            at += 1;
        }
        at
    };
    let whole = digits_from(0);
    let pointed = digits.get(whole) == Some(&b'.');
    let end = if pointed { digits_from(whole + 1) } else { whole };
    let power = match digits.get(end) {
        Some(b'e' | b'E' | b'f') => exponent(&digits[end + 1..])?,
        Some(_) => return None,
        None => 0,
    };
    let decimals = end - whole - usize::from(pointed);
    if end > 16 || mantissa >= 1 << 53 || end == usize::from(pointed) {
        return None;
    }
    let scale = power - decimals as i32;
    let power = EXACT_POWERS.get(scale.unsigned_abs() as usize)?;
    let value = if scale < 0 { mantissa as f64 / power } else { mantissa as f64 * power };
    Some(if negative { -value } else { value })
}

/// Parses an exponent of at most three digits: `-05`, `+3`, `2`.
fn exponent(text: &[u8]) -> Option<i32> {
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let valid = (1..=3).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let value = digits.iter().fold(0, |value, byte| value * 10 + i32::from(byte.wrapping_sub(b'0')));
    valid.then_some(if negative { -value } else { value })
}

fn general(text: &[u8]) -> Option<f64> {
    if text.len() > NUMBER_MAX {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(value) = text.parse() {
        return Some(value); // including NaN and infinity
    }
    let lower = text.to_ascii_lowercase();
    let commas = lower.matches(',').count();
    let plain = match commas {
        0 => lower,
        1 if !groups_of_three(&lower) => lower.replace(',', "."),
        _ => lower.replace(',', ""),
    };
    plain.replace(['d', 'f'], "e").parse().ok()
}

/// Whether commas are thousands separators (`1,234`): three digits follow each, and at most three precede the first.
fn groups_of_three(text: &str) -> bool {
    let whole = text.split('.').next().unwrap_or(text).trim_start_matches(['+', '-']);
    let mut groups = whole.split(',');
    let first = groups.next().is_some_and(|first| first.len() <= 3 && first != "0");
    first && groups.all(|group| group.len() == 3)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn printed_numbers_are_parsed() {
        let cases: &[(&str, f64)] = &[
            ("0.1234", 0.1234),
            ("-.5", -0.5),
            ("+7", 7.0),
            ("3.2e-4", 3.2e-4),
            ("2.574301E+00", 2.574301),
            ("8.859E-06", 8.859E-06),
            ("-1e22", -1e22),
            ("1.7976931348623157e308", f64::MAX),
            ("6.93D+01", 69.3),
            ("1,234.5", 1234.5),
            ("133,000", 133_000.0),
            ("0,531", 0.531),
            ("0,5312", 0.5312),
            ("004", 4.0),
            ("71139.88563695134", 71139.88563695134),
            ("-inf", f64::NEG_INFINITY),
            ("+Infinity", f64::INFINITY),
            ("1.e-05", 1e-5),
            ("1234,567", 1234.567),
            ("12345678901234567890", 12345678901234567890.0),
        ];
        for (text, value) in cases {
            assert_eq!(parse(text.as_bytes()), Some(*value), "{text}");
        }
        assert!(parse(b"NaN").is_some_and(f64::is_nan));
        assert_eq!(parse(b"."), None);
        assert_eq!(parse(b""), None);
    }
}
