//! Decides when a recovery becomes pending, and what happens to a second detection (S0-07 to S0-14, S0-28a, H-07).

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use coord_model::{Awake, Kind, Moment, ProcessRef, SessionKey};

use super::guards::{Stop, busy};
use crate::effects::Effects;
use crate::records::{
    Cause, Ending, NEVER, Owner, OwnerProof, Pending, Presence, Session, Stage, State, Turn,
};

/// Lifetime of an order by hand for a living session, in milliseconds: such an order is for the moment (H-53).
const ORDER_MS: u64 = 10_000;

/// What a person allows when asking for a session (H-53).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wish {
    /// Whether its living harness may be ended.
    pub(crate) restart: bool,
    /// Whether the order waits until the harness is idle.
    pub(crate) when_idle: bool,
}

impl Pending {
    /// A recovery that is tried at once.
    pub(super) fn new(cause: Cause, harness: ProcessRef, at: Moment) -> Self {
        Self {
            cause,
            harness,
            session_id: String::new(),
            detected_at: at,
            died_at: None,
            by_hand: matches!(cause, Cause::Operator | Cause::Interrupted),
            when_idle: false,
            was_working: false,
            ended_by_us: false,
            attempts: 0,
            begun: None,
            changes: 0,
            obstacle: None,
            waits_for: String::new(),
            waits_since: at,
            is_notified: false,
            is_graced: false,
            graced_at: None,
            prompt_ms: None,
            still: None,
            prompt: None,
            typed: None,
            claimed: None,
            is_start_heard: false,
            stage: Stage::Waiting { until: at.awake },
        }
    }
}

impl State {
    /// Opens the cases that the facts of a record require.
    pub(super) fn open_cases(&mut self, session: &mut Session, at: Moment, fx: &mut Effects) {
        self.open_for_death(session, at, fx);
        self.open_for_signature(session, at, fx);
    }

    /// S0-28a: opens one case for a crash, whatever else is known of the session.
    fn open_for_death(&mut self, session: &mut Session, at: Moment, fx: &mut Effects) {
        let died = match *session.presence {
            Presence::Crashed { at } => at,
            Presence::Alive
            | Presence::Dying { .. }
            | Presence::Ended { .. }
            | Presence::Interrupted { .. }
            | Presence::Gone { .. } => return,
        };
        let Some(process) = session.owner.as_ref().map(|owner| owner.id.process) else { return };
        // The supervisor of a headless run decides what becomes of it.
        if session.recovery.judged == Some(process) || session.kind == Some(Kind::Headless) {
            return;
        }
        session.recovery.judge_death(process, died, at);
        if session.recovery.pending.is_some() {
            return;
        }
        let settings = self.header.settings.clone();
        // A harness that is only claimed must not count for the breaker, which stops others (H-44).
        let is_client = |owner: &Owner| owner.has_reported || owner.proof != OwnerProof::Claimed;
        if session.owner.as_ref().is_some_and(is_client) {
            self.header.machine.on_death(session.key, &settings, at);
        }
        let mut pending = Pending::new(Cause::Death, process, at);
        pending.died_at = Some(died);
        pending.was_working = matches!(*session.turn, Turn::Open { .. });
        session.recovery.open(pending);
        fx.decide(session, "S0-28a", "the client crashed", "a recovery is pending");
    }

    /// S0-07, S0-08: a signature in a living harness is evidence for a case, if H-07 allows that.
    fn open_for_signature(&mut self, session: &mut Session, at: Moment, fx: &mut Effects) {
        let is_new = session
            .signature
            .as_ref()
            .is_some_and(|signature| !signature.is_weighed && signature.is_content != Some(true));
        if !is_new || !session.may_live() {
            return;
        }
        let Some(process) = session.owner.as_ref().map(|owner| owner.id.process) else { return };
        let is_wanted = self.is_unattended(session) || self.is_opted_in(session);
        let in_cooldown =
            session.recovery.cooldown.as_ref().is_some_and(|hold| hold.lasts(at.awake));
        session.signature.weigh();
        let saw = "a crash signature is on the screen of a live client";
        if session.recovery.pending.is_some() {
            fx.decide(session, "S0-09", saw, "ignored: a recovery is already pending");
        } else if in_cooldown {
            session.recovery.drop_detection();
            fx.decide(session, "S0-14", saw, "ignored: the last attempt was a moment ago");
        } else if !is_wanted || self.is_ours(session, None).is_err() {
            fx.decide(session, "H-07", saw, "kept as evidence: not recovered automatically");
        } else {
            let mut pending = Pending::new(Cause::Signature, process, at);
            pending.stage = Stage::Waiting { until: NEVER };
            session.recovery.open(pending);
            fx.decide(session, "S0-08", saw, "a recovery is pending until the session is idle");
        }
    }

