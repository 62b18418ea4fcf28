//! Engine timestamps (RFC 3339 with nanoseconds) as numbers. Imports: std only.

/// Nanoseconds since the Unix epoch of `2026-11-21T01:46:01.965789203Z` or `…+02:00`.
///
/// `None` for what is no such timestamp, lies before 1970 (the engine's zero time `0001-01-01T00:00:00Z`) or after 2554.
pub(super) fn unix_nanos(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T')?;
    let mut parts = date.split('-');
    let (year, month, day) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) || year > 9999 {
        return None;
    }
    let (clock, offset_seconds) = split_offset(time)?;
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = whole.split(':');
    let (hour, minute, second) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days_since_epoch(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset_seconds;
    u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add(nanos_of(fraction)?)
}

/// Milliseconds since the Unix epoch.
pub(super) fn unix_millis(text: &str) -> Option<u64> {
    unix_nanos(text).map(|nanos| nanos / 1_000_000)
}

fn number(digits: &str) -> Option<i64> {
    let plain = !digits.is_empty() && digits.len() <= 4 && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

fn split_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let sign_at = time.rfind(['+', '-'])?;
    let (clock, offset) = time.split_at(sign_at);
    let (hours, minutes) = offset[1..].split_once(':')?;
    let seconds = number(hours)? * 3_600 + number(minutes)? * 60;
    Some((clock, if offset.starts_with('-') { -seconds } else { seconds }))
}

fn nanos_of(fraction: &str) -> Option<u64> {
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    format!("{fraction:0<9}").parse().ok()
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar; years begin in March so that the leap day comes last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants_are_read_to_the_nanosecond() {
        for (text, nanos) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00.5Z", 951_825_600_500_000_000),
            ("2026-11-21T01:46:01.965789203Z", 1_795_225_561_965_789_203),
            ("2026-11-21T03:46:01.965789203+02:00", 1_795_225_561_965_789_203),
            ("2026-11-20T20:16:01.965789203-05:30", 1_795_225_561_965_789_203),
        ] {
            assert_eq!(unix_nanos(text), Some(nanos), "{text}");
        }
        assert_eq!(unix_millis("1970-01-01T00:00:01.0019Z"), Some(1_001));
    }

    #[test]
    fn what_is_no_instant_is_none() {
        for text in [
            "",
            "T",
            "0001-01-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-21 01:46:01Z",
            "2026-11-21T01:46Z",
            "2026-11-21T25:00:00Z",
            "2026-11-21T01:46:01.1234567890Z",
            "2026-11-21T01:46:01",
            "9999-12-31T23:59:59Z",
            "+026-11-21T01:46:01Z",
        ] {
            assert_eq!(unix_nanos(text), None, "{text}");
        }
    }
}
