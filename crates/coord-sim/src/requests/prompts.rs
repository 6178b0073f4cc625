//! The prompts of clients: they open, and are closed by the first decision.

use coord_model::{ReplyKind, RequestId};

use super::{Asking, Call, Step};
use crate::client::{Asked, AskedFor, Decision, End};
use crate::simulation::{MS, SECOND, Simulation, What};

/// A client's notification of a prompt.
const NOTIFIES_AFTER: u64 = 6_200 * MS;
/// A dialog that hooks kept back is built so long after their end.
const SHOWN_AFTER: std::ops::Range<u64> = 50 * MS..400 * MS;
/// A hook gets SIGTERM so long after Esc.
const TERMINATED_AFTER: std::ops::Range<u64> = 100 * MS..400 * MS;

impl Simulation {
    /// A client asks for permission: it fires its hooks, and opens its dialog unless these keep it back.
    pub(crate) fn asks(&mut self, place: usize, asked: Asked) {
        self.requests.number += 1;
        let number = self.requests.number;
        let (calls, is_hidden) = (asked.calls.clone(), asked.is_hidden_by_hooks());
        for call in &calls {
            let truth = Call {
                is_hidden,
                is_headless: asked.is_headless(),
                asked_for: call.asked_for(),
                input: call.input.clone(),
                ..Call::default()
            };
            self.requests.calls.insert(call.id.clone(), truth);
        }
        if 1 < calls.len() {
            let are_questions = calls.iter().any(|call| call.asked_for() == AskedFor::Answers);
            let of =
                if are_questions { "several questions at once" } else { "several prompts at once" };
            self.counts(of);
        }
        if asked.is_again {
            self.counts("the same call asked for again");
        }
        let Some(one) = self.running(place) else { return };
        one.asking = Some(Asking { number, asked, is_shown: !is_hidden });
        for call in &calls {
            self.fire_for(place, &call.payload, Some(&call.id));
        }
        if is_hidden {
            self.shows_when_free(place);
        } else {
            self.is_shown(place, number);
        }
    }

    /// The dialog of a background subagent is built, or a headless run denies the call, once no hook of it is left.
    pub(super) fn shows_when_free(&mut self, place: usize) {
        let Some(asking) = self.running(place).and_then(|one| one.asking.as_ref()) else { return };
        let (number, is_shown) = (asking.number, asking.is_shown);
        let mut calls = asking.asked.calls.iter().map(|call| call.id.clone());
        let Some(call) = calls.next().filter(|_| !is_shown) else { return };
        if self.requests.hooks.values().all(|hook| hook.call.as_ref() != Some(&call)) {
            let after = self.random.range(SHOWN_AFTER);
            self.at(after, What::Request(Step::Shows(place, number)));
        }
    }

    pub(super) fn shows_dialog(&mut self, place: usize, number: u64) {
        let now_ms = self.time / MS;
        let Some(one) = self.places.get_mut(place).and_then(|one| one.client.as_mut()) else {
            return;
        };
        let asking = one.asking.as_mut().filter(|asking| asking.number == number);
        let Some(asking) = asking.filter(|asking| !asking.is_shown) else { return };
        if asking.asked.is_headless() {
            let calls: Vec<String> =
                asking.asked.calls.iter().map(|call| call.id.clone()).collect();
            for call in calls {
                self.decides(place, &call, Decision::Unasked);
            }
            return self.counts("a headless run denied what nobody decided");
        }
        asking.is_shown = true;
        let plan = one.client.shows_dialog(now_ms, &mut self.random);
        self.follow(place, plan);
        self.counts("dialog of a background subagent");
        self.is_shown(place, number);
    }

    /// A dialog is on the screen: it will be answered at the terminal, and people elsewhere see it too.
    fn is_shown(&mut self, place: usize, number: u64) {
        let Some(asking) = self.running(place).and_then(|one| one.asking.as_ref()) else { return };
        let can_be_interrupted = asking.asked.can_be_interrupted();
        let calls: Vec<_> =
            asking.asked.calls.iter().map(|call| (call.id.clone(), call.asked_for())).collect();
        self.at(NOTIFIES_AFTER, What::Request(Step::Notifies(place, number)));
        let mut open_ms = match self.random.below(20) {
            0 => self.random.range(600_000..2_400_000),
            _ => self.random.range(400..60_000),
        };
        for (call, asked_for) in calls {
            let decision = match self.random.below(20) {
                0..16 => Decision::Yes,
                16 | 17 if can_be_interrupted => Decision::Esc,
                // A question is answered or left.
                _ if asked_for == AskedFor::Answers => Decision::Yes,
                _ => Decision::NoWithText,
            };
            self.at(open_ms * MS, What::Request(Step::Answers(place, call, decision)));
            self.people_see(open_ms * MS);
            open_ms += self.random.range(400..20_000);
        }
    }

