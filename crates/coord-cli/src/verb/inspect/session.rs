//! Prints one session in depth: who needs whom and what to do, where it is, and on what that rests.

use std::io::Write;

use coord_model::stamp::parse_rfc3339;
use coord_model::{Kind, SessionState};
use coord_view::list::shown_name;
use coord_view::work;
use coord_wire::inspect::{self, Need, Session, Subagent, SubagentState};

use super::{age_s, colour, state_name, tilde, usage};
use crate::context::Context;
use crate::out::{Colour, Failure, Painter, age, columns, escape, wrapped};
use crate::verb::status::counted;

/// Columns before a value.
const INDENT: usize = 13;

/// How a person brings the conversation back, where its process is gone (H-05). Only for an id of
/// plain characters: what is shown is meant to be pasted into a shell.
fn resume_command(session: &Session) -> Option<String> {
    let is_gone = session.owner.as_ref().is_some_and(|owner| owner.alive == Some(false));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_offered = session.resumable && is_gone && session.session_id.chars().all(is_plain);
    is_offered.then(|| format!("claude --resume {} (in its directory)", session.session_id))
}

/// How many messages of a session are where.
fn messages_of(session: &Session) -> Option<String> {
    let inspect::Messages { pending, processing, failed } = session.messages;
    let many = [(pending, "waiting"), (processing, "on the way"), (failed, "failed")];
    let many = many.into_iter().filter(|(n, _)| 0 < *n).map(|(n, what)| format!("{n} {what}"));
    let many = many.collect::<Vec<_>>().join(", ");
    let id: String = session.session_id.chars().take(8).collect();
    (!many.is_empty()).then(|| format!("{many}; `coord queue --session {id}` says why"))
}

/// What is done with a session, is not done, or waits for a person; as far as it applies: a name and
/// its words.
pub(crate) fn standing(session: &Session, context: &Context) -> Vec<(&'static str, String)> {
    let ago = |at: &str| age(age_s(at, context));
    let mut all = Vec::new();
    if let Some(needs) = &session.needs_operator {
        let id: String = session.session_id.chars().take(8).collect();
        let remedy = format!("`coordctl reset-failed {id}` lets coord try again");
        all.push(("needs you", format!("{}, for {}; {remedy}", needs.reason, ago(&needs.since))));
    }
    if let Some(hold) = &session.hold {
        let until = match hold.until.as_deref().and_then(parse_rfc3339) {
            Some(until_ms) => {
                let left_ms = until_ms.saturating_sub(context.now.wall_ms);
                format!("for {} more", age(left_ms / 1000))
            }
            None => "until that reason ends".to_owned(),
        };
        all.push(("held", format!("{}, {until}; coord does not act on it", hold.reason)));
    }
    if let Some(pending) = &session.pending_recovery {
        let next = pending.next_attempt_at.as_deref().and_then(parse_rfc3339).map(|at_ms| {
            let left_ms = at_ms.saturating_sub(context.now.wall_ms);
            format!(", the next in {}", age(left_ms / 1000))
        });
        let (cause, since) = (&pending.cause, ago(&pending.detected_at));
        let tried = pending.attempts;
        let next = next.unwrap_or_default();
        all.push(("recovery", format!("pending: {cause}, for {since}; {tried} attempts{next}")));
    }
    all.extend(by_hand(session).map(|words| ("by hand", words)));
    all.extend(messages_of(session).map(|words| ("messages", words)));
    let done = &session.recovery;
    if 0 < done.total {
        let outcome = done.last_outcome.as_deref().unwrap_or("not known yet");
        let last = done.last_at.as_deref().map(|at| format!(", {} ago", ago(at)));
        let (total, turn) = (done.total, done.this_turn);
        let last = last.unwrap_or_default();
        all.push((
            "recovered",
            format!("{}, {turn} in this turn; {outcome}{last}", counted(total.into(), "time")),
        ));
    }
    if let Some(quota) = &session.quota {
        let until = match quota.until.as_deref().and_then(parse_rfc3339) {
            Some(until_ms) => {
                let left_ms = until_ms.saturating_sub(context.now.wall_ms);
                format!("it resets in {}, according to the {}", age(left_ms / 1000), quota.source)
            }
            None => "the time of the reset is not known".to_owned(),
        };
        all.push(("quota", format!("{} for {}; {until}", quota.kind, ago(&quota.since))));
    }
    if session.unattended {
        all.push(("attended", "no: nobody watches it".to_owned()));
    }
    if let Some(answers) = &session.answers {
        let (total, now) = (u64::from(answers.total), answers.this_iteration);
        let what = if answers.questions { "prompts and questions" } else { "prompts to continue" };
        let times = counted(total, "time");
        all.push(("answered", format!("{times}, {now} in this iteration; {what}")));
    }
    if let Some(task) = &session.task {
        let stopped = if task.stopped { ", stopped by its .auto-stop" } else { "" };
        all.push(("task", format!("{}{stopped}", tilde(&task.dir))));
    }
    all
}

