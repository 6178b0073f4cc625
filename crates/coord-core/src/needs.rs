//! Decides which reasons a session has to need a person, and when each of them begins and ends (U-01).
//!
//! A need follows from the same facts as the shown state, and is derived in the same step. An open prompt is one
//! need for each request that a hook reported, or one if only another source shows a prompt. While the state of a
//! living client is not known, its needs neither begin nor end.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use coord_model::{
    Awake, Event, HookKind, Kind, Moment, NeedChange, NeedId, NeedKind, NeedStep, RequestId,
    SessionKey, SessionState, ToolPhase,
};

use crate::effects::Effects;
use crate::fusion::{self, Doing};
use crate::records::{NEVER, Need, Obstacle, Pending, Session, Stage, State, Wait, WaitKind};

/// A usage limit that a session has almost reached.
#[derive(Debug, Clone, Copy)]
struct NearLimit {
    /// `5-hour` or `7-day`.
    name: &'static str,
    /// How much of it is used.
    percent: u64,
    /// Since when that is known.
    since: Moment,
    /// When it resets.
    until: Awake,
}

/// A reason that the facts show now.
struct Reason {
    kind: NeedKind,
    request: Option<RequestId>,
    since: Moment,
    words: String,
}

impl State {
    /// Begins and ends the needs of a session, whose shown state is up to date. `event` is what changed it.
    pub(crate) fn update_needs(
        &mut self,
        key: SessionKey,
        event: &Event,
        at: Moment,
        fx: &mut Effects,
    ) {
        let Some(session) = self.get(key) else { return };
        let is_unclear = session.may_live() && session.shown.state == SessionState::Unknown;
        let mut reasons = self.reasons(session, at);
        if is_unclear {
            reasons.retain(|reason| !is_of_state(reason.kind));
        }
        let is_same = reasons.len() == session.needs.len()
            && reasons
                .iter()
                .zip(&session.needs)
                .all(|(reason, need)| is_it(need, reason) && need.reason == reason.words);
        if is_same {
            return;
        }
        let Some(mut session) = self.take(key) else { return };
        let mut left: Vec<Need> = Vec::new();
        for mut need in session.needs.iter().cloned() {
            let place = reasons.iter().position(|reason| is_it(&need, reason));
            let place =
                place.or_else(|| reasons.iter().position(|reason| is_same_prompt(&need, reason)));
            if let Some(place) = place {
                let reason = reasons.remove(place);
                (need.kind, need.request, need.reason) =
                    (reason.kind, reason.request, reason.words);
                left.push(need);
            } else if is_unclear && is_of_state(need.kind) {
                left.push(need);
            } else {
                let how = ended_by(&session, &need, event);
                note(&session, &need, NeedStep::Ended, how, fx);
                self.end_notices(need.id, how);
            }
        }
        let mut begun = Vec::new();
        for Reason { kind, request, since, words } in reasons {
            let id = session.next_need();
            let need = Need {
                id,
                kind,
                request,
                since: Moment { awake: since.awake.min(at.awake), ..since },
                reason: words,
                is_dismissed: false,
            };
            note(&session, &need, NeedStep::Begun, &need.reason, fx);
            begun.push(need.clone());
            left.push(need);
        }
        session.needs.update(left);
        self.put(session);
        for need in &begun {
            self.begin_notices(need);
        }
    }

    /// Hides a need until it ends, on a person's order.
    pub(crate) fn dismiss(&mut self, key: SessionKey, id: NeedId, fx: &mut Effects) {
        let Some(mut session) = self.take(key) else { return };
        if let Some(need) = session.needs.dismiss(id).cloned() {
            note(&session, &need, NeedStep::Dismissed, "a person dismissed it", fx);
            self.end_notices(id, "a person dismissed it");
        }
        self.put(session);
    }

    /// Drops the record of a session, whose needs end with it.
    pub(crate) fn drop_record(&mut self, key: SessionKey, how: &str, fx: &mut Effects) {
        let Some(session) = self.get(key) else { return };
        for need in &session.needs {
            note(session, need, NeedStep::Ended, how, fx);
        }
        let ids: Vec<NeedId> = session.needs.iter().map(|need| need.id).collect();
        for id in ids {
            self.end_notices(id, how);
        }
        self.remove(key);
    }
}

fn note(session: &Session, need: &Need, step: NeedStep, saw: &str, fx: &mut Effects) {
    let change = NeedChange { id: need.id, kind: need.kind, step };
    fx.decide_need(session, change, saw);
}

/// Whether the need is for this reason.
fn is_it(need: &Need, reason: &Reason) -> bool {
    need.kind == reason.kind && need.request == reason.request
}

/// Whether both are one prompt: a hook reports it only now that another source showed it, or the other way round.
fn is_same_prompt(need: &Need, reason: &Reason) -> bool {
    let is_prompt = need.kind.is_prompt() && reason.kind.is_prompt();
    is_prompt && (need.request.is_none() || reason.request.is_none())
}

