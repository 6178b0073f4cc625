//! What the coordinator says of itself: health, metrics, and the head of `inspect`.

use std::collections::VecDeque;
use std::fmt::Write;

use coord_core::UNVERIFIED_MAX;
use coord_model::stamp::rfc3339;
use coord_model::{Now, SessionKey, SessionState};
use coord_store::Disk;
use coord_view::{json, messages, sessions};
use coord_wire::api::Health;
use coord_wire::inspect::{Coordinator as Head, Inspect, SCHEMA, Session};
use coord_wire::limits::{RESERVE_FILE_BYTES, SPOOL_FILE_BYTES_MAX};

use crate::coordinator::{Coordinator, mode_word};
use crate::http::Response;
use crate::reopen::Reopening;
use crate::world::World;

/// Where the sessions of an answer without any belong. No text holds it: quotes in one are escaped.
const PLACE: &[u8] = b"\"sessions\":[]";

/// Less free space than this is low, in bytes: sixteen times what is kept in reserve.
const LOW_SPACE_BYTES: u64 = 16 * RESERVE_FILE_BYTES;

/// The list of all sessions, made piece by piece: many of them would hold up the loop (H-49).
#[derive(Debug)]
pub(crate) struct SessionList {
    /// The answer without its sessions.
    empty: Inspect,
    /// Those that are not in it yet.
    keys: VecDeque<SessionKey>,
    /// Those that are, as JSON, with commas.
    sessions: Vec<u8>,
    now: Now,
}

impl SessionList {
    fn push(&mut self, session: &Session) {
        let before = self.sessions.len();
        if 0 < before {
            self.sessions.push(b',');
        }
        if let Err(error) = json::to_writer(&mut self.sessions, session) {
            tracing::error!(%error, "a session could not be written as JSON");
            self.sessions.truncate(before);
        }
    }

    /// The answer.
    pub(crate) fn response(self) -> Response {
        let Self { empty, sessions, .. } = self;
        let mut response = Response::json(&empty);
        let place = response.body.windows(PLACE.len()).position(|window| window == PLACE);
        if let Some(at) = place.map(|at| at + PLACE.len() - 1) {
            response.body.splice(at..at, sessions);
        }
        response
    }
}

impl<W: World> Coordinator<W> {
    /// Everything that is not as it should be, in words.
    pub(crate) fn all_problems(&self, now: Now) -> Vec<String> {
        let mut problems: Vec<String> = self.conditions.texts().cloned().collect();
        for (count, what) in [
            (self.spool.malformed(), "inputs were not hook payloads: spool/malformed"),
            (self.spool.crashes(), "hooks panicked: spool/crashes"),
        ] {
            if let Ok(count @ 1..) = count {
                problems.push(format!("{count} {what}"));
            }
        }
        problems.extend(self.spool.set_aside().map(|(path, bytes)| {
            format!(
                "{} has {bytes} bytes, more than hooks write: coord read its events up to {SPOOL_FILE_BYTES_MAX} bytes and set the file aside; delete it",
                path.display()
            )
        }));
        problems.extend(self.low_space());
        let n = self.engine.state().n_unverified();
        if UNVERIFIED_MAX <= n {
            problems.push(format!(
                "{n} sessions are known only from unverified events: coord drops the oldest of them; find out what reports them"
            ));
        }
        if self.shares.was_spent(now.mono_ns) {
            problems.push(
                "a session sent more events than its share, and some were only counted: find out what reports them (coord events)".to_owned(),
            );
        }
        let unheld = self.engine.state().header().config_dirs.iter().filter(|(_, held)| !**held);
        for (dir, _) in unheld {
            problems.push(format!(
                "{dir}: coord only observes its sessions, because another coordinator acts there, or the directory lies outside COORD_HOME and tracking.config_dirs does not name it"
            ));
        }
        problems.extend(self.reopening.as_ref().map(Reopening::text));
        problems
    }