/// H-06: what is not brought back is one command away.
fn by_hand(session: &Session) -> Option<String> {
    let is_down = matches!(
        session.state,
        SessionState::Crashed | SessionState::Interrupted | SessionState::Unknown
    );
    let is_dead = session.owner.as_ref().is_some_and(|owner| owner.alive == Some(false));
    let is_left = is_down && is_dead && session.resumable && session.pending_recovery.is_none();
    is_left.then(|| format!("`claude --resume {}` in {}", session.session_id, tilde(&session.cwd)))
}

/// One row: its name, and its words wrapped at blanks under their column.
fn row(out: &mut impl Write, name: &str, value: &str) -> Result<(), Failure> {
    let mut name = name;
    for line in wrapped(&escape(value), columns().saturating_sub(INDENT)) {
        writeln!(out, "  {name:10} {line}")?;
        name = "";
    }
    Ok(())
}

/// What a person can do now, as commands.
fn remedies(session: &Session, name: &str) -> Vec<String> {
    let is_in_tmux = session.place.as_ref().is_some_and(|place| place.kind == "tmux");
    let is_alive = session.owner.as_ref().is_none_or(|owner| owner.alive != Some(false));
    let go = (is_in_tmux && is_alive).then(|| format!("→ coord go {name}"));
    let commands = session.needs.iter().filter_map(|need| need.command.clone());
    let mut all: Vec<String> = go.into_iter().collect();
    all.extend(commands.map(|command| format!("→ {command}")));
    all.dedup();
    if session.needs.is_empty() { Vec::new() } else { all }
}

fn of_need(need: &Need, name: &str, context: &Context) -> String {
    let since = age(age_s(&need.since, context));
    format!("{name} {}, for {since} ({})", need.text, need.id)
}

/// The client: its process, and the mode that it asks for permission in.
fn client(session: &Session) -> Option<String> {
    let owner = session.owner.as_ref()?;
    let alive = match owner.alive {
        Some(true) => "alive",
        Some(false) => "gone",
        None => "not checked",
    };
    let kind = match session.kind {
        Some(Kind::Interactive) => " · interactive",
        Some(Kind::Headless) => " · headless",
        None => "",
    };
    let mode = session.permission_mode.as_deref();
    let mode = mode.map_or_else(String::new, |mode| format!(" · {mode} permissions"));
    Some(format!("pid {}, {alive}{kind}{mode}", owner.pid))
}

/// Its subagents: what runs, with its age; what ended.
fn subagents(session: &Session, context: &Context) -> String {
    let words = |one: &Subagent| {
        let name = if one.name.is_empty() { "a subagent" } else { &one.name };
        match one.state {
            SubagentState::Running => {
                format!("{name} running for {}", age(age_s(&one.since, context)))
            }
            SubagentState::Done => format!("{name} done"),
            SubagentState::Unknown => format!("{name}: its end was not reported"),
        }
    };
    session.subagents.iter().map(words).collect::<Vec<_>>().join(" · ")
}

