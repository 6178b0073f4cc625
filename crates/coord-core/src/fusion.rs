//! Decides which source wins for which question, and for how long (R-01, R-02, R-21, H-35).
//!
//! | question | sources, the winner first |
//! |---|---|
//! | is the process there | the process table, indefinitely; else hooks, for `unknown_after` |
//! | how did it end | SessionEnd; registry entry left or removed; the client's farewell on its pane; else unknown (`death`) |
//! | is a prompt open | registry `waiting`, or waits from hooks that the registry has not contradicted; without a registry the pane |
//! | is a turn open | the registry, once it changed after the newest hook edge, or [`LAG_MS`] after that edge; until then hooks. Without a registry: an interrupt in the transcript newer than the edge; two captures of the pane in a row, the first [`PAINTED_MS`] after the edge; hooks alone for `unknown_after`; before the first edge no source, and one capture is enough |
//! | is background work live | the counts of hooks at the last Stop, for as long as the registry says busy, shell or idle without a new turn; without a registry also a subagent that reports after the turn's end |
//! | is it stopped by Ctrl-Z | the process table alone |
//!
//! The registry's status is a level: it holds for as long as the file contains it and its process lives. A hook
//! is an edge: it is exact when it fires, and goes stale. So a registry that changed after the edge is the
//! newer source: an interrupt fires no hook, and a queued prompt is busy after Stop. A registry that did not
//! change within [`LAG_MS`] of an edge that contradicts it is a disagreement: it is shown, and nothing acts on
//! either source. A status that is not in the table counts as no source.
//!
//! A screen is a level too, and a weak one. It is consulted only where there is no registry, and holds for
//! [`SCREEN_FRESH_MS`]. While only one capture contradicts the hooks, the state is unknown.

use crate::records::{PaneFact, Session, Source, State, Turn, WaitKind};
use crate::subagent;
use coord_model::{Awake, Moment, RegistryStatus, Screen};

/// How long the registry may lag behind an edge, in milliseconds. It follows within 0.1 s (measured).
pub(crate) const LAG_MS: u64 = 2_000;
/// How long the registry may say idle between the end of a turn and the start of the turn of queued prompts, in
/// milliseconds.
pub(crate) const QUEUED_MS: u64 = 900;
/// How long a screen may take to show a change, in milliseconds: at a Stop the client still runs its other
/// hooks.
pub(crate) const PAINTED_MS: u64 = 1_000;
/// How long a capture of a screen counts, in milliseconds: a few periods of `tracking.look_every`.
pub(crate) const SCREEN_FRESH_MS: u64 = 150_000;
/// Captures in a row that make the screen count against the hooks.
pub(crate) const LOOKS: u32 = 2;

/// What a living session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// A permission dialog is open.
    AwaitingPermission,
    /// A question, plan or other dialog is open.
    AwaitingInput,
    /// A turn is open.
    Turn,
    /// Background work without a turn.
    Background,
    /// At its prompt.
    Rest,
    /// Its screen contradicts the hooks, and was captured only once.
    Unclear,
    /// Hooks have not reported a turn edge yet: a turn may be open.
    Unreported,
}

/// The conclusion from all sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What the session is doing.
    pub(crate) doing: Doing,
    /// The source that says so.
    pub(crate) by: Source,
    /// The source that contradicts it, once the allowed lag has passed.
    pub(crate) against: Option<Source>,
}

/// Weighs the sources of a living session.
pub(crate) fn weigh(session: &Session, awake: Awake) -> Verdict {
    let hooks = by_hooks(session);
    let by_hooks = |against| Verdict { doing: hooks, by: Source::Hooks, against };
    let Some(level) = session.registry.level() else { return by_screen(session, hooks) };
    let registry = by_registry(session, level.status);
    let is_newer = level.is_after(newest_edge(session));
    let is_between = registry == Doing::Rest && awake < queued_until(session);
    if registry == hooks || (is_newer && !is_between) {
        return Verdict { doing: registry, by: Source::Registry, against: None };
    }
    // The registry did not change since the edge: it first gets the time to follow.
    by_hooks((!is_newer && lag_is_over(session) <= awake).then_some(Source::Registry))
}

/// Until when the registry may say idle before the turn of queued prompts has begun. That turn is open and has
/// no id yet.
pub(crate) fn queued_until(session: &Session) -> Awake {
    match *session.turn {
        Turn::Open { .. } if session.turn_id.is_none() => session.edge_at.awake.plus_ms(QUEUED_MS),
        Turn::Open { .. } | Turn::None | Turn::Closed { .. } | Turn::Interrupted { .. } => Awake(0),
    }
}

/// Without a registry: hooks, unless the screen contradicts them.
fn by_screen(session: &Session, hooks: Doing) -> Verdict {
    let by_hooks = Verdict { doing: hooks, by: Source::Hooks, against: None };
    let Some((status, looks)) = screen_level(session) else { return by_hooks };
    let screen = by_level(status, hooks);
    if screen == hooks {
        by_hooks
    } else if hooks == Doing::Unreported || LOOKS <= looks {
        Verdict { doing: screen, by: Source::Pane, against: None }
    } else {
        Verdict { doing: Doing::Unclear, by: Source::Hooks, against: Some(Source::Pane) }
    }
}

