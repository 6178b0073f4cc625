//! `coord wait ID --until STATE`: returns when a session reaches a state.

use std::io::Write;
use std::time::Duration;

use coord_wire::exchange::mono_ns;
use coord_wire::inspect::{Session, State, Status};

use crate::context::Context;
use crate::follow::JournalWatch;
use crate::out::{Failure, duration_ms, escape};
use crate::verb::inspect::{look, word};

/// Wait until a session reaches a state
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord wait 3f2a --until idle && notify-send done\n  coord wait 3f2a --until idle --until awaiting_permission --timeout 10m\n\nExit codes: 5 the time is over, 6 the session ended and the state can no longer come."
)]
pub(crate) struct Args {
    /// A session id, or the beginning of one
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    /// A state as `coord inspect` shows it; may be given several times
    #[arg(long, value_name = "STATE", required = true, value_parser = state)]
    until: Vec<State>,
    /// Give up after this time, such as 90s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    timeout: Option<u64>,
}

fn state(text: &str) -> Result<State, String> {
    // Its own words list the states there are.
    serde_json::from_value(serde_json::Value::from(text)).map_err(|error| error.to_string())
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let timeout = args.timeout.map_or(Duration::MAX, Duration::from_millis);
    let began_ns = mono_ns();
    // An id that means nothing is told before a journal that is not there.
    look(Some(&args.id), context)?;
    // Watched before the look that counts: what changes between look and pause is news.
    let journal = JournalWatch::new(context)?;
    loop {
        let sessions = look(Some(&args.id), &context.at_present())?.answer.sessions;
        if let Some(session) = sessions.iter().find(|one| args.until.contains(&one.state)) {
            let because = escape(&session.because);
            let line =
                format!("{} {}: {because}", escape(&session.session_id), word(session.state));
            return Ok(writeln!(std::io::stdout(), "{line}")?);
        }
        if let Some(session) = sessions.iter().find(|one| is_over(one, &args.until)) {
            return Err(Failure::NeverComes(format!(
                "the session is {}: {}",
                word(session.state),
                session.because
            )));
        }
        let left = timeout.saturating_sub(Duration::from_nanos(mono_ns().saturating_sub(began_ns)));
        if left.is_zero() {
            let now = sessions.first().map_or_else(String::new, |one| word(one.state));
            return Err(Failure::TimedOut(format!("the session is still {now}")));
        }
        journal.pause(left)?;
    }
}

/// A session that ended does not come to a living state again, unless somebody resumes it.
fn is_over(session: &Session, until: &[State]) -> bool {
    let has_ended = session.state.status() == Status::Stopped
        && session.owner.as_ref().is_none_or(|owner| owner.alive == Some(false));
    has_ended && until.iter().all(|state| state.status() != Status::Stopped)
}
