//! Decides when quiet hours end (N-01). They are hours of the local clock, whose distance from UTC is an argument.

use coord_model::{LocalOffset, QuietHours};

const DAY_MIN: i64 = 24 * 60;
const MIN_MS: i64 = 60_000;

/// When the quiet hours end in which `now_ms` lies, in milliseconds since 1970; none if it lies in none. Without
/// offsets the local clock is UTC.
pub(crate) fn quiet_until(hours: QuietHours, offsets: &[LocalOffset], now_ms: u64) -> Option<u64> {
    let length = length_of(hours);
    if length == 0 {
        return None;
    }
    let mut from = i64::try_from(now_ms).unwrap_or(i64::MAX);
    // Each change of the clock is passed once; no more than two lie within a day.
    for _ in 0..=offsets.len() {
        let (east_min, until) = segment(offsets, from);
        let into = minutes_into(hours, from, east_min);
        if length <= into {
            break;
        }
        let minute = from.saturating_sub(from.rem_euclid(MIN_MS));
        let end = minute.saturating_add(length.saturating_sub(into).saturating_mul(MIN_MS));
        if end <= until {
            return u64::try_from(end).ok();
        }
        from = until;
    }
    // At a change of the clock, the hours end at the change itself.
    let end = u64::try_from(from).unwrap_or(u64::MAX);
    (now_ms < end).then_some(end)
}

/// Minutes that the hours last by the clock.
fn length_of(hours: QuietHours) -> i64 {
    let (from, to) = (i64::from(hours.from), i64::from(hours.to));
    to.saturating_sub(from).rem_euclid(DAY_MIN)
}

/// Minutes from the last begin of the hours to `ms`, by the local clock.
fn minutes_into(hours: QuietHours, ms: i64, east_min: i64) -> i64 {
    let local = ms.div_euclid(MIN_MS).saturating_add(east_min);
    local.saturating_sub(i64::from(hours.from)).rem_euclid(DAY_MIN)
}

/// The distance from UTC at `ms`, in minutes, and until when it holds.
fn segment(offsets: &[LocalOffset], ms: i64) -> (i64, i64) {
    let from_of = |offset: &LocalOffset| i64::try_from(offset.from_ms).unwrap_or(i64::MAX);
    let now = offsets.iter().rev().find(|offset| from_of(offset) <= ms).or(offsets.first());
    let next = offsets.iter().find(|offset| ms < from_of(offset));
    let east_min = now.map_or(0, |offset| i64::from(offset.east_s).div_euclid(60));
    (east_min, next.map_or(i64::MAX, from_of))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const NIGHT: QuietHours = QuietHours { from: 22 * 60, to: 7 * 60 };

    fn berlin() -> [LocalOffset; 3] {
        // 2026-03-29 01:00 UTC and 2026-10-25 01:00 UTC.
        [
            LocalOffset { from_ms: 0, east_s: 3600 },
            LocalOffset { from_ms: 1_774_746_000_000, east_s: 7200 },
            LocalOffset { from_ms: 1_792_890_000_000, east_s: 3600 },
        ]
    }

    #[test]
    fn they_end_in_the_morning_and_not_by_day() {
        // 1970-01-02, by UTC.
        let day = 24 * HOUR;
        assert_eq!(quiet_until(NIGHT, &[], day + 23 * HOUR), Some(2 * day + 7 * HOUR));
        assert_eq!(quiet_until(NIGHT, &[], day + 6 * HOUR + 59 * 60_000), Some(day + 7 * HOUR));
        assert_eq!(quiet_until(NIGHT, &[], day + 7 * HOUR), None);
        assert_eq!(quiet_until(NIGHT, &[], day + 22 * HOUR - 1), None);
        assert_eq!(quiet_until(NIGHT, &[], day + 22 * HOUR + 1), Some(2 * day + 7 * HOUR));
        let noon = QuietHours { from: 12 * 60, to: 12 * 60 };
        assert_eq!(quiet_until(noon, &[], day + 12 * HOUR), None);
    }

    // The night of a change is an hour shorter or longer; it ends at 7 by the new clock.
    #[test]
    fn a_change_of_the_clock_within_them_is_right() {
        let (spring, autumn) = (1_774_746_000_000, 1_792_890_000_000);
        // 00:30 in Berlin; 7:00 summer time is 5:00 UTC.
        let before = spring - 90 * 60_000;
        assert_eq!(quiet_until(NIGHT, &berlin(), before), Some(spring + 4 * HOUR));
        // 7:00 winter time is 6:00 UTC.
        let before = autumn - 90 * 60_000;
        assert_eq!(quiet_until(NIGHT, &berlin(), before), Some(autumn + 5 * HOUR));
        // Hours that the change leaps over end with it: 02:00 to 02:30 do not happen in spring.
        let leapt = QuietHours { from: 110, to: 150 };
        assert_eq!(quiet_until(leapt, &berlin(), spring - 60_000), Some(spring));
        // 02:15 comes twice in autumn; the second time, they are quiet again.
        let twice = QuietHours { from: 120, to: 150 };
        assert_eq!(quiet_until(twice, &berlin(), autumn - 45 * 60_000), Some(autumn - 30 * 60_000));
        assert_eq!(quiet_until(twice, &berlin(), autumn + 15 * 60_000), Some(autumn + 30 * 60_000));
    }
}
