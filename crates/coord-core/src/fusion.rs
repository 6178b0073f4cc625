//! Decides which source wins for which question, and for how long (R-01, R-02, R-21, H-35, C4).
//!
//! | question | sources, the winner first |
//! |---|---|
//! | is the process there | the process table, for ever; else hooks, for `unknown_after` |
//! | how did it end | SessionEnd; registry entry left or removed; else unknown (`death`) |
//! | is a prompt open | registry `waiting`, or hooks' waits the registry has not contradicted |
//! | is a turn open | the registry, from the moment it changed after the newest hook edge, or [`LAG_MS`] after that edge; until then hooks; hooks alone for `unknown_after` |
//! | is background work live | hooks' counts at the last Stop, for as long as the registry says busy, shell or idle without a new turn |
//! | is it stopped by Ctrl-Z | the process table alone |
//!
//! The registry's word is a level: it holds as long as the file says so and its process lives. A
//! hook's is an edge: it is exact at its moment and goes stale. So a registry that changed after the
//! edge has the newer news (an interrupt fires no hook; a queued prompt is busy after Stop); one that
//! did not change within [`LAG_MS`] of an edge that contradicts it is a disagreement: shown, and
//! nothing acts on either. A word that is not in the table counts as no source.

use crate::event::RegistryStatus;
use crate::permission::WaitKind;
use crate::session::{Session, Turn};
use crate::time::Awake;

/// The registry follows within 0.1 s (measured); this much is allowed.
pub(crate) const LAG_MS: u64 = 2_000;

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
}

/// What the sources make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What it is doing.
    pub(crate) doing: Doing,
    /// Whose word that is.
    pub(crate) by: Source,
    /// Hooks and registry contradict each other, and time enough has passed.
    pub(crate) is_contested: bool,
}

/// A source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Hooks.
    Hooks,
    /// The client's registry.
    Registry,
}

/// Weighs hooks against the registry.
pub(crate) fn weigh(session: &Session, awake: Awake) -> Verdict {
    let hooks = by_hooks(session);
    let by_hooks = |is_contested| Verdict { doing: hooks, by: Source::Hooks, is_contested };
    let Some(level) = session.registry.level() else { return by_hooks(false) };
    let registry = by_registry(level.status, hooks);
    let is_newer = newest_edge_ms(session) <= level.changed_ms;
    if registry == hooks || is_newer {
        return Verdict { doing: registry, by: Source::Registry, is_contested: false };
    }
    // Not changed since the edge: first the registry gets its time to follow.
    by_hooks(lag_is_over(session) <= awake)
}

/// When the registry's time to follow the newest edge is over.
pub(crate) fn lag_is_over(session: &Session) -> Awake {
    session.edge_at.plus_ms(LAG_MS)
}

/// Whether hooks have news that the registry has not followed yet.
pub(crate) fn is_behind(session: &Session) -> bool {
    session.registry.level().is_some_and(|level| level.changed_ms < newest_edge_ms(session))
}

/// Wall time of the newest thing hooks said that the registry should follow.
pub(crate) fn newest_edge_ms(session: &Session) -> u64 {
    let waits = session.waits.iter().map(|wait| wait.since.wall_ms);
    waits.chain(session.edge.map(|edge| edge.wall_ms)).max().unwrap_or(0)
}

fn by_hooks(session: &Session) -> Doing {
    let asks = |kind| session.waits.iter().any(|wait| wait.kind == kind);
    if asks(WaitKind::Permission) {
        return Doing::AwaitingPermission;
    }
    if asks(WaitKind::Input) {
        return Doing::AwaitingInput;
    }
    match session.turn {
        Turn::Open { .. } => Doing::Turn,
        Turn::Closed { .. } if session.background.is_any() => Doing::Background,
        Turn::None | Turn::Closed { .. } | Turn::Interrupted { .. } => Doing::Rest,
    }
}

/// The registry says `busy` for a background subagent and `idle` beside a scheduled wake-up, and it
/// calls a plan a permission: what kind of work or prompt it is, hooks know.
fn by_registry(status: RegistryStatus, hooks: Doing) -> Doing {
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
