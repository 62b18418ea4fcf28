//! A configuration value, from TOML or from text, and its conversion to quantities.

use model::time::duration;
use model::{Bytes, Millis};
use std::str::FromStr;

/// Allowed weights of jobs and users.
pub(super) const WEIGHTS: std::ops::RangeInclusive<f64> = 0.01..=100.0;

/// A value as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Text, or any value from the environment or a flag.
    Text(String),
    /// A number.
    Number(f64),
    /// true or false.
    Switch(bool),
    /// A list of texts.
    List(Vec<String>),
}

impl Value {
    pub(super) fn text(&self) -> Result<&str, String> {
        match self {
            Value::Text(text) if !text.is_empty() => Ok(text),
            _ => Err("expected text".to_owned()),
        }
    }

    pub(super) fn number(&self, low: f64, high: f64) -> Result<f64, String> {
        let number = match self {
            Value::Number(number) => Some(*number),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        match number {
            Some(number) if (low..=high).contains(&number) => Ok(number),
            _ => Err(format!("expected a number from {low} to {high}")),
        }
    }

    /// A number, or text that stands for one in another unit.
    pub(super) fn parsed<T: FromStr<Err = String>>(&self) -> Result<T, String> {
        match self {
            Value::Number(number) => number.to_string().parse(),
            Value::Text(text) => text.parse(),
            Value::Switch(_) | Value::List(_) => "".parse(),
        }
    }

    pub(super) fn switch(&self) -> Result<bool, String> {
        match self {
            Value::Switch(on) => Ok(*on),
            Value::Text(text) if text == "true" => Ok(true),
            Value::Text(text) if text == "false" => Ok(false),
            _ => Err("expected true or false".to_owned()),
        }
    }

    pub(super) fn list(&self) -> Result<Vec<String>, String> {
        match self {
            Value::List(items) => Ok(items.clone()),
            Value::Text(text) => {
                Ok(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect())
            }
            _ => Err("expected a list of texts".to_owned()),
        }
    }

    pub(super) fn duration(&self, low: Millis, high: Millis) -> Result<Millis, String> {
        let expected = || format!("expected a time from {} to {}, such as \"20s\"", seconds(low), seconds(high));
        let millis = match self {
            Value::Number(secs) => Some(secs * 1000.0),
            Value::Text(text) => duration(text).map(|time| time.as_secs_f64() * 1000.0),
            _ => None,
        };
        let millis = millis.filter(|millis| millis.is_finite() && *millis >= 0.0).map(|millis| Millis(millis as u64));
        millis.filter(|millis| (low..=high).contains(millis)).ok_or_else(expected)
    }

    pub(super) fn size(&self, low: Bytes, high: Bytes) -> Result<Bytes, String> {
        let size = match self {
            Value::Number(number) if *number >= 0.0 => Some(Bytes(*number as u64)),
            Value::Text(text) => decimal_bytes(text),
            _ => None,
        };
        let expected = || format!("expected a size from {low} to {high}, such as \"200MB\"");
        size.filter(|size| (low..=high).contains(size)).ok_or_else(expected)
    }

    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, String> {
        let expected = || format!("expected one of {}", words.iter().map(|(w, _)| *w).collect::<Vec<_>>().join(", "));
        let text = self.text().map_err(|_| expected())?;
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(expected)
    }
}

/// The name of a user, trimmed, if it is one.
pub(super) fn user_name(text: &str) -> Option<&str> {
    let name = text.trim();
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
    let fits = (1..=64).contains(&name.len()) && !name.starts_with('-') && name.chars().all(is_fit);
    fits.then_some(name)
}

/// Formats seconds: `20s`, `0.5s`.
pub(super) fn seconds(time: Millis) -> String {
    format!("{}s", time.as_secs_f64())
}

/// Formats whole days as `30d`, other times as [`seconds`].
pub(super) fn days(time: Millis) -> String {
    if time.0.is_multiple_of(86_400_000) { format!("{}d", time.0 / 86_400_000) } else { seconds(time) }
}

/// Formats sizes on disk: `200MB`, or bytes.
pub(super) fn megabytes(size: Bytes) -> String {
    if size.0.is_multiple_of(1_000_000) { format!("{}MB", size.0 / 1_000_000) } else { size.0.to_string() }
}

/// Parses decimal sizes, such as `200MB` in powers of 1000; `MiB` and a bare `m` are powers of 1024, as elsewhere.
fn decimal_bytes(text: &str) -> Option<Bytes> {
    let lower = text.trim().to_ascii_lowercase();
    let decimal = [("kb", 1e3), ("mb", 1e6), ("gb", 1e9)].into_iter().find_map(|(unit, factor)| {
        let number: f64 = lower.strip_suffix(unit)?.trim().parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(Bytes((number * factor) as u64))
    });
    decimal.or_else(|| bytes(text))
}

/// Parses sizes as accepted by `docker run --memory`, in powers of 1024: `512m`, `2g`, `2GiB`, `1048576`.
pub fn bytes(text: &str) -> Option<Bytes> {
    let text = text.trim().to_ascii_lowercase();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..split].trim().parse().ok()?;
    let power = match text[split..].trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    let size = number * 1024f64.powi(power);
    (size.is_finite() && size >= 0.0).then_some(Bytes(size as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_in_every_common_notation() {
        let read = |text: &str| Value::Text(text.into()).duration(Millis(1), Millis::from_secs(86_400));
        assert_eq!(read("500ms"), Ok(Millis(500)));
        assert_eq!(read("20s"), Ok(Millis(20_000)));
        assert_eq!(read("1.5 m"), Ok(Millis(90_000)));
        assert_eq!(read("7"), Ok(Millis(7_000)));
        for wrong in ["", "20 parsecs", "-3s", "nan", "1e99h"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_on_disk_are_decimal_and_shown_as_written() {
        let read = |text: &str| Value::Text(text.into()).size(Bytes(1), Bytes(1 << 40));
        assert_eq!(read("200MB"), Ok(Bytes(200_000_000)));
        assert_eq!(read("1 GiB"), Ok(Bytes(1 << 30)));
        for size in [Bytes(200_000_000), Bytes(1 << 20), Bytes(7)] {
            assert_eq!(read(&megabytes(size)), Ok(size));
        }
        for wrong in ["", "-1MB", "nan mb", "lots"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_parsed_as_by_docker() {
        assert_eq!(bytes("512m"), Some(Bytes(512 << 20)));
        assert_eq!(bytes("2GiB"), Some(Bytes(2 << 30)));
        assert_eq!(bytes("1048576"), Some(Bytes(1 << 20)));
        assert_eq!(bytes("10 gb"), Some(Bytes(10 << 30)));
        for wrong in ["", "-1m", "many", "3x"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
