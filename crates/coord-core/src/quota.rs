//! Decides how long a session waits for its quota, and how it is found out that the wait is over (R-11, S1-13,
//! S1-18, S1-20 to S1-22, H-21).
//!
//! No hook says when a limit ends. Where nobody watches, a wake asks now and then whether work goes on: after
//! a while, then after twice as long, each session at a moment of its own, so that those of one account
//! do not ask together. Only the end of a turn proves that it went on. After a few that failed a person
//! is asked. Where somebody watches nothing is sent.

use alloc::format;
use alloc::string::String;
use serde::{Deserialize, Serialize};

use crate::effect::{Deed, Effects};
use crate::event::{HookEvent, HookKind, Kind};
use crate::proof::Intent;
use crate::recovery::Flag;
use crate::session::Session;
use crate::state::State;
use crate::status::Word;
use crate::time::{Awake, Moment};
use crate::wake::WakeDecision;

/// The client's word for a usage limit (measured).
const LIMITED: &str = "rate_limit";
/// What holds a probe back is looked at again after this.
const AGAIN_MS: u64 = 60_000;
/// Probes are spread over the first part of their delay: one in so many.
const SPREAD_PART: u64 = 5;

/// How a wait for quota is ended, milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuotaLimits {
    /// The first probe goes after this, the next ones after twice as long each.
    pub probe_after_ms: u64,
    /// But no later than this.
    pub probe_delay_max_ms: u64,
    /// After so many that failed a person is asked.
    pub probes: u32,
}

impl Default for QuotaLimits {
    fn default() -> Self {
        Self { probe_after_ms: 900_000, probe_delay_max_ms: 2 * 3_600_000, probes: 5 }
    }
}

/// A wait for quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaWait {
    /// Since when.
    pub since: Moment,
    /// Nobody is woken before.
    pub until: Awake,
    /// Probes that were sent.
    pub probes: u32,
}

impl State {
    /// A hook of the main thread opens or ends the wait. What only begins proves nothing (S1-21).
    pub(crate) fn note_quota(
        &self,
        session: &mut Session,
        event: &HookEvent,
        at: Moment,
        fx: &mut Effects,
    ) {
        if event.agent.is_some() {
            return;
        }
        match &event.kind {
            HookKind::StopFailure(error) if error == LIMITED => {
                let probes = session.quota.map_or(0, |quota| quota.probes);
                let since = session.quota.map_or(at, |quota| quota.since);
                let until = self.probe_at(session, probes, at);
                session.quota = Some(QuotaWait { since, until, probes });
            }
            HookKind::Stop(_) | HookKind::StopFailure(_) | HookKind::SessionStart(_) => {
                let Some(quota) = session.quota.take() else { return };
                let minutes = at.awake.ms_since(quota.since.awake) / 60_000;
                let saw = format!("it waited {minutes} min for its quota, {} probes", quota.probes);
                fx.decide(session, "S1-21", &saw, "the wait is over");
            }
            HookKind::SessionEnd(_)
            | HookKind::UserPromptSubmit
            | HookKind::Tool(_)
            | HookKind::PermissionRequest
            | HookKind::PermissionDenied
            | HookKind::Notification(_)
            | HookKind::SubagentStop
            | HookKind::Other(_) => (),
        }
    }

    /// When the next probe goes, after so many.
    fn probe_at(&self, session: &Session, probes: u32, at: Moment) -> Awake {
        let limits = &self.header.settings.quota;
        let doubled = limits.probe_after_ms.saturating_mul(1_u64.wrapping_shl(probes.min(16)));
        let delay_ms = doubled.min(limits.probe_delay_max_ms);
        // Neighbouring records fall far apart.
        let spread_ms = delay_ms / SPREAD_PART;
        let own = session.key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let own_ms = own.checked_rem(spread_ms).unwrap_or(0);
        at.awake.plus_ms(delay_ms.saturating_add(own_ms))
    }

    /// When time alone wakes a session that waits for its quota; none where nothing will.
    pub fn quota_at(&self, session: &Session) -> Option<Awake> {
        let quota = session.quota.as_ref().filter(|_| session.word.word == Word::QuotaWait)?;
        let settled = self.header.settling.as_ref().map_or(quota.until, |hold| hold.until);
        self.is_probed(session).then(|| quota.until.max(settled))
    }

    /// Whether it is ours to wake (H-14, H-15, H-25), nobody watches it, and nothing else is the matter with it.
    fn is_probed(&self, session: &Session) -> bool {
        let is_ours = self.is_local(session)
            && session.kind == Some(Kind::Interactive)
            && session.owner.as_ref().is_some_and(|owner| owner.has_reported)
            && self.header.config_dirs.get(&session.config_dir) == Some(&true);
        let is_plain = session.contested.is_none()
            && session.recovery.pending.is_none()
            && session.recovery.needs_operator.is_none();
        is_ours && is_plain && self.is_unattended(session)
    }

    /// Asks whether work goes on, if it is time.
    pub(crate) fn probe_quota(&mut self, session: &mut Session, at: Moment, fx: &mut Effects) {
        if self.quota_at(session).is_none_or(|due| at.awake < due) {
            return;
        }
        let Some(mut quota) = session.quota else { return };
        let limits = self.header.settings.quota.clone();
        let saw = format!("it waits for its quota, after {} probes", quota.probes);
        let later = at.awake.plus_ms(AGAIN_MS);
        if limits.probes <= quota.probes {
            let reason = String::from("its quota does not come back");
            session.recovery.needs_operator = Some(Flag { reason, since: at });
            fx.decide(session, "S1-22", &saw, "needs its operator; no more probes");
        } else if let Some(hold) = self.operators_hold(session, at.awake) {
            quota.until = hold.until.max(later).min(at.awake.plus_ms(limits.probe_delay_max_ms));
            fx.decide(session, "H-06", &saw, "no probe: held by its operator");
        } else if let WakeDecision::Held { until } =
            session.wakes.charge(self.header.settings.wakes, at.awake)
        {
            quota.until = until.max(later);
            fx.decide(session, "H-21", &saw, "no probe: its budget of wakes is spent");
        } else {
            quota.probes = quota.probes.saturating_add(1);
            quota.until = self.probe_at(session, quota.probes, at);
            fx.decide(session, "S1-22", &saw, "woken, to see whether work goes on");
            let number = self.header.machine.next_number();
            let intent = Intent { session: session.key, number };
            fx.do_it(Deed::Wake { intent, text: words() });
        }
        session.quota = Some(quota);
    }
}

/// What a session is told that waited for its quota. The fixed beginning keeps the client from taking it for
/// a command (H-03).
fn words() -> String {
    "[coord] This message comes from coord, the program that watches this session. It does not come \
     from the user and approves nothing. The last turn of this session ended at a usage limit, which \
     may be over by now. You may go on with what you were doing."
        .into()
}
