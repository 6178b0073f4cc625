//! Prompts that nobody at a terminal sees while a hook waits: those of headless runs and of background subagents (H-38).
//!
//! Such a prompt holds up its agent, so its client is shown as waiting for a person while its hook waits. How long that
//! lasts is counted as the coordinator's own clock does: not while the machine sleeps, and not while the coordinator is
//! down, stopped or cannot write.

use std::collections::BTreeMap;

use coord_model::{ProcessRef, ReplyKind};

use super::hooks::HookLife;
use crate::act_checks::violation;
use crate::checks::Violation;
use crate::client::Truth;
use crate::simulation::{MS, Simulation, Time};

use super::checks::ENDS_WITHIN;

/// For how long a hook hid its prompt, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hides {
    /// In all.
    ns: u64,
    /// Since it may not any more.
    forbidden_ns: u64,
    /// People were told of it.
    pub(super) is_known: bool,
}

/// For how long clients waited while nobody at a terminal could see it.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// When that was counted last, CLOCK_MONOTONIC, and whether the coordinator could act from then on.
    counted_at: Option<u64>,
    /// For a headless run in all, and for the subagents of one turn, in nanoseconds.
    of_client: BTreeMap<ProcessRef, u64>,
}

impl Simulation {
    /// Counts what has passed since the last look, and notes which prompts are hidden from now on.
    pub(super) fn count_hidden(&mut self) {
        let mut hooks = std::mem::take(&mut self.requests.hooks);
        let mut clients: BTreeMap<ProcessRef, u64> = BTreeMap::new();
        for life in hooks.values_mut() {
            if !self.hides(life) {
                continue;
            }
            let passed = self.since_counted(life);
            life.hides.ns += passed;
            let is_allowed = self.may_hide(life);
            life.hides.forbidden_ns = if is_allowed { 0 } else { life.hides.forbidden_ns + passed };
            let of_client = clients.entry(life.ask.harness).or_default();
            *of_client = passed.max(*of_client);
            if is_allowed && !std::mem::replace(&mut life.hides.is_known, true) {
                self.begins_to_hide(life);
            }
        }
        for (client, passed) in clients {
            *self.requests.hidden.of_client.entry(client).or_default() += passed;
        }
        self.requests.hooks = hooks;
        self.requests.hidden.counted_at = self.can_end_waits().then(|| self.mono_ns());
    }

    /// Whether the coordinator ends waits that last too long. If the disk refuses the record of such an end, it is written
    /// again within a heartbeat.
    fn can_end_waits(&self) -> bool {
        let serving = self.serving.as_ref().filter(|_| self.can_see());
        serving.is_some_and(|one| one.coordinator().has_met_deadlines(self.now()))
    }

    /// For how long a hook has waited since the last look, while the coordinator could act, in nanoseconds.
    fn since_counted(&self, life: &HookLife) -> u64 {
        let from = self.requests.hidden.counted_at;
        let passed = from.map_or(0, |from| self.mono_ns().saturating_sub(from));
        passed.min(life.waits_since.map_or(0, |since| self.time - since))
    }

    /// A hook waits, and so nobody at a terminal sees its prompt.
    fn hides(&self, life: &HookLife) -> bool {
        let call = life.call.as_ref().and_then(|call| self.requests.calls.get(call));
        life.is_waiting() && call.is_some_and(|call| call.is_hidden && call.closed.is_none())
    }

    /// Whether the owner wants that, and somebody is told.
    fn may_hide(&self, life: &HookLife) -> bool {
        let settings = self.config.settings();
        let call = life.call.as_ref().and_then(|call| self.requests.calls.get(call));
        let is_headless = call.is_some_and(|call| call.is_headless);
        let is_wanted = if is_headless {
            settings.headless_answers
        } else {
            let state = self.serving.as_ref().map(|serving| serving.coordinator().state());
            let session = state.and_then(|state| state.session_of(life.ask.harness));
            session.is_some_and(|session| {
                let cwd = self.life_of(session).map_or("", |life| life.cwd.as_str());
                let holds = self.said.holds(session.key, cwd, false, self.time);
                holds.unattended && holds.asks_for_agents
            })
        };
        is_wanted && self.may_anybody_reply() && !settings.notice.channels.is_empty()
    }

    /// The client of a hook waits for a person, and people elsewhere see that.
    fn begins_to_hide(&mut self, life: &HookLife) {
        let Some(place) = self.place_of_client(&self.boot(), life.ask.harness) else { return };
        let is_headless = self.running(place).is_some_and(|one| !one.client.is_interactive);
        self.becomes(place, Truth::AwaitingPermission);
        self.counts(if is_headless {
            "hidden: of a headless run"
        } else {
            "hidden: of a subagent"
        });
        self.people_see(self.config.settings().hidden_wait_ms * MS);
    }

    /// A new turn of a client begins.
    pub(crate) fn hidden_anew(&mut self, client: ProcessRef) {
        self.requests.hidden.of_client.remove(&client);
    }

    /// H-38: whether a hook hides its prompt only where it may, and within the bound.
    pub(super) fn check_hidden(&self, life: &HookLife) -> Result<(), Violation> {
        if !self.hides(life) {
            return Ok(());
        }
        let (pid, of, passed) = (life.ask.process.pid, &life.call, self.since_counted(life));
        let slack: Time = ENDS_WITHIN;
        let is_forbidden = !self.may_hide(life) && slack < life.hides.forbidden_ns + passed;
        if is_forbidden {
            return violation("H-38", format!("pid {pid} hides the prompt of {of:?}"));
        }
        let bound = self.config.settings().hidden_wait_ms * MS;
        if bound + slack < life.hides.ns + passed {
            return violation("H-38", format!("pid {pid} hides {of:?} beyond the bound"));
        }
        // A hook that is late may tell of a new turn in the midst of it, which a headless run does not have; and a power cut
        // takes the count along.
        let call = life.call.as_ref().and_then(|call| self.requests.calls.get(call));
        let is_one_run = call.is_some_and(|call| call.is_headless);
        let is_sure = (is_one_run || self.rates.are_hooks_sure) && self.meter.power_cuts == 0;
        let of_client = self.requests.hidden.of_client.get(&life.ask.harness);
        let in_all = of_client.map_or(0, |ns| ns + passed);
        if is_sure && bound + slack < in_all {
            let what = format!("pid {pid} hides {of:?}: all prompts together beyond the bound");
            return violation("H-38", what);
        }
        Ok(())
    }

    /// A hook ends that hid its prompt.
    pub(super) fn counts_hidden(&mut self, life: &HookLife, printed: Option<ReplyKind>) {
        let bound = self.config.settings().hidden_wait_ms * MS;
        if life.hides.is_known {
            match printed {
                Some(_) => self.counts("hidden: decided from elsewhere"),
                None if bound <= life.hides.ns + ENDS_WITHIN => {
                    self.counts("hidden: to the bound");
                }
                None => (),
            }
        }
    }
}
