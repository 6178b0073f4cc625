//! Decides what of the journal is published: what happened to sessions, and not each tool of theirs (F-08).

use std::collections::BTreeMap;

use coord_model::{Event, Record};
use coord_view::history::{Kind, line};

/// Events in one batch at most.
const LINES_MAX: usize = 64;
/// Bytes of the events in one batch at most, but for the last event.
const BYTES_MAX: usize = 256 * 1024;
/// Of a session's tools and notifications, one in so many milliseconds is published.
const ACTIVITY_MS: u64 = 10_000;

/// Collects the events of a batch.
#[derive(Debug, Default)]
pub struct Selection {
    /// When a session's activity was last published, by the records' own times.
    active: BTreeMap<String, u64>,
}

/// The events of a range.
#[derive(Debug, Default)]
pub struct Selected {
    /// The events, a line of JSON each.
    pub lines: String,
    count: usize,
}

impl Selected {
    /// Whether no more fits.
    pub fn is_full(&self) -> bool {
        LINES_MAX <= self.count || BYTES_MAX <= self.lines.len()
    }
}

impl Selection {
    /// Adds what a record tells, if that is of interest elsewhere. What another version of coord wrote is left out.
    pub fn add(&mut self, seq: u64, payload: &[u8], selected: &mut Selected) {
        let Ok(record) = serde_json::from_slice::<Record<Event>>(payload) else { return };
        let at_ms = record.at;
        let line = line(Record { seq, ..record });
        if !self.is_wanted(line.kind, line.session_id.as_deref(), at_ms) {
            return;
        }
        if let Ok(json) = serde_json::to_string(&line) {
            selected.lines.push_str(&json);
            selected.lines.push('\n');
            selected.count = selected.count.saturating_add(1);
        }
    }

    fn is_wanted(&mut self, kind: Kind, session: Option<&str>, at_ms: u64) -> bool {
        match kind {
            Kind::Edge
            | Kind::Decision
            | Kind::Message
            | Kind::Order
            | Kind::Action
            | Kind::Coordinator => true,
            Kind::Observation => false,
            Kind::Activity => {
                let Some(session) = session else { return false };
                let is_due = |last: &u64| last.saturating_add(ACTIVITY_MS) <= at_ms;
                if !self.active.get(session).is_none_or(is_due) {
                    return false;
                }
                // Sessions that did nothing for as long would be published anyway.
                self.active.retain(|_, last| !is_due(last));
                self.active.insert(session.to_owned(), at_ms);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f_08_of_a_sessions_tools_one_in_ten_seconds_is_published() {
        let mut selection = Selection::default();
        let mut at = |session, ms| selection.is_wanted(Kind::Activity, Some(session), ms);
        let wanted = [at("a", 0), at("a", 9_999), at("b", 9_999), at("a", 10_000), at("a", 10_001)];
        assert_eq!(wanted, [true, false, true, true, false]);
        assert!(!selection.is_wanted(Kind::Observation, Some("a"), 20_000));
        for kind in [Kind::Edge, Kind::Decision, Kind::Message, Kind::Order, Kind::Action] {
            assert!(selection.is_wanted(kind, Some("a"), 20_000), "{kind:?}");
        }
    }
}
