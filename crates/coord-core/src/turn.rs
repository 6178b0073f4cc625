//! Decides what a hook event changes in its record: its owner, and whether a turn is open (G2, R-02 to R-06,
//! H-31).
//!
//! Turn edges (SessionStart, UserPromptSubmit, Stop, StopFailure, SessionEnd) are applied in the order of their
//! stamps. An edge that is older than the newest applied edge changes only the counts. So does a request for a
//! prompt that is over (`permission`). Tool events open a turn that no prompt opened (`!cmd`, a wake, a lost
//! event) and never close one. Events inside a subagent are signs of life, and neither open nor close a turn
//!

use coord_model::{Background, EndReason, HookEvent, HookKind, Moment, Provenance, StartSource};

use crate::effects::Effects;
use crate::fusion;
use crate::permission;
use crate::quota;
use crate::records::{
    EarlyEnd, LastEvent, Presence, RegistryFact, Session, Source, Stamp, Starter, Turn, Wait,
};
use crate::stall;

/// Whether an event is a turn edge.
fn is_edge(event: &HookEvent) -> bool {
    match &event.kind {
        // Compaction may happen in the middle of a turn, and neither opens nor closes one.
        HookKind::SessionStart(source) => *source != StartSource::Compact,
        HookKind::SessionEnd(_) => true,
        HookKind::UserPromptSubmit | HookKind::Stop(_) | HookKind::StopFailure(_) => {
            event.agent.is_none()
        }
        HookKind::Tool(_)
        | HookKind::PermissionRequest
        | HookKind::PermissionDenied
        | HookKind::Notification(_)
        | HookKind::SubagentStop
        | HookKind::StatusLine(_)
        | HookKind::Other(_) => false,
    }
}

/// Applies `event` to its record. Returns false if the event came too late to change anything.
/// `hidden_ms`: how long the hook of a request may wait while the client shows no dialog.
pub(crate) fn apply(
    session: &mut Session,
    event: &HookEvent,
    stamp: Stamp,
    (at, hidden_ms): (Moment, Option<u64>),
) -> bool {
    if session.boot != event.boot {
        // Stamps of two boots do not compare: the order of arrival decides (H-31).
        session.boot.clone_from(&event.boot);
        session.edge = None;
        session.last = None;
        session.over.forget();
    }
    note_newest(session, event, stamp);
    let is_before_edge = session.edge.is_some_and(|edge| stamp.mono_ns <= edge.mono_ns);
    if is_before_edge || permission::is_over(session, event, stamp) {
        take_late_stop(session, event, stamp);
        return false;
    }
    session.sign = at.awake;
    stall::on_hook(session, event, stamp, at);
    session.rest.on_hook(event);
    let before = fusion::by_hooks(session);
    permission::apply(session, event, stamp, (at, hidden_ms));
    if is_edge(event) {
        session.edge = Some(stamp);
        session.edge_at = at;
        // Entries older than the edge are dropped: an event that is late for them is late for the edge too.
        session.over.forget_before(stamp.mono_ns);
        on_edge(session, event, at);
    } else if event.agent.is_none() && matches!(event.kind, HookKind::Tool(_)) {
        if event.is_proved() {
            revive(session);
        }
        open_if_closed(session, event, at);
    }
    let is_notified = event.agent.is_none() && matches!(event.kind, HookKind::Notification(_));
    if is_notified && event.is_proved() && event.session_id == session.session_id {
        session.note_return(stamp.wall_ms);
    }
    if fusion::by_hooks(session) != before || event.kind == HookKind::PermissionRequest {
        session.edge_at = at;
    }
    true
}

/// A late Stop without a turn id still answers one of the prompts that were counted. Otherwise the turn of the
/// newest prompt would seem to have another turn queued after it forever. A late SubagentStop still ends the
/// prompts of its subagent, whatever the main thread began meanwhile.
fn take_late_stop(session: &mut Session, event: &HookEvent, stamp: Stamp) {
    if event.kind == HookKind::SubagentStop && event.agent.is_some() {
        let is_over = |wait: &Wait| wait.agent == event.agent && wait.mono_ns <= stamp.mono_ns;
        session.waits.end_all_of(is_over);
    }
    let is_stop = matches!(event.kind, HookKind::Stop(_) | HookKind::StopFailure(_));
    let is_counted = is_stop && event.agent.is_none() && event.prompt_id.is_none();
    if is_counted {
        session.turn.answer_queued();
    }
}

