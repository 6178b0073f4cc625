//! `coord wait ID --until STATE`: returns when sessions reach a state (U-07).

use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::time::Duration;

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use coord_model::{SessionState, Status};
use coord_view::list::age;
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
        Some(meant) => format!("Did you mean {meant}? → coord help states"),
        None => "→ coord help states".to_owned(),
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

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(state) => f.write_str(&state_name(*state)),
            Self::NeedsMe => f.write_str("needs_me"),
        }
    }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let timeout = args.timeout.map_or(Duration::MAX, Duration::from_millis);
    // An id that means nothing is told before a journal that is not there.
    let mut waiting: Vec<String> = Vec::new();
    for id in &args.ids {
        let id = meant(id, context)?;
        if !waiting.contains(&id) {
            waiting.push(id);
        }
    }
    let mut wait = Wait { args, began_ns: mono_ns(), told: BTreeSet::new() };
    // Watched before the look that counts: what changes between look and pause is news.
    let journal = JournalWatch::new(context)?;
    loop {
        let Looked { still, over } = wait.look_at(&waiting, &context.at_present())?;
        if still.is_empty() || (args.any && still.len() < waiting.len()) {
            return Ok(());
        }
        let is_hopeless = if args.any { over.len() == still.len() } else { !over.is_empty() };
        if let Some(why) = over.into_iter().next().filter(|_| is_hopeless) {
            return Err(Failure::NeverComes(why));
        }
        let left = timeout.saturating_sub(wait.passed());
        if left.is_zero() {
            let after = wait.after();
            let words = still.iter().map(|(_, word)| format!("{word} after {after}."));
            return Err(Failure::TimedOut(words.collect::<Vec<_>>().join(" ")));
        }
        waiting = still.into_iter().map(|(id, _)| id).collect();
        journal.pause(left)?;
    }
}

/// The id of what is meant, so that a name that goes over to another session changes nothing. Where records share an
/// id, what was said.
fn meant(text: &str, context: &Context) -> Result<String, Failure> {
    let found = look(Some(text), context)?.answer.sessions;
    Ok(match found.as_slice() {
        [one] => one.session_id.clone(),
        _ => text.to_owned(),
    })
}

/// What became of those that are waited for.
struct Looked {
    /// Those that have not reached it, each with the words for it.
    still: Vec<(String, String)>,
    /// Why it can no longer come, of those that ended.
    over: Vec<String>,
}

/// What is waited for, and since when.
struct Wait<'a> {
    args: &'a Args,
    began_ns: u64,
    /// The needs that were told.
    told: BTreeSet<String>,
}

impl Wait<'_> {
    fn passed(&self) -> Duration {
        Duration::from_nanos(mono_ns().saturating_sub(self.began_ns))
    }

    fn after(&self) -> String {
        age(self.passed().as_secs())
    }

    /// Looks at each, and says which have reached it; with `--any` the first alone.
    fn look_at(&mut self, ids: &[String], context: &Context) -> Result<Looked, Failure> {
        let (args, after) = (self.args, self.after());
        let mut looked = Looked { still: Vec::new(), over: Vec::new() };
        let mut is_done = false;
        for id in ids {
            let sessions = look(Some(id), context)?.answer.sessions;
            let reached = sessions.iter().find_map(|session| {
                let until = args.until.iter().find(|until| until.is_reached_by(session))?;
                Some((session, until))
            });
            if let Some((session, until)) = reached {
                if !(args.any && is_done) {
                    let line = match (until, &session.need) {
                        (Until::NeedsMe, Some(need)) => {
                            format!(
                                "{} needs you after {after}: {}",
                                name(session),
                                escape(&need.text)
                            )
                        }
                        _ => {
                            format!("{} {} after {after}", name(session), state_name(session.state))
                        }
                    };
                    writeln!(std::io::stdout(), "{line}")?;
                }
                is_done = true;
                continue;
            }
            let Some(session) = sessions.first() else { continue };
            self.tell_need(session);
            if sessions.iter().any(|one| is_over(one, &args.until)) {
                let wanted: Vec<String> = args.until.iter().map(ToString::to_string).collect();
                let wanted = wanted.join(" or ");
                looked
                    .over
                    .push(format!("{} has ended; it cannot become {wanted}.", name(session)));
            }
            let word = format!("{} is still {}", name(session), state_name(session.state));
            looked.still.push((id.clone(), word));
        }
        Ok(looked)
    }

    /// Says once that a person has to act before the wait can end.
    fn tell_need(&mut self, session: &Session) {
        if let Some(need) = &session.need
            && self.told.insert(need.id.clone())
        {
            // Whoever does not read it waits nevertheless.
            let line = format!("{} needs you: {}.", name(session), escape(&need.text));
            drop(writeln!(std::io::stderr(), "{line}"));
        }
    }
}

/// What a session is called.
fn name(session: &Session) -> String {
    escape(session.display_name.as_deref().unwrap_or(&session.session_id))
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
        assert_eq!(until("idel"), Err("Did you mean idle? → coord help states".to_owned()));
    }
}