    pub(super) fn notifies(&mut self, place: usize, number: u64) {
        let Some(one) = self.running(place) else { return };
        if one.asking.as_ref().is_some_and(|asking| asking.number == number) {
            let payload = one.client.notification();
            self.fire(place, &payload);
        }
    }

    /// Somebody at the terminal answers, if nobody was first.
    pub(super) fn answers_at_terminal(&mut self, place: usize, call: &str, decision: Decision) {
        let of_call = |hook: &&super::HookLife| hook.call.as_deref() == Some(call);
        let waits = self.requests.hooks.values().filter(of_call).any(super::HookLife::is_waiting);
        let asking = self.running(place).and_then(|one| one.asking.as_ref());
        let is_agents = asking.is_some_and(|asking| asking.asked.is_of_foreground_agent());
        if !self.decides(place, call, decision) || !waits {
            return;
        }
        if is_agents {
            self.counts("a subagent's dialog answered beside a waiting hook");
        }
        self.counts(match decision {
            Decision::Esc => "interrupted beside a waiting hook",
            Decision::Yes | Decision::NoWithText | Decision::ByHook(_) | Decision::Unasked => {
                "answered at the terminal beside a waiting hook"
            }
        });
    }

    /// What a hook printed reaches its client, which takes it if the call is open still.
    pub(super) fn decides_by_hook(
        &mut self,
        place: usize,
        (call, request): (&str, RequestId),
        printed: ReplyKind,
    ) {
        let asking = self.running(place).and_then(|one| one.asking.as_ref());
        let first = asking.and_then(|asking| asking.asked.calls.first());
        let is_later = first.is_some_and(|first| first.id != call);
        if !self.decides(place, call, Decision::ByHook(printed)) {
            return self.counts("printed too late, and ignored");
        }
        if let Some(truth) = self.requests.calls.get_mut(call) {
            truth.decided_by = Some(request);
        }
        self.counts(match printed {
            ReplyKind::Allow => "allowed from elsewhere",
            ReplyKind::Deny => "denied from elsewhere",
            ReplyKind::Answer => "answered from elsewhere",
            ReplyKind::Approve(_) => "approved from elsewhere",
        });
        if is_later {
            self.counts("a later prompt decided first");
        }
    }

    /// A call is decided, if it is open; whether it was.
    fn decides(&mut self, place: usize, call: &str, decision: Decision) -> bool {
        let now_ms = self.time / MS;
        let Some(one) = self.places.get_mut(place).and_then(|one| one.client.as_mut()) else {
            return false;
        };
        let Some(asking) = &mut one.asking else { return false };
        let Some(at) = asking.asked.calls.iter().position(|open| open.id == call) else {
            return false;
        };
        let is_last = asking.asked.calls.len() == 1 || decision == Decision::Esc;
        let mut closed = vec![call.to_owned()];
        let plan = if is_last {
            let Some(Asking { asked, .. }) = one.asking.take() else { return false };
            closed.extend(asked.calls.iter().map(|call| call.id.clone()));
            let Some(of) = asked.calls.get(at) else { return false };
            one.client.decided(&asked, (of, decision), now_ms, &mut self.random)
        } else {
            let of = asking.asked.calls.remove(at);
            one.client.one_decided(&mut asking.asked, (&of, decision), now_ms, &mut self.random)
        };
        self.note(|| format!("place {place}: {call} is decided: {decision:?}"));
        self.follow(place, plan);
        for call in &closed {
            self.closes(call, Some(decision));
        }
        if decision == Decision::Esc {
            self.terminates_hooks(&closed);
        }
        true
    }

    fn closes(&mut self, call: &str, decision: Option<Decision>) {
        let time = self.time;
        if let Some(truth) = self.requests.calls.get_mut(call) {
            (truth.closed, truth.decision) = (Some(time), decision);
        }
    }

    fn terminates_hooks(&mut self, calls: &[String]) {
        let is_its =
            |hook: &&super::HookLife| hook.call.as_ref().is_some_and(|of| calls.contains(of));
        let hooks = self.requests.hooks.values().filter(is_its);
        let hooks: Vec<_> = hooks.map(|hook| hook.ask.process).collect();
        for hook in hooks {
            let after = self.random.range(TERMINATED_AFTER);
            self.at(after, What::Request(Step::HookEnds(hook, None)));
        }
    }

    /// A client ends, and with it its prompt: its hooks get SIGTERM, or see that it is gone.
    pub(crate) fn prompts_end(&mut self, place: usize, end: End) {
        let Some(one) = self.running(place) else { return };
        let (process, asking) = (one.process, one.asking.take());
        for call in asking.iter().flat_map(|asking| &asking.asked.calls) {
            self.closes(&call.id, None);
        }
        let hooks = self.requests.hooks.values().filter(|hook| hook.ask.harness == process);
        let hooks: Vec<_> = hooks.map(|hook| hook.ask.process).collect();
        for hook in hooks {
            let after = if end == End::Kill { 10 * MS } else { self.random.range(MS..SECOND / 5) };
            self.at(after, What::Request(Step::HookEnds(hook, None)));
        }
    }
}
