//! The words of a row: where a session is, and what it does or needs (U-02, U-04).

use std::borrow::Cow;

use coord_model::SessionState;
use coord_model::stamp::parse_rfc3339;
use coord_wire::inspect::{Need, Session, Where};
use coord_wire::run::Run;

use super::{RUN_ID_CHARS, Seen, age, is_headless, ms, tilde};

/// An open tool is shown with its age from here on, in seconds.
const TOOL_AGE_S: u64 = 60;

/// Where the session is.
pub(super) fn place(session: &Session, seen: &Seen) -> String {
    match &session.place {
        Some(place) => place_words(place, seen.home, seen.server),
        None => tilde(&session.cwd, seen.home),
    }
}

/// A place in words, for a viewer with this home directory and tmux server.
pub fn place_words(place: &Where, home: &str, server: Option<&str>) -> String {
    match place.kind.as_str() {
        "tmux" => {
            let is_other = server.is_some() && place.server.as_deref() != server;
            format!("{}{}", place.text, if is_other { " (other)" } else { "" })
        }
        "elsewhere" => format!("host {}", place.text),
        "directory" => tilde(&place.text, home),
        _ => place.text.clone(),
    }
}

/// Whether the session has a pane on the viewer's own tmux server. Outside tmux, any server will do.
pub(super) fn has_pane(session: &Session, seen: &Seen) -> bool {
    session.place.as_ref().is_some_and(|place| {
        let is_own = seen.server.is_none() || place.server.as_deref() == seen.server;
        place.kind == "tmux" && is_own
    })
}

/// What the session does or needs, and the command or key that helps.
pub(super) fn of_session(
    session: &Session,
    run: Option<&Run>,
    seen: &Seen,
) -> (String, Option<String>) {
    if let Some(need) = &session.need {
        return of_need(session, need, seen);
    }
    if let Some(hold) = &session.hold
        && hold.until.is_some()
        && !is_down(session)
    {
        let until_ms = hold.until.as_deref().and_then(parse_rfc3339).unwrap_or(seen.now_ms);
        return (format!("held {} more", left(until_ms, seen)), None);
    }
    let own = of_state(session, seen);
    let words = match run {
        Some(run) => {
            let short: String = run.begin.run_id.chars().take(RUN_ID_CHARS).collect();
            let is_over = own.is_empty() || run.exit.is_some();
            let about = if is_over { about_run(run, seen.now_ms) } else { own };
            format!("{short}: {about}")
        }
        // Neither a tool nor a subagent is under way.
        None if own.is_empty() && session.state == SessionState::Running => {
            "waits for the model".to_owned()
        }
        None => own,
    };
    let is_cancellable =
        session.state == SessionState::RecoveryPending && is_counting_down(session);
    (words, is_cancellable.then(|| "any key in its pane cancels".to_owned()))
}

fn of_need(session: &Session, need: &Need, seen: &Seen) -> (String, Option<String>) {
    let is_prompt =
        |one: &&Need| matches!(one.kind.as_str(), "permission" | "question" | "plan" | "dialog");
    let prompts = session.needs.iter().filter(is_prompt).count();
    if 1 < prompts && is_prompt(&need) {
        return (format!("{prompts} requests"), None);
    }
    match need.kind.as_str() {
        "crashed" | "interrupted" => {
            let command = need.command.clone();
            (command.clone().unwrap_or_else(|| need.text.clone()), command)
        }
        "needs_operator" => {
            let reason = need.text.strip_prefix("needs you: ").unwrap_or(&need.text);
            (reason.to_owned(), need.command.clone())
        }
        "stalled" => (format!("no change for {}", age(since_s(&need.since, seen))), None),
        "login" => ("log in: /login".to_owned(), None),
        "billing" => ("account needs payment".to_owned(), None),
        "usage_limit" => ("usage limit, reset unknown".to_owned(), None),
        "two_owners" => ("runs in two clients".to_owned(), None),
        "plan" => ("plan to approve".to_owned(), None),
        "dialog" => ("dialog open".to_owned(), None),
        "permission" => {
            let text = need.text.strip_prefix("has a ").unwrap_or(&need.text);
            (text.to_owned(), None)
        }
        _ => (need.text.clone(), None),
    }
}

