//! Numbers as readable text, and untrusted text made safe to print.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Removes control characters, invisible characters and bidirectional overrides from untrusted text.
pub fn clean(text: &str) -> String {
    text.chars().filter(|c| !is_unsafe(*c)).collect()
}

/// Cleans each line of a text.
pub fn clean_lines(text: &str) -> String {
    text.split_inclusive('\n').map(|line| clean(line) + if line.ends_with('\n') { "\n" } else { "" }).collect()
}

/// Escapes the characters that [`clean`] removes, which JSON may contain only in strings; the document stays the same.
pub fn clean_json(json: &str) -> String {
    let mut clean = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unsafe(c) && c != '\n' {
            let mut units = [0; 2];
            clean.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            clean.push(c);
        }
    }
    clean
}

/// Whether a character of untrusted text must not reach a terminal.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

/// Display width of the text in terminal columns.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Truncates the text to `columns`, ending in `…` if anything was cut off.
pub fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut fitted = String::new();
    let mut taken = 1;
    for c in text.chars() {
        taken += c.width().unwrap_or(0);
        if taken > columns {
            break;
        }
        fitted.push(c);
    }
    if columns > 0 {
        fitted.push('…');
    }
    fitted
}

/// Wraps the text into lines of at most `columns`, at whitespace where possible, and not within a command in backticks that fits on a line.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = vec![String::new()];
    for word in words(text, columns) {
        for piece in pieces(&word, columns) {
            let line = lines.last_mut().expect("there is always a line");
            if line.is_empty() {
                line.push_str(&piece);
            } else if width(line) + 1 + width(&piece) <= columns {
                line.push(' ');
                line.push_str(&piece);
            } else {
                lines.push(piece);
            }
        }
    }
    lines
}

/// The words of a text; a command in backticks is one word, if it has at most so many columns.
fn words(text: &str, columns: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_open = false;
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(command) if is_open && width(command) + 1 + width(word) <= columns => {
                command.push(' ');
                command.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
        is_open ^= word.matches('`').count() % 2 == 1;
    }
    words
}

fn pieces(word: &str, columns: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for c in word.chars() {
        let last = pieces.last_mut().expect("there is always a piece");
        if !last.is_empty() && width(last) + c.width().unwrap_or(0) > columns {
            pieces.push(c.to_string());
        } else {
            last.push(c);
        }
    }
    pieces
}

/// A metric's value with four significant digits, at a stable width; `None` is NaN.
pub fn value(number: Option<f64>) -> String {
    number.map_or_else(|| "NaN".to_owned(), four_digits)
}

/// Formats a number with at most four significant digits: `4`, `0.63`, `1.2e-5`.
pub fn number_text(number: f64) -> String {
    let text = four_digits(number);
    let (digits, exponent) = text.split_at(text.find('e').unwrap_or(text.len()));
    if !digits.contains('.') {
        return text;
    }
    format!("{}{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
}

fn four_digits(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 {
        "0".to_owned()
    } else if !(1e-3..1e5).contains(&size) {
        format!("{number:.2e}")
    } else {
        let digits_before = size.log10().floor() as i32 + 1;
        format!("{number:.*}", usize::try_from(4 - digits_before.max(0)).unwrap_or(0))
    }
}

/// A fraction in per cent: `63%`, `0.4%`.
pub fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if percent > 0.0 && percent < 0.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// `1 job`, `2 jobs`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// The total of a counter: ` of 50` if the log reports it, ` of ~50` if only the command claims it, empty if unknown.
pub fn of_total(total: Option<f64>, claimed: Option<f64>) -> String {
    match (total, claimed) {
        (Some(total), _) => format!(" of {}", number_text(total)),
        (None, Some(claimed)) => format!(" of ~{}", number_text(claimed)),
        (None, None) => String::new(),
    }
}

/// A change as a signed fraction in per cent: `+3.2%`.
pub fn percent_signed(fraction: f64) -> String {
    format!("{:+.1}%", fraction * 100.0)
}

/// A duration in at most six columns: `45s`, `12m`, `3h05m`, `4d12h`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "?".to_owned();
    }
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..60 => format!("{whole}s"),
        60..600 => format!("{}m{:02}s", whole / 60, whole % 60),
        600..3600 => format!("{}m", whole / 60),
        3600..86_400 => format!("{}h{:02}m", whole / 3600, whole % 3600 / 60),
        86_400..8_640_000 => format!("{}d{:02}h", whole / 86_400, whole % 86_400 / 3600),
        _ => format!("{}d", whole / 86_400),
    }
}

