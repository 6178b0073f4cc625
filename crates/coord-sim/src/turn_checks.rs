//! What must hold of recoveries after each of the coordinator's turns.
//!
//! * H-13: two living owners of a conversation, one of them started by us, are told of soon.
//! * H-11: two recoveries at most are under way.
//! * H-33: what is said to be verified lives.

use std::collections::BTreeMap;

use coord_core::{Ending, Pending, Session};

use crate::act_checks::violation;
use crate::checks::Violation;
use crate::serving::{CONFIG_DIR, Serving};
use crate::simulation::{SECOND, Simulation, Time};

/// Two owners are shown as such by then (H-13).
const SHOWN_WITHIN: Time = 12 * SECOND;
/// In place of the time since when there are two: their person was told of them.
const TOLD: Time = Time::MAX / 2;

impl Simulation {
    /// Two living owners are shown as such, and not for long (H-13).
    pub(crate) fn check_owners(&mut self) -> Result<(), Violation> {
        let mut of: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
        for one in self.places.iter().filter_map(|one| one.client.as_ref()) {
            let life = self.lives.get(&(self.boot(), one.process));
            let (n, is_ours) = of.entry(one.session_id.as_str()).or_default();
            *n += 1;
            *is_ours |= life.is_some_and(|life| life.is_ours);
        }
        let ours = of.iter().filter(|(_, (_, is_ours))| *is_ours);
        let ours: BTreeMap<String, usize> =
            ours.map(|(id, (n, _))| ((*id).to_owned(), *n)).collect();
        let is_double = |id: &String| ours.get(id).is_some_and(|n| 2 <= *n);
        let ids: Vec<String> = ours.keys().filter(|id| is_double(id)).cloned().collect();
        let is_seen = self.serving.is_some()
            && self.stalled_until <= self.time
            && self.checks.started_at + 40 * SECOND < self.time;
        // Who was told of a client of ours knows of it for as long as it lives, whatever else comes and goes, the
        // coordinator included.
        self.acts.doubled.retain(|id, since| {
            if *since == TOLD { ours.contains_key(id) } else { is_seen && ids.contains(id) }
        });
        for id in ids.into_iter().filter(|_| is_seen) {
            let holders = self.machine.get().holders(&id, CONFIG_DIR);
            let since = *self.acts.doubled.entry(id.clone()).or_insert(self.time);
            let said_of = |is_said: fn(&Session) -> bool| {
                self.serving.as_ref().is_some_and(|serving| {
                    serving.coordinator().state().sessions_with_id(&id).any(is_said)
                })
            };
            let is_shown = said_of(|one| one.two_owners);
            if since == TOLD || said_of(|one| one.recovery.needs_operator.is_some()) {
                // Its person was told, and has worked on in one of them since.
                self.acts.doubled.insert(id, TOLD);
            } else if is_shown || holders.len() < 2 || !self.rates.has_registry {
                self.acts.doubled.insert(id, self.time);
            } else if since + SHOWN_WITHIN < self.time && !self.has_faults() {
                return violation("H-13", format!("{id}: two owners, and nobody is told"));
            }
        }
        Ok(())
    }

    /// What became of recoveries in a turn, for the meter; H-11's two at once; and whether one that is
    /// said to be verified lives.
    pub(crate) fn watch_ends(&mut self, serving: &Serving) -> Result<(), Violation> {
        let state = serving.coordinator().state();
        let under_way = state
            .sessions()
            .filter(|one| one.recovery.pending.as_ref().is_some_and(Pending::is_under_way));
        let n = under_way.count();
        if 2 < n {
            return violation("H-11", format!("{n} recoveries under way at once"));
        }
        for session in state.sessions() {
            let (key, recovery) = (session.key, &session.recovery);
            if recovery.pending.is_none() {
                self.said.is_over(key);
            }
            let waits = recovery.pending.as_ref().map_or("", |one| one.waits_for.as_str());
            if self.acts.waited.get(&key).is_none_or(|before| before != waits) {
                self.acts.waited.insert(key, waits.to_owned());
                self.meter.changed += u64::from(waits.starts_with("not done: "));
            }
            let Some(last) = &recovery.last else { continue };
            let word = last.outcome.word();
            if !self.acts.ended.insert((key, last.at.wall_ms, word)) {
                continue;
            }
            *self.meter.ended.entry(word).or_default() += 1;
            let process = session.owner.as_ref().map(|owner| owner.id.process);
            if last.outcome == Ending::Verified
                && let Some(process) = process
            {
                let life = self.lives.get(&(self.boot(), process));
                let is_it = life.is_some_and(|life| {
                    let has_stood = life.started + 5 * SECOND < self.time;
                    let lives = life.truth.is_alive() || self.time < life.since + SECOND;
                    life.is_ours && has_stood && lives
                });
                if !is_it {
                    let id = &session.session_id;
                    return violation("H-33", format!("{id}: verified, and is not: {life:?}"));
                }
            }
        }
        Ok(())
    }
}
