//! `GET /metrics`: numbers for monitoring, as OpenMetrics text.
//!
//! Every series is known at compile time, apart from the version. No label holds an id, a name, a path, or any other
//! text that comes from a session. The text is made on demand; what happens between two requests is only added up.

mod exposition;
mod histogram;
mod tally;

use coord_model::{NeedKind, Now, SessionState};
use coord_store::Disk;
use coord_view::messages;

use crate::coordinator::Coordinator;
use crate::http::Response;
use crate::world::World;
use exposition::Type::{self, Counter, Gauge, GaugeHistogram, Info};
use exposition::{Exposition, MEDIA_TYPE};
use histogram::{Bound, Histogram, Seconds};
pub(crate) use tally::Tally;

/// Upper bounds of what the coordinator does while somebody waits for it. A hook gives up after a second at most.
static DURATIONS: [Bound; 13] = [
    ("0.0001", 100_000),
    ("0.00025", 250_000),
    ("0.0005", 500_000),
    ("0.001", 1_000_000),
    ("0.0025", 2_500_000),
    ("0.005", 5_000_000),
    ("0.01", 10_000_000),
    ("0.025", 25_000_000),
    ("0.05", 50_000_000),
    ("0.1", 100_000_000),
    ("0.25", 250_000_000),
    ("0.5", 500_000_000),
    ("1.0", 1_000_000_000),
];

/// Upper bounds of the ages of needs: from a minute to a day.
static AGES: [Bound; 8] = [
    ("60.0", 60_000_000_000),
    ("300.0", 300_000_000_000),
    ("900.0", 900_000_000_000),
    ("1800.0", 1_800_000_000_000),
    ("3600.0", 3_600_000_000_000),
    ("14400.0", 14_400_000_000_000),
    ("28800.0", 28_800_000_000_000),
    ("86400.0", 86_400_000_000_000),
];

/// The states, as `coord inspect --json` names them.
const STATES: [(SessionState, &str); 19] = [
    (SessionState::Starting, "starting"),
    (SessionState::Running, "running"),
    (SessionState::Stalled, "stalled"),
    (SessionState::Idle, "idle"),
    (SessionState::Background, "background"),
    (SessionState::AwaitingPermission, "awaiting_permission"),
    (SessionState::AwaitingInput, "awaiting_input"),
    (SessionState::QuotaWait, "quota_wait"),
    (SessionState::BlockedAuth, "blocked_auth"),
    (SessionState::BlockedBilling, "blocked_billing"),
    (SessionState::Suspended, "suspended"),
    (SessionState::Foreign, "foreign"),
    (SessionState::Interrupted, "interrupted"),
    (SessionState::Crashed, "crashed"),
    (SessionState::RecoveryPending, "recovery_pending"),
    (SessionState::Recovering, "recovering"),
    (SessionState::Elsewhere, "elsewhere"),
    (SessionState::Stopped, "stopped"),
    (SessionState::Unknown, "unknown"),
];

/// The problems that `coord status` may show, by their names in the metrics.
const PROBLEMS: [&str; 21] = [
    "clients_not_watched",
    "config_needs_restart",
    "config_rejected",
    "directory_not_held",
    "disk_full",
    "disk_space_low",
    "end_notice_failed",
    "hook_panicked",
    "inputs_malformed",
    "journal_not_writable",
    "message_not_recorded",
    "old_texts_not_removed",
    "record_refused",
    "share_used_up",
    "snapshot_failed",
    "spool_file_too_long",
    "spool_from_newer_version",
    "spool_unreadable",
    "store_damaged",
    "unknown_client",
    "unverified_sessions",
];

/// How long things took since the coordinator started.
#[derive(Debug)]
pub(crate) struct Timings {
    /// From the moment at which the loop woke until a hook's event was answered.
    pub(crate) hook_exchange: Histogram<{ DURATIONS.len() }>,
    /// From the start of a sync of the journal until its end was known.
    pub(crate) journal_sync: Histogram<{ DURATIONS.len() }>,
    /// When the sync in progress began, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) sync_began_ns: u64,
}

impl Timings {
    /// The sync in progress has ended, well or not.
    pub(crate) fn end_sync(&mut self, now: Now) {
        self.journal_sync.observe(since(now, self.sync_began_ns));
    }
}

impl Default for Timings {
    fn default() -> Self {
        let empty = Histogram::new(&DURATIONS);
        Self { hook_exchange: empty.clone(), journal_sync: empty, sync_began_ns: 0 }
    }
}

/// The metrics of a coordinator that does not answer, in the same format.
pub fn down() -> String {
    let mut out = Exposition::new();
    up(&mut out, 0);
    out.finish()
}