fn of_state(session: &Session, seen: &Seen) -> String {
    match session.state {
        SessionState::Starting | SessionState::Running => running(session, seen),
        SessionState::Background => background(session),
        SessionState::RecoveryPending | SessionState::Crashed | SessionState::Interrupted => {
            // Whether a crashed session comes back, coord decides on that look.
            let is_to_come_back = session.state == SessionState::RecoveryPending;
            let what = if is_to_come_back { "returns" } else { "coord checks it" };
            match session.pending_recovery.as_ref().and_then(|one| one.next_attempt_at.as_deref()) {
                Some(at) => format!("{what} in {}", left(ms(at), seen)),
                None => session.because.clone(),
            }
        }
        SessionState::QuotaWait => {
            match session.quota.as_ref().and_then(|quota| quota.until.as_deref()) {
                Some(until) => format!("resets {}", (seen.clock)(ms(until))),
                None => "usage limit".to_owned(),
            }
        }
        SessionState::Suspended => "Ctrl-Z; type fg".to_owned(),
        SessionState::Foreign => "Claude Code runs it".to_owned(),
        SessionState::Elsewhere => format!("host {}", session.host),
        SessionState::Idle => match session.messages.pending {
            0 => String::new(),
            1 => "1 message waits".to_owned(),
            n => format!("{n} messages wait"),
        },
        SessionState::Recovering
        | SessionState::Unknown
        | SessionState::Stopped
        | SessionState::AwaitingPermission
        | SessionState::AwaitingInput
        | SessionState::BlockedAuth
        | SessionState::BlockedBilling
        | SessionState::Stalled => session.because.clone(),
    }
}

/// The open tool and the subagents.
fn running(session: &Session, seen: &Seen) -> String {
    let tool = session.open_tool.as_ref().map(|tool| match since_s(&tool.since, seen) {
        0..TOOL_AGE_S => tool.name.clone(),
        long => format!("{} {}", tool.name, age(long)),
    });
    let subagents = session.background.map(|work| work.subagents).filter(|n| 0 < *n);
    let subagents = subagents.map(|n| counted(n, "subagent"));
    tool.into_iter().chain(subagents).collect::<Vec<_>>().join(", ")
}

fn background(session: &Session) -> String {
    let Some(work) = session.background else { return "a shell".to_owned() };
    let each = [(work.tasks, "shell"), (work.subagents, "subagent"), (work.crons, "wake-up")];
    let each = each.into_iter().filter(|(n, _)| 0 < *n).map(|(n, what)| counted(n, what));
    each.collect::<Vec<_>>().join(", ")
}

/// What a run waits for, or how it ended.
pub(super) fn about_run(run: &Run, now_ms: u64) -> String {
    if let Some(exit) = &run.exit {
        return format!("{}: {}", exit.outcome, exit.reason);
    }
    if !run.supervised {
        return "its supervisor is gone".to_owned();
    }
    match &run.shown.hold {
        Some(hold) => {
            let left_s = ms(&hold.until).saturating_sub(now_ms) / 1_000;
            format!("{}, {} left", hold.reason, age(left_s))
        }
        None => state_words(&run.shown.state).into_owned(),
    }
}

/// The state of a run, by a name that sessions have too; the details are in [`about_run`].
pub(super) fn run_state(run: &Run) -> &str {
    match run.shown.state.as_str() {
        own @ ("exited" | "unknown") => own,
        "spawned" => "starting",
        _ => "running",
    }
}

/// The state of a run in plain words (U-12). Programs read the name.
pub fn state_words(state: &str) -> Cow<'_, str> {
    Cow::Borrowed(match state {
        "spawned" => "started",
        "streaming" => "working",
        "tool_active" => "a tool runs",
        "idle_post_result" => "its result came",
        "reader_eof" => "its output ended",
        "subcountdown" => "its output ended, it lives on",
        "limbo" => "its result came, it lives on",
        "sigterm_sent" => "SIGTERM sent",
        "sigkill_sent" => "SIGKILL sent",
        other => return other.into(),
    })
}

/// Whether its client is gone, and it is brought back.
fn is_down(session: &Session) -> bool {
    let is_down = matches!(
        session.state,
        SessionState::RecoveryPending | SessionState::Crashed | SessionState::Interrupted
    );
    is_down && session.pending_recovery.is_some()
}

/// Whether its recovery begins at a time that is known.
fn is_counting_down(session: &Session) -> bool {
    let pending = session.pending_recovery.as_ref();
    let is_interactive = !is_headless(session);
    is_interactive && pending.is_some_and(|one| one.next_attempt_at.is_some())
}

fn counted(n: u32, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn since_s(at: &str, seen: &Seen) -> u64 {
    seen.now_ms.saturating_sub(ms(at)) / 1_000
}

fn left(until_ms: u64, seen: &Seen) -> String {
    age(until_ms.saturating_sub(seen.now_ms) / 1_000)
}