    /// What is to be said while the disk is nearly full.
    fn low_space(&self) -> Option<String> {
        let free = self.disk.free(&self.paths.state).ok()?;
        let is_low = free < LOW_SPACE_BYTES && !self.is_full();
        let mib = |bytes: u64| bytes / (1024 * 1024);
        is_low.then(|| {
            format!(
                "only {} MiB are free on the disk of {}: below {} MiB coord recovers no session; on a full disk it records only the starts and ends of turns, and refuses messages; free some space",
                mib(free),
                self.paths.state.display(),
                mib(LOW_SPACE_BYTES)
            )
        })
    }

    /// `GET /healthz`.
    pub(crate) fn health(&self, now: Now) -> Health {
        let problems = self.all_problems(now);
        let changed = self.config_changed.as_ref();
        let ms_since = |then: u64| now.mono_ns.saturating_sub(then) / 1_000_000;
        Health {
            status: if problems.is_empty() { "ok" } else { "degraded" }.to_owned(),
            pid: std::process::id(),
            version: coord_wire::VERSION.to_owned(),
            uptime_s: ms_since(self.started.mono_ns) / 1000,
            mode: mode_word(self.mode()).to_owned(),
            seq: self.engine.journal().next_seq().saturating_sub(1),
            unsynced_ms: self.unsynced_since().map_or(0, ms_since),
            timer_late_ms: self.engine.state().next_deadline().map_or(0, ms_since),
            spool_pending: self.spool_pending(),
            sessions: u64::try_from(self.engine.state().sessions().len()).unwrap_or(u64::MAX),
            unattended: self.unattended(),
            records_dropped: self.engine.state().header().counters.dropped,
            events_counted: self.engine.state().header().counters.folded,
            invariant_violations: self.invariant_violations,
            problems,
            config_changed_at: changed.map(|(at, _)| rfc3339(*at)),
            config_changes: changed.map_or_else(Vec::new, |(_, changes)| changes.clone()),
        }
    }

    /// The head of every `inspect`.
    pub(crate) fn head(&self, now: Now) -> Head {
        Head {
            running: true,
            pid: std::process::id(),
            version: coord_wire::VERSION.to_owned(),
            uptime_s: now.mono_ns.saturating_sub(self.started.mono_ns) / 1_000_000_000,
            spool_pending: self.spool_pending(),
            invariant_violations: self.invariant_violations,
            mode: mode_word(self.mode()).to_owned(),
            problems: self.all_problems(now),
            messages: Some(messages::totals(self.engine.state(), now)),
        }
    }

    fn unattended(&self) -> u64 {
        let state = self.engine.state();
        let all = state.sessions().filter(|one| one.may_live() && state.is_unattended(one));
        u64::try_from(all.count()).unwrap_or(u64::MAX)
    }

    /// `GET /v1/sessions`.
    pub(crate) fn inspect(&self, now: Now) -> Inspect {
        Inspect {
            schema: SCHEMA,
            coordinator: self.head(now),
            sessions: sessions::sessions(self.engine.state(), now),
            runs: Vec::new(),
        }
    }

    /// Begins a list of all sessions as they are by now.
    pub(crate) fn begin_list(&self, now: Now) -> SessionList {
        let empty = Inspect {
            schema: SCHEMA,
            coordinator: self.head(now),
            sessions: Vec::new(),
            runs: Vec::new(),
        };
        let keys = sessions::by_time(self.engine.state()).map(|session| session.key).collect();
        SessionList { empty, keys, sessions: Vec::new(), now }
    }

    /// Adds the next sessions to a list; true if it is whole.
    pub(crate) fn add_to_list(&self, list: &mut SessionList, n: usize) -> bool {
        let state = self.engine.state();
        let keys: Vec<SessionKey> = list.keys.drain(..n.min(list.keys.len())).collect();
        for session in keys.into_iter().filter_map(|key| state.session(key)) {
            list.push(&sessions::session(state, session, list.now));
        }
        list.keys.is_empty()
    }

