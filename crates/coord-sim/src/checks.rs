//! What must never be, looked for after each step of a simulation, and what must be at its end.
//!
//! * G1: what was acknowledged is there; after a power cut what was acknowledged 100 ms before.
//! * G2: an event that took effect changes nothing when it comes again.
//! * G10: the files show what the coordinator showed, whenever and wherever it ended.
//! * an event of a subagent neither opens nor closes the main thread's turn.
//! * H-05: nobody is crashed who lives, or whose end was told; nobody ended who lives.
//! * H-14: one coordinator for one store.
//! * H-32: nothing is concluded from silence right after a start, a gap or a set clock.
//! * The core's own invariants ([`coord_core::State::violations`]).
//! * At rest (R-01 and all that follow): each state shown is the true one, or `unknown` with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use coord_core::{Header, Message, OwnerId, Presence, SeenIds, Session, State, Turn};
use coord_daemon::coordinator::Coordinator;
use coord_daemon::engine::Engine;
use coord_model::{EndReason, Now, SessionKey, SessionState};

use coord_testkit::{Damage, FakeDisk};
use serde_json::Value;

use crate::client::Truth;
use crate::hook_runs::{Run, is_taken};
use crate::host_events::Armed;
use crate::living::Life;
use crate::machine::SharedMachine;
use crate::places::Parent;
use crate::serving::paths;
use crate::simulation::{MS, SECOND, Simulation, Time};

/// What was acknowledged is durable after this (G1).
const DURABLE: Time = 100 * MS;
/// Ends this close together may be one event (H-10), with the time that noticing takes.
pub(crate) const NEAR: Time = 15 * SECOND;
/// Nothing is concluded from silence for this long (H-32, `tracking.settle`).
const SETTLE_NS: u64 = 30 * SECOND;
/// A longer stop of the loop is one (H-32).
const GAP_NS: u64 = 16 * SECOND;
/// So is a larger difference of the two clocks.
const CLOCK_SET_NS: u64 = 11 * SECOND;

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Requirement id.
    pub rule: &'static str,
    /// What was seen.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(rule: &'static str, what: String) -> Self {
        Self { rule, what }
    }

    /// The coordinator panicked.
    pub(crate) fn panic() -> Self {
        Self::new("G1", "a panic; its message stands above".to_owned())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// The state as people see it: looks may be due at another time, and the last turn of the loop is
/// not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    header: Header,
    sessions: Vec<Session>,
    messages: Vec<Message>,
    seen: SeenIds,
}

/// The image of a state.
pub(crate) fn image_of(state: &State) -> Image {
    let mut header = Header { last: None, ..state.header().clone() };
    // A look that the last turn began has a number.
    header.machine.last_number = 0;
    let sessions =
        state.sessions().map(|session| Session { look: coord_model::Awake(0), ..session.clone() });
    let messages = state.messages().cloned().collect();
    Image { header, sessions: sessions.collect(), messages, seen: state.seen().clone() }
}

impl Image {
    /// G10: `read` is what the files show.
    pub(crate) fn compare(&self, read: &Self) -> Result<(), Violation> {
        if self == read {
            return Ok(());
        }
        let differs = |what: &str, shown: &Value, read: &Value| {
            let fields = differing(shown, read).join("\n  ");
            let what = format!("the files do not show what was shown of {what}:\n  {fields}");
            Err(Violation::new("G10", what))
        };
        if self.header != read.header {
            return differs("the whole", &json(&self.header), &json(&read.header));
        }
        if self.seen != read.seen {
            return differs("event ids", &self.seen.len().into(), &read.seen.len().into());
        }
        let mut pairs = self.messages.iter().zip(&read.messages);
        if let Some((shown, read)) = pairs.find(|(shown, read)| shown != read) {
            return differs(&shown.id.to_string(), &json(shown), &json(read));
        }
        if self.messages.len() != read.messages.len() {
            return differs("messages", &self.messages.len().into(), &read.messages.len().into());
        }
        let mut pairs = self.sessions.iter().zip(&read.sessions);
        match pairs.find(|(shown, read)| shown != read) {
            Some((shown, read)) => differs(&shown.session_id, &json(shown), &json(read)),
            None => differs("all", &self.sessions.len().into(), &read.sessions.len().into()),
        }
    }
}

fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The fields in which two values differ.
fn differing(shown: &Value, read: &Value) -> Vec<String> {
    match (shown, read) {
        (Value::Object(shown), Value::Object(read)) => {
            let fields = shown.iter().filter_map(|(name, shown)| {
                let read = read.get(name).filter(|read| *read != shown)?;
                Some(format!("{name}: {shown} / {read}"))
            });
            fields.collect()
        }
        _ => vec![format!("{shown} / {read}")],
    }
}

/// What was seen before a request was taken.
pub(crate) struct Before {
    duplicate_of: Option<Image>,
    turns: Option<Vec<TurnOf>>,
}

/// Memory of the checks.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// A fault of the disk that is armed, and how many operations of the coordinator away.
    pub(crate) armed: Option<(Armed, u64)>,
    /// Operations before they are counted.
    pub(crate) armed_from: u64,
    /// The journal could not be synced since then, or a little later.
    pub(crate) unsynced_from: Option<Time>,
    /// When the last coordinator ended.
    pub(crate) down_since: Time,
    /// When this one started.
    pub(crate) started_at: Time,
    acknowledged: BTreeMap<u128, Time>,
    spooled: BTreeSet<u128>,
    /// Whose end may be known from the spool alone.
    pub(crate) ends_in_spool: Vec<(String, coord_model::ProcessRef)>,
    /// Sessions of which nothing was known already: that their silence is the reason now withdraws nothing.
    unknown: BTreeSet<SessionKey>,
    last_turn: Option<Now>,
    settling_from: Option<u64>,
}

type Of<'a> = &'a Coordinator<SharedMachine>;

fn unknown(state: &State) -> BTreeSet<SessionKey> {
    let unknown = state.sessions().filter(|one| one.shown.state == SessionState::Unknown);
    unknown.map(|one| one.key).collect()
}

/// Whether the turn of a record and its owner is open.
type TurnOf = (SessionKey, Option<OwnerId>, bool);

fn turns(state: &State) -> Vec<TurnOf> {
    let turn = |session: &Session| {
        let owner = session.owner.as_ref().map(|owner| owner.id.clone());
        (session.key, owner, matches!(*session.turn, Turn::Open { .. }))
    };
    state.sessions().map(turn).collect()
}

/// The record that kept its owner and whose turn was opened or closed.
fn moved(before: &[TurnOf], after: &[TurnOf]) -> Option<SessionKey> {
    let is_moved = |(key, owner, is_open): &&TurnOf| {
        after.iter().any(|(of, by, now)| (of, by) == (key, owner) && now != is_open)
    };
    before.iter().find(is_moved).map(|(key, ..)| *key)
}

impl Checks {
    /// Since when (CLOCK_MONOTONIC) it is counted from anew what was seen, by the last start, gap or set clock.
    pub(crate) fn settling_from(&self) -> Option<u64> {
        self.settling_from
    }

    /// A coordinator started.
    pub(crate) fn started(&mut self, coordinator: Of<'_>, now: Now) {
        self.unknown = unknown(coordinator.state());
        self.settling_from = Some(now.mono_ns);
        self.last_turn = Some(now);
    }

    /// A coordinator ended. One that lived but a moment saw nothing of what was before it.
    pub(crate) fn ended(&mut self, at: Time) {
        if self.started_at + NEAR < at {
            self.down_since = at;
        }
    }

    pub(crate) fn before_post(run: &Run, coordinator: Of<'_>, now: Now) -> Before {
        let state = coordinator.state();
        let is_quiet = !state.is_due(now);
        Before {
            duplicate_of: (state.has_seen(run.id) && is_quiet).then(|| image_of(state)),
            turns: (run.of_agent && is_quiet).then(|| turns(state)),
        }
    }

