//! Decides whether an unattended session is stalled (S1-02, S1-04 to S1-06, S1-14, S1-17, S1-18, R-12).
//!
//! A heartbeat compares the masked screen with the previous one, and counts captures in a row that found the same
//! screen. From a few on, a stall is suspected. A turn is stalled if nothing has changed for longer than the limit
//! for its current activity. Hooks count as change too. A session that waits for a person or for its quota has an
//! explanation, and is not counted. A stall is only reported, never acted on.

use alloc::format;
use alloc::string::String;

use coord_model::{
    Awake, HookEvent, HookKind, Moment, Screen, SessionState, StallLimits, ToolPhase,
};

use crate::effects::Effects;
use crate::records::{Activity, PaneFact, Session, Stamp, State, Turn, UnderWay};

/// Notes that a hook reported change, and which tools run.
pub(crate) fn on_hook(session: &mut Session, event: &HookEvent, stamp: Stamp, at: Moment) {
    session.stall.note_change(at);
    if event.agent.is_some() {
        return;
    }
    match event.kind {
        // The hook was slow: its call belongs to a turn that is over.
        HookKind::Tool(ToolPhase::Before) if is_of_another_turn(session, event) => (),
        // Its hook is registered twice: one result ends the call.
        HookKind::Tool(ToolPhase::Before) if is_under_way(session, event) => (),
        HookKind::Tool(ToolPhase::Before) => {
            let activity = Activity::of_tool(event.tool.as_deref().unwrap_or_default());
            let tool = event.tool.clone().unwrap_or_default();
            let (since, digest, call) = (Some(at), event.digest, event.call.clone());
            let (mono_ns, is_asked) = (stamp.mono_ns, false);
            let call = UnderWay { activity, tool, since, digest, call, mono_ns, is_asked };
            session.under_way.begin(call);
        }
        HookKind::Tool(ToolPhase::After | ToolPhase::Failed) | HookKind::PermissionDenied => {
            session.under_way.end(event.call.as_ref(), event.digest);
        }
        // A prompt that is typed during a turn waits for the end of that turn.
        HookKind::UserPromptSubmit if matches!(*session.turn, Turn::Open { .. }) => (),
        HookKind::SessionStart(_)
        | HookKind::SessionEnd(_)
        | HookKind::UserPromptSubmit
        | HookKind::Stop(_)
        | HookKind::StopFailure(_) => session.under_way.end_all(),
        HookKind::PermissionRequest
        | HookKind::Notification(_)
        | HookKind::SubagentStop
        | HookKind::StatusLine(_)
        | HookKind::Other(_) => (),
    }
}

fn is_under_way(session: &Session, event: &HookEvent) -> bool {
    event.call.is_some() && session.under_way.iter().any(|one| one.call == event.call)
}

fn is_of_another_turn(session: &Session, event: &HookEvent) -> bool {
    let (of, now) = (event.prompt_id.as_ref(), session.turn_id.as_ref());
    of.zip(now).is_some_and(|(of, now)| of != now)
}

/// The activity of the open turn; none if the screen shows no turn. A client at its prompt whose Stop was lost may
/// have background work. If several tools run, the one with the longest limit counts.
fn activity(session: &Session, limits: &StallLimits) -> Option<Activity> {
    let PaneFact::Its(view) = &*session.pane else { return None };
    match view.screen? {
        Screen::Retry => Some(Activity::Retry),
        Screen::Working => {
            let under_way = session.under_way.iter().map(|one| one.activity);
            under_way.max_by_key(|one| one.after_ms(limits)).or(Some(Activity::Thinking))
        }
        Screen::Prompt
        | Screen::Error
        | Screen::Permission
        | Screen::Question
        | Screen::Plan
        | Screen::Dialog
        | Screen::Trust
        | Screen::Shell
        | Screen::Suspended => None,
    }
}