fn up(out: &mut Exposition, value: u8) {
    out.single("coord_up", Gauge, "Whether the coordinator answers.", value);
}

impl<W: World> Coordinator<W> {
    /// `GET /metrics`.
    pub(crate) fn metrics(&self, now: Now) -> Response {
        let mut out = Exposition::new();
        self.add_process(&mut out, now);
        self.add_sessions(&mut out, now);
        self.add_events(&mut out);
        self.add_store(&mut out, now);
        self.add_messages(&mut out, now);
        self.add_notices(&mut out);
        Response { status: 200, body: out.finish().into_bytes(), content_type: MEDIA_TYPE }
    }

    fn add_process(&self, out: &mut Exposition, now: Now) {
        up(out, 1);
        let build = [(coord_wire::VERSION, 1)];
        out.labelled(("coord_build", "version"), Info, "Version of the coordinator.", build);
        let (start, read) = (self.started.wall_ms, now.wall_ms);
        let at = |ms: u64| Seconds(ms.saturating_mul(1_000_000));
        out.single("coord_start_time_seconds", Gauge, "When it started, as Unix time.", at(start));
        out.single("coord_read_time_seconds", Gauge, "When this was read, as Unix time.", at(read));
        let present = self.problems(now);
        let is_present = |name: &str| present.iter().any(|(one, _)| *one == name);
        let named = PROBLEMS.into_iter().map(|name| (name, u8::from(is_present(name))));
        // A problem that is missing above is shown all the same, while it lasts.
        let mut others: Vec<&str> = present.iter().map(|(name, _)| *name).collect();
        others.retain(|name| !PROBLEMS.contains(name));
        others.sort_unstable();
        others.dedup();
        let help = "Whether the coordinator has this problem; coord status says more.";
        let all = named.chain(others.into_iter().map(|name| (name, 1)));
        out.labelled(("coord_problems", "problem"), Gauge, help, all);
        let help = "Violations of invariants since the start; always 0 unless coord has a bug.";
        out.single("coord_invariant_violations", Counter, help, self.invariant_violations);
        let late = self.engine.state().next_deadline().map_or(0, |at| since(now, at));
        out.single(
            "coord_timer_late_seconds",
            Gauge,
            "How late the oldest timer is.",
            Seconds(late),
        );
    }

    fn add_sessions(&self, out: &mut Exposition, now: Now) {
        let state = self.engine.state();
        let mut of_state = STATES.map(|(_, name)| (name, 0_u64));
        let mut of_kind = NeedKind::ALL.map(|kind| (kind.name(), 0_u64));
        let mut ages = Histogram::new(&AGES);
        let mut oldest_ns = 0;
        for session in state.sessions() {
            let place = STATES.iter().position(|(one, _)| *one == session.shown.state);
            if let Some((_, n)) = place.and_then(|at| of_state.get_mut(at)) {
                *n += 1;
            }
            for need in session.open_needs() {
                let place = NeedKind::ALL.iter().position(|kind| *kind == need.kind);
                if let Some((_, n)) = place.and_then(|at| of_kind.get_mut(at)) {
                    *n += 1;
                }
                let ms = now.wall_ms.saturating_sub(need.since.wall_ms);
                let ns = ms.saturating_mul(1_000_000);
                ages.observe(ns);
                oldest_ns = ns.max(oldest_ns);
            }
        }
        out.labelled(("coord_sessions", "state"), Gauge, "Known sessions by state.", of_state);
        let help = "Living sessions that nobody watches.";
        out.single("coord_unattended", Gauge, help, self.unattended());
        let help = "Open needs by kind, without dismissed ones.";
        out.labelled(("coord_needs", "kind"), Gauge, help, of_kind);
        let help = "Ages of the open needs.";
        out.histogram("coord_need_age_seconds", GaugeHistogram, help, &ages.buckets());
        let (name, help) = ("coord_oldest_need_age_seconds", "Age of the oldest open need, or 0.");
        out.single(name, Gauge, help, Seconds(oldest_ns));
        let tally = self.engine.tally();
        let help = "Clients that died without ending their session, since the start.";
        out.single("coord_crashes", Counter, help, tally.crashes());
        let help = "Ends of recoveries and of failed attempts by outcome, since the start.";
        out.labelled(("coord_recoveries", "outcome"), Counter, help, tally.endings());
        let help = "Decisions by the rule that decided, since the start.";
        out.labelled(("coord_decisions", "rule"), Counter, help, tally.rules());
        let counters = state.header().counters;
        let help = "Clients found dead whose death was not observed.";
        out.single("coord_found_dead", Counter, help, counters.found_dead);
        let help = "Records of unverified sessions that were dropped.";
        out.single("coord_records_dropped", Counter, help, counters.dropped);
    }

