//! Decides whether a session has used up its share of the journal (H-29, H-49). Events beyond the share
//! are counted instead of recorded, before they are acknowledged. Tool events are given up first, turn
//! edges last.
//!
//! Each session may record a number of events a minute of each class, and an amount of bytes. Spooled
//! events arrive all at once, whenever they happened, so only the bytes are limited for them. Events
//! have separate shares by how far they are believed (H-44), so that nobody can use up a session's share
//! by naming the session. All sessions together share one amount of bytes for their unverified events,
//! since a sender that makes up sessions can make up many.

use std::collections::BTreeMap;

use coord_model::{HookEvent, Provenance, Via};
use coord_wire::limits::{is_folded, is_reserved};

/// Length of the window in which events are counted, in nanoseconds.
const WINDOW_NS: u64 = 60_000_000_000;
/// Most sessions remembered; all further ones share one window.
const SESSIONS_MAX: usize = 10_000;
/// Shortest interval, in nanoseconds, at which silent sessions are forgotten.
const SWEEP_NS: u64 = 1_000_000_000;
/// Events a minute of one session that are neither tool events nor turn edges.
const OTHERS_PER_MINUTE: u64 = 300;
/// Turn edges a minute of one session.
const EDGES_PER_MINUTE: u64 = 600;
/// Bytes that a session may write at once; they become free again at [`SESSION_RATE`].
const SESSION_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes a second that become free again for a session.
const SESSION_RATE: u64 = 8 * 1024;
/// Bytes of the unverified events of all sessions together; a full spool fits within it.
const GROUP_BYTES: u64 = 96 * 1024 * 1024;
/// Bytes a second that become free again for corroborated events, and for claimed ones.
const CORROBORATED_RATE: u64 = 8 * 1024;
const CLAIMED_RATE: u64 = 1024;
/// Bytes that turn edges may use beyond these amounts.
const EDGE_BYTES: u64 = 16 * 1024 * 1024;
/// Events a minute that the history names as only counted: of one session, and of all.
const NAMED_PER_MINUTE: u64 = 60;
const NAMED_IN_ALL_PER_MINUTE: u64 = 600;

/// What happens to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The event is recorded.
    Kept,
    /// Only its arrival is recorded.
    Named,
    /// The event is only counted.
    Counted,
}

/// How far an event is believed, without the reasons in [`Provenance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The sender is the session's client.
    Verified,
    /// The event names a client that the coordinator knows.
    Corroborated,
    /// Nothing supports the event.
    Claimed,
}

impl Trust {
    /// The trust that a provenance gives.
    pub(crate) fn of(provenance: &Provenance) -> Self {
        match provenance {
            Provenance::Verified => Self::Verified,
            Provenance::Corroborated { .. } => Self::Corroborated,
            Provenance::Claimed => Self::Claimed,
        }
    }
}

/// An event that arrives, with what its share depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival<'a> {
    /// The session of the event.
    pub(crate) session_id: &'a str,
    /// The name of the event.
    pub(crate) event: &'a str,
    /// Bytes that the event takes in the journal.
    pub(crate) bytes: usize,
    /// How far the event is believed.
    pub(crate) trust: Trust,
    /// Whether it came over the socket or through the spool.
    pub(crate) via: Via,
}

impl<'a> Arrival<'a> {
    /// The arrival of a hook's event.
    pub(crate) fn of(event: &'a HookEvent) -> Self {
        Self {
            session_id: &event.session_id,
            event: event.kind.name(),
            bytes: event.text.0.get().len(),
            trust: Trust::of(&event.provenance),
            via: event.via,
        }
    }
}

/// Classes of events; the first one is given up first.
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