impl State {
    /// Whether an unchanged screen means anything: the session is unattended, and nothing else explains it (S1-13,
    /// S1-18).
    fn is_counted(&self, session: &Session) -> bool {
        let is_explained = !matches!(
            session.shown.state,
            SessionState::Running
                | SessionState::Stalled
                | SessionState::Idle
                | SessionState::Background
        );
        let is_counted = !is_explained && !session.rest.is_at_limit;
        session.may_live() && is_counted && self.is_unattended(session)
    }

    /// Whether a look is a heartbeat that has to be recorded: a screen that differs from the counted one, or the
    /// same one again. At rest nothing depends on the number, so heartbeats are recorded ever more rarely.
    pub(crate) fn is_heartbeat(&self, session: &Session, digest: u64, awake: Awake) -> bool {
        if !self.is_counted(session) {
            // A session whose stillness is explained has no count.
            return session.stall.is_some();
        }
        let Some(stall) = &*session.stall else { return true };
        let limits = &self.header.settings.stall;
        let beats = beats(limits, stall.at, awake);
        if stall.digest != digest && 0 < stall.count {
            return true;
        }
        let is_busy = matches!(session.shown.state, SessionState::Running | SessionState::Stalled);
        let wanted = if is_busy || stall.count < limits.captures { 1 } else { stall.count.into() };
        wanted <= beats
    }

    /// Counts a capture (S1-05).
    pub(crate) fn count_capture(
        &self,
        session: &mut Session,
        digest: Option<u64>,
        at: Moment,
        fx: &mut Effects,
    ) {
        let Some(digest) = digest.filter(|_| self.is_counted(session)) else {
            session.stall.forget();
            return;
        };
        let limits = &self.header.settings.stall;
        let Some(stall) = session.stall.filter(|stall| stall.digest == digest) else {
            return session.stall.begin_count(digest, at);
        };
        let beats = beats(limits, stall.at, at.awake);
        if beats == 0 {
            return;
        }
        session.stall.count(u32::try_from(beats).unwrap_or(u32::MAX), at);
        let count = session.stall.map_or(0, |stall| stall.count);
        let (is_new, saw) = (stall.count < limits.captures, still(count, limits));
        // A session at rest does not stall.
        let is_busy = matches!(session.shown.state, SessionState::Running | SessionState::Stalled);
        if is_busy && is_new && limits.captures <= count {
            fx.decide(session, "S1-06", &saw, "a stall is suspected; coord does not act on it");
        }
    }

    /// Why its open turn is stalled, in words; none if it is not.
    pub(crate) fn stalled(&self, session: &Session) -> Option<String> {
        let limits = &self.header.settings.stall;
        let stall = session.stall.as_ref().filter(|stall| limits.captures <= stall.count)?;
        let activity = activity(session, limits)?;
        let still_ms = stall.at.ms_since(stall.since.awake);
        (self.is_unattended(session) && activity.after_ms(limits) <= still_ms)
            .then(|| format!("{} while {}", still(stall.count, limits), activity.words()))
    }

    /// Drops counts from before a time in which nothing was observed (S1-25, H-32).
    pub(crate) fn forget_stalls(&mut self) {
        for key in self.keys_of(|one| one.stall.is_some() || one.rest.asked.is_some()) {
            let Some(mut session) = self.take(key) else { continue };
            session.stall.forget();
            session.rest.forget_look();
            self.put(session);
        }
    }
}

fn still(count: u32, limits: &StallLimits) -> String {
    let seconds = u64::from(count).saturating_mul(limits.heartbeat_ms) / 1_000;
    match seconds {
        0..120 => format!("the screen has not changed for {seconds} s"),
        _ => format!("the screen has not changed for {} min", seconds / 60),
    }
}

/// Number of heartbeats from `since` to `now`.
fn beats(limits: &StallLimits, since: Awake, now: Awake) -> u64 {
    now.ms_since(since).checked_div(limits.heartbeat_ms).unwrap_or(0)
}
