//! What must hold of prompts, the hooks beside them, and replies (A-01 to A-09, H-23, H-38).
//!
//! * A reply is handed to the hook that its giver saw, once, as it was given, and recorded on disk; and only while the
//!   prompt of that hook is open, or when the coordinator could not have seen its end for longer than [`ENDS_WITHIN`].
//! * No hook waits longer than that after the coordinator could see the end of its prompt, or where nobody may reply.
//!   The coordinator can see it while it runs, is not stopped and has its disk, in the client's registry or by the result
//!   of the call, unless the same call is being asked for again, or the prompt may be the one of an equal call. A hook
//!   whose prompt it never knew has [`UNKNOWN_WITHIN`], since its event may be on its way.
//! * No hook hides a prompt beyond its bound, and none where that is not allowed ([`super::hidden`]).
//! * No reply is taken that its prompt does not take, and what is printed is the call's own input with nothing but the
//!   answers, or the mode, added.
//! * What is recorded as the outcome of a reply is what its client made of it. A request names no call (measured), so where
//!   hooks are lost or late, or power is cut, it may be taken for that of a call with the same input; the outcome is then
//!   that of the other call.

use coord_core::{Session, Wait};
use coord_model::{ProcessRef, ReplyOutcome, RequestId};
use serde_json::Value;

use super::Call;
use super::hooks::HookLife;
use super::replies::is_as_given;
use crate::act_checks::violation;
use crate::checks::{Violation, reopen_durable};
use crate::client::Decision;
use crate::hook_runs::Run;
use crate::simulation::{SECOND, Simulation, Time};

pub(super) const ENDS_WITHIN: Time = SECOND;
const UNKNOWN_WITHIN: Time = 11 * SECOND;

impl Simulation {
    /// Looks at all hooks that wait.
    pub(crate) fn judge_requests(&mut self) -> Result<(), Violation> {
        self.count_hidden();
        let hooks = std::mem::take(&mut self.requests.hooks);
        let mut judged = Ok(());
        self.requests.hooks = hooks
            .into_iter()
            .map(|(process, mut life)| {
                if !life.was_known && life.is_waiting() && self.is_request_known(&life) {
                    // From here on its end is to be seen: an event that is late by the hook's own slowness may be taken
                    // for a prompt that opens meanwhile.
                    (life.was_known, life.needless_since) = (true, None);
                }
                life.was_shown |= life.was_known && self.is_shown_now(&life);
                life.may_be_anothers |= life.is_waiting() && self.is_nameless_beside_equal(&life);
                let since = life.needless_since.unwrap_or(self.time);
                life.needless_since = self.is_needless(&life).then_some(since);
                if judged.is_ok() {
                    judged = self.check_wait(&life);
                }
                (process, life)
            })
            .collect();
        judged
    }

    /// Whether a hook waits no longer than it may.
    fn check_wait(&self, life: &HookLife) -> Result<(), Violation> {
        let within =
            if life.was_known || !self.may_anybody_reply() { ENDS_WITHIN } else { UNKNOWN_WITHIN };
        if life.needless_since.is_some_and(|since| since + within < self.time) {
            let (pid, call) = (life.ask.process.pid, &life.call);
            return violation("A-01", format!("pid {pid} waits for {call:?}, which is over"));
        }
        self.check_hidden(life)
    }

    /// Whether the coordinator runs, and can act on what it sees.
    pub(super) fn can_see(&self) -> bool {
        let is_up = self.serving.as_ref().is_some_and(|one| !one.coordinator().is_read_only());
        is_up && self.stalled_until <= self.time
    }

    fn is_request_known(&self, life: &HookLife) -> bool {
        let state = self.serving.as_ref().map(|serving| serving.coordinator().state());
        let session = state.and_then(|state| state.session_of(life.ask.harness));
        session.is_some_and(|session| {
            session.needs.iter().any(|need| need.request == Some(life.ask.request))
        })
    }