fn place(session: &Session) -> String {
    let directory = tilde(&session.cwd);
    let watched = if session.unattended { "unattended" } else { "watched" };
    let parts = match &session.place {
        Some(place) if place.kind == "tmux" => {
            vec![format!("tmux {}", place.text), directory, watched.to_owned()]
        }
        Some(place) if place.kind == "elsewhere" => vec![format!("host {}", place.text), directory],
        Some(place) if place.kind == "headless" => vec!["headless".to_owned(), directory],
        Some(_) | None => vec![directory, watched.to_owned()],
    };
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// The session, in depth.
pub(super) fn depth(
    out: &mut impl Write,
    session: &Session,
    painter: Painter,
    context: &Context,
) -> Result<(), Failure> {
    let name = shown_name(session);
    let state = state_name(session.state);
    let is_needed = if session.need.is_some() {
        format!("  {}", painter.paint(Colour::Yellow, "! needs you"))
    } else {
        String::new()
    };
    writeln!(
        out,
        "{}  {} for {}{is_needed}",
        painter.paint(Colour::Bold, &escape(&name)),
        painter.paint(colour(session.state), &state),
        age(age_s(&session.since, context))
    )?;
    for (name, words) in needs(session, context) {
        row(out, name, &words)?;
    }
    writeln!(out)?;
    for (name, words) in facts(session, context) {
        row(out, name, &words)?;
    }
    if let Some(git) = &session.git {
        row(out, "git", &work::words(&git.work))?;
    }
    let mut title = "evidence";
    for evidence in &session.evidence {
        let line = format!("{:10} {}", escape(&evidence.source), escape(&evidence.fact));
        let ago = painter.paint(Colour::Dim, &format!("{} ago", age(evidence.age_s)));
        writeln!(out, "  {title:10} {line}  {ago}")?;
        title = "";
    }
    row(out, "id", &session.session_id)?;
    row(out, "next", &format!("coord explain {name} · coord events {name}"))
}

/// Why it is in its state, who needs it, and what to do: names and words, a name only before its first words.
pub(crate) fn needs(session: &Session, context: &Context) -> Vec<(&'static str, String)> {
    let name = shown_name(session);
    let mut all = vec![("why", session.because.clone())];
    all.extend(session.needs.iter().map(|need| ("needs you", of_need(need, &name, context))));
    let remedies = remedies(session, &name).into_iter().enumerate();
    all.extend(remedies.map(|(at, remedy)| (if at == 0 { "do" } else { "" }, remedy)));
    all
}

/// Where it is, what it does, and what holds for it, as far as it applies: names and words.
pub(crate) fn facts(session: &Session, context: &Context) -> Vec<(&'static str, String)> {
    let background = session.background.map(|work| {
        format!("{} tasks, {} subagents, {} wake-ups", work.tasks, work.subagents, work.crons)
    });
    let tool = session
        .open_tool
        .as_ref()
        .map(|tool| format!("{} open for {}", tool.name, age(age_s(&tool.since, context))));
    let resumable = (!session.resumable).then(|| "no turn to resume is known".to_owned());
    let mut all = vec![
        ("where", place(session)),
        ("client", client(session).unwrap_or_default()),
        ("tool", tool.unwrap_or_default()),
        ("background", background.unwrap_or_default()),
    ];
    all.push(("subagents", subagents(session, context)));
    all.extend(usage::rows(session, context));
    all.extend(standing(session, context));
    all.extend([
        ("resumable", resumable.unwrap_or_default()),
        ("resume with", resume_command(session).unwrap_or_default()),
        ("transcript", tilde(&session.transcript_path)),
        ("config", tilde(&session.config_dir)),
        ("earlier ids", session.previous_ids.join(", ")),
    ]);
    all.retain(|(_, words)| !words.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(more: &serde_json::Value) -> Session {
        let mut all = serde_json::json!({
            "session_id": "aaaa1111-2222", "previous_ids": [], "forked_from": null, "host": "",
            "config_dir": "", "resumable": true, "name": null, "provider": "claude", "kind": null,
            "status": "stopped", "state": "crashed", "since": "", "awaiting_permission": null,
            "pending_recovery": null, "recovery": {"this_turn": 0, "total": 0, "last_at": null,
            "last_outcome": null}, "quota": null, "background": null, "stall_count": 0,
            "unattended": false, "parent": null, "needs_operator": null, "hold": null,
            "disagreement": null, "owner": null, "tmux": null, "cwd": "", "transcript_path": "",
            "permission_mode": null, "last_event": null, "evidence": [],
            "messages": {"pending": 0, "processing": 0, "failed": 0},
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    // G5, G12: what waits for a person, what holds, and what was tried can be read.
    #[test]
    fn what_stands_against_a_session_is_shown_as_far_as_it_applies() {
        let root = std::path::PathBuf::from("/nonexistent");
        let mut context = Context::from_environment(Some(root)).unwrap();
        context.now.wall_ms = parse_rfc3339("2026-01-01T00:10:00.000Z").unwrap();
        assert_eq!(standing(&session(&serde_json::json!({})), &context), []);
        let since = "2026-01-01T00:08:00.000Z";
        let all = session(&serde_json::json!({
            "needs_operator": {"reason": "10 recoveries in all", "since": since},
            "hold": {"reason": "by hand", "since": since, "until": "2026-01-01T00:15:00.000Z"},
            "pending_recovery": {"cause": "died", "detected_at": since, "attempts": 2,
                "next_attempt_at": "2026-01-01T00:10:05.000Z"},
            "recovery": {"this_turn": 1, "total": 3, "last_at": since, "last_outcome": "verified"},
            "unattended": true,
        }));
        let shown = standing(&all, &context);
        let wanted = [
            (
                "needs you",
                "10 recoveries in all, for 2m; `coordctl reset-failed aaaa1111` lets coord try again",
            ),
            ("held", "by hand, for 5m more; coord does not act on it"),
            ("recovery", "pending: died, for 2m; 2 attempts, the next in 5s"),
            ("recovered", "3 times, 1 in this turn; verified, 2m ago"),
            ("attended", "no: nobody watches it"),
        ];
        assert_eq!(shown, wanted.map(|(name, words)| (name, words.to_owned())));
    }
}
