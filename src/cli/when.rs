//! Times as people give them on the command line. Imports: model's calendar.

use crate::model::time::{of_day, of_utc};
use std::time::SystemTime;

/// What is accepted, for messages and help.
pub const FORMS: &str = "10m or 2h or 3d (ago), 14:05 (UTC), or 2026-01-31T14:05:00Z";

const DAY_MS: u64 = 86_400_000;

/// Now, Unix time in milliseconds.
pub fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The instant that an argument means, Unix time in milliseconds.
pub fn instant(text: &str) -> Result<u64, String> {
    instant_at(text, now_unix_ms())
}

fn instant_at(text: &str, now: u64) -> Result<u64, String> {
    let text = text.trim();
    let ago = text.strip_suffix("ago").unwrap_or(text).trim();
    if let Some(ms) = milliseconds(ago) {
        return Ok(now.saturating_sub(ms));
    }
    if let Some(of_day) = of_day(text) {
        let today = now - now % DAY_MS + of_day;
        // A time of day that is still to come was yesterday's.
        return Ok(if today <= now { today } else { today.saturating_sub(DAY_MS) });
    }
    of_utc(text).ok_or_else(|| format!("`{text}` is no time: give {FORMS}"))
}

/// `90s`, `10m`, `1h30m`, `2d`.
fn milliseconds(text: &str) -> Option<u64> {
    let (mut sum, mut rest) = (0.0, text);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number_ends = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, after) = rest.split_at(number_ends);
        let unit_ends = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let seconds = match after[..unit_ends].trim() {
            "s" | "sec" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            "w" => 604_800.0,
            _ => return None,
        };
        sum += number.parse::<f64>().ok()? * seconds;
        rest = &after[unit_ends..];
    }
    (sum.is_finite() && sum < 1e11).then_some((sum * 1000.0) as u64)
}

/// `2026-01-31 14:05:00`, for tables whose title says that it is UTC.
pub fn plain(unix_ms: u64) -> String {
    crate::model::time::utc(unix_ms).replace('T', " ").trim_end_matches('Z').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2023-11-14T22:13:20Z.
    const NOW: u64 = 1_700_000_000_000;

    #[test]
    fn every_form_in_the_help_is_understood() {
        let read = |text: &str| instant_at(text, NOW);
        assert_eq!(read("10m"), Ok(NOW - 600_000));
        assert_eq!(read("10m ago"), Ok(NOW - 600_000));
        assert_eq!(read("1h30m"), Ok(NOW - 5_400_000));
        assert_eq!(read("3d"), Ok(NOW - 3 * DAY_MS));
        assert_eq!(read("22:00"), Ok(NOW - 800_000));
        assert_eq!(read("22:30"), Ok(NOW - DAY_MS + 1_000_000), "that time of day was yesterday");
        assert_eq!(read("2023-11-14T22:13:20Z"), Ok(NOW));
    }

    #[test]
    fn what_is_no_time_is_told_what_is_one() {
        for wrong in ["", "soon", "10", "h", "1x", "25:00", "-5m", "1e9d"] {
            assert!(instant_at(wrong, NOW).is_err_and(|error| error.contains("10m")), "{wrong}");
        }
    }
}
