//! Decides whether a session has used up its share of the journal (H-29, H-49): what exceeds it is
//! counted instead of being kept, before it is acknowledged. Tool events go first, turn edges last.
//!
//! Each session has a number of events a minute of each class, and an amount of bytes. Events whose sender
//! was not verified have shares of their own, so that they use up no real session's; and all of them
//! together have one amount of bytes, since whoever makes up sessions can make up many.

use std::collections::BTreeMap;

use coord_wire::limits::{is_folded, is_reserved};

/// Length of a window.
const WINDOW_NS: u64 = 60_000_000_000;
/// Sessions remembered; further ones share one window.
const SESSIONS_MAX: usize = 10_000;
/// Sessions that were silent are forgotten this often.
const SWEEP_NS: u64 = 1_000_000_000;
/// Events of a session in a minute that are neither tool events nor turn edges.
const OTHERS_PER_MINUTE: u64 = 300;
/// Turn edges of a session in a minute.
const EDGES_PER_MINUTE: u64 = 600;
/// Bytes that a session may write at once; they become free again at [`SESSION_RATE`].
const SESSION_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes a second.
const SESSION_RATE: u64 = 8 * 1024;
/// The same for all unverified events together: a full spool is within it.
const UNVERIFIED_BYTES: u64 = 96 * 1024 * 1024;
const UNVERIFIED_RATE: u64 = 8 * 1024;
/// What turn edges may use beyond these amounts.
const EDGE_BYTES: u64 = 16 * 1024 * 1024;
/// Events of one session, and of all, in a minute that are named in the history as only counted.
const NAMED_PER_MINUTE: u64 = 60;
const NAMED_IN_ALL_PER_MINUTE: u64 = 600;

/// What becomes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is recorded.
    Kept,
    /// Only that it came is recorded.
    Named,
    /// It is only counted.
    Counted,
}

/// An event that arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival<'a> {
    /// Its session.
    pub(crate) session_id: &'a str,
    /// Its name.
    pub(crate) event: &'a str,
    /// What it takes in the journal.
    pub(crate) bytes: usize,
    /// Whether its sender was verified.
    pub(crate) verified: bool,
}

/// The order in which classes of events are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Tool,
    Other,
    Edge,
}

impl Class {
    fn of(event: &str) -> Self {
        if is_folded(event) {
            Self::Tool
        } else if is_reserved(event) || event == "UserPromptSubmit" {
            Self::Edge
        } else {
            Self::Other
        }
    }
}

/// Bytes in use, which become free again with time.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    used: u64,
    at_ns: u64,
}

impl Bucket {
    fn settle(&mut self, rate: u64, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        let free = u128::from(passed_ns) * u128::from(rate) / 1_000_000_000;
        if 0 < free {
            self.used = self.used.saturating_sub(u64::try_from(free).unwrap_or(u64::MAX));
            self.at_ns = now_ns;
        }
    }

    fn has_room(&self, bytes: u64, max: u64) -> bool {
        self.used.saturating_add(bytes) <= max
    }
}

/// What one session has used.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    began_ns: u64,
    tools: u64,
    others: u64,
    edges: u64,
    named: u64,
    bytes: Bucket,
}

impl Window {
    fn renew(&mut self, now_ns: u64) {
        self.bytes.settle(SESSION_RATE, now_ns);
        if WINDOW_NS <= now_ns.saturating_sub(self.began_ns) {
            *self = Self { began_ns: now_ns, bytes: self.bytes, ..Self::default() };
        }
    }
}

/// What all sessions have used.
#[derive(Debug)]
pub(crate) struct Shares {
    tools_per_minute: u64,
    verified: BTreeMap<String, Window>,
    unverified: BTreeMap<String, Window>,
    unverified_bytes: Bucket,
    /// What was named as only counted, of all sessions.
    named: (u64, u64),
    swept_ns: u64,
    /// When anything but a tool event was given up last.
    spent_ns: Option<u64>,
}

impl Shares {
    /// `store.tool_events_per_minute`.
    pub(crate) fn new(tools_per_minute: u64) -> Self {
        Self {
            tools_per_minute,
            verified: BTreeMap::new(),
            unverified: BTreeMap::new(),
            unverified_bytes: Bucket::default(),
            named: (0, 0),
            swept_ns: 0,
            spent_ns: None,
        }
    }

    /// Counts one event, and decides what becomes of it.
    pub(crate) fn take(&mut self, arrival: Arrival<'_>, now_ns: u64) -> Fate {
        let class = Class::of(arrival.event);
        let bytes = u64::try_from(arrival.bytes).unwrap_or(u64::MAX);
        let beyond = if class == Class::Edge { EDGE_BYTES } else { 0 };
        self.unverified_bytes.settle(UNVERIFIED_RATE, now_ns);
        let has_room =
            arrival.verified || self.unverified_bytes.has_room(bytes, UNVERIFIED_BYTES + beyond);
        let tools_per_minute = self.tools_per_minute;
        let window = self.window(arrival.session_id, arrival.verified, now_ns);
        window.renew(now_ns);
        let (count, count_max) = match class {
            Class::Tool => (&mut window.tools, tools_per_minute),
            Class::Other => (&mut window.others, OTHERS_PER_MINUTE),
            Class::Edge => (&mut window.edges, EDGES_PER_MINUTE),
        };
        *count = count.saturating_add(1);
        let is_within = *count <= count_max;
        if has_room && is_within && window.bytes.has_room(bytes, SESSION_BYTES + beyond) {
            window.bytes.used = window.bytes.used.saturating_add(bytes);
            if !arrival.verified {
                let used = &mut self.unverified_bytes.used;
                *used = used.saturating_add(bytes);
            }
            return Fate::Kept;
        }
        window.named = window.named.saturating_add(1);
        let is_named = window.named <= NAMED_PER_MINUTE;
        if class != Class::Tool {
            self.spent_ns = Some(now_ns);
        }
        if is_named && self.may_name(now_ns) { Fate::Named } else { Fate::Counted }
    }

