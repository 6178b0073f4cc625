//! What there is to be covered: every variant of the core's enums, by exhaustive matches, so that a
//! new one does not compile before somebody has said where it belongs.

use std::collections::BTreeSet;

use coord_core::{HostEvent, Presence, Source, Stage, Turn};
use coord_model::{
    EndReason, Event, HookKind, PaneFound, ProcessSeen, Registry, RegistryStatus, Screen,
    SessionState, StartSource, ToolPhase,
};

use super::kinds::Symbol;
use crate::world::World;

/// One label a pattern: the function that gives a value's, and the list of all.
macro_rules! labels {
    ($all:ident, $of:ident($type:ty): $($pattern:pat => $label:literal),* $(,)?) => {
        const $all: &[&str] = &[$($label),*];
        fn $of(value: &$type) -> &'static str {
            match value { $($pattern => $label),* }
        }
    };
}

labels! { EVENTS, of_event(Event):
    Event::Started(..) => "started",
    Event::ConfigChanged { .. } => "settings changed",
    Event::Gap { .. } => "gap",
    Event::Hook(_) => "hook",
    Event::Folded { .. } => "folded",
    Event::SpoolFolded { .. } => "spool folded",
    Event::Malformed { .. } => "malformed",
    Event::ProcessSeen(ProcessSeen { alive: false, .. }) => "process seen dead",
    Event::ProcessSeen(ProcessSeen { is_stopped: true, .. }) => "process seen stopped",
    Event::ProcessSeen(_) => "process seen alive",
    Event::ProcessExited { .. } => "process exited",
    Event::RegistryRead { found: Registry::Present(_), after_death: false, .. } => "registry",
    Event::RegistryRead { found: Registry::Absent, after_death: false, .. } => "registry absent",
    Event::RegistryRead { found: Registry::Unreadable { .. } | Registry::Strange { .. }, after_death: false, .. } => "registry unreadable",
    Event::RegistryRead { found: Registry::Present(_), .. } => "registry after death",
    Event::RegistryRead { found: Registry::Absent, .. } => "registry absent after death",
    Event::RegistryRead { found: Registry::Unreadable { .. } | Registry::Strange { .. }, .. } => "registry unreadable after death",
    Event::PaneSeen { found: PaneFound::Found(_), after_death: false, .. } => "pane",
    Event::PaneSeen { found: PaneFound::NotThere, after_death: false, .. } => "pane not there",
    Event::PaneSeen { found: PaneFound::Unreadable { .. }, after_death: false, .. } => "pane unreadable",
    Event::PaneSeen { found: PaneFound::Found(_), .. } => "pane after death",
    Event::PaneSeen { found: PaneFound::NotThere, .. } => "pane not there after death",
    Event::PaneSeen { found: PaneFound::Unreadable { .. }, .. } => "pane unreadable after death",
    Event::TranscriptRead { .. } => "transcript",
    Event::TaskRead { .. } => "task",
    Event::WorkSeen { .. } => "work",
    Event::Message { .. } => "message",
    Event::Operator { .. } => "operator",
    Event::ReplySeen { .. } => "reply seen",
    Event::RequestHookEnded { .. } => "request hook ended",
    Event::Proved { .. } => "proved",
    Event::Acted { .. } => "acted",
    Event::ResumeClaimed { .. } => "resume claimed",
    Event::ResumeFailed { .. } => "resume failed",
    Event::Shutdown { under_way: true } => "shutdown begins",
    Event::Shutdown { under_way: false } => "shutdown called off",
    Event::ConfigDirLock { held: true, .. } => "lock held",
    Event::ConfigDirLock { held: false, .. } => "lock not held",
    Event::Due => "due",
    Event::Tick => "tick",
    Event::NoticeSent { .. } => "notice sent",
        Event::PresenceSeen { .. } => "presence",
        Event::LocalClock { .. } => "local clock",
        Event::Fleet(_) => "fleet",
        Event::JournalReopened { .. } => "journal reopened",
    Event::Decision(_) => "decision",
}

