//! What holds after every step of every sequence. `World::take` holds besides that no violation is
//! counted and that the indexes are those of the same records put together anew.

use std::collections::BTreeSet;

use coord_core::{OwnerId, Presence, Recovery, RegistryFact, Session, State, Turn, step};
use coord_model::{EndReason, Event, HookEvent, HookKind, ProcessRef, SessionKey, SessionState};

use crate::world::World;

/// What a sequence has told so far.
#[derive(Clone, Default)]
pub(crate) struct Known {
    /// Processes that are gone.
    dead: BTreeSet<ProcessRef>,
    /// Records that their user left, with the process in which it was.
    left: BTreeSet<(SessionKey, OwnerId)>,
    /// Records whose process is gone.
    buried: BTreeSet<(SessionKey, OwnerId)>,
}

/// One event and the states around it.
pub(crate) struct Step<'a> {
    pub(crate) before: &'a State,
    pub(crate) event: &'a Event,
    pub(crate) after: &'a World,
}

fn record(state: &State, key: SessionKey) -> Option<&Session> {
    state.sessions().find(|session| session.key == key)
}

fn owned(session: &Session) -> Option<(SessionKey, OwnerId)> {
    session.owner.as_ref().map(|owner| (session.key, owner.id.clone()))
}

impl Step<'_> {
    pub(crate) fn check(&self, known: &mut Known) {
        if let Event::Hook(hook) = self.event {
            self.ends_begin_nothing(hook);
            self.subagents_leave_the_turn(hook);
            for before in self.before.sessions() {
                if let Some(after) = record(&self.after.state, before.key) {
                    late_changes_nothing(before, after, hook);
                    a_stop_ends_the_waits(before, after, hook);
                    if was_applied(before, after) && hook.kind == crate::world::EXIT {
                        known.left.extend(owned(after));
                    }
                }
            }
        }
        if let Event::ProcessExited { process } = self.event {
            known.dead.insert(*process);
            known.buried.extend(self.after.state.session_of(*process).and_then(owned));
        }
        self.crashes_have_a_sign();
    }

    /// What takes a step of its own to see.
    pub(crate) fn check_what_follows(&self) {
        if let Event::Hook(_) = self.event {
            self.repeated_changes_nothing();
        }
        self.deadlines_are_served();
    }

    /// H-05: crashed needs a positive sign at the moment it is judged: the entry left behind, or an
    /// open turn.
    fn crashes_have_a_sign(&self) {
        let is_crashed = |one: &Session| matches!(*one.presence, Presence::Crashed { .. });
        for after in self.after.state.sessions().filter(|after| is_crashed(after)) {
            let is_left_behind = matches!(*after.registry, RegistryFact::LeftBehind { .. });
            let is_open = matches!(*after.turn, Turn::Open { .. });
            let was_so = record(self.before, after.key).is_some_and(is_crashed);
            assert!(was_so || is_left_behind || is_open, "crashed without a sign");
        }
    }

    /// G2: a second arrival changes the counter of duplicates and nothing else.
    fn repeated_changes_nothing(&self) {
        let mut again = self.after.state.clone();
        let fx = step(&mut again, self.event, self.after.now());
        assert!(fx.effects.is_empty() && fx.decisions.is_empty(), "a duplicate asks: {fx:?}");
        assert!(again.sessions().eq(self.after.state.sessions()), "a duplicate changes a record");
        assert_eq!(again.seen(), self.after.state.seen());
        let mut header = again.header().clone();
        header.counters.duplicates -= 1;
        assert_eq!(&header, self.after.state.header());
    }

    /// a SessionEnd alone makes no record.
    fn ends_begin_nothing(&self, hook: &HookEvent) {
        if matches!(hook.kind, HookKind::SessionEnd(_)) {
            assert_eq!(self.before.sessions().len(), self.after.state.sessions().len());
        }
    }

    /// what happens inside a subagent neither opens nor closes the turn.
    fn subagents_leave_the_turn(&self, hook: &HookEvent) {
        if hook.agent.is_none() {
            return;
        }
        for after in self.after.state.sessions() {
            let before = record(self.before, after.key).map_or(Turn::None, |before| *before.turn);
            assert_eq!(before, *after.turn, "a subagent's {} moved the turn", hook.kind.name());
        }
    }

    /// A deadline is in the future once it was served, and before it nothing changes (H-32: a restart and
    /// an idle loop conclude nothing of their own).
    fn deadlines_are_served(&self) {
        let now = self.after.now();
        let is_due = |state: &State| state.next_deadline().is_some_and(|due| due <= now.mono_ns);
        let mut ticked = self.after.state.clone();
        step(&mut ticked, &Event::Due, now);
        assert!(!is_due(&ticked), "a deadline stays due after it was served");
        if !is_due(&self.after.state) {
            let is_same = ticked.sessions().eq(self.after.state.sessions());
            assert!(is_same, "time that was not due changes something");
        }
    }
}

/// Whether the record took the event in, and not too late.
fn was_applied(before: &Session, after: &Session) -> bool {
    before.counts.events < after.counts.events && before.counts.late == after.counts.late
}

