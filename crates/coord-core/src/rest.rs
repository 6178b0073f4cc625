//! Decides what coord tells an unattended session that has come to rest (S1-07 to S1-11, S1-13 to S1-16, S1-23,
//! H-40). It answers a prompt, once, or requests a summary before the session's context is full.
//!
//! Only what a look finds at that moment is matched, with the end of the conversation. That is what the agent said
//! last, not what is on the screen. Nothing is typed. An answer is a wake, whose frame says that it is no consent.

use alloc::format;
use alloc::string::String;

use coord_model::{
    Awake, Decimal, Delay, Input, Intent, LastWords, Moment, Outcome, PaneState, Proof, Question,
    RestLimits, Screen, SessionKey, SessionState,
};

use crate::effects::Effects;
use crate::records::{BudgetDecision, Flag, Limits, NEVER, Session, State, Turn, WakeDecision};
use crate::wake;

/// A decision to tell the session something.
struct Why<'a> {
    rule: &'static str,
    saw: &'a str,
    did: &'a str,
}

impl State {
    /// When a session that came to rest is looked at.
    pub(crate) fn rest_at(&self, session: &Session) -> Option<Awake> {
        let (rest, limits) = (&session.rest, &self.header.settings.rest);
        let stall = session.stall.as_ref()?;
        let wants = limits.answers || (is_summary_wanted(limits) && !rest.is_summary_asked);
        let is_new = !rest.is_seen && rest.asked.is_none();
        let is_still = self.header.settings.stall.captures <= stall.count;
        let is_later = rest.late_at.is_none_or(|late| late < stall.at);
        if !(wants && is_new && is_still && is_later && self.is_at_rest(session)) {
            return None;
        }
        let hold = self.operators_hold(session, stall.at);
        let settling = self.header.settling.as_ref();
        let until = hold.into_iter().chain(settling).map(|hold| hold.until).max();
        // A wait without an end of its own ends by an event.
        Some(until.unwrap_or_default().max(stall.at)).filter(|due| *due != NEVER)
    }

    /// Whether its last turn ended by itself, it is unattended, and coord may wake it.
    fn is_at_rest(&self, session: &Session) -> bool {
        let is_ended = matches!(*session.turn, Turn::Closed { .. }) && session.failure.is_none();
        is_ended && session.shown.state == SessionState::Idle && self.is_ours_to_wake(session)
    }

    /// Requests the look, if it is due.
    pub(crate) fn look_at_rest(&mut self, session: &mut Session, at: Moment, fx: &mut Effects) {
        if self.rest_at(session).is_none_or(|due| at.awake < due) {
            return;
        }
        session.rest.note_seen();
        self.look_at_last_words(session, fx);
    }

    /// Applies the answer to that look: the proof of G4, with the end of the conversation.
    pub(crate) fn on_rest_look(
        &mut self,
        intent: Intent,
        proof: &Proof,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let is_asked = |session: &Session| session.rest.asked == Some(intent.number);
        if !self.get(intent.session).is_some_and(is_asked) {
            return None;
        }
        let mut session = self.take(intent.session)?;
        session.rest.end_look();
        if session.quota.is_some() {
            self.judge_probe(&mut session, proof, at, fx);
        } else {
            self.judge_rest(&mut session, proof, at, fx);
        }
        self.put(session);
        Some(intent.session)
    }

    fn judge_rest(&mut self, session: &mut Session, proof: &Proof, at: Moment, fx: &mut Effects) {
        if !self.is_at_rest(session) || self.operators_hold(session, at.awake).is_some() {
            return;
        }
        if let Some(why) = is_in_the_way(proof) {
            return fx.decide(session, "S1-07", why, "left alone: coord sends it nothing");
        }
        if proof.pane.signature().is_some_and(|name| !session.is_content(name)) {
            let saw = "a crash signature is on the screen";
            return fx.decide(session, "S0-06", saw, "left alone: the crash signature decides");
        }
        if self.may_be_written_by_another(session) {
            let saw = "another client used the same conversation after the last turn";
            return fx.decide(session, "R-07", saw, "left alone: coord sends it nothing");
        }
        let Some(words) = &proof.last_words else {
            let saw = "the end of the conversation cannot be read";
            return fx.decide(session, "H-40", saw, "left alone: coord sends it nothing");
        };
        if let Some(failure) = &words.failure {
            return self.note_failure(session, failure, at, fx);
        }
        let limits = self.header.settings.rest.clone();
        if limits.answers && self.answer(session, words, at, fx) {
            return;
        }
        let percent = full_percent(session, words, &limits)
            .filter(|percent| u64::from(limits.summary_percent) <= *percent);
        if let Some(percent) = percent.filter(|_| !session.rest.is_summary_asked) {
            self.ask_for_summary(session, percent, at, fx);
        }
    }

