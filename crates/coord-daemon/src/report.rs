//! What the coordinator says of itself: health, problems, and the head of `inspect`.

use std::collections::VecDeque;

use coord_core::UNVERIFIED_MAX;
use coord_model::stamp::rfc3339;
use coord_model::{Now, SessionKey};
use coord_store::Disk;
use coord_view::{json, messages, sessions, usage};
use coord_wire::api::{ChannelHealth, Health};
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
        self.problems(now).into_iter().map(|(_, text)| text).collect()
    }

    /// Everything that is not as it should be: its name in the metrics, and its words for people.
    pub(crate) fn problems(&self, now: Now) -> Vec<(&'static str, String)> {
        let texts = self.conditions.named();
        let mut problems: Vec<_> = texts.map(|(name, text)| (name, text.clone())).collect();
        for (count, name, what) in [
            (
                self.spool.malformed(),
                "inputs_malformed",
                "inputs were not hook payloads: spool/malformed",
            ),
            (self.spool.crashes(), "hook_panicked", "hooks panicked: spool/crashes"),
        ] {
            if let Ok(count @ 1..) = count {
                problems.push((name, format!("{count} {what}")));
            }
        }
        problems.extend(self.spool.set_aside().map(|(path, bytes)| {
            ("spool_file_too_long", format!(
                "{} has {bytes} bytes, more than hooks write: coord read its events up to {SPOOL_FILE_BYTES_MAX} bytes and set the file aside; delete it",
                path.display()
            ))
        }));
        problems.extend(self.low_space().map(|text| ("disk_space_low", text)));
        let n = self.engine.state().n_unverified();
        if UNVERIFIED_MAX <= n {
            problems.push(("unverified_sessions", format!(
                "{n} sessions are known only from unverified events: coord drops the oldest of them; find out what reports them"
            )));
        }
        if self.shares.was_spent(now.mono_ns) {
            problems.push((
                "share_used_up",
                "a session sent more events than its share, and some were only counted: find out what reports them (coord events)".to_owned(),
            ));
        }
        let unheld = self.engine.state().header().config_dirs.iter().filter(|(_, held)| !**held);
        for (dir, _) in unheld {
            problems.push(("directory_not_held", format!(
                "{dir}: coord only observes its sessions, because another coordinator acts there, or the directory lies outside COORD_HOME and tracking.config_dirs does not name it"
            )));
        }
        let reopening = self.reopening.as_ref().map(Reopening::text);
        problems.extend(reopening.map(|text| ("journal_not_writable", text)));
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
            notices: self.channel_health(),
            config_changed_at: changed.map(|(at, _)| rfc3339(*at)),
            config_changes: changed.map_or_else(Vec::new, |(_, changes)| changes.clone()),
        }
    }

    fn channel_health(&self) -> Vec<ChannelHealth> {
        let channels = self.engine.state().header().notices.channels.iter();
        let health = channels.map(|(name, channel)| ChannelHealth {
            channel: name.clone(),
            open: u32::try_from(channel.notices.len()).unwrap_or(u32::MAX),
            failing: channel.failing.as_ref().map(|failing| failing.reason.clone()),
            failing_since: channel.failing.as_ref().map(|failing| rfc3339(failing.since.wall_ms)),
        });
        health.collect()
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

    /// Living sessions that nobody watches.
    pub(crate) fn unattended(&self) -> u64 {
        let state = self.engine.state();
        let all = state.sessions().filter(|one| one.may_live() && state.is_unattended(one));
        u64::try_from(all.count()).unwrap_or(u64::MAX)
    }

    /// `GET /v1/sessions`.
    pub(crate) fn inspect(&self, now: Now) -> Inspect {
        Inspect {
            schema: SCHEMA,
            coordinator: self.head(now),
            sessions: sessions::by_time(self.engine.state())
                .map(|one| self.with_requests(one, now))
                .collect(),
            accounts: usage::accounts(self.engine.state(), now),
            runs: Vec::new(),
        }
    }

    /// Begins a list of all sessions as they are by now.
    pub(crate) fn begin_list(&self, now: Now) -> SessionList {
        let empty = Inspect {
            schema: SCHEMA,
            coordinator: self.head(now),
            sessions: Vec::new(),
            accounts: usage::accounts(self.engine.state(), now),
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
            list.push(&self.with_requests(session, list.now));
        }
        list.keys.is_empty()
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
    pub(crate) fn spool_pending(&self) -> u64 {
        self.spool.pending().unwrap_or(0)
    }
}
