//! Parses and prints times: local time, or a duration before now.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use model::time::{duration, instant_in};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// Accepted forms of a time, for messages and help.
pub const FORMS: &str = "10m or 2h or 3d (ago), 14:05, 2026-01-31, or 2026-01-31T14:05:00Z";

static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// Switches from UTC to the time zone of this machine, or of `TZ`.
pub fn use_local_time() {
    // Already set: to the same zone.
    let _ = ZONE.set(TimeZone::system());
}

fn zone() -> TimeZone {
    ZONE.get().cloned().unwrap_or(TimeZone::UTC)
}

/// The current Unix time in milliseconds.
pub fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Formats Unix milliseconds as `2026-01-31 14:05:00`.
pub fn clock(unix_ms: u64) -> String {
    let instant = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    instant.unwrap_or(Timestamp::MAX).to_zoned(zone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Name of the time zone, such as `UTC` or `CET`.
pub fn zone_name() -> String {
    Timestamp::now().to_zoned(zone()).strftime("%Z").to_string()
}

/// Parses a time argument into Unix milliseconds.
pub fn instant(text: &str) -> Result<u64, String> {
    instant_at(text, now_unix_ms())
}

fn instant_at(text: &str, now: u64) -> Result<u64, String> {
    let text = text.trim();
    let ago = text.strip_suffix("ago").unwrap_or(text).trim();
    // A number without a unit is ambiguous.
    let ago = ago.ends_with(|c: char| c.is_ascii_alphabetic()).then(|| duration(ago)).flatten();
    if let Some(ago) = ago.and_then(|ago| u64::try_from(ago.as_millis()).ok()) {
        return Ok(now.saturating_sub(ago));
    }
    let instant = match text.parse::<Time>() {
        Ok(time) if text.contains(':') && !text.contains('-') => latest(time, now),
        _ => instant_in(text, zone()),
    };
    instant.ok_or_else(|| format!("`{text}` is not a time: use {FORMS}"))
}

/// The latest past instant with that time of day: today or yesterday.
fn latest(time: Time, now: u64) -> Option<u64> {
    let now = Timestamp::from_millisecond(i64::try_from(now).ok()?).ok()?.to_zoned(zone());
    let today = now.with().time(time).build().ok()?;
    let at = if today <= now { today } else { today.checked_sub(1.day()).ok()? };
    u64::try_from(at.timestamp().as_millisecond()).ok()
}

/// Parses a number of seconds, or a duration with a unit, and checks its bounds.
pub fn duration_within(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let duration =
        duration(text).ok_or_else(|| format!("`{text}` is not a duration: use seconds, or 500ms, 20s, 5m, 1h"))?;
    if (least..=most).contains(&duration) {
        Ok(duration)
    } else {
        Err(format!("must be between {} and {} seconds", least.as_secs_f64(), most.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2023-11-14T22:13:20Z.
    const NOW: u64 = 1_700_000_000_000;
    const DAY_MS: u64 = 86_400_000;

    #[test]
    fn every_form_in_the_help_is_parsed() {
        let read = |text: &str| instant_at(text, NOW);
        assert_eq!(read("10m"), Ok(NOW - 600_000));
        assert_eq!(read("10m ago"), Ok(NOW - 600_000));
        assert_eq!(read("1h30m"), Ok(NOW - 5_400_000));
        assert_eq!(read("3d"), Ok(NOW - 3 * DAY_MS));
        assert_eq!(read("22:00"), Ok(NOW - 800_000));
        assert_eq!(read("22:30"), Ok(NOW - DAY_MS + 1_000_000), "that time of day was yesterday");
        assert_eq!(read("2023-11-14T22:13:20Z"), Ok(NOW));
        assert_eq!(read("2023-11-14"), Ok(NOW - 80_000_000));
        assert_eq!(clock(NOW), "2023-11-14 22:13:20");
    }

    #[test]
    fn an_invalid_time_is_rejected_with_the_accepted_forms() {
        for wrong in ["", "soon", "10", "h", "1x", "25:00", "-5m", "1e9d"] {
            assert!(instant_at(wrong, NOW).is_err_and(|error| error.contains("10m")), "{wrong}");
        }
    }
}