    /// Applies the outcome of a wake. Returns the record that changed.
    pub(crate) fn on_woken(
        &mut self,
        intent: Intent,
        outcome: &Outcome,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<SessionKey> {
        let mut session = self.take(intent.session)?;
        on_woken(&mut session, intent.number, outcome, at, fx);
        self.put(session);
        Some(intent.session)
    }

    /// Answers the session's prompt if that is allowed. Returns whether it decided to.
    fn answer(
        &mut self,
        session: &mut Session,
        words: &LastWords,
        at: Moment,
        fx: &mut Effects,
    ) -> bool {
        // The transcript lags behind the client, so its end may belong to an earlier turn. What is not in it yet
        // proves nothing.
        let is_of_this_turn = words.written_ms.is_some_and(|ms| session.rest.prompted_ms <= ms);
        if !is_of_this_turn {
            let saw = "the last readable message is older than the last turn";
            let did = if session.rest.look_again(at) {
                "read again with the next heartbeat"
            } else {
                "left alone: coord answers nothing"
            };
            fx.decide(session, "R-19", saw, did);
            return false;
        }
        let is_named = session.marks.answers == Some(true);
        let (rule, saw, answer) = match words.question {
            Some(Question::Limit) => {
                session.rest.note_limit();
                session.stall.forget();
                let saw = "the last message mentions a limit";
                fx.decide(session, "S1-13", saw, "not a stall; coord answers nothing");
                return true;
            }
            Some(Question::Continue) => ("S1-09", "the last message waits to continue", "continue"),
            Some(Question::YesNo) if is_named => ("S1-10", "the last message asks (y/n)", "y"),
            Some(Question::Proceed) if is_named => {
                ("S1-11", "the last message asks whether to proceed", "yes")
            }
            Some(Question::YesNo | Question::Proceed) => {
                let saw = "the last message asks a question";
                let did =
                    "not answered: not allowed for this session (`coordctl attend --answers`)";
                fx.decide(session, "H-40", saw, did);
                return false;
            }
            None => {
                let saw =
                    "the session is idle, and its last message asks nothing that coord can answer";
                fx.decide(session, "S1-14", saw, "left alone");
                return false;
            }
        };
        let budget = budget(&self.header.settings.rest);
        let spent = match session.rest.answers.decide(budget, at.awake) {
            BudgetDecision::Allowed | BudgetDecision::Later(_) => None,
            BudgetDecision::SpentThisTurn => {
                Some(format!("answered {} in this iteration", times(budget.per_turn)))
            }
            BudgetDecision::Spent => Some(format!("answered {} in all", times(budget.total))),
        };
        if let Some(reason) = spent {
            let saw = format!("{saw}, and it was {reason}");
            session.recovery.raise_flag(Flag { reason, since: at, is_limit: true });
            fx.decide(session, "S1-15", &saw, "needs you; coord answers no more");
            return true;
        }
        let text = format!(
            "Your last message waits for an answer, and nobody watches this session. By a rule of this \
             machine, and not by a person, the answer is: {answer}. It allows nothing that was not \
             allowed before."
        );
        let did = format!("woken with \"{answer}\"");
        let why = Why { rule, saw, did: &did };
        let step = self.wake_within_budget(session, &why, &text, at, fx);
        session.rest.begin_answer(step);
        true
    }

    /// S1-23: asks for a summary once, before the client compacts the conversation by itself.
    fn ask_for_summary(
        &mut self,
        session: &mut Session,
        percent: u64,
        at: Moment,
        fx: &mut Effects,
    ) {
        let text = format!(
            "This conversation fills about {percent} % of its context, and nobody watches this session. \
             Before it is compacted, write down where this work can be resumed from: what is done, what \
             is left, and what was decided. Use a file that belongs to the task. Then go on, if \
             anything is left to do."
        );
        let saw = format!("the conversation fills {percent} % of the context");
        let why = Why { rule: "S1-23", saw: &saw, did: "asked to write a summary" };
        let step = self.wake_within_budget(session, &why, &text, at, fx);
        session.rest.note_summary(step.is_some());
    }

    /// Wakes the session with this text, within its budget (H-21). Returns the number of the step.
    fn wake_within_budget(
        &mut self,
        session: &mut Session,
        why: &Why<'_>,
        text: &str,
        at: Moment,
        fx: &mut Effects,
    ) -> Option<u64> {
        let Why { rule, saw, did } = *why;
        match session.wakes.charge(self.header.settings.wakes, at.awake) {
            WakeDecision::Held { .. } => {
                fx.decide(session, "H-21", saw, "not woken: the wake budget is used up");
                None
            }
            WakeDecision::Charged => {
                fx.decide(session, rule, saw, did);
                Some(self.wake(session, wake::framed(text), fx))
            }
        }
    }
}

/// Applies the outcome of a wake.
fn on_woken(session: &mut Session, number: u64, outcome: &Outcome, at: Moment, fx: &mut Effects) {
    let is_answer = session.rest.end_answer(number);
    match outcome {
        Outcome::Done if is_answer => session.rest.charge_answer(at),
        Outcome::Done => (),
        Outcome::Changed { what: why } | Outcome::Failed { why } => {
            session.starter.expect_user();
            fx.decide(session, "H-02", why, "nothing was sent");
        }
        Outcome::Observed => session.starter.expect_user(),
    }
}

fn times(n: u32) -> String {
    if n == 1 { "once".into() } else { format!("{n} times") }
}

/// What forbids telling the session anything; none if nothing does (S1-07, S1-08, H-40, H-13).
fn is_in_the_way(proof: &Proof) -> Option<&'static str> {
    let (is_prompt, has_draft) = match proof.pane {
        PaneState::Client { screen, input, .. } => {
            (screen == Some(Screen::Prompt), input != Input::Empty)
        }
        PaneState::None
        | PaneState::Unreadable { .. }
        | PaneState::NoServer
        | PaneState::Closed
        | PaneState::Dead
        | PaneState::Shell { .. }
        | PaneState::Other => (false, false),
    };
    if !proof.is_alive {
        Some("the client is gone")
    } else if !proof.owners.is_empty() {
        Some("another process holds the session")
    } else if proof.is_task_stopped {
        Some("the task was stopped")
    } else if !is_prompt {
        Some("the client is not in the foreground at its prompt")
    } else if has_draft {
        Some("the input line holds a draft")
    } else if !proof.children.is_empty() {
        Some("another program uses the terminal")
    } else if proof.idle_since_ms.is_none() {
        Some("the client's registry does not report idle")
    } else {
        None
    }
}

/// The budget of answers (S1-15).
fn budget(limits: &RestLimits) -> Limits {
    let delay = Delay { first_ms: 0, max_ms: 0 };
    Limits { per_turn: limits.per_iteration, total: limits.total, delay }
}

fn is_summary_wanted(limits: &RestLimits) -> bool {
    limits.summary_percent <= 100
}

/// How full the conversation is, in percent. The client's own figure counts if it is of this turn; it knows the size of
/// the window, which the transcript does not name.
fn full_percent(session: &Session, words: &LastWords, limits: &RestLimits) -> Option<u64> {
    let said = session.usage.as_ref();
    let said = said.filter(|said| session.rest.prompted_ms <= said.said.wall_ms);
    let of_client = said.and_then(|said| said.numbers.context_percent).map(Decimal::whole);
    let of_transcript =
        || words.context_tokens?.saturating_mul(100).checked_div(limits.context_tokens);
    of_client.or_else(of_transcript).filter(|_| is_summary_wanted(limits))
}