    pub(crate) fn after_post(
        run: &Run,
        before: Before,
        status: u16,
        coordinator: Of<'_>,
    ) -> Result<(), Violation> {
        let state = coordinator.state();
        let (id, event) = (run.id, &run.event);
        if is_taken(status) && !state.has_seen(id) {
            return Err(Violation::new(
                "G1",
                format!("{event} {id:x} was acknowledged, not taken"),
            ));
        }
        if before.duplicate_of.is_some_and(|before| before != image_of(state)) {
            return Err(Violation::new("G2", format!("{event} {id:x} took effect twice")));
        }
        if let Some(key) = before.turns.and_then(|before| moved(&before, &turns(state))) {
            let what = format!("{event} {id:x} of a subagent moved the turn of record {}", key.0);
            return Err(Violation::new("R-06", what));
        }
        Ok(())
    }

    pub(crate) fn after_turn(&mut self, coordinator: Of<'_>, now: Now) -> Result<(), Violation> {
        let state = coordinator.state();
        let now_wrong = if coordinator.has_met_deadlines(now) { state.violations(now) } else { 0 };
        let violations = coordinator.invariant_violations().max(now_wrong);
        if violations != 0 {
            let what = format!("{violations} violations of the core's invariants");
            return Err(Violation::new("G3", what));
        }
        if let Some(last) = self.last_turn.replace(now) {
            let passed_ns = now.mono_ns.saturating_sub(last.mono_ns);
            let wall_ns = now.wall_ms.abs_diff(last.wall_ms).saturating_mul(MS);
            if GAP_NS < passed_ns || CLOCK_SET_NS < wall_ns.abs_diff(passed_ns) {
                self.settling_from = Some(now.mono_ns);
            }
        }
        let is_settling = self.settling_from.is_some_and(|from| now.mono_ns < from + SETTLE_NS);
        let is_early = |one: &&Session| {
            let shown = &one.shown;
            let is_silent =
                shown.state == SessionState::Unknown && shown.because.starts_with("no sign");
            is_silent && !self.unknown.contains(&one.key)
        };
        if is_settling && let Some(session) = state.sessions().find(is_early) {
            let what = format!("{}: concluded from silence too early", session.session_id);
            return Err(Violation::new("H-32", what));
        }
        self.unknown = unknown(state);
        Ok(())
    }

    /// The coordinator said that it has the event.
    pub(crate) fn acknowledged(&mut self, id: u128, at: Time) {
        self.acknowledged.insert(id, at);
    }

    /// The event stands in the spool.
    pub(crate) fn spooled(&mut self, id: u128) {
        self.spooled.insert(id);
    }

    /// What was acknowledged just before was never synced by anybody: no promise holds for it.
    pub(crate) fn forgive(&mut self, from: Time) {
        self.acknowledged.retain(|_, at| *at < from);
    }

    /// G1: the disk after a power cut.
    pub(crate) fn power_lost(&mut self, disk: &FakeDisk, at: Time) -> Result<(), Violation> {
        let engine = reopen(disk)?;
        let durable = std::mem::take(&mut self.acknowledged);
        let mut durable = durable.into_iter().filter(|(_, said)| said + DURABLE < at);
        if let Some((id, _)) = durable.find(|(id, _)| !engine.state().has_seen(*id)) {
            return Err(Violation::new("G1", format!("{id:x} was acknowledged, and is gone")));
        }
        // The spool is not synced (G1).
        self.spooled.clear();
        Ok(())
    }
}

/// The store as it is read from a copy of the disk.
pub(crate) fn reopen(disk: &FakeDisk) -> Result<Engine<FakeDisk>, Violation> {
    reopen_after(disk, Damage::Kept)
}

/// The same after a power cut at this moment: what is durable.
pub(crate) fn reopen_durable(disk: &FakeDisk) -> Result<Engine<FakeDisk>, Violation> {
    reopen_after(disk, Damage::Dropped)
}

fn reopen_after(disk: &FakeDisk, damage: Damage) -> Result<Engine<FakeDisk>, Violation> {
    let paths = paths();
    let copy = disk.after_crash(damage);
    copy.set_capacity(None);
    match Engine::open(&copy, &paths.state, &paths.journal()) {
        Ok((engine, _)) => Ok(engine),
        Err(error) => Err(Violation::new("G1", format!("the store does not open: {error:#}"))),
    }
}

