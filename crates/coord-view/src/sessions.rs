//! Shows core records as the sessions of the `inspect` schema. Decides nothing; what is shown follows from
//! the record alone.

mod recovery;

use coord_core::{
    PaneFact, RegistryFact, Session, Source, State, Subagent, Turn, WaitKind, changes_when,
    is_at_work,
};
use coord_model::stamp::rfc3339;
use coord_model::{Address, Kind, Now, RegistryStatus, Screen, SessionState};
use coord_wire::inspect::{self, SubagentState};

use crate::{usage, work};

/// All sessions, the most recently changed first.
pub fn sessions(state: &State, now: Now) -> Vec<inspect::Session> {
    by_time(state).map(|one| session(state, one, now)).collect()
}

/// The records, the most recently changed first.
pub fn by_time(state: &State) -> impl Iterator<Item = &Session> {
    let mut all: Vec<&Session> = state.sessions().collect();
    all.sort_by_key(|session| core::cmp::Reverse((session.shown.since.wall_ms, session.key)));
    all.into_iter()
}

/// Shows one session.
pub fn session(state: &State, session: &Session, now: Now) -> inspect::Session {
    let background = session.background;
    let needs = needs(session);
    inspect::Session {
        session_id: session.session_id.clone(),
        key: Some(session.key),
        previous_ids: session.previous_ids.to_vec(),
        forked_from: session.forked_from.clone(),
        host: session.host.clone(),
        elsewhere: inspect::Elsewhere::default(),
        config_dir: session.config_dir.clone(),
        resumable: session.is_resumable(),
        name: session.marks.name.clone(),
        display_name: session.called().map(|(name, _)| name.to_owned()),
        name_source: session.called().map(|(_, source)| source),
        provider: "claude".to_owned(),
        kind: session.kind,
        status: session.shown.state.status(),
        state: session.shown.state,
        since: rfc3339(session.shown.since.wall_ms),
        because: session.shown.because.clone(),
        rule: session.shown.rule.clone(),
        changes_when: changes_when(session.shown.state).to_owned(),
        awaiting_permission: awaiting_permission(session),
        pending_recovery: recovery::pending(state, session, now),
        recovery: recovery::so_far(session),
        quota: quota(session),
        usage: usage::of_session(state, session, now),
        background: background.is_any().then_some(background),
        stall_count: session.stall.map_or(0, |stall| stall.count),
        unattended: state.is_unattended(session),
        answers: answers(state, session),
        task: task(session),
        parent: session.marks.parent.clone(),
        need: needs.first().cloned(),
        needs,
        needs_operator: session.recovery.needs_operator.as_ref().map(|flag| {
            inspect::NeedsOperator {
                reason: flag.reason.clone(),
                since: rfc3339(flag.since.wall_ms),
            }
        }),
        hold: recovery::hold(state, session, now),
        disagreement: session.contested.map(|(with, since)| inspect::Disagreement {
            sources: vec!["hook".to_owned(), source(with).to_owned()],
            since: rfc3339(since.wall_ms),
        }),
        owner: session.owner.as_ref().map(|owner| inspect::Owner {
            pid: owner.id.process.pid,
            start_time: owner.id.process.start_time,
            alive: owner.seen_alive.map(|(alive, _)| alive),
        }),
        tmux: tmux(session),
        place: Some(place(session)),
        open_tool: open_tool(session),
        subagents: subagents(session),
        cwd: session.cwd.clone(),
        git: work::at_end(session),
        transcript_path: session.transcript_path.clone(),
        permission_mode: session.permission_mode.clone(),
        last_event: session.last.as_ref().map(|last| inspect::LastEvent {
            name: last.name.clone(),
            at: rfc3339(last.stamp.wall_ms),
            source: "hook".to_owned(),
        }),
        evidence: evidence(session, now),
        messages: messages(state, session),
    }
}

fn task(session: &Session) -> Option<inspect::Task> {
    let stopped = session.task.stop.is_some();
    session.marks.task_dir.clone().map(|dir| inspect::Task { dir, stopped })
}

fn tmux(session: &Session) -> Option<inspect::Tmux> {
    session.pane().map(|tmux| inspect::Tmux {
        socket: tmux.socket.clone(),
        pane: tmux.pane.clone(),
        server_pid: tmux.server.pid,
    })
}