    /// Whether the coordinator can see that a hook waits for nothing.
    fn is_needless(&self, life: &HookLife) -> bool {
        if !life.is_waiting() || !self.can_see() {
            return false;
        }
        let id = life.call.as_ref();
        let call = id.and_then(|call| self.requests.calls.get(call));
        let is_closed = call.is_some_and(|call| call.closed.is_some());
        let is_told = call.is_some_and(|call| call.hooks == 1 && self.is_end_known(call));
        let is_told = is_told && !life.may_be_anothers && !self.is_asked_again(id, call);
        let is_current = self.registry_stale_until <= self.time;
        let is_seen = is_current && self.says_waiting(life.ask.harness) == Some(false);
        let tells = if life.ask.has_dialog {
            // Which is newer, a late request or the registry, a clock that was set does not tell.
            life.was_shown || !self.meter.faults.contains_key("clock set")
        } else {
            // The registry says the same before, while and after a prompt that nobody sees. That a subagent's was not one
            // of these it says only while the dialog is there, which late hooks may not tell in time.
            life.was_shown && self.rates.are_hooks_sure
        };
        !self.may_anybody_reply() || (is_closed && (is_told || (is_seen && tells)))
    }

    /// Whether the same call is being asked for again, or was before by two hooks. Where the hook that reports a call was
    /// lost, nobody can tell which of two equal prompts a result belongs to.
    fn is_asked_again(&self, id: Option<&String>, call: Option<&Call>) -> bool {
        let is_same = |call: &Call, other: &Call| {
            let is_equal = other.input == call.input && other.asked_for == call.asked_for;
            is_equal && (other.closed.is_none() || 1 < other.hooks)
        };
        call.is_some_and(|call| {
            let others = self.requests.calls.iter().filter(|(other, _)| Some(*other) != id);
            others.into_iter().any(|(_, other)| is_same(call, other))
        })
    }

    /// Whether the coordinator knows of another open prompt with the same input, and does not know which call this one is
    /// about: it takes the first result for that of the first prompt. Nothing but the registry tells that a prompt was refused.
    fn is_nameless_beside_equal(&self, life: &HookLife) -> bool {
        let state = self.serving.as_ref().map(|serving| serving.coordinator().state());
        let Some(session) = state.and_then(|state| state.session_of(life.ask.harness)) else {
            return false;
        };
        let (its, others): (Vec<&Wait>, Vec<&Wait>) =
            session.waits.iter().partition(|wait| wait.request == Some(life.ask.request));
        let is_equal = |other: &&Wait| its.iter().any(|wait| wait.digest == other.digest);
        its.iter().any(|wait| wait.call.is_none()) && others.iter().any(is_equal)
    }

    /// Whether the coordinator can see that the dialog of a hook's prompt is on the screen.
    fn is_shown_now(&self, life: &HookLife) -> bool {
        let call = life.call.as_ref().and_then(|call| self.requests.calls.get(call));
        let is_open = call.is_some_and(|call| !call.is_hidden && call.closed.is_none());
        let is_current = self.registry_stale_until <= self.time;
        is_open && is_current && self.can_see() && self.says_waiting(life.ask.harness) == Some(true)
    }

    /// Whether there are replies from elsewhere at all.
    pub(super) fn may_anybody_reply(&self) -> bool {
        self.is_remote() && self.machine.get().passphrase.is_some()
    }

    /// The coordinator is told the result of a call, maybe through the spool.
    pub(crate) fn call_is_over(&mut self, run: &Run) {
        let call = run.call_over.as_ref().and_then(|call| self.requests.calls.get_mut(call));
        if let Some(call) = call {
            call.ends.push(run.id);
        }
    }

    /// Whether the coordinator took in the result of a call.
    fn is_end_known(&self, call: &Call) -> bool {
        let state = self.serving.as_ref().map(|serving| serving.coordinator().state());
        state.is_some_and(|state| call.ends.iter().any(|id| state.has_seen(*id)))
    }

