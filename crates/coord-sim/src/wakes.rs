//! Wake hooks of simulated clients (H-02): they wait beside idle sessions, and a text that one is handed
//! starts a turn.

use coord_model::ProcessRef;
use serde_json::Value;

use crate::checks::Violation;
use crate::client::{Client, Move, Truth};
use crate::hooks::ARMING;
use crate::serving::WakeHook;
use crate::simulation::{MS, SECOND, Simulation, WORK_END, What};

/// The wake hook has found its session and asks (measured).
const ASKS_AFTER: std::ops::Range<u64> = MS..8 * MS;
/// Between the end of a wake hook and the turn that it starts.
const WAKES_AFTER: std::ops::Range<u64> = 200 * MS..700 * MS;

impl Simulation {
    /// Beside some of its hooks an interactive client starts its wake hook.
    pub(crate) fn arm_wake(&mut self, place: usize, payload: &Value) {
        let event = payload.get("hook_event_name").and_then(Value::as_str);
        let is_arming = event.is_some_and(|event| ARMING.contains(&event));
        let Some(one) = self.running(place).filter(|one| one.client.is_interactive && is_arming)
        else {
            return;
        };
        let (session_id, harness) = (one.session_id.clone(), one.process);
        if self.random.chance(self.rates.hook_lost) {
            return self.note(|| "  its wake hook never runs".to_owned());
        }
        let pid = self.hook_pid();
        let after = self.random.range(ASKS_AFTER);
        self.at(after, What::Waits(WakeHook { session_id, harness, pid }));
    }

    /// A wake hook asks; where nobody answers it ends.
    pub(crate) fn waits(&mut self, hook: WakeHook) {
        let stalled = self.stalled_until.saturating_sub(self.time);
        if 0 < stalled && self.serving.is_some() {
            return self.at(stalled, What::Waits(hook));
        }
        if let Some(serving) = &mut self.serving {
            serving.wait(hook);
        }
    }

    /// Wake hooks were handed a text.
    pub(crate) fn on_wakes(&mut self, wakes: Vec<(WakeHook, String)>) -> Result<(), Violation> {
        for (hook, text) in wakes {
            self.note(|| format!("  WAKE pid {}: {text:?}", hook.harness.pid));
            self.check_wake(hook.harness, &text)?;
            self.check_woken(&hook, &text)?;
            self.meter.wakes += 1;
            let after = self.random.range(WAKES_AFTER);
            self.at(after, What::Wakes(hook.harness, text));
        }
        Ok(())
    }

    /// A client takes what its wake hook brought: at rest it starts a turn, in a turn that one takes the
    /// text along.
    pub(crate) fn is_woken(&mut self, process: ProcessRef, text: String) {
        let is_its = |client: &crate::living::Running| client.process == process;
        let mut all = self.places.iter();
        let Some(place) = all.position(|one| one.client.as_ref().is_some_and(is_its)) else {
            return;
        };
        let is_stopped = self.machine.get().processes.get(&process.pid).is_some_and(|one| {
            // It hears it when it goes on.
            one.is_stopped || one.hung_at.is_some()
        });
        if is_stopped {
            return self.at(SECOND, What::Wakes(process, text));
        }
        let Some(one) = self.running(place) else { return };
        let Some(client) = one.before_plan.take() else {
            one.held.push(text);
            return self.note(|| format!("place {place}: woken in the midst of something"));
        };
        self.drop_plan(place);
        let now_ms = self.time / MS;
        let Some(one) = self.places.get_mut(place).and_then(|one| one.client.as_mut()) else {
            return;
        };
        one.client = client;
        one.is_woken = true;
        let plan = one.client.woken(text, now_ms, &mut self.random);
        self.note(|| format!("place {place}: is woken"));
        self.follow(place, plan);
    }

    /// A plan is over: the next one, or none any more.
    pub(crate) fn plans_on(&mut self, place: usize) {
        let (time, now_ms) = (self.time, self.time / MS);
        let Some(one) = self.places.get_mut(place).and_then(|one| one.client.as_mut()) else {
            return;
        };
        one.is_woken = false;
        let is_at_prompt =
            one.truth.is_at_rest() || matches!(one.truth, Truth::Subagent | Truth::Shell);
        one.before_plan = is_at_prompt.then(|| one.client.clone());
        if one.before_plan.is_some()
            && let Some(text) = one.held.pop()
        {
            let process = one.process;
            return self.is_woken(process, text);
        }
        if time < WORK_END {
            let plan = one.client.next_plan(now_ms, &mut self.random);
            self.follow(place, plan);
        }
    }
}

/// Whether a client that was at rest is so still after this move of its next plan.
pub(crate) fn leaves_at_rest(a_move: &Move) -> bool {
    match a_move {
        Move::NextPlan => true,
        Move::Fires(payload) => {
            payload.get("hook_event_name").is_some_and(|name| name == "Notification")
        }
        Move::Is(_)
        | Move::Registry(..)
        | Move::Writes(_)
        | Move::Paints(_)
        | Move::Stops(_)
        | Move::TakesLeave
        | Move::Dies(_)
        | Move::Interrupts { .. }
        | Move::Asks(_)
        | Move::Follows(_) => false,
    }
}

/// A client as it was before its plan was drawn, while it has done nothing of it.
pub(crate) type BeforePlan = Option<Client>;