labels! { HOOKS, of_hook(HookKind):
    HookKind::SessionStart(StartSource::Startup) => "SessionStart startup",
    HookKind::SessionStart(StartSource::Resume) => "SessionStart resume",
    HookKind::SessionStart(StartSource::Clear) => "SessionStart clear",
    HookKind::SessionStart(StartSource::Compact) => "SessionStart compact",
    HookKind::SessionStart(StartSource::Fork) => "SessionStart fork",
    HookKind::SessionStart(StartSource::Unknown) => "SessionStart unknown",
    HookKind::SessionEnd(EndReason::PromptInputExit) => "SessionEnd prompt_input_exit",
    HookKind::SessionEnd(EndReason::Logout) => "SessionEnd logout",
    HookKind::SessionEnd(EndReason::Clear) => "SessionEnd clear",
    HookKind::SessionEnd(EndReason::Resume) => "SessionEnd resume",
    HookKind::SessionEnd(EndReason::Other) => "SessionEnd other",
    HookKind::UserPromptSubmit => "UserPromptSubmit",
    HookKind::Tool(ToolPhase::Before) => "PreToolUse",
    HookKind::Tool(ToolPhase::After) => "PostToolUse",
    HookKind::Tool(ToolPhase::Failed) => "PostToolUseFailure",
    HookKind::Stop(_) => "Stop",
    HookKind::StopFailure(_) => "StopFailure",
    HookKind::PermissionRequest => "PermissionRequest",
    HookKind::PermissionDenied => "PermissionDenied",
    HookKind::Notification(_) => "Notification",
    HookKind::SubagentStop => "SubagentStop",
    HookKind::StatusLine(_) => "StatusLine",
    HookKind::Other(_) => "Other",
}

labels! { STATUSES, of_status(Option<RegistryStatus>):
    None => "no status",
    Some(RegistryStatus::Idle) => "idle",
    Some(RegistryStatus::Busy) => "busy",
    Some(RegistryStatus::Shell) => "shell",
    Some(RegistryStatus::WaitingPermission) => "waiting: permission",
    Some(RegistryStatus::WaitingInput) => "waiting: input",
}

labels! { WORDS, of_word(SessionState):
    SessionState::Starting => "starting",
    SessionState::Running => "running",
    SessionState::Idle => "idle",
    SessionState::Stalled => "stalled",
    SessionState::Background => "background",
    SessionState::AwaitingPermission => "awaiting permission",
    SessionState::AwaitingInput => "awaiting input",
    SessionState::QuotaWait => "quota wait",
    SessionState::BlockedAuth => "blocked: auth",
    SessionState::BlockedBilling => "blocked: billing",
    SessionState::Suspended => "suspended",
    SessionState::Foreign => "foreign",
    SessionState::Interrupted => "interrupted",
    SessionState::Crashed => "crashed",
    SessionState::Elsewhere => "elsewhere",
    SessionState::RecoveryPending => "recovery_pending",
    SessionState::Recovering => "recovering",
    SessionState::Stopped => "stopped",
    SessionState::Unknown => "unknown",
}

labels! { TURNS, of_turn(Turn):
    Turn::None => "none",
    Turn::Open { queued: 0, .. } => "open",
    Turn::Open { .. } => "open, more queued",
    Turn::Closed { .. } => "closed",
    Turn::Interrupted { by: Source::Registry, .. } => "interrupted, by registry",
    Turn::Interrupted { by: Source::Pane, .. } => "interrupted, by pane",
    Turn::Interrupted { by: Source::Transcript, .. } => "interrupted, by transcript",
    // Hooks do not report an interrupt.
    Turn::Interrupted { by: Source::Hooks, .. } => "interrupted, by hooks",
}

