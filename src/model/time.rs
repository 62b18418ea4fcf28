//! Instants and durations in human-readable form: RFC 3339 in UTC, `90s`, `1h30m`.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp};
use std::time::Duration;

/// Formats Unix milliseconds: `2024-02-29T00:00:00Z`.
pub fn utc(unix_ms: u64) -> String {
    let instant = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    instant.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Parses RFC 3339 to Unix milliseconds: `2024-02-29T12:30:00Z`, `2024-02-29 12:30:00.5+01:00`; UTC if there is no zone.
pub fn of_utc(text: &str) -> Option<u64> {
    instant_in(text, TimeZone::UTC)
}

/// Parses RFC 3339 to Unix milliseconds; a text without a zone is in `zone`, and a date without a time is its midnight.
pub fn instant_in(text: &str, zone: TimeZone) -> Option<u64> {
    let text = text.trim();
    let instant = text.parse::<Timestamp>().ok();
    let instant = instant.or_else(|| text.parse::<DateTime>().ok()?.to_zoned(zone).ok().map(|at| at.timestamp()));
    u64::try_from(instant?.as_millisecond()).ok()
}

/// Parses RFC 3339 with a zone, as written by engines, to Unix nanoseconds; `None` also before 1970 and after 2554.
pub fn unix_nanos(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<Timestamp>().ok()?.as_nanosecond()).ok()
}

/// Parses `500ms`, `20s`, `1h30m`, `2d`, or seconds without a unit.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let span: Span = text.parse().ok()?;
    Duration::try_from(span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formatted_instant_parses_to_the_same_instant() {
        for unix_ms in [0, 1_709_164_800_000, 1_700_000_000_000, 4_102_444_799_000, 68_169_600_000] {
            assert_eq!(of_utc(&utc(unix_ms)), Some(unix_ms), "{}", utc(unix_ms));
        }
        assert_eq!(utc(1_709_164_800_000), "2024-02-29T00:00:00Z");
    }

    #[test]
    fn zones_and_fractions_are_parsed() {
        assert_eq!(of_utc("2024-02-29T01:00:00+01:00"), Some(1_709_164_800_000));
        assert_eq!(of_utc("2024-02-28 23:30-00:30"), Some(1_709_164_800_000));
        assert_eq!(of_utc("2024-02-29T00:00:00.25Z"), Some(1_709_164_800_250));
        assert_eq!(unix_nanos("2026-11-21T03:46:01.965789203+02:00"), Some(1_795_225_561_965_789_203));
        assert_eq!(unix_nanos("2000-02-29T12:00:00.5Z"), Some(951_825_600_500_000_000));
    }

    #[test]
    fn an_invalid_instant_is_rejected() {
        for wrong in ["", "2023-02-29T00:00:00Z", "2024-13-01T00:00Z", "2024-01-01T24:00Z", "2024-01-01T1:00Z", "T"] {
            assert_eq!(of_utc(wrong), None, "{wrong}");
        }
        // The engine's "never", a time without a zone, and a time out of the range of nanoseconds.
        for wrong in ["", "T", "0001-01-01T00:00:00Z", "2026-11-21T01:46:01", "9999-12-31T23:59:59Z"] {
            assert_eq!(unix_nanos(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_are_parsed_in_every_common_notation() {
        for (text, seconds) in [
            ("20s", 20.0),
            ("500ms", 0.5),
            ("0.5s", 0.5),
            ("1h30m", 5_400.0),
            ("2d", 172_800.0),
            ("7", 7.0),
            ("10 min", 600.0),
        ] {
            assert_eq!(duration(text), Some(Duration::from_secs_f64(seconds)), "{text}");
        }
        for wrong in ["", "s", "-1s", "-1", "NaN", "inf", "1e300", "1 year", "20x"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