/// Bytes in use; they become free again with time.
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

    fn take(&mut self, bytes: u64) {
        self.used = self.used.saturating_add(bytes);
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

/// What all sessions together have used, for events of the same trust.
#[derive(Debug, Default)]
struct Group {
    /// Bytes a second that become free again for all sessions together; none if only each session is
    /// limited.
    rate: Option<u64>,
    windows: BTreeMap<String, Window>,
    bytes: Bucket,
    /// Since when events named as only counted are counted (in nanoseconds of CLOCK_MONOTONIC), and
    /// their number.
    named: (u64, u64),
    swept_ns: u64,
}

impl Group {
    fn bounded(rate: u64) -> Self {
        Self { rate: Some(rate), ..Self::default() }
    }

    fn take(
        &mut self,
        arrival: Arrival<'_>,
        class: Class,
        tools_per_minute: u64,
        now_ns: u64,
    ) -> Fate {
        let bytes = u64::try_from(arrival.bytes).unwrap_or(u64::MAX);
        let beyond = if class == Class::Edge { EDGE_BYTES } else { 0 };
        self.bytes.settle(self.rate.unwrap_or(0), now_ns);
        let has_room =
            self.rate.is_none() || self.bytes.has_room(bytes, GROUP_BYTES.saturating_add(beyond));
        let window = self.window(arrival.session_id, now_ns);
        window.renew(now_ns);
        let (count, count_max) = match class {
            Class::Tool => (&mut window.tools, tools_per_minute),
            Class::Other => (&mut window.others, OTHERS_PER_MINUTE),
            Class::Edge => (&mut window.edges, EDGES_PER_MINUTE),
        };
        let is_spooled = arrival.via == Via::Spool;
        if !is_spooled {
            *count = count.saturating_add(1);
        }
        let is_within = is_spooled || *count <= count_max;
        if has_room && is_within && window.bytes.has_room(bytes, SESSION_BYTES + beyond) {
            window.bytes.take(bytes);
            self.bytes.take(bytes);
            return Fate::Kept;
        }
        window.named = window.named.saturating_add(1);
        let is_named = window.named <= NAMED_PER_MINUTE;
        if is_named && self.may_name(now_ns) { Fate::Named } else { Fate::Counted }
    }

    fn may_name(&mut self, now_ns: u64) -> bool {
        let (began_ns, named) = &mut self.named;
        if WINDOW_NS <= now_ns.saturating_sub(*began_ns) {
            (*began_ns, *named) = (now_ns, 0);
        }
        *named = named.saturating_add(1);
        *named <= NAMED_IN_ALL_PER_MINUTE
    }

    /// The window of a session. Beyond [`SESSIONS_MAX`], all further sessions share one.
    fn window(&mut self, session_id: &str, now_ns: u64) -> &mut Window {
        let is_known = self.windows.contains_key(session_id);
        if !is_known
            && SESSIONS_MAX <= self.windows.len()
            && SWEEP_NS <= now_ns.saturating_sub(self.swept_ns)
        {
            self.swept_ns = now_ns;
            self.windows.retain(|_, window| {
                window.bytes.settle(SESSION_RATE, now_ns);
                0 < window.bytes.used || now_ns.saturating_sub(window.began_ns) < WINDOW_NS
            });
        }
        let key = if is_known || self.windows.len() < SESSIONS_MAX { session_id } else { "" };
        self.windows.entry(key.to_owned()).or_insert_with(|| Window {
            began_ns: now_ns,
            bytes: Bucket { used: 0, at_ns: now_ns },
            ..Window::default()
        })
    }
}

/// What all sessions have used, for each degree of trust.
#[derive(Debug)]
pub(crate) struct Shares {
    tools_per_minute: u64,
    verified: Group,
    corroborated: Group,
    claimed: Group,
    /// When anything but a tool event was last given up, in nanoseconds of CLOCK_MONOTONIC.
    spent_ns: Option<u64>,
}

impl Shares {
    /// Shares with `store.tool_events_per_minute` as the limit of tool events.
    pub(crate) fn new(tools_per_minute: u64) -> Self {
        Self {
            tools_per_minute,
            verified: Group::default(),
            corroborated: Group::bounded(CORROBORATED_RATE),
            claimed: Group::bounded(CLAIMED_RATE),
            spent_ns: None,
        }
    }

    /// Applies a change of `store.tool_events_per_minute`.
    pub(crate) fn set_tools_per_minute(&mut self, tools_per_minute: u64) {
        self.tools_per_minute = tools_per_minute;
    }

    /// Counts one event, and decides what happens to it.
    pub(crate) fn take(&mut self, arrival: Arrival<'_>, now_ns: u64) -> Fate {
        let class = Class::of(arrival.event);
        let group = match arrival.trust {
            Trust::Verified => &mut self.verified,
            Trust::Corroborated => &mut self.corroborated,
            Trust::Claimed => &mut self.claimed,
        };
        let fate = group.take(arrival, class, self.tools_per_minute, now_ns);
        if fate != Fate::Kept && class != Class::Tool {
            self.spent_ns = Some(now_ns);
        }
        fate
    }

    /// Whether anything but tool events was given up within the last ten minutes.
    pub(crate) fn was_spent(&self, now_ns: u64) -> bool {
        self.spent_ns.is_some_and(|at| now_ns.saturating_sub(at) < 10 * WINDOW_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small<'a>(session_id: &'a str, event: &'a str) -> Arrival<'a> {
        Arrival { session_id, event, bytes: 500, trust: Trust::Verified, via: Via::Socket }
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

    // H-49: every class has a share, in number and in bytes.
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

    // H-29, H-49: events that were spooled for days arrive within a second, and only their bytes are
    // limited.
    #[test]
    fn what_was_spooled_has_an_amount_and_no_rate() {
        let mut shares = Shares::new(2);
        let spooled =
            Arrival { via: Via::Spool, trust: Trust::Corroborated, ..small("a", "PreToolUse") };
        let kept = (0..40_000).filter(|_| shares.take(spooled, 0) == Fate::Kept).count();
        assert_eq!(kept, 33_554, "16 MiB");
    }

    // H-49: a sender that makes up sessions uses up only the share of claims.
    #[test]
    fn claims_have_one_amount_together_and_take_nothing_from_others() {
        let mut shares = Shares::new(1200);
        let (mut kept, mut named) = (0_u64, 0);
        for n in 0..50_000_u64 {
            let session_id = format!("forged-{n}");
            let forged = Arrival {
                bytes: 60_000,
                trust: Trust::Claimed,
                ..small(&session_id, "Notification")
            };
            match shares.take(forged, n) {
                Fate::Kept => kept += 60_000,
                Fate::Named => named += 1,
                Fate::Counted => (),
            }
        }
        assert!(kept <= GROUP_BYTES && named == NAMED_IN_ALL_PER_MINUTE, "{kept} {named}");
        assert!(shares.claimed.windows.len() <= SESSIONS_MAX + 1);
        for n in 0..2000 {
            let forged = Arrival { trust: Trust::Claimed, ..small("real", "PreToolUse") };
            shares.take(forged, 60_000 + n);
        }
        assert_eq!(shares.take(small("real", "PreToolUse"), 70_000), Fate::Kept);
        let spooled = Arrival { trust: Trust::Corroborated, ..small("real", "PreToolUse") };
        assert_eq!(shares.take(spooled, 70_000), Fate::Kept);
        let edge = Arrival { trust: Trust::Claimed, ..small("claimed", "Stop") };
        assert_eq!(shares.take(edge, 70_000), Fate::Kept, "edges go last");
    }
}