/// A number of bytes: `512B`, `1.5G`.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["B", "K", "M", "G", "T", "P"];
    let mut size = number as f64;
    let mut unit = 0;
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 || size >= 99.5 { format!("{size:.0}{}", UNITS[unit]) } else { format!("{size:.1}{}", UNITS[unit]) }
}

/// A bar of `columns` that is filled to `fraction`, in eighths of a column.
pub fn bar(fraction: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (fraction.clamp(0.0, 1.0) * columns as f64 * 8.0).round() as usize;
    let part = EIGHTHS[eighths % 8];
    let filled = eighths / 8 + usize::from(!part.is_empty());
    format!("{}{part}{}", "█".repeat(eighths / 8), "░".repeat(columns.saturating_sub(filled)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(clean("a\u{1b}[2Jb\r\n\u{202e}c\u{9b}31m"), "a[2Jbc31m");
        assert_eq!(clean_lines("a\u{1b}\n\tb\n\nc\r"), "a\nb\n\nc");
        assert_eq!(clean("a\u{61c}\u{200f}\u{202a}\u{2066}\u{2069}b"), "ab");
    }

    #[test]
    fn a_json_document_without_unsafe_characters_is_the_same_document() {
        let json = "{\n  \"a\": \"\u{9b}2J \u{202e}é\u{e0001}\"\n}";
        assert!(clean_json(json).chars().all(|c| c == '\n' || !is_unsafe(c)));
        let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parsed(&clean_json(json)), parsed(json));
    }

    #[test]
    fn text_is_cut_by_its_display_width() {
        assert_eq!(fit("模型训练", 5), "模型…");
        assert_eq!(width(&fit("模型训练", 4)), 3);
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abc", 0), "");
    }

    #[test]
    fn numbers_have_four_significant_digits() {
        assert_eq!(number_text(0.123_456), "0.1235");
        assert_eq!(number_text(12.345_6), "12.35");
        assert_eq!(number_text(1234.5), "1234");
        assert_eq!(number_text(0.000_012), "1.2e-5");
        assert_eq!(number_text(-2.5e9), "-2.5e9");
        assert_eq!(number_text(4.0), "4");
        assert_eq!(number_text(100.0), "100");
        assert_eq!(value(Some(0.913)), "0.9130");
        assert_eq!(value(None), "NaN");
    }

    #[test]
    fn durations_and_sizes_stay_short() {
        assert_eq!(duration(59.6), "1m00s");
        assert_eq!(duration(11_100.0), "3h05m");
        assert_eq!(duration(f64::INFINITY), "?");
        assert_eq!(bytes(1023), "1.0K");
        assert_eq!(bytes(3 * 1024 * 1024 * 1024 / 2), "1.5G");
    }

    #[test]
    fn a_bar_has_the_requested_width_at_any_fraction() {
        for step in 0..=1000 {
            assert_eq!(width(&bar(f64::from(step) / 1000.0, 8)), 8);
        }
        assert_eq!(bar(0.74, 8), "█████▉░░");
    }

    #[test]
    fn a_command_is_not_wrapped_unless_it_is_too_long() {
        let hint = "next: run `flowctl govern lr-3`; then wait";
        assert_eq!(wrap(hint, 24), ["next: run", "`flowctl govern lr-3`;", "then wait"]);
        assert_eq!(wrap(hint, 16), ["next: run", "`flowctl govern", "lr-3`; then wait"]);
    }

    proptest! {
        #[test]
        fn any_text_fits_its_width_and_has_no_control_characters(text in ".*", columns in 0usize..40) {
            let shown = fit(&clean(&text), columns);
            prop_assert!(width(&shown) <= columns);
            prop_assert!(!shown.chars().any(char::is_control));
            for line in wrap(&clean(&text), columns.max(2)) {
                prop_assert!(width(&line) <= columns.max(2));
            }
        }
    }
}