/// The screen in the registry's terms, and the number of captures that found it. None if the capture is older
/// than the newest news from hooks.
fn screen_level(session: &Session) -> Option<(RegistryStatus, u32)> {
    let PaneFact::Its(view) = &*session.pane else { return None };
    let status = match view.screen.filter(|_| is_painted(session, view.at.awake))? {
        Screen::Prompt | Screen::Error => RegistryStatus::Idle,
        Screen::Working | Screen::Retry => RegistryStatus::Busy,
        Screen::Permission => RegistryStatus::WaitingPermission,
        Screen::Question | Screen::Plan | Screen::Dialog => RegistryStatus::WaitingInput,
        Screen::Trust | Screen::Shell | Screen::Suspended => return None,
    };
    Some((status, view.looks))
}

/// Whether a capture at `looked` shows what happened after the newest edge or prompt from hooks.
pub(crate) fn is_painted(session: &Session, looked: Awake) -> bool {
    session.edge_at.awake.plus_ms(PAINTED_MS) <= looked
}

/// Whether a living session's state comes from hooks that no other source confirms. Its pane and transcript are
/// then worth a look.
pub fn is_in_doubt(session: &Session) -> bool {
    let is_busy = matches!(*session.turn, Turn::Open { .. }) || !session.waits.is_empty();
    session.may_live() && is_busy && session.registry.level().is_none()
}

/// When the time in which the registry may follow the newest edge is over.
pub(crate) fn lag_is_over(session: &Session) -> Awake {
    session.edge_at.awake.plus_ms(LAG_MS)
}

/// Whether hooks have reported something that the registry contradicts and has not followed yet. If both agree,
/// the registry has nothing to follow: a queued prompt leaves it busy.
pub(crate) fn is_behind(session: &Session) -> bool {
    let hooks = by_hooks(session);
    session.registry.level().is_some_and(|level| {
        !level.is_after(newest_edge(session)) && by_registry(session, level.status) != hooks
    })
}

/// The newest event from hooks that the registry should follow: when it was emitted, by the wall clock, and
/// when it became known.
pub(crate) fn newest_edge(session: &Session) -> Moment {
    let waits = session.waits.iter().map(|wait| wait.since.wall_ms);
    let edges = session.edge.map(|edge| edge.wall_ms).into_iter().chain([session.edge_at.wall_ms]);
    Moment { wall_ms: waits.chain(edges).max().unwrap_or(0), ..session.edge_at }
}

impl State {
    /// Whether the end of the session's transcript may be another process's: one with the same conversation was there since
    /// the session's own last hook, and both write to one file.
    pub(crate) fn may_be_written_by_another(&self, session: &Session) -> bool {
        let since_ms = newest_edge(session).wall_ms;
        let was_there = |other: &Session| match other.owner.as_ref().and_then(|one| one.seen_alive)
        {
            Some((true, _)) => true,
            Some((false, gone)) => since_ms <= gone.wall_ms,
            None => since_ms <= newest_edge(other).wall_ms,
        };
        let is_other =
            |other: &Session| other.key != session.key && other.session_id == session.session_id;
        self.sessions_with_id(&session.session_id).any(|other| is_other(other) && was_there(other))
    }
}

/// What the session is doing, as hooks report it.
pub(crate) fn by_hooks(session: &Session) -> Doing {
    let asks = |kind| session.waits.iter().any(|wait| wait.kind == kind);
    if asks(WaitKind::Permission) {
        return Doing::AwaitingPermission;
    }
    if asks(WaitKind::Input) {
        return Doing::AwaitingInput;
    }
    match *session.turn {
        Turn::Open { .. } => Doing::Turn,
        // A turn that a message continued at its Stop may never have gone on: what that Stop listed still runs.
        Turn::Closed { .. } | Turn::Interrupted { .. } if session.background.is_any() => {
            Doing::Background
        }
        // The registry stays busy for such a subagent (measured with 2.1.328).
        Turn::Closed { .. } | Turn::Interrupted { .. }
            if session.registry.level().is_none() && subagent::works_after_turn(session) =>
        {
            Doing::Background
        }
        Turn::None if session.edge.is_none() && session.last.is_some() => Doing::Unreported,
        Turn::None | Turn::Closed { .. } | Turn::Interrupted { .. } => Doing::Rest,
    }
}

/// What the registry says. It stays busy while a hook waits beside which the client shows no dialog (measured).
fn by_registry(session: &Session, status: RegistryStatus) -> Doing {
    let hooks = by_hooks(session);
    let is_hidden = session.waits.iter().any(|wait| wait.hidden_until.is_some());
    if is_hidden && status == RegistryStatus::Busy { hooks } else { by_level(status, hooks) }
}

/// Combines the registry with the hooks. The registry says `busy` for a background subagent, and `idle` during a
/// scheduled wake-up; it calls a plan a permission. So hooks decide which kind of work or prompt it is.
fn by_level(status: RegistryStatus, hooks: Doing) -> Doing {
    match (status, hooks) {
        (
            RegistryStatus::WaitingPermission | RegistryStatus::WaitingInput,
            Doing::AwaitingPermission | Doing::AwaitingInput,
        ) => hooks,
        (RegistryStatus::WaitingPermission, _) => Doing::AwaitingPermission,
        (RegistryStatus::WaitingInput, _) => Doing::AwaitingInput,
        (RegistryStatus::Busy | RegistryStatus::Idle, Doing::Background)
        | (RegistryStatus::Shell, _) => Doing::Background,
        (RegistryStatus::Busy, _) => Doing::Turn,
        (RegistryStatus::Idle, _) => Doing::Rest,
    }
}