/// Its subagents, as far as it may live.
fn subagents(session: &Session) -> Vec<inspect::Subagent> {
    let shown = |one: &Subagent| inspect::Subagent {
        name: one.kind.clone(),
        id: one.id.clone(),
        state: match one.ended {
            Some(_) => SubagentState::Done,
            None if is_at_work(session, one) => SubagentState::Running,
            None => SubagentState::Unknown,
        },
        since: rfc3339(one.since.wall_ms),
    };
    let known = session.subagents.iter().filter(|_| session.may_live());
    known.map(shown).collect()
}

/// The newest tool call that has not ended.
fn open_tool(session: &Session) -> Option<inspect::OpenTool> {
    let call = session.under_way.last()?;
    let since = rfc3339(call.since?.wall_ms);
    Some(inspect::OpenTool { name: call.tool.clone(), since })
}

/// What a person is needed for, the oldest first.
fn needs(session: &Session) -> Vec<inspect::Need> {
    let mut open: Vec<_> = session.open_needs().collect();
    open.sort_by_key(|need| (need.since.wall_ms, need.id));
    let name = session.called_or_id();
    open.into_iter()
        .map(|need| inspect::Need {
            id: need.id.to_string(),
            kind: need.kind.name().to_owned(),
            since: rfc3339(need.since.wall_ms),
            text: need.reason.clone(),
            command: need.kind.command(&name).or_else(|| {
                // Its terminal is the supervisor's.
                let is_there = session.is_foreign && need.kind.is_prompt();
                is_there.then(|| "claude agents".to_owned())
            }),
            request: None,
        })
        .collect()
}

/// Where a session is (U-04): its proved pane, else what is known of its place.
pub fn place(session: &Session) -> inspect::Where {
    let at = |kind: &str, text: &str, server: Option<&String>| inspect::Where {
        kind: kind.to_owned(),
        text: text.to_owned(),
        server: server.cloned(),
    };
    if session.shown.state == SessionState::Elsewhere {
        return at("elsewhere", &session.host, None);
    }
    if let PaneFact::Its(view) = &*session.pane {
        let text = view.place.as_deref().unwrap_or(&view.pane.pane);
        return at("tmux", text, Some(&view.pane.socket));
    }
    if session.kind == Some(Kind::Headless) {
        return at("headless", "headless", None);
    }
    at("directory", &session.cwd, None)
}

fn messages(state: &State, session: &Session) -> inspect::Messages {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let counts = state.message_counts(&Address::Session(session.key));
    inspect::Messages {
        pending: count(counts.pending),
        processing: count(counts.processing),
        failed: count(counts.failed),
    }
}

/// The answers that were given, or would be given (S1-15).
fn answers(state: &State, session: &Session) -> Option<inspect::Answers> {
    let (this_iteration, total) = session.rest.answers.used();
    let are_given = state.header().settings.rest.answers && state.is_unattended(session);
    (are_given || 0 < total).then(|| inspect::Answers {
        this_iteration,
        total,
        questions: session.marks.answers == Some(true),
    })
}

/// The open permission dialog, with the tool if a hook named it.
fn awaiting_permission(session: &Session) -> Option<inspect::AwaitingPermission> {
    if session.shown.state != SessionState::AwaitingPermission {
        return None;
    }
    let wait = session.waits.iter().find(|wait| wait.kind == WaitKind::Permission);
    let since_ms = wait.map_or(session.shown.since, |wait| wait.since).wall_ms;
    let tool = wait.map_or_else(String::new, |wait| wait.tool.clone());
    Some(inspect::AwaitingPermission { since: rfc3339(since_ms), tool })
}

/// The usage limit at which the last turn ended, and its reset time if the transcript contains one.
fn quota(session: &Session) -> Option<inspect::Quota> {
    let resets_ms = session.quota.and_then(|quota| quota.resets_ms);
    let resets_by =
        session.quota.filter(|_| resets_ms.is_some()).map(|quota| quota.reset_source.words());
    (session.shown.state == SessionState::QuotaWait).then(|| inspect::Quota {
        kind: session.failure.clone().unwrap_or_default(),
        since: rfc3339(session.quota.map_or(session.shown.since, |quota| quota.since).wall_ms),
        until: resets_ms.map(rfc3339),
        source: resets_by.unwrap_or("hook").to_owned(),
    })
}

