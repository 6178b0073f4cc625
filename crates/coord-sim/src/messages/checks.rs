//! What must hold of messages, whatever fails.
//!
//! * G1, G3: what a sender was told is accepted is there, in one state: done, failed with its reason, or
//!   waiting with one; what leaves is on disk as having left before it does.
//! * H-30: what is called delivered was read; nothing is read twice as if it were new; none is given to a
//!   subagent, or to another session than its own.
//! * H-25: none leaves in the answer to a hook that nobody vouches for, or whose client is gone.
//! * H-21: a turn goes on once at most, and not again where its Stop says that it did; turns that coord starts
//!   are within the budget; the fourth answer waits for a person.
//! * H-04: an agent that does not ask hears from no session that nobody allowed and that is no kin.
//! * H-02: one wake hook waits beside a client, none beside a headless one.
//! * H-06: nothing is handed to a session that is held.
//! * S4-27: a session's end is told to its parent.

use coord_core::{Message, MessageState, Presence, Session, State};
use coord_model::{Address, ProcessRef, RemoteWho, Same, Sender, SessionKey};

use super::sending::PROGRAM;
use super::{Framed, framed_in};
use crate::act_checks::violation;
use crate::checks::{Violation, reopen_durable};
use crate::hook_runs::Run;
use crate::serving::{Serving, WakeHook};
use crate::simulation::{MINUTE, SECOND, Simulation, Time};

/// Modes in which an agent asks before it acts.
const ASKING: [&str; 3] = ["default", "acceptEdits", "plan"];
/// The others.
const NOT_ASKING: [&str; 3] = ["auto", "bypassPermissions", "dontAsk"];
/// Turns that coord starts in any 10 minutes and in any day, and those windows less what a text takes from its
/// record to its hook (H-21).
const WAKES: [(usize, Time); 2] =
    [(6, 10 * MINUTE - 2 * SECOND), (60, 24 * 60 * MINUTE - 2 * SECOND)];
/// From this depth on a person has to let it pass (H-21).
const DEPTH_HELD: u32 = 4;
/// A wake hook that was not found to be a session's own is sent away by then (H-02).
const PROVED_WITHIN: Time = 15 * SECOND;
/// A lease, its last look, and as much again for a look that was lost.
const LEASE: Time = 6 * MINUTE;
/// Of the texts that leave every so-manyth is looked for on the disk.
const LEFT_LOOKED_AT: u64 = 4;
/// Between the end of a time to live and the loop's next turn.
const DUE_MS: u64 = 1_000;
/// An end that is older may be told to nobody (S4-27).
const TOLD_WITHIN_MS: u64 = 20 * 3_600_000;