/// Notes the facts that every event carries, from the newest one. The conversation, its files, the pane and the
/// mode are believed only from a verified sender (H-44).
fn note_newest(session: &mut Session, event: &HookEvent, stamp: Stamp) {
    // An unverified event must not hide what a verified one reports, even one that arrives later.
    let is_newer = |last: &LastEvent| {
        let counts = last.verified || !event.is_verified();
        counts && stamp.mono_ns < last.stamp.mono_ns
    };
    if session.last.as_ref().is_some_and(is_newer) {
        return;
    }
    session.last = Some(LastEvent {
        name: event.kind.name().into(),
        stamp,
        verified: event.is_verified(),
        via: event.via,
    });
    note_mode(session, event);
    note_config_dir(session, event);
    let is_verified = event.is_verified();
    // Marks apply by directory, so an unverified event sets the directory only if none is known.
    let is_cwd_believed = is_verified || session.cwd.is_empty();
    for (field, value, is_believed) in [
        (&mut session.cwd, &event.cwd, is_cwd_believed),
        (&mut session.transcript_path, &event.transcript_path, is_verified),
        (&mut session.host, &event.host, true),
    ] {
        if is_believed && !value.is_empty() && field != value {
            field.clone_from(value);
        }
    }
    if is_verified && event.tmux.is_some() && session.tmux != event.tmux {
        session.tmux.clone_from(&event.tmux);
    }
}

/// A process has one configuration directory for life. The one in its own environment is known from the process
/// table (H-45). Until that is read, the first verified event of the process gives it.
fn note_config_dir(session: &mut Session, event: &HookEvent) {
    let is_read = session.launch.as_ref().is_some_and(|launch| launch.config_dir.is_some());
    let is_first = session.owner.as_ref().is_some_and(|owner| !owner.has_reported);
    let reported = match &event.provenance {
        Provenance::Verified if is_first || session.config_dir.is_empty() => &event.config_dir,
        Provenance::Corroborated { registry_dir: Some(dir), .. } if is_first => dir,
        Provenance::Verified | Provenance::Corroborated { .. } | Provenance::Claimed => return,
    };
    if !is_read && !reported.is_empty() && session.config_dir != *reported {
        session.config_dir.clone_from(reported);
    }
}

/// Notes the mode that the session's process runs in. An unverified event never changes the mode. If it names
/// another one, it is uncertain whether the agent still asks (H-25).
fn note_mode(session: &mut Session, event: &HookEvent) {
    if event.permission_mode.is_none() {
        return;
    }
    let is_new = session.permission_mode != event.permission_mode;
    if is_new && event.is_verified() {
        session.permission_mode.clone_from(&event.permission_mode);
    }
    session.owner.note_mode(event.is_verified(), is_new);
}

fn on_edge(session: &mut Session, event: &HookEvent, at: Moment) {
    if !matches!(event.kind, HookKind::SessionEnd(_)) && event.is_proved() {
        revive(session);
    }
    match &event.kind {
        HookKind::SessionStart(_) => {
            session.turn.forget();
            session.left = None;
            session.turn_id = None;
            session.background = Background::default();
            session.failure = None;
            session.starter.expect_user();
            // A verified event alone resets the limits on messages (H-21, H-44).
            if event.is_verified() {
                session.inbox.on_start();
            }
        }
        HookKind::UserPromptSubmit => on_prompt(session, event, at),
        HookKind::Stop(background) => {
            session.background = *background;
            session.failure = None;
            let is_users = *session.starter != Starter::Coord && event.is_verified();
            if matches!(*session.turn, Turn::Open { .. }) && is_users {
                // The session works for its user again (H-35).
                session.recovery.lift_flag();
            }
            close(session, event, at);
        }
        HookKind::StopFailure(error) => {
            session.failure = Some(error.clone());
            if session.inbox.is_continued {
                // The last Stop reported background work from before the turn continued.
                session.background = Background::default();
            }
            close(session, event, at);
        }
        // The end of a conversation that the session has already left for this one.
        HookKind::SessionEnd(EndReason::Clear | EndReason::Resume)
            if event.session_id != session.session_id => {}
        // An unproved event neither ends this conversation nor begins the next one. `arrival` notes that the process may
        // have switched.
        HookKind::SessionEnd(EndReason::Resume) if !event.is_proved() => {}
        HookKind::SessionEnd(reason) => on_session_end(session, *reason, at),
        HookKind::Tool(_)
        | HookKind::PermissionRequest
        | HookKind::PermissionDenied
        | HookKind::Notification(_)
        | HookKind::SubagentStop
        | HookKind::StatusLine(_)
        | HookKind::Other(_) => (),
    }
}

/// The same process reports again after it ended a session (/clear, an in-process resume): the session was not
/// over. A process that was seen dead stays dead, however late its last events arrive. Its death then left
/// something to come back to.
pub(crate) fn revive(session: &mut Session) {
    session.left = None;
    let seen = session.owner.as_ref().and_then(|owner| owner.seen_alive);
    if !matches!(seen, Some((false, _))) {
        session.presence.live();
    } else if let Presence::Ended { reason: Some(EndReason::Clear | EndReason::Resume), at } =
        *session.presence
    {
        session.presence.judge(match *session.registry {
            RegistryFact::LeftBehind { .. } => Presence::Crashed { at },
            RegistryFact::Removed { .. } => Presence::Ended { reason: None, at },
            RegistryFact::Unknown | RegistryFact::Present { .. } => Presence::Gone { at },
        });
    }
}

/// Applies a SessionEnd that came before the event that opened the record.
pub(crate) fn apply_early_end(session: &mut Session, end: EarlyEnd) {
    session.edge = Some(end.last.stamp);
    session.last = Some(end.last);
    on_session_end(session, end.reason, end.at);
}