    /// Opens a recovery because a person asked. Returns what will be done, or why that is refused.
    pub(crate) fn ask_for(
        &mut self,
        key: SessionKey,
        cause: Cause,
        wish: Wish,
        at: Moment,
        fx: &mut Effects,
    ) {
        let Some(mut session) = self.take(key) else { return };
        let process = session.owner.as_ref().map(|owner| owner.id.process);
        match (self.may_be_asked_for(&session, cause, wish), process) {
            (Err(stop), _) => fx.decide(&session, stop.rule, "a person asked for it", &stop.why),
            (Ok(()), None) => (),
            (Ok(()), Some(process)) => {
                let died = (!session.may_live()).then_some(at);
                let mut pending = Pending::new(cause, process, at);
                pending.died_at = died;
                pending.when_idle = wish.when_idle;
                session.recovery.open_on_request(pending);
                fx.decide(&session, "G6", "a person asked for it", "a recovery is pending");
            }
        }
        self.put(session);
    }

    /// Whether a person's order can be accepted.
    pub(crate) fn may_be_asked_for(
        &self,
        session: &Session,
        cause: Cause,
        wish: Wish,
    ) -> Result<(), Stop> {
        if cause == Cause::Interrupted && session.may_live() {
            // The user may have resumed the session before the list was read.
            return Err(Stop::close("H-42", "the client is alive: nothing to restore"));
        }
        let under_way = session.recovery.pending.as_ref().is_some_and(Pending::is_under_way);
        if under_way {
            return Err(Stop::close("S0-09", "a recovery is in progress"));
        }
        self.is_ours(session, None)?;
        if session.may_live() { may_be_restarted(session, wish) } else { Ok(()) }
    }
}

/// H-53: a living session that works is left alone; an idle one needs an explicit permission.
fn may_be_restarted(session: &Session, wish: Wish) -> Result<(), Stop> {
    let why = match (busy(session.shown.state), wish) {
        (_, Wish { restart: true, when_idle: true })
        | (None, Wish { restart: true, when_idle: false }) => return Ok(()),
        (Some((_, why)), Wish { restart: true, when_idle: false }) => {
            format!("it is alive and busy: {why}; with --when-idle the order waits for that")
        }
        (Some((_, why)), Wish { restart: false, .. }) => format!("it is alive and busy: {why}"),
        (None, Wish { restart: false, .. }) => {
            "it is alive and idle; --restart ends its client and resumes the session, and text that was \
             typed but not sent is lost"
                .to_owned()
        }
    };
    Err(Stop::close("H-53", why))
}

/// When an order by hand for this living session expires.
pub(super) fn expires_at(session: &Session) -> Option<Awake> {
    let pending = session.recovery.pending.as_ref()?;
    let is_for_now = pending.by_hand && !pending.when_idle && session.may_live();
    let is_open = is_for_now && !pending.is_under_way();
    is_open.then(|| pending.detected_at.awake.plus_ms(ORDER_MS))
}

/// What is recorded of an order that expired.
pub(super) fn expired(pending: &Pending) -> Ending {
    let seconds = ORDER_MS / 1_000;
    let is_looked_at = pending.obstacle.is_some();
    let why = if is_looked_at { &pending.waits_for } else { "the session could not be checked" };
    Ending::Closed { why: format!("the order expired after {seconds} s: {why}") }
}

impl Session {
    /// Ends a recovery. Its bookkeeping stays (S0-31).
    pub(super) fn close_recovery(
        &mut self,
        rule: &'static str,
        ending: Ending,
        at: Moment,
        fx: &mut Effects,
    ) {
        let Some(pending) = &self.recovery.pending else { return };
        let cause = pending.cause.words();
        let (saw, did) = match &ending {
            Ending::Verified => (cause.to_owned(), "recovered and verified"),
            Ending::Observed => (cause.to_owned(), "nothing was done: coord only observes"),
            Ending::Closed { why } => (format!("{cause}; {why}"), "not recovered"),
            Ending::Failed { why } => (format!("{cause}; {why}"), "given up"),
        };
        fx.decide(self, rule, &saw, did);
        self.recovery.close(ending, at);
    }
}