labels! { PRESENCES, of_presence(Presence):
    Presence::Alive => "alive",
    Presence::Dying { asks_pane: false, .. } => "dying",
    Presence::Dying { asks_pane: true, is_fresh: true, .. } => "dying, pane asked",
    Presence::Dying { asks_pane: true, is_fresh: false, .. } => "found dead, pane asked",
    Presence::Ended { reason: Some(EndReason::PromptInputExit), .. } => "ended: prompt_input_exit",
    Presence::Ended { reason: Some(EndReason::Logout), .. } => "ended: logout",
    Presence::Ended { reason: Some(EndReason::Clear), .. } => "ended: clear",
    Presence::Ended { reason: Some(EndReason::Resume), .. } => "ended: went over",
    Presence::Ended { reason: Some(EndReason::Other), .. } => "ended: other",
    Presence::Ended { reason: None, .. } => "ended: no reason given",
    Presence::Interrupted { by: HostEvent::NewBoot, .. } => "host event: new boot",
    Presence::Interrupted { by: HostEvent::TmuxServer, .. } => "host event: tmux server",
    Presence::Interrupted { by: HostEvent::ManyEnds, .. } => "host event: many ends",
    Presence::Interrupted { by: HostEvent::Shutdown, .. } => "host event: shutdown",
    Presence::Crashed { .. } => "crashed",
    Presence::Gone { .. } => "gone",
}

labels! { STAGES, of_stage(Stage):
    Stage::Waiting { .. } => "waits",
    Stage::Grace { .. } => "in its grace",
    Stage::Proving { .. } => "looked at",
    Stage::Ending { .. } => "ending its harness",
    Stage::Placing { .. } => "placed",
    Stage::Claimed { asked: None, .. } => "claimed",
    Stage::Claimed { .. } => "claimed, slow",
    Stage::Started { asked: None, .. } => "started",
    Stage::Started { is_sole: false, .. } => "started, looked at",
    Stage::Started { .. } => "started, sole",
}

pub(crate) fn stage(stage: &Stage) -> &'static str {
    of_stage(stage)
}

pub(crate) fn word(word: SessionState) -> &'static str {
    of_word(&word)
}

pub(crate) fn turn(turn: Turn) -> &'static str {
    of_turn(&turn)
}

pub(crate) fn presence(presence: &Presence) -> &'static str {
    of_presence(presence)
}

fn check(what: &str, all: &[&'static str], reached: &BTreeSet<&'static str>, never: &[&str]) {
    let missing: Vec<_> =
        all.iter().filter(|one| !reached.contains(*one) && !never.contains(one)).collect();
    assert!(missing.is_empty(), "no {what} of the table is: {missing:?}");
}

/// Every variant of an event stands in the table.
pub(crate) fn check_events(symbols: &[Symbol]) {
    let (mut events, mut hooks) = (BTreeSet::new(), BTreeSet::new());
    let (mut statuses, mut screens) = (BTreeSet::new(), Vec::new());
    let mut world = World::new();
    world.hook("s1", 100, crate::world::START);
    for event in symbols.iter().flat_map(|symbol| symbol.events(&mut world)) {
        events.insert(of_event(&event));
        if let Event::Hook(hook) = &event {
            hooks.insert(of_hook(&hook.kind));
        } else if let Event::RegistryRead { found: Registry::Present(entry), .. } = &event {
            statuses.insert(of_status(&entry.known_status()));
        } else if let Event::PaneSeen { found: PaneFound::Found(seen), .. } = &event {
            screens.extend(seen.screen);
        }
    }
    check("event", EVENTS, &events, &[]);
    check("hook", HOOKS, &hooks, &[]);
    check("registry status", STATUSES, &statuses, &[]);
    assert!(Screen::ALL.iter().all(|screen| screens.contains(screen)), "screens: {screens:?}");
}

/// Every word, turn and presence is reached by a state of the table.
pub(crate) fn check_states(states: &[(&str, World)]) {
    let sessions = || states.iter().flat_map(|(_, world)| world.state.sessions());
    let by_word = sessions().map(|session| of_word(&session.shown.state)).collect();
    let by_turn = sessions().map(|session| of_turn(&session.turn)).collect();
    let by_presence = sessions().map(|session| of_presence(&session.presence)).collect();
    check("state's word", WORDS, &by_word, &[]);
    check("state's turn", TURNS, &by_turn, &["interrupted, by hooks"]);
    check("state's presence", PRESENCES, &by_presence, &[]);
    let pending = sessions().filter_map(|session| session.recovery.pending.as_ref());
    let by_stage = pending.map(|pending| of_stage(&pending.stage)).collect();
    check("state's recovery", STAGES, &by_stage, &[]);
}