/// Whether the reason ends with the state of the living client that shows it.
fn is_of_state(kind: NeedKind) -> bool {
    !matches!(kind, NeedKind::NeedsOperator | NeedKind::TwoOwners)
}

impl State {
    /// The reasons that the facts show now.
    fn reasons(&self, session: &Session, at: Moment) -> Vec<Reason> {
        let mut found = Vec::new();
        let since = session.shown.since;
        let mut add = |kind, since, words: &str| {
            found.push(Reason { kind, request: None, since, words: words.into() });
        };
        if session.two_owners {
            add(NeedKind::TwoOwners, since, "runs in two clients");
        }
        if let Some(flag) = &session.recovery.needs_operator {
            add(NeedKind::NeedsOperator, flag.since, &format!("needs you: {}", flag.reason));
        }
        let near = self.near_limit(session).filter(|near| at.awake < near.until);
        if let Some(NearLimit { name, percent, since, .. }) = near {
            add(NeedKind::UsageLimit, since, &format!("used {percent}% of its {name} limit"));
        }
        let has_given_up = session.recovery.needs_operator.is_some();
        match session.shown.state {
            SessionState::AwaitingPermission => {
                found.extend(prompts(session, Doing::AwaitingPermission, since));
            }
            SessionState::AwaitingInput => {
                found.extend(prompts(session, Doing::AwaitingInput, since));
            }
            // Nothing acts on it, and its prompts wait for a person like any other.
            SessionState::Foreign => {
                found.extend(prompts(session, fusion::weigh(session, at.awake).doing, at));
            }
            SessionState::BlockedAuth => add(NeedKind::Login, since, "must log in: /login"),
            SessionState::BlockedBilling => {
                add(NeedKind::Billing, since, "stopped: account needs payment");
            }
            SessionState::QuotaWait if self.is_without_end(session) && !has_given_up => {
                add(
                    NeedKind::UsageLimit,
                    since,
                    "reached its usage limit; the reset time is unknown",
                );
            }
            SessionState::Stalled => add(NeedKind::Stalled, since, "shows no change"),
            SessionState::Crashed if stays_away(session) && !has_given_up => {
                add(NeedKind::Crashed, since, "crashed");
            }
            SessionState::RecoveryPending if !has_given_up => {
                if let Some(pending) =
                    session.recovery.pending.as_ref().filter(|one| waits_for_a_person(one))
                {
                    add(NeedKind::Crashed, since, &format!("crashed: {}", pending.waits_for));
                }
            }
            SessionState::Interrupted if stays_away(session) && !has_given_up => {
                add(
                    NeedKind::Interrupted,
                    since,
                    &format!("was interrupted: {}", session.shown.because),
                );
            }
            SessionState::Starting
            | SessionState::Running
            | SessionState::Idle
            | SessionState::Background
            | SessionState::QuotaWait
            | SessionState::Suspended
            | SessionState::Interrupted
            | SessionState::Crashed
            | SessionState::Elsewhere
            | SessionState::RecoveryPending
            | SessionState::Recovering
            | SessionState::Stopped
            | SessionState::Unknown => (),
        }
        found
    }

    /// The limit that a session has almost reached, as its own status line said, if people want to be told; and when it
    /// resets.
    fn near_limit(&self, session: &Session) -> Option<NearLimit> {
        let at_least = self.header.settings.quota.need_at_percent?;
        // One that has reached it waits; what is unknown begins nothing.
        let is_open =
            !matches!(session.shown.state, SessionState::QuotaWait | SessionState::Unknown);
        let said = session.usage.as_ref().filter(|_| session.may_live() && is_open)?;
        let limits = [("5-hour", said.numbers.five_hour()), ("7-day", said.numbers.seven_day())];
        let near = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
        let near = near.filter(|(_, limit)| u64::from(at_least) <= limit.percent.whole());
        // The limit that lasts longest.
        let (name, limit) = near.max_by_key(|(_, limit)| limit.resets_ms)?;
        let left_ms = limit.resets_ms.saturating_sub(said.said.wall_ms);
        let until = said.said.awake.plus_ms(left_ms);
        Some(NearLimit { name, percent: limit.percent.whole(), since: said.said, until })
    }

    /// When it is over that a session has almost reached a limit.
    pub(crate) fn near_limit_until(&self, session: &Session) -> Option<Awake> {
        let is_shown = session.needs.iter().any(|need| need.kind == NeedKind::UsageLimit);
        self.near_limit(session).filter(|_| is_shown).map(|near| near.until)
    }

    /// Whether nothing tells when its usage limit ends, and coord does not probe it.
    fn is_without_end(&self, session: &Session) -> bool {
        let is_known = session.quota.is_some_and(|quota| quota.resets_ms.is_some());
        !is_known && self.quota_at(session).is_none()
    }
}

