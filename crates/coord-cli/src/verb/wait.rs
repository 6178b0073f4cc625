//! `coord wait ID --until STATE`: returns when sessions reach a state (U-07).

use std::io::Write;
use std::time::Duration;

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use coord_model::{SessionState, Status};
use coord_view::lookup::nearest;
use coord_wire::exchange::mono_ns;
use coord_wire::inspect::Session;

use crate::context::Context;
use crate::follow::JournalWatch;
use crate::out::{Failure, duration_ms, escape};
use crate::verb::completions;
use crate::verb::inspect::{look, state_name};

/// Wait until sessions reach a state
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord wait 3f2a --until idle && notify-send done\n  coord wait 3f2a --until idle --until awaiting_permission --timeout 10m\n  coord wait tests docs 3f2a --until idle        until each was idle once\n  coord wait tests docs --any --until needs_me   until one needs a person\n\nA session that is being brought back does not count as ended.\nExit codes: 5 timeout, 6 the session ended and cannot reach the state any more."
)]
pub(crate) struct Args {
    /// Session ids, beginnings of ids, or names
    #[arg(value_name = "ID", required = true, value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::session())]
    ids: Vec<String>,
    /// A state as `coord inspect` shows it, such as idle, awaiting_permission or stopped, or needs_me; may be given
    /// several times
    #[arg(long, value_name = "STATE", required = true, value_parser = until, add = states())]
    until: Vec<Until>,
    /// Return as soon as one session reaches the state
    #[arg(long)]
    any: bool,
    /// Give up after this time, such as 90s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    timeout: Option<u64>,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    State(SessionState),
    /// A person has to act.
    NeedsMe,
}

/// What can be waited for, as it is shown.
const STATES: [&str; 20] = [
    "starting",
    "running",
    "background",
    "idle",
    "awaiting_permission",
    "awaiting_input",
    "quota_wait",
    "blocked_auth",
    "blocked_billing",
    "suspended",
    "stalled",
    "interrupted",
    "recovery_pending",
    "recovering",
    "crashed",
    "foreign",
    "elsewhere",
    "stopped",
    "unknown",
    "needs_me",
];

fn until(text: &str) -> Result<Until, String> {
    if matches!(text, "needs_me" | "needs-me") {
        return Ok(Until::NeedsMe);
    }
    let state = serde_json::from_value(serde_json::Value::from(text));
    state.map(Until::State).map_err(|_| match nearest(text, STATES) {
        Some(meant) => format!("Did you mean {meant}?"),
        None => "→ coord wait --help".to_owned(),
    })
}

/// Completes a state.
fn states() -> ArgValueCandidates {
    ArgValueCandidates::new(|| STATES.into_iter().map(CompletionCandidate::new).collect())
}

impl Until {
    fn is_reached_by(self, session: &Session) -> bool {
        match self {
            Self::State(state) => session.state == state,
            Self::NeedsMe => session.need.is_some(),
        }
    }

    /// Whether a session that has ended can be in it.
    fn is_an_end(self) -> bool {
        match self {
            Self::State(state) => state.status() == Status::Stopped,
            Self::NeedsMe => false,
        }
    }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let timeout = args.timeout.map_or(Duration::MAX, Duration::from_millis);
    let began_ns = mono_ns();
    // An id that means nothing is told before a journal that is not there.
    let mut waiting: Vec<String> = Vec::new();
    for id in &args.ids {
        let id = meant(id, context)?;
        if !waiting.contains(&id) {
            waiting.push(id);
        }
    }
    // Watched before the look that counts: what changes between look and pause is news.
    let journal = JournalWatch::new(context)?;
    loop {
        let Looked { still, over } = look_at(&waiting, args, &context.at_present())?;
        if still.is_empty() || (args.any && still.len() < waiting.len()) {
            return Ok(());
        }
        let is_hopeless = if args.any { over.len() == still.len() } else { !over.is_empty() };
        if let Some(why) = over.into_iter().next().filter(|_| is_hopeless) {
            return Err(Failure::NeverComes(why));
        }
        let left = timeout.saturating_sub(Duration::from_nanos(mono_ns().saturating_sub(began_ns)));
        if left.is_zero() {
            let words: Vec<&str> = still.iter().map(|(_, word)| word.as_str()).collect();
            return Err(Failure::TimedOut(words.join("; ")));
        }
        waiting = still.into_iter().map(|(id, _)| id).collect();
        journal.pause(left)?;
    }
}

/// The id of what is meant: a name of one living session, an id, or its beginning.
fn meant(text: &str, context: &Context) -> Result<String, Failure> {
    let all = look(None, context)?.answer.sessions;
    let is_named =
        |one: &&Session| one.name.as_deref() == Some(text) && one.state.status() != Status::Stopped;
    let named: Vec<&str> = all.iter().filter(is_named).map(|one| one.session_id.as_str()).collect();
    match named.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => look(Some(text), context).map(|_| text.to_owned()),
        several => Err(Failure::UnclearId(format!(
            "{text:?} is the name of several sessions: {}",
            several.join(", ")
        ))),
    }
}

/// What became of those that are waited for.
struct Looked {
    /// Those that have not reached it, each with the words for it.
    still: Vec<(String, String)>,
    /// Why it can no longer come, of those that ended.
    over: Vec<String>,
}

/// Looks at each, and says which have reached it; with `--any` the first alone.
fn look_at(ids: &[String], args: &Args, context: &Context) -> Result<Looked, Failure> {
    let mut looked = Looked { still: Vec::new(), over: Vec::new() };
    let mut is_done = false;
    for id in ids {
        let sessions = look(Some(id), context)?.answer.sessions;
        let is_reached = |one: &&Session| args.until.iter().any(|until| until.is_reached_by(one));
        if let Some(session) = sessions.iter().find(is_reached) {
            if !(args.any && is_done) {
                let (id, because) = (escape(&session.session_id), escape(&session.because));
                writeln!(std::io::stdout(), "{id} {}: {because}", state_name(session.state))?;
            }
            is_done = true;
            continue;
        }
        let of = if args.ids.len() == 1 { "the session".to_owned() } else { escape(id) };
        if let Some(session) = sessions.iter().find(|one| is_over(one, &args.until)) {
            let (word, because) = (state_name(session.state), &session.because);
            looked.over.push(format!("{of} is {word}: {because}"));
        }
        let now = sessions.first().map_or_else(String::new, |one| state_name(one.state));
        looked.still.push((id.clone(), format!("{of} is still {now}")));
    }
    Ok(looked)
}

/// A session that ended does not come to a living state again, unless it is being brought back or
/// somebody resumes it.
fn is_over(session: &Session, until: &[Until]) -> bool {
    let has_ended = session.state.status() == Status::Stopped
        && session.owner.as_ref().is_none_or(|owner| owner.alive == Some(false));
    let is_brought_back = session.pending_recovery.is_some()
        || matches!(session.state, SessionState::RecoveryPending | SessionState::Recovering);
    has_ended && !is_brought_back && !until.iter().any(|until| until.is_an_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u_03_what_is_completed_can_be_waited_for() {
        for state in STATES {
            assert!(until(state).is_ok(), "{state}");
        }
        assert_eq!(until("idel"), Err("Did you mean idle?".to_owned()));
    }
}