fn evidence(session: &Session, now: Now) -> Vec<inspect::Evidence> {
    let fact = |fact: String, source: &str, at_ms: u64| inspect::Evidence {
        fact,
        source: source.to_owned(),
        at: rfc3339(at_ms),
        age_s: now.wall_ms.saturating_sub(at_ms) / 1000,
    };
    let mut all = Vec::new();
    if let Some(owner) = &*session.owner
        && let Some((alive, at)) = owner.seen_alive
    {
        let what = if alive { "is alive" } else { "is gone" };
        let pid = owner.id.process.pid;
        all.push(fact(format!("{pid} {what}"), "process", at.wall_ms));
    }
    match *session.registry {
        RegistryFact::Unknown => (),
        RegistryFact::Present { at, status, changed_ms, .. } => {
            let at_ms = if changed_ms == 0 { at.wall_ms } else { changed_ms };
            let says = status.map_or("a status that coord does not know", registry_word);
            all.push(fact(says.to_owned(), "registry", at_ms));
        }
        RegistryFact::Removed { at } => {
            all.push(fact("entry removed".to_owned(), "registry", at.wall_ms));
        }
        RegistryFact::LeftBehind { at } => {
            all.push(fact("entry left behind".to_owned(), "registry", at.wall_ms));
        }
    }
    match *session.turn {
        Turn::None => (),
        Turn::Open { since, .. } => all.push(fact("turn opened".to_owned(), "hook", since.wall_ms)),
        Turn::Closed { at } => all.push(fact("turn ended".to_owned(), "hook", at.wall_ms)),
        Turn::Interrupted { at, by, .. } => {
            all.push(fact("turn interrupted".to_owned(), source(by), at.wall_ms));
        }
    }
    all.extend(of_pane(session).into_iter().map(|(what, from, at_ms)| fact(what, from, at_ms)));
    for wait in &session.waits {
        let what = match wait.kind {
            WaitKind::Permission => "permission asked for",
            WaitKind::Input => "answer asked for",
        };
        all.push(fact(
            format!("{what} {}", wait.tool).trim_end().to_owned(),
            "hook",
            wait.since.wall_ms,
        ));
    }
    if session.last.is_none() {
        // H-24: the client started before the hooks were registered, or with hooks disabled.
        let what = "no hook has reported: coord does not act on it".to_owned();
        all.push(fact(what, "hook", now.wall_ms));
    }
    if let Some(last) = &session.last {
        let mark = if last.verified { "" } else { " (sender not verified)" };
        all.push(fact(format!("last event {}{mark}", last.name), "hook", last.stamp.wall_ms));
    }
    all
}

/// What the pane showed, and what the transcript showed because of it: fact, source, and time in
/// milliseconds.
fn of_pane(session: &Session) -> Vec<(String, &'static str, u64)> {
    let mut all = Vec::new();
    match &*session.pane {
        PaneFact::Unknown => (),
        PaneFact::Unreadable { at, why } => {
            all.push((format!("could not be read: {why}"), "pane", at.wall_ms));
        }
        PaneFact::NotThere { at, .. } => {
            all.push(("none in tmux has the client's terminal".to_owned(), "pane", at.wall_ms));
        }
        PaneFact::Its(view) => {
            let shows = view.screen.map_or("no known screen", screen);
            all.push((format!("shows {shows}"), "pane", view.at.wall_ms));
        }
    }
    if let Some(stall) = session.stall.filter(|stall| 0 < stall.count) {
        let what = format!("unchanged in {} more captures", stall.count);
        all.push((what, "pane", stall.since.wall_ms));
    }
    if let Some(signature) = &*session.signature {
        let at_ms = signature.at.wall_ms;
        all.push((format!("crash signature {} on the screen", signature.name), "pane", at_ms));
        if signature.is_content == Some(true) {
            let what = "the text of the signature is part of the conversation".to_owned();
            all.push((what, "transcript", at_ms));
        }
    }
    all
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Hooks => "hook",
        Source::Registry => "registry",
        Source::Pane => "pane",
        Source::Transcript => "transcript",
    }
}

fn screen(screen: Screen) -> &'static str {
    match screen {
        Screen::Prompt => "the input line",
        Screen::Working => "a running turn",
        Screen::Retry => "a retry of the API",
        Screen::Permission => "a permission dialog",
        Screen::Question => "a question",
        Screen::Plan => "a plan to be approved",
        Screen::Dialog => "a dialog",
        Screen::Trust => "the trust dialog",
        Screen::Error => "an API error above the input line",
        Screen::Shell => "a shell",
        Screen::Suspended => "a shell, the client being suspended",
    }
}

fn registry_word(status: RegistryStatus) -> &'static str {
    match status {
        RegistryStatus::Idle => "idle",
        RegistryStatus::Busy => "busy",
        RegistryStatus::Shell => "shell",
        RegistryStatus::WaitingPermission => "waiting for a permission",
        RegistryStatus::WaitingInput => "waiting for an answer",
    }
}