    /// A hook was answered: in time, and with what was replied to it.
    pub(super) fn check_answered(
        &mut self,
        hook: ProcessRef,
        text: Option<&str>,
    ) -> Result<(), Violation> {
        let Some(life) = self.requests.hooks.get(&hook) else { return Ok(()) };
        self.check_wait(life)?;
        let Some(text) = text else { return Ok(()) };
        let (request, call) = (life.ask.request, life.call.clone());
        let pid = hook.pid;
        let printed: Value = serde_json::from_str(text).unwrap_or_default();
        let told = printed.get("systemMessage").and_then(Value::as_str);
        let call = call.and_then(|call| self.requests.calls.get(&call));
        let input = call.map(|call| call.input.clone()).unwrap_or_default();
        let is_closed = call.is_some_and(|call| call.closed.is_some());
        let Some(taken) = self.requests.taken.get_mut(&hook) else {
            return violation("H-23", format!("pid {pid} was handed what nobody replied to it"));
        };
        if std::mem::replace(&mut taken.is_handed, true) {
            return violation("A-04", format!("pid {pid} was handed a reply twice"));
        }
        let is_as_given = is_as_given(text, &taken.asked, &input)
            && told.is_some_and(|line| line.contains(&request.to_string()));
        if !is_as_given {
            return violation("H-23", format!("pid {pid} was handed another reply: {text}"));
        }
        let disk = self.machine.get().disk.clone();
        let durable = reopen_durable(&disk)?;
        let mut replies = durable.state().sessions().flat_map(|session| &session.replies);
        if replies.all(|reply| reply.request != request) {
            return violation("A-04", format!("pid {pid} was handed a reply that is not on disk"));
        }
        if is_closed {
            self.counts("handed over after the terminal");
        }
        self.counts("handed over");
        Ok(())
    }

    /// what is recorded of a reply against what became of the call.
    pub(crate) fn check_outcomes(&mut self) -> Result<(), Violation> {
        let Some(serving) = &self.serving else { return Ok(()) };
        let mut seen = Vec::new();
        for session in serving.coordinator().state().sessions() {
            seen.extend(self.outcomes_of(session)?);
        }
        for (request, situation) in seen {
            if self.requests.proved.insert((request, situation)) {
                self.counts(situation);
            }
        }
        Ok(())
    }

    /// The outcomes of a session's replies that are not proved yet. What a client decided stays so; that it was not by a
    /// reply which is said not to have been sent may turn out wrong later.
    fn outcomes_of(&self, session: &Session) -> Result<Vec<(RequestId, &'static str)>, Violation> {
        let mut seen = Vec::new();
        for reply in &session.replies {
            let Some(outcome) = reply.outcome else { continue };
            let situation = situation_of(outcome);
            let is_final = outcome != ReplyOutcome::NotSent;
            if is_final && self.requests.proved.contains(&(reply.request, situation)) {
                continue;
            }
            let Some(id) = self.requests.of_request.get(&reply.request) else { continue };
            let Some(call) = self.requests.calls.get(id) else { continue };
            let by_hook = match call.decision {
                Some(Decision::ByHook(kind)) => Some(kind),
                Some(Decision::Yes | Decision::NoWithText | Decision::Esc | Decision::Unasked)
                | None => None,
            };
            let is_so = match outcome {
                ReplyOutcome::Taken => by_hook == Some(reply.kind),
                ReplyOutcome::Refused => by_hook.is_some_and(|kind| kind != reply.kind),
                ReplyOutcome::TerminalFirst => call.decision.is_some() && by_hook.is_none(),
                ReplyOutcome::NotSent => call.decided_by != Some(reply.request),
            };
            let is_other = reply.call.as_ref().is_some_and(|call| call != id);
            let may_be_other = !self.rates.are_hooks_sure || 0 < self.meter.power_cuts;
            if !(is_so || is_other && may_be_other) {
                let (request, decision) = (reply.request, call.decision);
                let what = format!("{request} of {id}: {outcome:?}, in truth {decision:?}");
                return Err(Violation::new("A-07", what));
            }
            seen.push((reply.request, situation));
        }
        Ok(seen)
    }
}

fn situation_of(outcome: ReplyOutcome) -> &'static str {
    match outcome {
        ReplyOutcome::Taken => "proved: taken",
        ReplyOutcome::Refused => "proved: refused",
        ReplyOutcome::TerminalFirst => "proved: terminal first",
        ReplyOutcome::NotSent => "not sent",
    }
}