impl Simulation {
    /// The mode of a client that opens this conversation.
    pub(crate) fn draw_mode(&mut self, session_id: &str) -> &'static str {
        let known = self.messages.modes.get(session_id).copied();
        match known.filter(|_| self.random.chance(0.7)) {
            Some(mode) => mode,
            None => {
                let modes = if self.random.chance(0.6) { ASKING } else { NOT_ASKING };
                self.random.pick(&modes).copied().unwrap_or("default")
            }
        }
    }

    /// The mode of a client that is started with these words.
    pub(crate) fn mode_in(&mut self, words: &[String], session_id: &str) -> &'static str {
        let mut words = words.iter().skip_while(|word| *word != "--permission-mode").skip(1);
        let named = words.next();
        let known =
            ASKING.into_iter().chain(NOT_ASKING).find(|one| named == Some(&(*one).to_owned()));
        known.unwrap_or_else(|| self.draw_mode(session_id))
    }

    /// What a client was found to have read that it must not.
    pub(crate) fn take_wrong(&mut self) -> Result<(), Violation> {
        self.messages.wrong.take().map_or(Ok(()), Err)
    }

    /// A hook is answered with messages.
    pub(crate) fn check_handed(
        &mut self,
        run: &Run,
        text: &str,
        serving: &Serving,
    ) -> Result<(), Violation> {
        let (event, id) = (&run.event, &run.session_id);
        if run.of_agent {
            return violation("H-30", format!("{id}: given to a subagent's {event}"));
        }
        if !run.is_vouched_for() || !self.machine.get().is_alive(run.owner.1) {
            return violation("H-25", format!("{id}: given to a {event} that nobody vouches for"));
        }
        let is_headless = self.lives.get(&run.owner).is_some_and(|life| !life.is_interactive);
        if run.event == "SessionStart" && !is_headless {
            return violation("S4-24", format!("{id}: given to the start of a person's session"));
        }
        if run.event == "Stop" {
            let is_first = self.messages.continued.insert((run.owner.1, run.prompt_id.clone()));
            if run.is_again || !is_first {
                return violation("H-21", format!("{id}: its turn is made go on again"));
            }
        }
        let state = serving.coordinator().state();
        self.check_each(state, text, run.owner.1, event)
    }

    /// A wake hook was given a text.
    pub(crate) fn check_woken(&mut self, hook: &WakeHook, text: &str) -> Result<(), Violation> {
        self.check_left(text)?;
        let Some(serving) = self.serving.take() else { return Ok(()) };
        let state = serving.coordinator().state();
        let process = hook.harness;
        let session = state.session_of(process);
        let is_its = session.is_some_and(|one| one.session_id == hook.session_id);
        let checked = if is_its || framed_in(text).is_empty() {
            self.check_each(state, text, hook.harness, "the wake hook")
        } else {
            violation("H-30", format!("{}: another session is woken", hook.session_id))
        };
        let key = session.map(|one| one.key);
        self.serving = Some(serving);
        checked?;
        key.map_or(Ok(()), |key| self.charge(key))
    }

    fn check_each(
        &mut self,
        state: &State,
        text: &str,
        process: ProcessRef,
        delivery: &str,
    ) -> Result<(), Violation> {
        for Framed { id, .. } in framed_in(text) {
            *self.meter.messages.deliveries.entry(delivery.to_owned()).or_default() += 1;
            let Some(message) = state.message(id) else {
                return violation("G3", format!("{id} is handed over, and not there"));
            };
            let session = message.session().and_then(|key| state.session(key));
            let is_its = |session: &&Session| {
                let owner = session.owner.as_ref().map(|owner| owner.id.process);
                owner == Some(process)
            };
            let Some(session) = session.filter(is_its) else {
                return violation("H-30", format!("{id}: handed to another session than its own"));
            };
            if delivery == "PostToolUse" && !message.is_urgent {
                return violation("S4-24", format!("{id}: not urgent, and handed over in a turn"));
            }
            self.check_pair(state, message, session, process)?;
        }
        Ok(())
    }

    /// Whether this session may be handed this message.
    fn check_pair(
        &self,
        state: &State,
        message: &Message,
        session: &Session,
        process: ProcessRef,
    ) -> Result<(), Violation> {
        let (id, to) = (message.id, &session.session_id);
        let now = state.moment(self.now());
        if message.expires.is_some_and(|expires| expires.awake.plus_ms(DUE_MS) < now.awake) {
            return violation("S4-22", format!("{id}: its time to live is over"));
        }
        if DEPTH_HELD <= message.depth && !message.is_released {
            return violation("H-21", format!("{id}: {} messages led to it", message.depth));
        }
        let cwd = self.life_of(session).map_or("", |life| life.cwd.as_str());
        let is_for_all = self.habits.mode == "act";
        if self.said.holds(session.key, cwd, is_for_all, self.time).is_held {
            return violation("H-06", format!("{id}: handed to {to}, which is held"));
        }
        let clients = self.places.iter().filter_map(|one| one.client.as_ref());
        let client = clients.into_iter().find(|one| one.process == process);
        let mode = client.map_or("default", |one| one.client.mode);
        if !ASKING.contains(&mode) && !self.is_allowed(state, &message.from, session) {
            let from = &message.from;
            return violation(
                "H-04",
                format!("{id}: {to} in {mode} mode is handed it by {from:?}"),
            );
        }
        Ok(())
    }

    /// Whether a person allowed this sender, or it is its parent or child.
    fn is_allowed(&self, state: &State, from: &Sender, session: &Session) -> bool {
        let said = |key: SessionKey| self.said.of(key);
        let accepts = said(session.key).map_or(&[][..], |word| &word.accepts);
        let is_named = |name: &str| accepts.iter().any(|one| one == name || one == "any");
        let id = match from {
            Sender::Operator | Sender::Coord => return true,
            Sender::Program(name) => return is_named(&format!("program:{name}")),
            Sender::Agent => return is_named("any"),
            Sender::Remote(from) => {
                return from.who == RemoteWho::Operator
                    || is_named(&format!("machine:{}", from.name))
                    || is_named("any");
            }
            Sender::Session(id) => id,
        };
        let is_child = |child: &Session, parent: &Session| {
            let named = said(child.key).and_then(|word| word.parent.as_ref());
            named.is_some_and(|id| *id == parent.session_id || parent.previous_ids.contains(id))
        };
        let is_kin = |other: &Session| is_child(session, other) || is_child(other, session);
        let is_name = |other: &Session| {
            let name = said(other.key).and_then(|word| word.name.as_deref());
            // An order names a session by any id that it had.
            let has_named_id = other.previous_ids.iter().any(|id| is_named(id));
            is_named(&other.session_id) || has_named_id || name.is_some_and(is_named)
        };
        is_named(id) || state.sessions_with_id(id).any(|other| is_kin(other) || is_name(other))
    }

    /// G1: what leaves is on disk as having left.
    pub(super) fn check_left(&mut self, text: &str) -> Result<(), Violation> {
        let framed = framed_in(text);
        if framed.is_empty() {
            return Ok(());
        }
        // To read a whole store takes long.
        self.messages.n_left += 1;
        if !self.messages.n_left.is_multiple_of(LEFT_LOOKED_AT) {
            return Ok(());
        }
        let disk = self.machine.get().disk.clone();
        let engine = reopen_durable(&disk)?;
        for Framed { id, .. } in framed {
            if engine.state().message(id).is_none_or(|message| message.attempts == 0) {
                return violation("G1", format!("{id} left, and the disk does not know"));
            }
        }
        Ok(())
    }

    /// A turn is made go on.
    pub(super) fn charge_stop(&mut self, run: &Run) -> Result<(), Violation> {
        let state = self.serving.as_ref().map(|one| one.coordinator().state());
        let process = run.owner.1;
        let key = state.and_then(|state| state.session_of(process)).map(|session| session.key);
        match key.filter(|_| run.event == "Stop") {
            Some(key) => self.charge(key),
            None => Ok(()),
        }
    }

    /// H-21: coord starts a turn, or makes one go on.
    fn charge(&mut self, key: SessionKey) -> Result<(), Violation> {
        let time = self.time;
        let charged = self.messages.charged.entry(key).or_default();
        charged.push(time);
        for (max, window) in WAKES {
            let n = charged.iter().filter(|at| time < **at + window).count();
            if max < n {
                return violation("H-21", format!("record {}: {n} turns started", key.0));
            }
        }
        Ok(())
    }

    /// A client begins anew: its next turn is another one, whatever its prompt's id.
    pub(crate) fn begins_anew(&mut self, process: ProcessRef) {
        self.messages.continued.retain(|(of, _)| *of != process);
    }

    /// What must hold behind each turn of the loop.
    pub(crate) fn check_messages(&mut self, serving: &Serving) -> Result<(), Violation> {
        let mut old: Vec<ProcessRef> = serving.waiters_for(PROVED_WITHIN).collect();
        old.sort_unstable();
        if let Some([one, _]) = old.windows(2).find(|pair| pair.first() == pair.last()) {
            return violation("H-02", format!("two wake hooks wait beside pid {}", one.pid));
        }
        let state = serving.coordinator().state();
        if state.header().queue == self.messages.looked_at {
            return Ok(());
        }
        self.messages.looked_at = state.header().queue.clone();
        self.check_kept(state)?;
        for message in state.messages() {
            let is_read = self.messages.read.contains_key(&message.id);
            let to = message.session().and_then(|key| state.session(key));
            // Its client may have gone over to another conversation since.
            let is_mixed = to.is_some_and(|one| {
                let doubled = &self.messages.doubled;
                let mut former = one.previous_ids.iter();
                doubled.contains(&one.session_id) || former.any(|id| doubled.contains(id))
            });
            let is_done = matches!(message.state, MessageState::Processed { .. });
            if is_done && !is_read && !is_mixed {
                let what = format!("{}: delivered, and no model has read it", message.id);
                return violation("H-30", what);
            }
        }
        Ok(())
    }

    /// G1: what was accepted is there.
    pub(crate) fn check_kept(&self, state: &State) -> Result<(), Violation> {
        let mut accepted = self.messages.accepted.iter();
        match accepted.find(|id| state.message(**id).is_none()) {
            Some(id) => violation("G1", format!("message {id} was accepted, and is gone")),
            None => Ok(()),
        }
    }

    /// When everything has settled, each message is somewhere for a reason, and parents know.
    pub(crate) fn check_messages_rest(&mut self) -> Result<(), Violation> {
        let Some(serving) = self.serving.take() else { return Ok(()) };
        let state = serving.coordinator().state();
        let checked = self.check_fates(state).and_then(|()| self.check_told(state));
        self.serving = Some(serving);
        checked
    }

    fn check_fates(&mut self, state: &State) -> Result<(), Violation> {
        self.check_kept(state)?;
        let at = state.moment(self.now());
        for message in state.messages() {
            let id = message.id;
            *self.meter.messages.fates.entry(message.word()).or_default() += 1;
            self.meter.messages.told += u64::from(message.from == Sender::Coord);
            self.meter.messages.deep += u64::from(DEPTH_HELD <= message.depth);
            let is_explained = match &message.state {
                MessageState::Pending { .. } => {
                    state.waits_for(message, at).is_some_and(|why| !why.is_empty())
                }
                MessageState::Processing(lease) => {
                    at.awake.ms_since(lease.since.awake) < LEASE / 1_000_000
                }
                MessageState::Failed { reason, .. } => !reason.is_empty(),
                MessageState::Processed { .. } => true,
            };
            if !is_explained {
                return violation(
                    "G3",
                    format!("{id} is {}, and nobody knows why", message.word()),
                );
            }
        }
        Ok(())
    }

    fn check_told(&self, state: &State) -> Result<(), Violation> {
        for child in state.sessions() {
            let (Some(parent), Some(ended)) = (&child.marks.parent, end_of(child)) else {
                continue;
            };
            if TOLD_WITHIN_MS < self.now().wall_ms.saturating_sub(ended) {
                continue;
            }
            let name = format!("end-{}-{ended}-", child.key.0);
            // A conversation that two processes had open has two records: one of them was told, the other may
            // have begun later.
            let mut parents =
                state.sessions_with_id(parent).filter(|one| one.key != child.key).peekable();
            let is_told = |parent: &Session| {
                let tells = |message: &Message| {
                    let is_it =
                        matches!(&message.same, Same::Key(key, _) if key.starts_with(&name));
                    is_it && message.to == Address::Session(parent.key)
                };
                state.messages().any(tells)
            };
            if parents.peek().is_some() && !parents.any(is_told) {
                let child = &child.session_id;
                return violation("S4-27", format!("{parent} is not told that {child} ended"));
            }
        }
        Ok(())
    }
}

/// When a session ended, milliseconds since 1970.
fn end_of(session: &Session) -> Option<u64> {
    match *session.presence {
        Presence::Alive | Presence::Dying { .. } => None,
        Presence::Ended { at, .. }
        | Presence::Interrupted { at, .. }
        | Presence::Crashed { at }
        | Presence::Gone { at } => Some(at.wall_ms),
    }
}

/// The names that a person allows at times.
pub(crate) fn allowable(id: &str) -> [String; 3] {
    ["any".to_owned(), format!("program:{PROGRAM}"), id.to_owned()]
}