    /// Whether anything but tool events was given up within the last ten minutes.
    pub(crate) fn was_spent(&self, now_ns: u64) -> bool {
        self.spent_ns.is_some_and(|at| now_ns.saturating_sub(at) < 10 * WINDOW_NS)
    }

    fn may_name(&mut self, now_ns: u64) -> bool {
        let (began_ns, named) = &mut self.named;
        if WINDOW_NS <= now_ns.saturating_sub(*began_ns) {
            (*began_ns, *named) = (now_ns, 0);
        }
        *named = named.saturating_add(1);
        *named <= NAMED_IN_ALL_PER_MINUTE
    }

    /// The window of a session. Beyond a number of sessions the others share one.
    fn window(&mut self, session_id: &str, verified: bool, now_ns: u64) -> &mut Window {
        let windows = if verified { &mut self.verified } else { &mut self.unverified };
        let is_known = windows.contains_key(session_id);
        if !is_known
            && SESSIONS_MAX <= windows.len()
            && SWEEP_NS <= now_ns - self.swept_ns.min(now_ns)
        {
            self.swept_ns = now_ns;
            windows.retain(|_, window| {
                window.bytes.settle(SESSION_RATE, now_ns);
                0 < window.bytes.used || now_ns.saturating_sub(window.began_ns) < WINDOW_NS
            });
        }
        let key = if is_known || windows.len() < SESSIONS_MAX { session_id } else { "" };
        windows.entry(key.to_owned()).or_insert_with(|| Window {
            began_ns: now_ns,
            bytes: Bucket { used: 0, at_ns: now_ns },
            ..Window::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small<'a>(session_id: &'a str, event: &'a str) -> Arrival<'a> {
        Arrival { session_id, event, bytes: 500, verified: true }
    }

    // H-29
    #[test]
    fn tool_events_over_the_share_are_folded_and_edges_kept() {
        let mut shares = Shares::new(2);
        let mut take = |session, event, now| shares.take(small(session, event), now);
        assert_eq!(take("a", "PreToolUse", 0), Fate::Kept);
        assert_eq!(take("a", "PostToolUse", 1), Fate::Kept);
        assert_eq!(take("a", "PreToolUse", 2), Fate::Named);
        assert_eq!(take("a", "Stop", 3), Fate::Kept);
        assert_eq!(take("b", "PreToolUse", 4), Fate::Kept);
        assert_eq!(take("a", "PreToolUse", WINDOW_NS), Fate::Kept);
    }

    // H-49: every class has a share, by number and by bytes.
    #[test]
    fn every_kind_of_event_has_a_share_and_edges_the_largest() {
        let mut shares = Shares::new(1200);
        let mut now_ns = 0;
        let mut kept = |shares: &mut Shares, event, bytes| {
            now_ns += WINDOW_NS;
            let arrival = Arrival { bytes, ..small("a", event) };
            (0..2000).filter(|_| shares.take(arrival, now_ns) == Fate::Kept).count()
        };
        assert_eq!(kept(&mut shares, "Notification", 500), 300);
        assert_eq!(kept(&mut shares, "Stop", 500), 600);
        let mut shares = Shares::new(1_000_000);
        assert_eq!(kept(&mut shares, "Notification", 60_000), 279, "16 MiB");
        assert!(0 < kept(&mut shares, "SessionEnd", 500), "an edge is kept all the same");
        let bounded = kept(&mut shares, "SessionEnd", 60_000);
        assert!((200..300).contains(&bounded), "{bounded}: edges have a bound too");
        assert!(shares.was_spent(6 * WINDOW_NS) && !shares.was_spent(20 * WINDOW_NS));
    }

    // H-49: whoever makes up sessions uses up nobody's share but that of the unverified.
    #[test]
    fn unverified_events_have_one_amount_together_and_take_nothing_from_the_verified() {
        let mut shares = Shares::new(1200);
        let (mut kept, mut named) = (0_u64, 0);
        for n in 0..50_000_u64 {
            let session_id = format!("forged-{n}");
            let forged = Arrival {
                session_id: &session_id,
                event: "Notification",
                bytes: 60_000,
                verified: false,
            };
            match shares.take(forged, n) {
                Fate::Kept => kept += 60_000,
                Fate::Named => named += 1,
                Fate::Counted => (),
            }
        }
        assert!(kept <= UNVERIFIED_BYTES && named == NAMED_IN_ALL_PER_MINUTE, "{kept} {named}");
        assert!(shares.unverified.len() <= SESSIONS_MAX + 1);
        for n in 0..1000 {
            let forged = Arrival { verified: false, ..small("real", "PreToolUse") };
            shares.take(forged, 60_000 + n);
        }
        assert_eq!(shares.take(small("real", "PreToolUse"), 70_000), Fate::Kept);
        let edge = Arrival { verified: false, ..small("spooled", "Stop") };
        assert_eq!(shares.take(edge, 70_000), Fate::Kept, "edges go last");
    }
}
