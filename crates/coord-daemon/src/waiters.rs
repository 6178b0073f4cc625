//! Wake hooks that wait: one for each idle session that may be sent a message (H-02).
//!
//! A waiter is a connection that is answered late: with the text of a message, which wakes its session,
//! or with nothing, which ends the wake hook. This module decides who may wait. A waiter must be a child
//! of the harness that owns the session it names (H-25). Each harness has one waiter, for as long as
//! that session is its current one and may be woken at all. What is handed over, and when, is decided
//! elsewhere.
//!
//! The client starts wake hooks only at SessionStart and Stop. A session that gets its marks while it is
//! idle has no waiter until its next turn ends: [`Coordinator::is_waiting`] says so, and messages then wait
//! for the next prompt. A waiter whose coordinator ends without an answer asks the next one, so that a
//! restart leaves no idle session without its waiter (U-08).

use std::collections::BTreeMap;

use coord_config::Wake;
use coord_core::{Session, is_armed};
use coord_host::process::Caller;
use coord_model::{Kind, Now, ProcessRef, SessionKey};
use coord_wire::limits::WAKE_BYTES_MAX;
use serde::Deserialize;

use crate::coordinator::Coordinator;
use crate::http::{Request, Response};
use crate::routes::Route;
use crate::world::World;

/// How long a waiter may wait without proof that its harness holds its session, in nanoseconds.
///
/// At SessionStart both hooks start at once, so the waiter may arrive before the event that names the
/// session's harness. The limit is twice the time that the other hook has.
const UNPROVED_NS: u64 = 10_000_000_000;
/// Interval in nanoseconds at which waiters are checked whose session is known.
const SWEEP_NS: u64 = 1_000_000_000;
/// Most waiters at once; a user has a few hundred sessions.
const WAITERS_MAX: usize = 1024;

/// The body of `POST /v1/wake`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Ask {
    /// The session that the wake hook waits for.
    session_id: String,
    /// The harness that started the wake hook.
    harness: ProcessRef,
    /// The process id of the wake hook.
    pid: u32,
}

/// Identifies the connection of a waiter; later connections have higher numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaiterId(pub usize);

/// All wake hooks that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: BTreeMap<WaiterId, Waiter>,
    /// Answers that are not sent yet: a text, or nothing.
    answers: Vec<(WaiterId, Option<String>)>,
    swept_ns: u64,
}

#[derive(Debug)]
struct Waiter {
    ask: Ask,
    since_ns: u64,
    /// The record of the waiter's session, once the harness is known to hold it.
    session: Option<SessionKey>,
}

/// What the state says about a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The harness of the waiter holds this session and no other.
    Current(SessionKey),
    /// The harness holds no session yet, or another one.
    Unproved,
    /// The session is not to be woken.
    Unwanted,
}

impl Waiters {
    /// The number of waiters.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Removes a waiter whose connection is closed.
    pub(crate) fn forget(&mut self, id: WaiterId) {
        self.waiting.remove(&id);
    }

    fn add(&mut self, id: WaiterId, ask: Ask, verdict: Verdict, now_ns: u64) {
        let waiter = Waiter { ask, since_ns: now_ns, session: None };
        self.waiting.insert(id, waiter);
        if WAITERS_MAX < self.waiting.len() {
            tracing::warn!("too many waiters at once: one was sent away");
            self.end(id);
        }
        self.judge(id, verdict, now_ns);
    }

    /// Applies a verdict to a waiter. A newer waiter of the same harness replaces a proved one once it
    /// is proved itself, and an unproved one at once.
    fn judge(&mut self, id: WaiterId, verdict: Verdict, now_ns: u64) {
        let Some(waiter) = self.waiting.get_mut(&id) else { return };
        let was_proved = waiter.session.is_some();
        let is_over = match verdict {
            Verdict::Current(session) => {
                waiter.session = Some(session);
                false
            }
            Verdict::Unproved => {
                was_proved || UNPROVED_NS <= now_ns.saturating_sub(waiter.since_ns)
            }
            Verdict::Unwanted => true,
        };
        if is_over {
            return self.end(id);
        }
        let (harness, is_proved) = (waiter.ask.harness, waiter.session.is_some());
        let others = self.waiting.iter().filter(|(_, one)| one.ask.harness == harness);
        let ranks = others.map(|(id, one)| (*id, one.session.is_some()));
        let (older, newer): (Vec<_>, Vec<_>) =
            ranks.filter(|(other, _)| *other != id).partition(|(other, _)| *other < id);
        if newer.iter().any(|(_, proved)| *proved || !is_proved) {
            return self.end(id);
        }
        let taken = older.into_iter().filter(|(_, proved)| is_proved || !*proved);
        taken.for_each(|(id, _)| self.end(id));
    }

