//! Times for people: UTC, from Unix milliseconds.

/// `2026-11-29 21:14:35Z`.
pub fn stamp(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// The Gregorian date of a day counted from 1970-01-01. Years are counted from March, so that a leap day is the last
/// day of its year, in eras of 400 years (146,097 days).
fn civil(day: u64) -> (u64, u64, u64) {
    let day = day.saturating_add(719_468);
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        assert_eq!(stamp(0), "1970-01-01 00:00:00Z");
        assert_eq!(stamp(951_782_399_999), "2000-02-28 23:59:59Z");
        assert_eq!(stamp(951_782_400_000), "2000-02-29 00:00:00Z");
        assert_eq!(stamp(1_764_450_000_000), "2025-11-29 21:00:00Z");
        let _ = stamp(u64::MAX);
    }
}