impl Simulation {
    /// H-05: what is said of processes against what they are.
    pub(crate) fn check_ends(&self) -> Result<(), Violation> {
        let Some(serving) = &self.serving else { return Ok(()) };
        for session in serving.coordinator().state().sessions() {
            let is_end = matches!(
                session.shown.state,
                SessionState::Crashed | SessionState::Stopped | SessionState::Interrupted
            );
            let Some(life) = self.life_of(session).filter(|_| is_end) else { continue };
            if is_left(session) {
                continue;
            }
            let is_told = life.end_told.is_some();
            let is_alive = life.truth.is_alive();
            let is_wrong = if session.shown.state == SessionState::Crashed {
                is_told || is_alive
            } else {
                !life.is_ending && is_alive
            };
            if is_wrong {
                return Err(Violation::new("H-05", is_not(session, life)));
            }
        }
        Ok(())
    }

    /// At rest each state that is shown is true, or unknown with a reason.
    pub(crate) fn check_rest(&self) -> Result<(), Violation> {
        let Some(serving) = &self.serving else {
            return Err(Violation::new("H-14", "no coordinator runs".to_owned()));
        };
        let state = serving.coordinator().state();
        if let Some(id) = self.checks.spooled.iter().find(|id| !state.has_seen(**id)) {
            return Err(Violation::new("G1", format!("{id:x} was spooled, and never taken in")));
        }
        for session in state.sessions() {
            if session.shown.because.is_empty() {
                let what = format!("{}: shown without a reason", session.session_id);
                return Err(Violation::new("G9", what));
            }
            if let Some(life) = self.life_of(session)
                && !(is_left(session) && life.left.contains(&session.session_id))
                && session.contested.is_none()
                && !self.is_true(life, session)
                && !(session.shown.state == SessionState::Stopped
                    && self.was_ended_later(session, life))
            {
                return Err(Violation::new("R-01", is_not(session, life)));
            }
        }
        for one in self.places.iter().filter_map(|place| place.client.as_ref()) {
            let process = one.process;
            if self.rates.has_registry && one.is_registered && state.session_of(process).is_none() {
                let what = format!("{}: lives, and is not listed", one.session_id);
                return Err(Violation::new("R-21", what));
            }
        }
        Ok(())
    }

    /// Whether its user ended a later client of the conversation, and nothing proved that client to be one: the record
    /// is of the dead one still, and its conversation is over (G6).
    fn was_ended_later(&self, session: &Session, life: &Life) -> bool {
        self.lives.values().any(|later| {
            let is_of_it = later.session_id == session.session_id && later.is_ending;
            is_of_it && life.started < later.started
        })
    }

    pub(crate) fn life_of(&self, session: &Session) -> Option<&Life> {
        let owner = session.owner.as_ref()?;
        let boot = if owner.id.boot.is_empty() { self.boot() } else { owner.id.boot.clone() };
        self.lives.get(&(boot, owner.id.process))
    }

    /// Whether a word may be said of a life that is at rest, or over.
    fn is_true(&self, life: &Life, session: &Session) -> bool {
        if !life.truth.is_alive() {
            return is_true_of_the_dead(life, session);
        }
        let (word, has_registry) = (session.shown.state, self.rates.has_registry);
        // Without a registry only its Stop tells of background work.
        let is_hidden = matches!(life.truth, Truth::Subagent | Truth::Shell) && !has_registry;
        // Nor does anything tell of such an interrupt where its screen cannot be seen.
        let is_unseen = life.is_interrupt_hidden && !has_registry && !self.has_pane(session);
        may_be(life.truth, life, word)
            || (is_hidden && word == SessionState::Idle)
            || (is_unseen && word == SessionState::Running && life.truth == Truth::Idle)
    }

    /// Whether a tmux server has the terminal of its owner: a client may have started before the server came back.
    pub(crate) fn has_pane(&self, session: &Session) -> bool {
        let machine = self.machine.get();
        let owner = session.owner.as_ref().map(|owner| owner.id.process);
        let process = owner.and_then(|owner| machine.processes.get(&owner.pid));
        let mut panes = machine.tmux.values().flat_map(|server| server.panes.values());
        process.is_some_and(|process| panes.any(|pane| pane.tty == process.tty))
    }
}