fn on_session_end(session: &mut Session, reason: EndReason, at: Moment) {
    if let Turn::Open { .. } = *session.turn {
        session.turn.end(at);
    }
    session.background = Background::default();
    let is_alive = matches!(*session.presence, Presence::Alive);
    let goes_on = reason == EndReason::Clear || (reason == EndReason::Resume && !is_alive);
    if goes_on && session.owner.is_some() {
        // The conversation is over, and the process continues with the next one at once. Other sources report what
        // became of the process since.
        if matches!(*session.presence, Presence::Alive | Presence::Dying { .. }) {
            session.left = Some(reason);
        }
        session.turn.forget();
        return;
    }
    // A SessionEnd that does not name a reason of the user's does not override a user's reason from before, nor an
    // end that a host event explained.
    let is_explained = match *session.presence {
        Presence::Interrupted { .. } => true,
        Presence::Ended { reason, .. } => {
            matches!(reason, Some(EndReason::PromptInputExit | EndReason::Logout))
        }
        Presence::Alive
        | Presence::Dying { .. }
        | Presence::Crashed { .. }
        | Presence::Gone { .. } => false,
    };
    if !is_explained || reason != EndReason::Other {
        session.presence.end(reason, at);
    }
}

/// A prompt that is typed during a turn carries the id of that turn (measured), and waits for the turn's end. A
/// prompt with another id means that the previous turn was interrupted unseen.
fn on_prompt(session: &mut Session, event: &HookEvent, at: Moment) {
    let is_other = session.turn_id.is_some()
        && event.prompt_id.is_some()
        && session.turn_id != event.prompt_id;
    match *session.turn {
        Turn::Open { .. } if !is_other => {
            session.turn.queue();
            learn_turn_id(session, event);
        }
        Turn::Open { .. } | Turn::None | Turn::Closed { .. } | Turn::Interrupted { .. } => {
            open(session, event, at);
        }
    }
}

fn open_if_closed(session: &mut Session, event: &HookEvent, at: Moment) {
    match *session.turn {
        Turn::Open { .. } => learn_turn_id(session, event),
        Turn::None | Turn::Closed { .. } | Turn::Interrupted { .. } => open(session, event, at),
    }
}

fn open(session: &mut Session, event: &HookEvent, at: Moment) {
    if event.kind == HookKind::UserPromptSubmit {
        let is_ours = session.starter.on_prompt();
        // A verified event alone resets the limits on messages (H-21, H-44).
        if event.is_verified() {
            session.inbox.on_prompt(is_ours, *session.turn == Turn::None);
        }
        session.rest.on_turn(is_ours, at);
        if !is_ours && event.is_verified() {
            session.recovery.begin_turn();
        }
    }
    session.counts.count_turn();
    session.background = Background::default();
    session.failure = None;
    session.turn_id.clone_from(&event.prompt_id);
    session.turn.begin(0, at);
}

/// Learns the id of a turn of queued prompts from its first event: that turn has an id of its own.
fn learn_turn_id(session: &mut Session, event: &HookEvent) {
    if session.turn_id.is_none() {
        session.turn_id.clone_from(&event.prompt_id);
    }
}

/// Ends a turn. If prompts are queued, the next turn is open already. All queued prompts become one turn
/// (measured); where no ids are given, they are counted. An end with another id than the open turn's belongs to
/// the turn after it: the Stop between them was lost.
fn close(session: &mut Session, event: &HookEvent, at: Moment) {
    let has_id = event.prompt_id.is_some();
    let is_later = has_id && session.turn_id.is_some() && session.turn_id != event.prompt_id;
    match *session.turn {
        Turn::Open { queued: queued @ 1.., .. } if !is_later => {
            session.turn.begin(if has_id { 0 } else { queued.saturating_sub(1) }, at);
        }
        Turn::Open { .. } | Turn::None | Turn::Closed { .. } | Turn::Interrupted { .. } => {
            session.turn.end(at);
        }
    }
    session.turn_id = None;
}

/// Ends a turn on the report of the source `by`: no hook reports an interrupt or a refusal.
pub(crate) fn interrupt(session: &mut Session, by: Source, at: Moment, fx: &mut Effects) {
    let is_open = matches!(*session.turn, Turn::Open { .. });
    // What was seen before a death does not show how the process ended.
    if !session.may_live() || (!is_open && session.waits.is_empty()) {
        return;
    }
    session.waits.end_all();
    let is_unbegun = session.turn_id.take().is_none();
    let had_queued = is_unbegun || matches!(*session.turn, Turn::Open { queued: 1.., .. });
    session.sign = at.awake;
    if is_open {
        session.turn.interrupt(by, had_queued, at);
        if by != Source::Transcript {
            quota::ask_for_failure(session, fx);
        }
    }
    let saw = match by {
        Source::Transcript => "the transcript ends with an interrupt, no hook reported an end",
        Source::Pane => "the screen shows the input line twice in a row, no hook reported an end",
        Source::Registry | Source::Hooks => "the registry says idle, no hook reported an end",
    };
    fx.decide(session, "R-01", saw, "the turn is over: interrupted or refused");
}
