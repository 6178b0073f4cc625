//! The numbers of sessions by which lists are ordered and filtered.

use coord_model::Decimal;

use super::{List, Row};
use crate::usage::{dollars, percent};

/// A number of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// How full its context window is, in percent.
    Context,
    /// Its cost, in US dollars.
    Cost,
}

impl Number {
    /// All numbers.
    pub const ALL: [Self; 2] = [Self::Context, Self::Cost];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Cost => "cost",
        }
    }

    /// The number of a row; none if it is not known.
    pub fn of(self, row: &Row) -> Option<Decimal> {
        match self {
            Self::Context => row.context,
            Self::Cost => row.cost,
        }
    }

    fn words(self, number: Decimal) -> String {
        match self {
            Self::Context => format!("{} of context", percent(number)),
            Self::Cost => dollars(number),
        }
    }

    /// Puts the highest number first and unknown ones last, and the number before what the rows say.
    pub fn order(self, rows: &mut [Row]) {
        rows.sort_by_key(|row| core::cmp::Reverse(self.of(row)));
        for row in rows {
            let words = self.of(row).map(|number| self.words(number));
            let parts = words.into_iter().chain(Some(core::mem::take(&mut row.what)));
            let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
            row.what = parts.join(" · ");
        }
    }
}

impl List {
    /// Orders all rows by a number.
    pub fn order_by(&mut self, number: Number) {
        number.order(&mut self.rows);
    }
}

/// A bound of a number: `context>80`, `cost<2.5`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    number: Number,
    is_least: bool,
    than: Decimal,
}

impl Bound {
    /// Reads a bound; none if the text is another one.
    pub fn read(text: &str) -> Option<Self> {
        let at = text.find(['<', '>'])?;
        let (name, rest) = text.split_at(at);
        let number = Number::ALL.into_iter().find(|number| number.name() == name.trim())?;
        let than = rest.get(1..)?.trim().trim_start_matches('$').trim_end_matches('%');
        let than = serde_json::from_str(than).ok()?;
        Some(Self { number, is_least: rest.starts_with('>'), than })
    }

    /// Whether the row's number is known, and beyond the bound.
    pub fn holds(self, row: &Row) -> bool {
        let number = self.number.of(row);
        number.is_some_and(|n| if self.is_least { self.than < n } else { n < self.than })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Group, Tone};
    use super::*;

    fn row(name: &str, context: Option<u64>, cost: Option<u64>) -> Row {
        let decimal = |n: Option<u64>| n.map(|n| Decimal(n * Decimal::ONE));
        Row {
            group: Group::Idle,
            tone: Tone::Plain,
            id: name.to_owned(),
            name: name.to_owned(),
            state: "idle".to_owned(),
            age_s: 0,
            place: String::new(),
            what: if name == "b" { "waits".to_owned() } else { String::new() },
            hint: None,
            has_pane: false,
            context: decimal(context),
            cost: decimal(cost),
            order: 0,
        }
    }

    #[test]
    fn q_01_rows_are_ordered_by_a_number_and_say_it() {
        let mut rows =
            [row("a", None, Some(2)), row("b", Some(61), None), row("c", Some(90), Some(7))];
        Number::Context.order(&mut rows);
        let shown: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.what.as_str())).collect();
        assert_eq!(shown, [("c", "90% of context"), ("b", "61% of context · waits"), ("a", "")]);
        Number::Cost.order(&mut rows);
        assert_eq!(rows.map(|row| row.name), ["c", "a", "b"]);
    }

    #[test]
    fn q_01_a_bound_holds_only_for_what_is_known() {
        let (none, full) = (row("a", None, None), row("c", Some(90), Some(7)));
        for (text, holds) in [
            ("context>80", true),
            ("context > 90%", false),
            ("cost<7.01", true),
            ("cost>$7", false),
        ] {
            let bound = Bound::read(text).unwrap();
            assert_eq!((bound.holds(&full), bound.holds(&none)), (holds, false), "{text}");
        }
        for other in ["context", "context>", "context>much", "state>1", "a>b", ""] {
            assert_eq!(Bound::read(other), None, "{other}");
        }
    }
}