    /// `GET /metrics`: Prometheus text, no ids, no paths.
    pub(crate) fn metrics(&self, now: Now) -> String {
        let counters = self.engine.state().header().counters;
        let (queue, totals) =
            (&self.engine.state().header().queue, messages::totals(self.engine.state(), now));
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let mut out = String::new();
        for (name, kind, value, help) in [
            ("events_total", "counter", counters.events, "Hook events applied."),
            (
                "events_duplicate_total",
                "counter",
                self.engine.duplicates(),
                "Events received again since the start.",
            ),
            ("events_late_total", "counter", counters.late, "Events too late to change anything."),
            (
                "events_folded_total",
                "counter",
                counters.folded,
                "Events of which only the count was kept.",
            ),
            (
                "events_malformed_total",
                "counter",
                counters.malformed,
                "Inputs that were not events.",
            ),
            (
                "found_dead_total",
                "counter",
                counters.found_dead,
                "Clients found dead whose death was not observed.",
            ),
            ("spool_pending", "gauge", self.spool_pending(), "Events in the spool."),
            (
                "waiters",
                "gauge",
                self.waiters.len() as u64,
                "Wake hooks that wait beside idle sessions.",
            ),
            ("messages_sent_total", "counter", queue.sent, "Messages accepted."),
            ("messages_processed_total", "counter", queue.processed, "Messages done."),
            ("messages_failed_total", "counter", queue.failed, "Messages failed or dropped."),
            ("messages_folded_total", "counter", queue.folded, "Messages sent again."),
            ("leases_ran_out_total", "counter", queue.ran_out, "Leases that expired."),
            ("messages_pending", "gauge", count(totals.pending), "Messages that wait."),
            ("messages_processing", "gauge", count(totals.processing), "Messages under a lease."),
            ("messages_slow", "gauge", count(totals.slow), "Of these, slow (queue.slow_after)."),
            ("messages_stuck", "gauge", count(totals.stuck), "Of these, beyond the lease."),
            ("messages_failed", "gauge", count(totals.failed), "Messages that failed."),
            ("invariant_violations_total", "counter", self.invariant_violations, "Must read 0."),
            (
                "uptime_seconds",
                "gauge",
                now.mono_ns.saturating_sub(self.started.mono_ns) / 1_000_000_000,
                "Seconds since the start.",
            ),
        ] {
            let _ = writeln!(
                out,
                "# HELP coord_{name} {help}\n# TYPE coord_{name} {kind}\ncoord_{name} {value}"
            );
        }
        self.sessions_by_state(&mut out);
        let _ = writeln!(
            out,
            "# HELP coord_unattended Living unattended sessions.\n\
             # TYPE coord_unattended gauge\ncoord_unattended {}",
            self.unattended()
        );
        out
    }

    fn sessions_by_state(&self, out: &mut String) {
        out.push_str("# HELP coord_sessions Sessions by state.\n# TYPE coord_sessions gauge\n");
        for (word, name) in [
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
        ] {
            let count =
                self.engine.state().sessions().filter(|one| one.shown.state == word).count();
            let _ = writeln!(out, "coord_sessions{{state=\"{name}\"}} {count}");
        }
        let _ = writeln!(
            out,
            "# HELP coord_records_dropped_total Records of unverified sessions that were dropped.\n\
             # TYPE coord_records_dropped_total counter\ncoord_records_dropped_total {}",
            self.engine.state().header().counters.dropped
        );
    }

    /// Looks for what must never be. What could not be recorded has not happened yet.
    pub(crate) fn check_invariants(&mut self, now: Now) {
        if !self.has_met_deadlines(now) {
            return;
        }
        let violations = self.engine.state().violations(now);
        if 0 < violations {
            tracing::error!(violations, "invariants violated");
            self.invariant_violations = self.invariant_violations.saturating_add(violations);
        }
    }

    /// Events in the spool that are not in the journal yet.
    fn spool_pending(&self) -> u64 {
        self.spool.pending().unwrap_or(0)
    }
}