/// The open prompts of a session that does that: each request that a hook reported, or one that only another source
/// shows, since then.
fn prompts(session: &Session, doing: Doing, since: Moment) -> Vec<Reason> {
    let (kind, words) = match doing {
        Doing::AwaitingPermission => (NeedKind::Permission, "has a permission dialog open"),
        Doing::AwaitingInput => (NeedKind::Dialog, "has a dialog open"),
        Doing::Turn | Doing::Background | Doing::Rest | Doing::Unclear | Doing::Unreported => {
            return Vec::new();
        }
    };
    let reported: Vec<Reason> = session.waits.iter().map(of_wait).collect();
    if !reported.is_empty() {
        return reported;
    }
    Vec::from([Reason { kind, request: None, since, words: words.into() }])
}

fn of_wait(wait: &Wait) -> Reason {
    let (kind, words) = match (wait.kind, wait.tool.as_str()) {
        (WaitKind::Permission, "") => {
            (NeedKind::Permission, "has a permission dialog open".to_string())
        }
        (WaitKind::Permission, tool) => (NeedKind::Permission, format!("asks to run {tool}")),
        (WaitKind::Input, "AskUserQuestion") => (NeedKind::Question, "asks a question".into()),
        (WaitKind::Input, "ExitPlanMode") => (NeedKind::Plan, "has a plan to approve".into()),
        (WaitKind::Input, _) => (NeedKind::Dialog, "has a dialog open".into()),
    };
    Reason { kind, request: wait.request, since: wait.since, words }
}

/// Whether a session whose client is gone could be resumed, and is not being brought back.
fn stays_away(session: &Session) -> bool {
    let is_decided = session.recovery.pending.as_ref().is_none_or(waits_for_a_person);
    let is_headless = session.kind == Some(Kind::Headless);
    session.is_resumable() && !session.is_passed_on() && is_decided && !is_headless
}

/// Whether a recovery waits for what time alone does not end, and only a person can.
fn waits_for_a_person(pending: &Pending) -> bool {
    let waits_for_ever = matches!(pending.stage, Stage::Waiting { until } if until == NEVER);
    let is_a_persons = matches!(
        pending.obstacle,
        Some(Obstacle::Breaker | Obstacle::NotKnown | Obstacle::ConfigDir)
    );
    waits_for_ever && is_a_persons
}

/// What ended a need, in words.
fn ended_by(session: &Session, need: &Need, event: &Event) -> &'static str {
    if need.kind.is_prompt() && !session.may_live() {
        return "the client ended";
    }
    match event {
        Event::Hook(hook) => match (&hook.kind, need.kind) {
            (HookKind::Tool(ToolPhase::After | ToolPhase::Failed), NeedKind::Permission) => {
                "allowed: the tool ran"
            }
            (HookKind::Tool(ToolPhase::After | ToolPhase::Failed), NeedKind::Question) => {
                "answered"
            }
            (HookKind::Tool(ToolPhase::After | ToolPhase::Failed), NeedKind::Plan) => "approved",
            (HookKind::PermissionDenied, _) => "denied",
            (HookKind::UserPromptSubmit, _) => "a new prompt was sent",
            (HookKind::Stop(_) | HookKind::StopFailure(_), _) => "the turn ended",
            (HookKind::SessionStart(_), _) => "the session started again",
            (HookKind::SessionEnd(_), _) => "the session ended",
            _ => "a hook reports that the session is working",
        },
        Event::RegistryRead { .. } => "the client's registry shows that it is over",
        Event::TranscriptRead { .. } | Event::ReplySeen { .. } => {
            "the transcript shows that it is over"
        }
        Event::RequestHookEnded { .. } => "its hook does not wait any longer",
        Event::PaneSeen { .. } => "the screen shows that it is over",
        Event::ProcessSeen(_) | Event::ProcessExited { .. } => "the client ended",
        Event::Operator { .. } => "a person gave an order",
        Event::Proved { .. }
        | Event::Acted { .. }
        | Event::ResumeClaimed { .. }
        | Event::ResumeFailed { .. } => "the session is being recovered",
        Event::Started(_)
        | Event::Gap { .. }
        | Event::Due
        | Event::Tick
        | Event::Folded { .. }
        | Event::SpoolFolded { .. }
        | Event::Malformed { .. }
        | Event::TaskRead { .. }
        | Event::WorkSeen { .. }
        | Event::Message { .. }
        | Event::NoticeSent { .. }
        | Event::PresenceSeen { .. }
        | Event::LocalClock { .. }
        | Event::Fleet(_)
        | Event::ConfigChanged { .. }
        | Event::JournalReopened { .. }
        | Event::Shutdown { .. }
        | Event::ConfigDirLock { .. }
        | Event::Decision(_) => "it no longer applies",
    }
}
