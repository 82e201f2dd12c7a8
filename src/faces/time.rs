//! Points in time as the faces write them: RFC 3339, in UTC, with milliseconds.

use crate::prelude::*;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The end of the year 9999: the last that has this form.
const MS_MAX: u64 = 253_402_300_799_999;

/// A time, given in Unix ms.
pub fn text(ms: u64) -> String {
    let ms = ms.min(MS_MAX);
    let (mut days, rest) = (ms / DAY_MS, ms % DAY_MS);
    let (mut year, mut month) = (1970, 1);
    while days >= days_of_year(year) {
        days -= days_of_year(year);
        year += 1;
    }
    while days >= days_of_month(year, month) {
        days -= days_of_month(year, month);
        month += 1;
    }
    let (hours, minutes, seconds) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{year:04}-{month:02}-{:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z", days + 1, rest % 1000)
}

/// The time of a text, in Unix ms, rounded up; times before 1970 are 0.
pub fn parse(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let fits = text.len() >= 20 && text.is_ascii();
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !fits || marks.iter().any(|(at, mark)| bytes[*at].to_ascii_uppercase() != *mark) {
        return None;
    }
    let number = |from: usize, to: usize| digits(&text[from..to]);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hours, minutes, seconds) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let real = (1..=12).contains(&month) && day >= 1 && day <= days_of_month(year, month);
    if !real || hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    let rest = &text[19..];
    let (fraction, zone) = match rest.strip_prefix('.') {
        None => (0, rest),
        Some(rest) => {
            let end = rest.bytes().position(|b| !b.is_ascii_digit()).filter(|end| (1..=9).contains(end))?;
            let nanos = digits(&rest[..end])? * 10u64.pow(9 - end as u32);
            (nanos.div_ceil(1_000_000), &rest[end..])
        }
    };
    let zone_ms = offset_ms(zone)?;
    if year < 1970 {
        return Some(0);
    }
    let days: u64 =
        (1970..year).map(days_of_year).sum::<u64>() + (1..month).map(|m| days_of_month(year, m)).sum::<u64>() + day - 1;
    let ms = days * DAY_MS + ((hours * 60 + minutes) * 60 + seconds) * 1000 + fraction;
    Some(ms.saturating_add_signed(-zone_ms))
}

/// How far a zone, `Z` or `+hh:mm`, is ahead of UTC, in milliseconds.
fn offset_ms(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone[1..].split_once(':').filter(|(h, m)| h.len() == 2 && m.len() == 2)?;
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * ((hours * 60 + minutes) * 60_000) as i64)
}

fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row 78.
    #[test]
    fn times_are_written_and_read() {
        for (ms, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (1_785_231_000_000, "2026-07-28T09:30:00.000Z"),
            (1_735_689_600_000, "2025-01-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(text(ms), shown);
            assert_eq!(parse(shown), Some(ms.min(MS_MAX)));
        }
        assert_eq!(parse("2025-01-01T01:30:00+01:30"), Some(1_735_689_600_000));
        assert_eq!(parse("2025-01-01T00:00:00.0000001Z"), Some(1_735_689_600_001));
        assert_eq!(parse("1890-01-01T00:00:00Z"), Some(0));
        for bad in [
            "",
            "now",
            "2025-01-01",
            "2025-13-01T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2025-01-01T00:00:00",
            "2025-01-01T24:00:00Z",
            "2025-01-01T00:00:00.Z",
            "2025-01-01T00:00:00+1:00",
            "+025-01-01T00:00:00Z",
            "2025-01-01T00:00:00.1234567890Z",
            "2025-01-01T00:00:00ZZ",
            "é025-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
