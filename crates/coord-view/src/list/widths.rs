//! Decides how wide the columns of a list are (U-02).

use unicode_width::UnicodeWidthStr as _;

use super::{Row, age};
use crate::text::escape;

/// Limits of the columns, in characters.
const NAME_MIN: usize = 4;
const NAME_MAX: usize = 24;
/// A name is not cut to less.
const NAME_SHRUNK: usize = 8;
/// WHERE gets so much before a long name does.
const WHERE_MIN: usize = 12;
const WHERE_MAX: usize = 24;
/// From these widths on, the columns appear.
const WHERE_FROM: usize = 64;
const WHAT_FROM: usize = 76;
/// The least that WHAT gets beside WHERE.
const WHAT_MIN: usize = 24;

/// The widths of the columns; 0 for one that has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Widths {
    /// NAME.
    pub name: usize,
    /// STATE.
    pub state: usize,
    /// AGE.
    pub age: usize,
    /// WHERE.
    pub place: usize,
    /// WHAT.
    pub what: usize,
}

impl Widths {
    /// From so many columns on, all columns of the list appear.
    pub const ALL_FROM: usize = WHAT_FROM;

    /// The widths of rows in `total` columns.
    pub fn of(rows: &[Row], total: usize) -> Self {
        let widest = |cell: &dyn Fn(&Row) -> usize, head: usize| {
            rows.iter().map(cell).max().unwrap_or(0).max(head)
        };
        let chars = |text: &str| escape(text).as_str().width();
        let state = widest(&|row| row.state.len(), 5);
        let age = widest(&|row| age(row.age_s).len(), 3);
        let widest_place = widest(&|row| chars(&row.place), 5).min(WHERE_MAX);
        // A long name is cut before the columns after it are.
        let after_age = match total {
            ..WHERE_FROM => 0,
            WHERE_FROM..WHAT_FROM => 2 + widest_place.min(WHERE_MIN),
            WHAT_FROM.. => 2 + widest_place.min(WHERE_MIN) + 2 + WHAT_MIN,
        };
        let room = total.saturating_sub(2 + 2 + state + 2 + age + after_age);
        let name_max = room.clamp(NAME_SHRUNK, NAME_MAX);
        let name = widest(&|row| chars(&row.name), NAME_MIN).min(name_max);
        let left = total.saturating_sub(2 + name + 2 + state + 2 + age);
        if total < WHERE_FROM {
            return Self { name, state, age, place: 0, what: 0 };
        }
        if total < WHAT_FROM {
            return Self {
                name,
                state,
                age,
                place: left.saturating_sub(2).min(widest_place),
                what: 0,
            };
        }
        let place = left.saturating_sub(2 + 2 + WHAT_MIN).max(8).min(widest_place);
        Self { name, state, age, place, what: left.saturating_sub(2 + place + 2) }
    }
}