    /// The waiters that must be checked again.
    fn due(&mut self, now_ns: u64) -> Vec<WaiterId> {
        let all = SWEEP_NS <= now_ns.saturating_sub(self.swept_ns);
        if all {
            self.swept_ns = now_ns;
        }
        let due = self.waiting.iter().filter(|(_, one)| all || one.session.is_none());
        due.map(|(id, _)| *id).collect()
    }

    /// Ends a waiter with an empty answer.
    fn end(&mut self, id: WaiterId) {
        if self.waiting.remove(&id).is_some() {
            self.answers.push((id, None));
        }
    }

    /// The proved waiter of a session; the newest, if the record has several harnesses.
    fn of_session(&self, session: SessionKey) -> Option<(WaiterId, &Ask)> {
        let mut proved = self.waiting.iter().rev();
        let found = proved.find(|(_, one)| one.session == Some(session));
        found.map(|(id, one)| (*id, &one.ask))
    }
}

impl<W: World> Coordinator<W> {
    /// Whether a message could be handed to this session now, while it is idle.
    pub fn is_waiting(&self, session: SessionKey) -> bool {
        self.ready_waiter(session).is_some()
    }

    /// Wakes a session with a text, which is all that its agent gets to read.
    ///
    /// Returns false if no wake hook waits in the session, or if the text is longer than a wake hook
    /// accepts. True proves only that the text was sent; only the session's own events prove delivery
    /// (H-30).
    pub fn hand_over(&mut self, session: SessionKey, text: &str) -> bool {
        let is_fit = !text.is_empty() && text.len() <= WAKE_BYTES_MAX;
        let Some(id) = self.ready_waiter(session).filter(|_| is_fit) else { return false };
        self.waiters.forget(id);
        self.waiters.answers.push((id, Some(text.to_owned())));
        true
    }

    fn ready_waiter(&self, session: SessionKey) -> Option<WaiterId> {
        let (id, ask) = self.waiters.of_session(session)?;
        let is_current = self.verdict(ask) == Verdict::Current(session);
        // H-13: nothing is delivered while two processes claim one conversation.
        let has_one_owner = self.awaited(ask).is_some_and(|session| !session.two_owners);
        (is_current && has_one_owner).then_some(id)
    }

    /// `POST /v1/wake`: a wake hook asks to wait.
    pub(crate) fn post_wake(&self, request: &Request, caller: Caller) -> Route {
        let ask: Ask = match serde_json::from_slice(&request.body) {
            Ok(ask) => ask,
            Err(error) => {
                return Route::Answer(Response::error(400, "bad_request", &error.to_string()));
            }
        };
        let is_child = caller.pid == ask.pid && caller.parent == Some(ask.harness.pid);
        if !is_child || !self.world.is_alive(ask.harness) {
            let message = "only a child of the session's own client may wait for its messages";
            return Route::Answer(Response::error(403, "not_its_client", message));
        }
        Route::Wait(ask)
    }

    /// Lets the connection of a wake hook wait for its answer.
    pub fn begin_wait(&mut self, id: WaiterId, ask: Ask, now: Now) {
        let verdict = self.verdict(&ask);
        self.waiters.add(id, ask, verdict, now.mono_ns);
    }

    /// The answers that are due: a message, or nothing for a wake hook that need not wait any longer.
    pub fn take_wake_answers(&mut self, now: Now) -> Vec<(WaiterId, Option<String>)> {
        self.prepare_wakes(now);
        for id in self.waiters.due(now.mono_ns) {
            let Some(waiter) = self.waiters.waiting.get(&id) else { continue };
            let verdict = self.verdict(&waiter.ask);
            self.waiters.judge(id, verdict, now.mono_ns);
        }
        std::mem::take(&mut self.waiters.answers)
    }

    /// Removes a hook that waits, and whose connection is gone.
    pub fn end_wait(&mut self, id: WaiterId) {
        self.waiters.forget(id);
        self.requests.forget(id);
    }

    fn verdict(&self, ask: &Ask) -> Verdict {
        if self.config.queue.wake.0 == Wake::Never {
            return Verdict::Unwanted;
        }
        match self.awaited(ask) {
            None => Verdict::Unproved,
            Some(session) if self.may_be_woken(session) => Verdict::Current(session.key),
            Some(_) => Verdict::Unwanted,
        }
    }