    fn add_events(&self, out: &mut Exposition) {
        let counters = self.engine.state().header().counters;
        for (name, value, help) in [
            ("coord_hook_events", counters.events, "Hook events that were applied."),
            (
                "coord_hook_events_duplicate",
                self.engine.duplicates(),
                "Hook events received again, since the start.",
            ),
            (
                "coord_hook_events_late",
                counters.late,
                "Hook events that came too late to change anything.",
            ),
            (
                "coord_hook_events_folded",
                counters.folded,
                "Hook events of which only the number was recorded.",
            ),
            ("coord_hook_events_malformed", counters.malformed, "Inputs that were no hook events."),
        ] {
            out.single(name, Counter, help, value);
        }
        let help = "Time from the loop's wake-up to the answer of a hook's event, since the start.";
        let buckets = self.timings.hook_exchange.buckets();
        out.histogram("coord_hook_exchange_seconds", Type::Histogram, help, &buckets);
        let help = "Hook events in the spool that are not in the journal yet.";
        out.single("coord_spool_events", Gauge, help, self.spool_pending());
        let help = "Wake hooks that wait beside idle sessions.";
        out.single("coord_waiters", Gauge, help, self.waiters.len());
    }

    fn add_store(&self, out: &mut Exposition, now: Now) {
        let journal = self.engine.journal();
        let help = "Records written to the journal since it began.";
        out.single("coord_journal_records", Counter, help, journal.next_seq().saturating_sub(1));
        let help = "Size of the journal's files.";
        out.single("coord_journal_bytes", Gauge, help, journal.bytes().unwrap_or(0));
        let unsynced = self.unsynced_since().map_or(0, |at| since(now, at));
        let help = "How long the oldest record that is not synced has waited, or 0.";
        out.single("coord_journal_unsynced_seconds", Gauge, help, Seconds(unsynced));
        let help = "Time that a sync of the journal took, since the start.";
        let buckets = self.timings.journal_sync.buckets();
        out.histogram("coord_journal_sync_seconds", Type::Histogram, help, &buckets);
        let help = "Free space on the disk of the state directory.";
        let free = self.disk.free(&self.paths.state).unwrap_or(0);
        out.single("coord_disk_free_bytes", Gauge, help, free);
    }

    fn add_notices(&self, out: &mut Exposition) {
        let outcomes = [("sent", self.shown.sent), ("failed", self.shown.failed)];
        let help = "Attempts to tell people through a channel by outcome, since the start.";
        out.labelled(("coord_notices", "outcome"), Counter, help, outcomes);
        let channels = &self.engine.state().header().notices.channels;
        let failing = channels.values().filter(|channel| channel.failing.is_some()).count();
        let help = "Channels whose last notice was not sent.";
        out.single("coord_notice_channels_failing", Gauge, help, failing);
    }

    fn add_messages(&self, out: &mut Exposition, now: Now) {
        let queue = &self.engine.state().header().queue;
        for (name, value, help) in [
            ("coord_messages_sent", queue.sent, "Messages accepted."),
            ("coord_messages_processed", queue.processed, "Messages processed."),
            ("coord_messages_failed", queue.failed, "Messages that failed or were dropped."),
            ("coord_messages_folded", queue.folded, "Messages sent again with a known key."),
            ("coord_leases_expired", queue.ran_out, "Leases that expired."),
        ] {
            out.single(name, Counter, help, value);
        }
        let totals = messages::totals(self.engine.state(), now);
        let of_state = [
            ("pending", totals.pending),
            ("processing", totals.processing),
            ("failed", totals.failed),
        ];
        let help = "Messages by state, without processed ones.";
        out.labelled(("coord_messages", "state"), Gauge, help, of_state);
        let help = "Messages in process for longer than queue.slow_after.";
        out.single("coord_messages_slow", Gauge, help, totals.slow);
        let help = "Messages in process whose lease is over.";
        out.single("coord_messages_stuck", Gauge, help, totals.stuck);
    }
}

/// Nanoseconds from a time of CLOCK_MONOTONIC until now.
fn since(now: Now, then_ns: u64) -> u64 {
    now.mono_ns.saturating_sub(then_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinator_that_is_down_is_told_as_such() {
        let text = "# TYPE coord_up gauge\n# HELP coord_up Whether the coordinator answers.\ncoord_up 0\n# EOF\n";
        assert_eq!(down(), text);
    }

    // A state that is left out would be counted nowhere.
    #[test]
    fn every_state_is_there_under_its_name() {
        for (state, name) in STATES {
            assert_eq!(serde_json::to_value(state).unwrap(), name);
        }
    }
}
