//! Decides whether a session has used up its share of the journal (H-29): tool events beyond a
//! number per minute are folded into counters before they are acknowledged, turn edges never.

use std::collections::BTreeMap;

use coord_wire::limits::is_folded;

/// Length of a window.
const WINDOW_NS: u64 = 60_000_000_000;
/// Sessions remembered; over this, windows that are over are dropped.
const SESSIONS_MAX: usize = 10_000;

/// Tool events per session in the current minute.
#[derive(Debug)]
pub(crate) struct Shares {
    per_minute: u64,
    windows: BTreeMap<String, (u64, u64)>,
}

impl Shares {
    /// `store.tool_events_per_minute`.
    pub(crate) fn new(per_minute: u64) -> Self {
        Self { per_minute, windows: BTreeMap::new() }
    }

    /// Counts one event; true if it is to be folded.
    pub(crate) fn is_spent(&mut self, session_id: &str, event: &str, now_ns: u64) -> bool {
        if !is_folded(event) {
            return false;
        }
        if SESSIONS_MAX < self.windows.len() {
            self.windows.retain(|_, (began, _)| now_ns.saturating_sub(*began) < WINDOW_NS);
        }
        let (began, count) = match self.windows.get_mut(session_id) {
            Some(window) => window,
            None => self.windows.entry(session_id.to_owned()).or_insert((now_ns, 0)),
        };
        if WINDOW_NS <= now_ns.saturating_sub(*began) {
            (*began, *count) = (now_ns, 0);
        }
        *count = count.saturating_add(1);
        self.per_minute < *count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // H-29
    #[test]
    fn tool_events_over_the_share_are_folded_and_edges_never() {
        let mut shares = Shares::new(2);
        let mut spent = |session, event, now| shares.is_spent(session, event, now);
        assert!(!spent("a", "PreToolUse", 0));
        assert!(!spent("a", "PostToolUse", 1));
        assert!(spent("a", "PreToolUse", 2));
        assert!(!spent("a", "Stop", 3));
        assert!(!spent("b", "PreToolUse", 4));
        assert!(!spent("a", "PreToolUse", WINDOW_NS));
    }
}
