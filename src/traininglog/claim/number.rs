//! Parses totals as written in commands: `50`, `1e6`, `1_000`, `200k`.

/// Maximum number of epochs or steps.
const MAX_TOTAL: f64 = 1e12;

/// Maximum digits of a number.
const MAX_DIGITS: usize = 24;

/// Parses a total: finite, positive, at most 10¹². `-1` and `0` conventionally mean "not set".
pub(super) fn total(text: &str) -> Option<f64> {
    let text = text.trim().trim_matches(['"', '\'']);
    let (digits, scale) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1e3),
        b'm' | b'M' => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    // `parse` also accepts `inf`, `nan` and a sign.
    let known = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'e' | b'E' | b'+' | b'-');
    let begins = digits.starts_with(|c: char| c.is_ascii_digit());
    if !begins || digits.len() > MAX_DIGITS || !digits.bytes().all(known) || digits.ends_with('_') {
        return None;
    }
    sound(digits.replace('_', "").parse::<f64>().ok()? * scale)
}

/// Returns `number` if it can be a total.
pub(super) fn sound(number: f64) -> Option<f64> {
    (number.is_finite() && number > 0.0 && number <= MAX_TOTAL).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn totals_are_read_as_people_write_them() {
        for (text, number) in [
            ("50", 50.0),
            ("1e6", 1e6),
            ("1_000", 1000.0),
            ("5k", 5000.0),
            ("2M", 2e6),
            ("'90'", 90.0),
            ("2.5", 2.5),
            ("1e+3", 1000.0),
        ] {
            assert_eq!(total(text), Some(number), "{text}");
        }
        for text in ["-1", "0", "", "inf", "nan", "1e13", "0x10", "ten", "5_", "1e400", "+5", "5-6", "10%", "k"] {
            assert_eq!(total(text), None, "{text}");
        }
    }
}
