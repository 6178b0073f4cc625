//! What must hold of sessions that wait for their quota, looked at as their wake hooks are handed a text,
//! against what is true then.
//!
//! * S1-22, H-02: only an unattended session of ours is woken, at rest, whose last turn ended at the limit.
//! * H-06, S0-25g, H-14: none that is held, none while observing, none in another's directory.
//! * S1-22: two wakes in one session are apart by the first delay; after five a person is asked.
//! * S1-22: once there is quota again, who waits goes on within the longest delay.
//! * S1-18: a wait for quota is no stall.

use std::collections::BTreeMap;

use coord_core::Turn;
use coord_model::{ProcessRef, QuotaLimits, SessionState};
use serde_json::Value;

use crate::act_checks::violation;
use crate::checks::Violation;
use crate::client::Truth;
use crate::living::Running;
use crate::serving::CONFIG_DIR;
use crate::simulation::{FAULTS_END, MINUTE, MS, SECOND, SETTLED, Simulation, Time};

/// Between a change and the moment at which whoever is about to wake knows of it.
const UNSEEN: Time = 2 * SECOND;
/// A loop that stood still acts on what it knew before.
const GAP: Time = 20 * SECOND;
/// The turn that ends a wait, and a minute in which a probe was held back.
const MARGIN: Time = 5 * MINUTE;
/// A disagreement is settled, and a word corrected, within this.
const SOON: Time = 10 * SECOND;

/// Who is to go on by itself.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// Since when nothing hinders it, by client.
    due: BTreeMap<ProcessRef, Time>,
    /// Somebody is, now or when the window is over.
    is_awaited: bool,
}

impl Waits {
    /// Whether somebody is, now or when the window is over.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited
    }
}

/// The longest delay before a probe, spread and all.
fn longest() -> Time {
    let delay_ms = QuotaLimits::default().probe_delay_max_ms;
    (delay_ms + delay_ms / 5) * MS
}

impl Simulation {
    /// A wake hook of this client was handed a text.
    pub(crate) fn check_wake(&mut self, process: ProcessRef, text: &str) -> Result<(), Violation> {
        let key = (self.boot(), process);
        let Some(life) = self.lives.get(&key).filter(|life| life.truth.is_alive()) else {
            return Ok(());
        };
        let id = life.session_id.clone();
        if !life.is_interactive {
            return violation("H-02", format!("{id}: a headless run was woken"));
        }
        if self.habits.is_dir_locked {
            return violation("H-14", format!("{id}: woken in another's directory"));
        }
        // A message is its sender's act, and no mode of recovery holds it back.
        if self.habits.mode == "observe" && !text.starts_with("[coord] Message ") {
            return violation("S0-25g", format!("{id}: woken while observing"));
        }
        if !text.contains("usage limit") {
            return Ok(());
        }
        let state = self.serving.as_ref().map(|one| one.coordinator().state());
        let session = process;
        let Some(session) = state.and_then(|state| state.session_of(session)) else {
            return violation("S1-22", format!("{id}: woken, and nobody knows it"));
        };
        let is_for_all = self.habits.mode == "act";
        let holds = self.said.holds(session.key, &life.cwd, is_for_all, self.time);
        if !(holds.unattended || holds.is_fresh) {
            return violation("S1-22", format!("{id}: woken while somebody watches it"));
        }
        if holds.is_held {
            return violation("H-06", format!("{id}: woken while held"));
        }
        let is_known = life.since + UNSEEN < self.time && self.stalled_until + GAP < self.time;
        // What hangs since then said nothing of it.
        let hung_at = self.machine.get().hung_at(process);
        let hangs_for = hung_at.map_or(0, |at| self.now().mono_ns.saturating_sub(at));
        let has_said = life.since + UNSEEN < self.time.saturating_sub(hangs_for);
        // No hook opens a compaction by hand, so only a registry tells of it. Of a dialog of the client's own, its pane does.
        let is_unseen = life.truth == Truth::AwaitingInput && !self.has_pane(session);
        let is_untold = (life.is_compacting || is_unseen) && !self.has_sure_registry();
        let is_sure = is_known && has_said && !is_untold;
        let has_background = matches!(life.truth, Truth::Subagent | Truth::Shell);
        let is_waiting = life.truth == Truth::Quota || (life.is_at_limit && has_background);
        if !is_waiting && is_sure && self.is_told_all() {
            let truth = life.truth;
            return violation("S1-22", format!("{id}: woken for its quota while {truth:?}"));
        }
        self.count_probe(&key, &id)
    }

    /// Whether whatever a client does is known: its hooks all come through, and the registry is there.
    fn is_told_all(&self) -> bool {
        let are_hooks_sure = self.rates.are_hooks_sure && self.missed_until <= self.time;
        are_hooks_sure || self.has_sure_registry()
    }

    fn has_sure_registry(&self) -> bool {
        let machine = self.machine.get();
        let registry = machine.registries.get(CONFIG_DIR);
        registry.is_some_and(|one| one.is_there)
            && self.registry_stale_until + SOON < self.time
            && self.rates.registry_odd <= 0.0
    }

