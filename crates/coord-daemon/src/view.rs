//! Shows the state: core records as the `inspect` schema's sessions. Decides nothing; what it shows
//! follows from the record alone.

use coord_core::{EndReason, Kind, Now, Presence, RegistryFact, Session, State, Turn, Word};
use coord_wire::envelope;
use coord_wire::inspect;
use coord_wire::stamp::rfc3339;

/// All sessions, the most recently changed first.
pub fn sessions(state: &State, now: Now) -> Vec<inspect::Session> {
    let mut all: Vec<&Session> = state.sessions().collect();
    all.sort_by_key(|session| core::cmp::Reverse((session.word.since.wall_ms, session.key)));
    all.into_iter().map(|one| session(one, now)).collect()
}

/// One session.
pub fn session(session: &Session, now: Now) -> inspect::Session {
    let word = word(session.word.word);
    let background = session.background;
    inspect::Session {
        session_id: session.session_id.clone(),
        previous_ids: session.previous_ids.clone(),
        forked_from: None,
        host: session.host.clone(),
        config_dir: session.config_dir.clone(),
        resumable: is_resumable(session),
        name: None,
        provider: "claude".to_owned(),
        kind: session.kind.map(kind),
        status: word.status(),
        state: word,
        since: rfc3339(session.word.since.wall_ms),
        because: session.word.because.clone(),
        awaiting_permission: None,
        pending_recovery: None,
        recovery: inspect::Recovery::default(),
        quota: None,
        background: background.is_any().then_some(inspect::Background {
            tasks: background.tasks,
            subagents: background.subagents,
            crons: background.crons,
        }),
        stall_count: 0,
        unattended: false,
        parent: None,
        needs_operator: None,
        hold: None,
        disagreement: None,
        owner: session.owner.as_ref().map(|owner| inspect::Owner {
            pid: owner.id.process.pid,
            start_time: owner.id.process.start_time,
            alive: owner.seen_alive.map(|(alive, _)| alive),
        }),
        tmux: session
            .tmux
            .as_ref()
            .map(|tmux| inspect::Tmux { socket: tmux.socket.clone(), pane: tmux.pane.clone() }),
        cwd: session.cwd.clone(),
        transcript_path: session.transcript_path.clone(),
        permission_mode: session.permission_mode.clone(),
        last_event: session.last.as_ref().map(|last| inspect::LastEvent {
            name: last.name.clone(),
            at: rfc3339(last.stamp.wall_ms),
            source: "hook".to_owned(),
        }),
        evidence: evidence(session, now),
        messages: inspect::Messages::default(),
    }
}

/// A resume needs at least one turn, and an id that was not cleared away (H-36).
fn is_resumable(session: &Session) -> bool {
    let is_cleared =
        matches!(session.presence, Presence::Ended { reason: Some(EndReason::Clear), .. });
    0 < session.counts.turns && !is_cleared
}

fn evidence(session: &Session, now: Now) -> Vec<inspect::Evidence> {
    let fact = |fact: String, source: &str, at_ms: u64| inspect::Evidence {
        fact,
        source: source.to_owned(),
        at: rfc3339(at_ms),
        age_s: now.wall_ms.saturating_sub(at_ms) / 1000,
    };
    let mut all = Vec::new();
    if let Some(owner) = &session.owner
        && let Some((alive, at)) = owner.seen_alive
    {
        let what = if alive { "is alive" } else { "is gone" };
        let pid = owner.id.process.pid;
        all.push(fact(format!("process {pid} {what}"), "process", at.wall_ms));
    }
    match session.registry {
        RegistryFact::Unknown => (),
        RegistryFact::Present { at } => {
            all.push(fact("registry entry present".to_owned(), "registry", at.wall_ms));
        }
        RegistryFact::Removed { at } => {
            all.push(fact("registry entry removed".to_owned(), "registry", at.wall_ms));
        }
        RegistryFact::LeftBehind { at } => {
            all.push(fact("registry entry left behind".to_owned(), "registry", at.wall_ms));
        }
    }
    match session.turn {
        Turn::None => (),
        Turn::Open { since, .. } => all.push(fact("turn opened".to_owned(), "hook", since.wall_ms)),
        Turn::Closed { at } => all.push(fact("turn ended".to_owned(), "hook", at.wall_ms)),
    }
    if let Some(last) = &session.last {
        let mark = if last.verified { "" } else { " (sender not verified)" };
        all.push(fact(format!("last event {}{mark}", last.name), "hook", last.stamp.wall_ms));
    }
    all
}

fn kind(kind: Kind) -> envelope::Kind {
    match kind {
        Kind::Interactive => envelope::Kind::Interactive,
        Kind::Headless => envelope::Kind::Headless,
    }
}

fn word(word: Word) -> inspect::State {
    match word {
        Word::Starting => inspect::State::Starting,
        Word::Running => inspect::State::Running,
        Word::Idle => inspect::State::Idle,
        Word::Background => inspect::State::Background,
        Word::Interrupted => inspect::State::Interrupted,
        Word::Crashed => inspect::State::Crashed,
        Word::Elsewhere => inspect::State::Elsewhere,
        Word::Stopped => inspect::State::Stopped,
        Word::Unknown => inspect::State::Unknown,
    }
}
