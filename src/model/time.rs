//! Instants for people: Unix milliseconds ↔ RFC 3339 in UTC. Imports: std only.

/// `2024-02-29T00:00:00Z`.
pub fn utc(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (year, month, day) = civil(seconds / 86_400);
    let of_day = seconds % 86_400;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", of_day / 3600, of_day % 3600 / 60, of_day % 60)
}

/// The instant of an RFC 3339 text: `2024-02-29T12:30:00Z`, `2024-02-29 12:30:00.5+01:00`; without a zone it is UTC.
pub fn of_utc(text: &str) -> Option<u64> {
    let (date, time) = text.trim().split_once(['T', 't', ' '])?;
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days(year, month, day);
    if civil(days) != (year, month, day) {
        return None;
    }
    let zone_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let of_day = of_day(&time[..zone_at])?;
    let local = i64::try_from(days * 86_400_000 + of_day).ok()?;
    u64::try_from(local - offset_ms(&time[zone_at..])?).ok()
}

/// Milliseconds of `12:30`, `12:30:00` or `12:30:00.5` since midnight.
pub fn of_day(text: &str) -> Option<u64> {
    let mut parts = text.split(':');
    let (hours, minutes) = (two_digits(parts.next()?)?, two_digits(parts.next()?)?);
    let seconds = match parts.next() {
        None => 0.0,
        Some(seconds) if seconds.len() >= 2 => seconds.parse::<f64>().ok()?,
        Some(_) => return None,
    };
    let fits = parts.next().is_none() && hours < 24 && minutes < 60 && (0.0..60.0).contains(&seconds);
    fits.then(|| (hours * 60 + minutes) * 60_000 + (seconds * 1000.0) as u64)
}

fn two_digits(text: &str) -> Option<u64> {
    let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn offset_ms(zone: &str) -> Option<i64> {
    let sign = match zone.chars().next() {
        None | Some('Z' | 'z') => return (zone.len() <= 1).then_some(0),
        Some('-') => -1,
        Some(_) => 1,
    };
    Some(sign * i64::try_from(of_day(&zone[1..])?).ok()?)
}

/// Days since 1970 → year, month, day (H. Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Year, month, day → days since 1970 (the same source, `days_from_civil`); years from 1970 on.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_again() {
        for unix_ms in [0, 1_709_164_800_000, 1_700_000_000_000, 4_102_444_799_000, 68_169_600_000] {
            assert_eq!(of_utc(&utc(unix_ms)), Some(unix_ms), "{}", utc(unix_ms));
        }
    }

    #[test]
    fn zones_and_fractions_are_understood() {
        assert_eq!(of_utc("2024-02-29T01:00:00+01:00"), Some(1_709_164_800_000));
        assert_eq!(of_utc("2024-02-28 23:30-00:30"), Some(1_709_164_800_000));
        assert_eq!(of_utc("2024-02-29T00:00:00.25Z"), Some(1_709_164_800_250));
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for wrong in [
            "",
            "2023-02-29T00:00:00Z",
            "2024-13-01T00:00Z",
            "2024-01-01",
            "2024-01-01T24:00Z",
            "2024-01-01T1:00Z",
            "T",
        ] {
            assert_eq!(of_utc(wrong), None, "{wrong}");
        }
    }
}