    /// A turn that ends otherwise than at the limit ends the wait, whatever prompts are queued behind it.
    pub(crate) fn end_wait(&mut self, place: usize, payload: &Value) {
        let text = |name: &str| payload.get(name).and_then(Value::as_str).unwrap_or_default();
        let is_over = match text("hook_event_name") {
            "Stop" | "SessionStart" => true,
            "StopFailure" => text("error") != "rate_limit",
            _ => false,
        };
        let Some(process) = self.running(place).map(|one| one.process).filter(|_| is_over) else {
            return;
        };
        let boot = self.boot();
        if let Some(life) = self.lives.get_mut(&(boot, process)) {
            let probes = std::mem::take(&mut life.probes);
            self.meter.went_on += u64::from(0 < probes);
        }
    }

    fn count_probe(&mut self, key: &(String, ProcessRef), id: &str) -> Result<(), Violation> {
        let limits = QuotaLimits::default();
        let time = self.time;
        self.meter.probes += 1;
        let Some(life) = self.lives.get_mut(key) else { return Ok(()) };
        life.probes += 1;
        let (probes, before) = (life.probes, life.probed_at.replace(time));
        if before.is_some_and(|before| time < before + limits.probe_after_ms * MS) {
            return violation("S1-22", format!("{id}: woken for its quota twice, too close"));
        }
        if limits.probes < probes {
            return violation("S1-22", format!("{id}: woken {probes} times in one wait"));
        }
        Ok(())
    }

    /// Whoever waits goes on when there is quota again, and is never called stalled.
    pub(crate) fn judge_waits(&mut self) -> Result<(), Violation> {
        let window = self.habits.window.as_ref();
        let is_limited = window.is_some_and(|window| window.contains(&(self.time / MS)));
        let (mut due, mut is_awaited) = (BTreeMap::new(), false);
        for one in self.places.iter().filter_map(|place| place.client.as_ref()) {
            if one.truth != Truth::Quota {
                continue;
            }
            if let Some(because) = self.is_called_stalled(one) {
                let id = &one.session_id;
                return violation("S1-18", format!("{id}: waits, shown stalled ({because})"));
            }
            if self.is_to_go_on(one) {
                is_awaited = true;
                if is_limited {
                    continue;
                }
                let since = self.quota.due.get(&one.process).copied().unwrap_or(self.time);
                if since + longest() + MARGIN < self.time {
                    let id = &one.session_id;
                    let what = format!("{id}: there is quota again, and it was not woken");
                    return violation("S1-22", what);
                }
                due.insert(one.process, since);
            }
        }
        self.quota = Waits { due, is_awaited };
        Ok(())
    }

    fn is_called_stalled(&self, one: &Running) -> Option<String> {
        let life = self.lives.get(&(self.boot(), one.process))?;
        let is_sure = life.is_limit_told && life.since + SOON < self.time;
        let process = one.process;
        let session = self.serving.as_ref()?.coordinator().state().session_of(process)?;
        (is_sure && session.shown.state == SessionState::Stalled)
            .then(|| session.shown.because.clone())
    }

    /// Whether nothing but the limit itself hinders a client that waits from going on by a wake.
    fn is_to_go_on(&self, one: &Running) -> bool {
        let Some(serving) = self.serving.as_ref().filter(|_| self.stalled_until <= self.time)
        else {
            return false;
        };
        let is_served = self.habits.mode != "observe" && !self.habits.is_dir_locked;
        if !is_served || self.time < FAULTS_END + SETTLED || one.is_foreign {
            return false;
        }
        let Some(life) = self.lives.get(&(self.boot(), one.process)) else { return false };
        // What was told late, or twice, while faults happened may have been taken for something older.
        let is_told = life.is_limit_told && (FAULTS_END < life.since || self.rates.are_hooks_sure);
        let process = one.process;
        let Some(session) = serving.coordinator().state().session_of(process) else { return false };
        let holds = self.said.holds(session.key, &life.cwd, self.habits.mode == "act", self.time);
        // A client of which no hook was proved is listed, and not acted on (H-14).
        let has_reported = session.owner.as_ref().is_some_and(|owner| owner.has_reported);
        let is_free = session.recovery.needs_operator.is_none()
            && session.recovery.pending.is_none()
            && session.contested.is_none()
            && !session.two_owners;
        let is_its = session.session_id == one.session_id;
        // A dialog whose end was lost stays open for whoever hears hooks alone: nobody is woken there.
        let is_wait_true =
            session.waits.is_empty() || self.rates.has_registry || self.rates.are_hooks_sure;
        // A prompt that was typed into a client that hung is never answered here, and the turn that it was
        // counted for seems interrupted.
        let is_ended = matches!(*session.turn, Turn::Closed { .. });
        is_told
            && has_reported
            && is_ended
            && is_free
            && is_its
            && is_wait_true
            && holds.unattended
            && !holds.is_held
            && !self.said.may_be_held(session.key)
            && serving.has_waiter(one.process)
    }
}