/// G2: an event that came too late never moves a session; it may still be the newest that was
/// heard, name an older id, and answer one of the prompts that were only counted.
fn late_changes_nothing(before: &Session, after: &Session, hook: &HookEvent) {
    let is_same_owner = owned(before) == owned(after) && before.boot == hook.boot;
    let is_taken = is_same_owner && before.counts.events < after.counts.events;
    let is_stale = is_taken && before.edge.is_some_and(|edge| hook.mono_ns <= edge.mono_ns);
    assert!(!is_stale || before.counts.late < after.counts.late, "an older event counts as newer");
    if before.counts.late == after.counts.late {
        return;
    }
    let mut expected = before.clone();
    if matches!(hook.kind, HookKind::SessionEnd(_)) {
        // What it tells of another process is of that one alone (G6).
        let passed_on = before.recovery.passed_on;
        assert_eq!(*before.recovery, Recovery { passed_on, ..(*after.recovery).clone() });
        expected.recovery.clone_from(&after.recovery);
    }
    let is_stop = matches!(hook.kind, HookKind::Stop(_) | HookKind::StopFailure(_));
    let answered = match *before.turn {
        Turn::Open { since, queued } if is_stop => {
            Turn::Open { since, queued: queued.saturating_sub(1) }
        }
        turn
        @ (Turn::Open { .. } | Turn::None | Turn::Closed { .. } | Turn::Interrupted { .. }) => turn,
    };
    let is_turn = after.turn == before.turn || after.turn == answered;
    assert!(is_turn, "a late event moved the turn: {:?} to {:?}", before.turn, after.turn);
    expected.turn = after.turn;
    expected.counts = after.counts;
    expected.last.clone_from(&after.last);
    expected.previous_ids.clone_from(&after.previous_ids);
    // The reason may name that more prompts wait; the word may not change.
    assert_eq!(expected.shown.state, after.shown.state, "a late event changed the word");
    expected.shown.clone_from(&after.shown);
    assert_eq!(&expected, after, "a late event changed more than counts");
}

/// S0-18: with its Stop the main thread waits for nothing any more.
fn a_stop_ends_the_waits(before: &Session, after: &Session, hook: &HookEvent) {
    let is_stop = matches!(hook.kind, HookKind::Stop(_) | HookKind::StopFailure(_));
    if is_stop && hook.agent.is_none() && was_applied(before, after) {
        let is_main = after.waits.iter().all(|wait| wait.agent.is_some());
        assert!(is_main, "a wait of the main thread outlived its Stop");
    }
}

impl Known {
    pub(crate) fn check(&mut self, world: &World) {
        // Who types again in the same process has not left.
        let is_over = |key| record(&world.state, key).is_some_and(|session| !session.may_live());
        self.left.retain(|(key, _)| is_over(*key));
        for session in world.state.sessions() {
            self.the_dead_stay_dead(session);
            self.who_left_did_not_crash(session);
            its_users_end_is_a_stop(session);
            a_word_has_its_reason(session);
            self.two_owners_are_shown(session, &world.state);
        }
    }

    /// S0-02, H-42: only another process brings a record back.
    fn the_dead_stay_dead(&self, session: &Session) {
        if owned(session).is_some_and(|owned| self.buried.contains(&owned)) {
            assert!(
                !session.may_live(),
                "a dead process's session lives: {}",
                session.shown.because
            );
            let is_over = matches!(
                session.shown.state,
                SessionState::Unknown
                    | SessionState::Crashed
                    | SessionState::Stopped
                    | SessionState::Interrupted
            );
            assert!(is_over, "a dead process's session is {:?}", session.shown.state);
        }
    }

    /// G6, H-10: what its user ended is stopped, never crashed or taken along by a host event.
    fn who_left_did_not_crash(&self, session: &Session) {
        if owned(session).is_some_and(|owned| self.left.contains(&owned)) {
            let is_wrong =
                matches!(session.shown.state, SessionState::Crashed | SessionState::Interrupted);
            assert!(!is_wrong, "its user left it, and it is {:?}", session.shown.state);
        }
    }

    /// two live processes on one id are both unknown. A process that is known to be gone, and
    /// whose new record has not been looked at yet, does not count.
    fn two_owners_are_shown(&self, session: &Session, state: &State) {
        let lives = |one: &Session| {
            let process = one.owner.as_ref().map(|owner| owner.id.process);
            one.may_live() && process.is_some_and(|process| !self.dead.contains(&process))
        };
        let is_other = |other: &Session| {
            other.key != session.key && other.session_id == session.session_id && lives(other)
        };
        if session.two_owners {
            let is_claim = |other: &Session| {
                let is_same = other.session_id == session.session_id;
                other.key != session.key && is_same && other.may_live()
            };
            assert!(session.may_live() && state.sessions().any(is_claim), "it has one owner");
        }
        if lives(session) && state.sessions().any(is_other) {
            assert!(session.two_owners, "two live processes hold {}", session.session_id);
            assert_eq!(
                session.shown.state,
                SessionState::Unknown,
                "two live processes hold one id"
            );
        }
    }
}

/// G6: its user's own end has one word.
fn its_users_end_is_a_stop(session: &Session) {
    if let Presence::Ended { reason: Some(EndReason::PromptInputExit), .. } = *session.presence {
        assert_eq!(session.shown.state, SessionState::Stopped);
    }
}

/// G9: every word comes from a rule and says why.
fn a_word_has_its_reason(session: &Session) {
    assert!(!session.shown.rule.is_empty(), "{:?} by no rule", session.shown.state);
    assert!(!session.shown.because.is_empty(), "{:?} without a reason", session.shown.state);
}
