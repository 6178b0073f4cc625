//! The local clock's distance from UTC, by the machine's time zone. Decides nothing.

use chrono::{Local, Offset as _, TimeZone as _};
use coord_model::LocalOffset;

const HOUR_MS: u64 = 3_600_000;
/// Quiet hours are shorter than a day, and their end is asked for until the next look.
const AHEAD_HOURS: u64 = 48;

/// The distances from `wall_ms` on, each with the minute from which it holds.
pub fn offsets(wall_ms: u64) -> Vec<LocalOffset> {
    offsets_of(wall_ms, |ms| {
        let ms = i64::try_from(ms).ok()?;
        let local = Local.timestamp_millis_opt(ms).single()?;
        Some(local.offset().fix().local_minus_utc())
    })
}

fn offsets_of(wall_ms: u64, east_at: impl Fn(u64) -> Option<i32>) -> Vec<LocalOffset> {
    let Some(first) = east_at(wall_ms) else { return Vec::new() };
    // Everything before now is as now, so that the list changes only with the clock.
    let mut all = vec![LocalOffset { from_ms: 0, east_s: first }];
    let mut before = (wall_ms, first);
    for hour in 1..=AHEAD_HOURS {
        let ms = wall_ms.saturating_add(hour.saturating_mul(HOUR_MS));
        let Some(east_s) = east_at(ms) else { break };
        if east_s != before.1 {
            let from_ms = change_between(before.0, ms, before.1, &east_at);
            all.push(LocalOffset { from_ms, east_s });
        }
        before = (ms, east_s);
    }
    all
}

/// The first minute from which the distance is no longer `old_s`.
fn change_between(
    mut before: u64,
    mut after: u64,
    old_s: i32,
    east_at: &impl Fn(u64) -> Option<i32>,
) -> u64 {
    const MINUTE_MS: u64 = 60_000;
    while MINUTE_MS < after - before {
        let middle = before + (after - before) / 2;
        if east_at(middle) == Some(old_s) { before = middle } else { after = middle }
    }
    after - after % MINUTE_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_clock_is_found_to_the_minute() {
        let change = 1_774_746_000_000;
        let east_at = |ms: u64| Some(if ms < change { 3_600 } else { 7_200 });
        let before = LocalOffset { from_ms: 0, east_s: 3_600 };
        let after = LocalOffset { from_ms: change, east_s: 7_200 };
        for ahead_ms in [1, 59_999, 60_000, 1_800_000, 47 * HOUR_MS + 17] {
            assert_eq!(offsets_of(change - ahead_ms, east_at), [before, after], "{ahead_ms}");
        }
        assert_eq!(offsets_of(change - 49 * HOUR_MS, east_at), [before]);
        assert_eq!(offsets_of(change, east_at), [LocalOffset { from_ms: 0, east_s: 7_200 }]);
    }
}
