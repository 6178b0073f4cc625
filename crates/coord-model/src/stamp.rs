//! Emission stamps: when an event happened, on which boot of which machine.

use alloc::string::String;

/// Milliseconds since 1970-01-01T00:00:00Z; for people, quota resets and order across boots.
pub type WallMs = u64;

/// Writes a wall time as RFC 3339 in UTC with milliseconds, the one form of every output.
pub fn rfc3339(wall_ms: WallMs) -> String {
    let mut buffer = [0; 24];
    write_rfc3339(&mut buffer, wall_ms);
    String::from_utf8_lossy(&buffer).into_owned()
}

/// Writes the 24 bytes of [`rfc3339`] without allocating. Years after 9999 are shown as 9999.
pub fn write_rfc3339(out: &mut [u8; 24], wall_ms: WallMs) {
    const LAST_MS: WallMs = 253_402_300_799_999;
    let wall_ms = wall_ms.min(LAST_MS);
    let (days, ms_of_day) = (wall_ms / 86_400_000, wall_ms % 86_400_000);
    let (year, month, day) = civil(days);
    let seconds = ms_of_day / 1000;
    out.copy_from_slice(b"0000-00-00T00:00:00.000Z");
    for (at, width, value) in [
        (0, 4, year),
        (5, 2, month),
        (8, 2, day),
        (11, 2, seconds / 3600),
        (14, 2, seconds / 60 % 60),
        (17, 2, seconds % 60),
        (20, 3, ms_of_day % 1000),
    ] {
        let mut value = value;
        for digit in out[at..at + width].iter_mut().rev() {
            *digit = b'0' + u8::try_from(value % 10).unwrap_or(0);
            value /= 10;
        }
    }
}

/// Year, month and day of a day number since 1970-01-01, by the era arithmetic of
/// <https://howardhinnant.github.io/date_algorithms.html>.
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Reads what [`rfc3339`] writes, and the same without milliseconds.
pub fn parse_rfc3339(text: &str) -> Option<WallMs> {
    let bytes = text.as_bytes();
    if bytes.last() != Some(&b'Z') || bytes.len() < 20 || bytes.get(10) != Some(&b'T') {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let ms = match text.get(20..bytes.len() - 1) {
        Some(digits) if 3 <= digits.len() => number(20, 23)?,
        Some(_) | None => 0,
    };
    let in_range = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61;
    in_range.then(|| {
        let y = if month <= 2 { year - 1 } else { year };
        let (era, year_of_era) = (y / 400, y % 400);
        let shifted_month = if 2 < month { month - 3 } else { month + 9 };
        let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
        let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100
            + day_of_year
            - 719_468;
        days * 86_400_000 + hour * 3_600_000 + minute * 60_000 + second * 1000 + ms
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_days() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_709_210_096_789), "2024-02-29T12:34:56.789Z");
        assert_eq!(rfc3339(u64::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!(parse_rfc3339("2024-02-29T12:34:56Z"), Some(1_709_210_096_000));
        for bad in [
            "",
            "2024-02-29",
            "2024-13-29T12:34:56Z",
            "2024-02-29T12:34:56+02:00",
            "é024-02-29T12:34:56Z",
        ] {
            assert_eq!(parse_rfc3339(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(ms in 0u64..253_402_300_800_000) {
            prop_assert_eq!(parse_rfc3339(&rfc3339(ms)), Some(ms));
        }
    }
}
