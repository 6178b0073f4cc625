//! Decides what the whole machine allows: one gate for all recoveries, and the breaker (H-11).

use alloc::format;
use alloc::string::String;

use coord_model::{Awake, Moment, SessionKey, Settings};

use super::guards::Stop;
use crate::records::{Flag, Machine, Obstacle};

impl Machine {
    /// Whether one more recovery may begin.
    pub(super) fn admits(
        &self,
        key: SessionKey,
        settings: &Settings,
        by_hand: bool,
        at: Moment,
    ) -> Result<(), Stop> {
        if let Some(breaker) = self.breaker.as_ref().filter(|_| !by_hand) {
            return Err(Stop::until_event(Obstacle::Breaker, &breaker.reason));
        }
        if self.under_way.contains(&key) {
            return Ok(());
        }
        if size(settings.recoveries_at_once) <= self.under_way.len() {
            let why = "other recoveries are in progress";
            return Err(Stop::wait(Obstacle::OthersUnderWay, why, at.awake.plus_ms(1_000)));
        }
        let oldest = self
            .starts
            .first()
            .filter(|_| size(settings.recoveries_per_window) <= self.starts.len());
        match oldest.map(|oldest| oldest.plus_ms(settings.recovery_window_ms)) {
            Some(until) if at.awake < until => {
                let why = "too many recoveries in a short time";
                Err(Stop::wait(Obstacle::TooMany, why, until))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Begins a step of a recovery. The previous step of the same attempt began at `before`. An attempt counts
    /// once, by its latest step, because it may wait for a long time between two steps.
    pub(super) fn begin(
        &mut self,
        key: SessionKey,
        before: Option<Awake>,
        settings: &Settings,
        at: Moment,
    ) {
        if !self.under_way.contains(&key) {
            self.under_way.push(key);
        }
        if let Some(counted) = self.starts.iter().position(|start| Some(*start) == before) {
            self.starts.remove(counted);
        }
        self.starts.push(at.awake);
        let surplus = self.starts.len().saturating_sub(size(settings.recoveries_per_window));
        self.starts.drain(..surplus);
    }

    /// Notes that a recovery is over.
    pub(super) fn end(&mut self, key: SessionKey) {
        self.under_way.retain(|other| *other != key);
    }

    /// Notes that a harness crashed. Many crashes at once are one host event.
    pub(super) fn on_death(&mut self, key: SessionKey, settings: &Settings, at: Moment) {
        let within_ms = settings.breaker_within_ms;
        self.deaths.retain(|(_, death)| at.awake.ms_since(death.awake) <= within_ms);
        self.deaths.push((key, at));
        let n = self.deaths.len();
        if size(settings.breaker_deaths) <= n && self.breaker.is_none() {
            self.is_for_deaths = true;
            self.trip(format!("{n} clients crashed within {} s", within_ms / 1_000), at);
        }
    }

    /// Removes a crash that was a host event's doing, and is reported as such (H-10).
    pub(super) fn take_back_death(&mut self, key: SessionKey, settings: &Settings) {
        self.deaths.retain(|(of, _)| *of != key);
        if self.is_for_deaths && self.deaths.len() < size(settings.breaker_deaths) {
            self.breaker = None;
            self.is_for_deaths = false;
        }
    }

    /// Notes that an attempt failed.
    pub(super) fn on_failure(&mut self, why: &str, settings: &Settings, at: Moment) {
        let before = match &self.failures {
            Some((same, n)) if same == why => *n,
            Some(_) | None => 0,
        };
        let n = before.saturating_add(1);
        self.failures = Some((why.into(), n));
        if settings.breaker_failures <= n {
            self.trip(format!("{n} recoveries in a row failed: {why}"), at);
        }
    }

    /// Notes that a recovery was verified.
    pub(super) fn on_success(&mut self) {
        self.failures = None;
    }

    fn trip(&mut self, reason: String, at: Moment) {
        self.breaker.get_or_insert(Flag { reason, since: at, is_limit: false });
    }
}

fn size(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