/// Whether the record is of a conversation that its process cleared or left: that one is over,
/// whatever became of the process.
fn is_left(session: &Session) -> bool {
    let Presence::Ended { reason, .. } = *session.presence else { return false };
    matches!(reason, Some(EndReason::Clear | EndReason::Resume))
}

fn is_not(session: &Session, life: &Life) -> String {
    let (id, word, because) = (&session.session_id, session.shown.state, &session.shown.because);
    let presence = &session.presence;
    format!("{id}: {word:?} ({because}), in truth {:?}; {presence:?}, {life:?}", life.truth)
}

/// Whether a word may be said of a living client.
pub(crate) fn may_be(truth: Truth, life: &Life, word: SessionState) -> bool {
    match word {
        SessionState::Unknown => true,
        SessionState::Idle => matches!(
            truth,
            // That a turn met an error is known from its one hook; whoever lost it sees it at rest.
            Truth::Started | Truth::Idle | Truth::Quota | Truth::Authentication | Truth::Billing
        ),
        SessionState::Starting => truth == Truth::Started && !life.is_interactive,
        // A background subagent keeps the registry busy as a turn does: whoever lost the Stop or the
        // prompt between the two takes one for the other.
        SessionState::Running | SessionState::Stalled => {
            matches!(truth, Truth::Running | Truth::Subagent)
        }
        // Nor does an idle registry deny work of kinds that nobody has measured: whoever lost the hooks
        // that told its end goes on seeing it.
        SessionState::Background => {
            matches!(truth, Truth::Subagent | Truth::Shell | Truth::Running) || life.had_background
        }
        // A person is needed; for which dialog, hooks that were lost may have told.
        SessionState::AwaitingPermission | SessionState::AwaitingInput => {
            matches!(truth, Truth::AwaitingPermission | Truth::AwaitingInput)
        }
        // What the turn behind an error came to, its own hooks tell: whoever lost them does not know.
        SessionState::QuotaWait | SessionState::BlockedAuth | SessionState::BlockedBilling => {
            let is_rest = may_be(truth, life, SessionState::Idle);
            is_rest && (life.had_error || !matches!(truth, Truth::Started | Truth::Idle))
        }
        SessionState::Suspended => truth == Truth::Suspended,
        SessionState::Foreign => life.parent == Parent::Supervisor,
        // Until a hook of it comes through.
        SessionState::Recovering => life.is_ours && !life.has_reported,
        // It has told its end, or taken leave: what is left of it exits.
        SessionState::Stopped => life.is_ending,
        SessionState::Crashed
        | SessionState::RecoveryPending
        | SessionState::Interrupted
        | SessionState::Elsewhere => false,
    }
}

/// Whether a word may be said of a life that is over.
fn is_true_of_the_dead(life: &Life, session: &Session) -> bool {
    let word = session.shown.state;
    let is_asked = session.recovery.pending.as_ref().is_some_and(|one| one.by_hand);
    match word {
        SessionState::Unknown => true,
        SessionState::Stopped if life.truth == Truth::TakenAlong => life.is_ending,
        SessionState::Stopped => life.truth != Truth::Crashed || life.lost_entry || life.is_ending,
        SessionState::Crashed => life.truth == Truth::Crashed,
        // A person asked for it, or we ended it to bring it back.
        SessionState::RecoveryPending | SessionState::Recovering => {
            life.truth == Truth::Crashed || life.is_signalled || is_asked
        }
        SessionState::Interrupted => {
            let is_exit = life.end_told.as_deref() == Some("prompt_input_exit");
            !is_exit && (life.may_be_taken || life.truth != Truth::Crashed)
        }
        SessionState::Starting
        | SessionState::Running
        | SessionState::Stalled
        | SessionState::Idle
        | SessionState::Background
        | SessionState::AwaitingPermission
        | SessionState::AwaitingInput
        | SessionState::QuotaWait
        | SessionState::BlockedAuth
        | SessionState::BlockedBilling
        | SessionState::Suspended
        | SessionState::Foreign
        | SessionState::Elsewhere => false,
    }
}