    /// The session that a waiter names, if the waiter's harness holds it.
    fn awaited(&self, ask: &Ask) -> Option<&Session> {
        let held = self.engine.state().session_of(ask.harness);
        held.filter(|session| session.session_id == ask.session_id)
    }

    /// Whether a living session has this one as its parent, which is notified of its end.
    fn has_child(&self, session: &Session) -> bool {
        let is_it = |parent: &String| {
            parent == &session.session_id || session.previous_ids.contains(parent)
        };
        let mut all = self.engine.state().sessions();
        all.any(|one| one.may_live() && one.marks.parent.as_ref().is_some_and(is_it))
    }

    /// Whether messages may wake an idle session.
    fn may_be_woken(&self, session: &Session) -> bool {
        let is_a_person_s = session.kind != Some(Kind::Headless) && !session.is_foreign;
        let is_wanted = self.config.queue.wake.0 == Wake::Always
            || is_armed(&session.marks)
            || session.inbox.was_sent
            || self.engine.state().is_unattended(session)
            || self.has_child(session);
        session.may_live() && session.left.is_none() && is_a_person_s && is_wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(pid: u32) -> Ask {
        let harness = ProcessRef { pid, start_time: 1 };
        Ask { session_id: "s1".to_owned(), harness, pid: 7 }
    }

    fn ended(waiters: &mut Waiters) -> Vec<usize> {
        std::mem::take(&mut waiters.answers).into_iter().map(|(id, _)| id.0).collect()
    }

    // H-02: a waiter that is never proved does not stay.
    #[test]
    fn a_waiter_of_nobody_s_session_is_sent_away_in_time() {
        let mut waiters = Waiters::default();
        waiters.add(WaiterId(1), ask(5), Verdict::Unproved, 0);
        assert_eq!(waiters.due(SWEEP_NS - 1), [WaiterId(1)], "it is looked at in every turn");
        waiters.judge(WaiterId(1), Verdict::Unproved, UNPROVED_NS - 1);
        assert!(ended(&mut waiters).is_empty());
        waiters.judge(WaiterId(1), Verdict::Unproved, UNPROVED_NS);
        assert_eq!((ended(&mut waiters), waiters.len()), (vec![1], 0));
        // A proved waiter has no such limit.
        waiters.add(WaiterId(2), ask(5), Verdict::Current(SessionKey(1)), 0);
        waiters.judge(WaiterId(2), Verdict::Unproved, 1);
        assert_eq!(ended(&mut waiters), [2]);
    }

    // H-02: each harness has one waiter, in whatever order they are proved.
    #[test]
    fn the_newest_that_is_proved_stays() {
        let proved = Verdict::Current(SessionKey(1));
        let mut waiters = Waiters::default();
        waiters.add(WaiterId(1), ask(5), proved, 0);
        waiters.add(WaiterId(2), ask(5), Verdict::Unproved, 0);
        waiters.add(WaiterId(3), ask(5), Verdict::Unproved, 0);
        assert_eq!(ended(&mut waiters), [2], "one that is not proved takes the place of such");
        waiters.judge(WaiterId(3), proved, 0);
        assert_eq!(ended(&mut waiters), [1]);
        waiters.add(WaiterId(4), ask(6), proved, 0);
        assert!(ended(&mut waiters).is_empty(), "another harness has its own");
        let of_session = waiters.of_session(SessionKey(1));
        assert_eq!(of_session.map(|(id, _)| id), Some(WaiterId(4)));
        // A waiter that asked earlier and is proved later is not the newest.
        waiters.add(WaiterId(8), ask(7), Verdict::Unproved, 0);
        waiters.add(WaiterId(7), ask(7), proved, 0);
        waiters.judge(WaiterId(8), proved, 0);
        assert_eq!(ended(&mut waiters), [7]);
        waiters.add(WaiterId(6), ask(7), proved, 0);
        assert_eq!(ended(&mut waiters), [6]);
    }

    // H-02, H-29
    #[test]
    fn a_crowd_is_sent_away() {
        let mut waiters = Waiters::default();
        for n in 0..WAITERS_MAX + 2 {
            let pid = u32::try_from(n).unwrap();
            waiters.add(WaiterId(n), ask(pid), Verdict::Unproved, 0);
        }
        assert_eq!(ended(&mut waiters), [WAITERS_MAX, WAITERS_MAX + 1]);
        assert_eq!(waiters.len(), WAITERS_MAX);
    }
}
