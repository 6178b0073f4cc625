//! `coordctl recover ID`: brings a session back, under the guards that always hold, and waits until that
//! is verified (U-07).

use std::io::Write;
use std::time::Duration;

use coord_wire::api::{OperatorRequest, OperatorVerb};
use coord_wire::exchange::mono_ns;
use coord_wire::inspect::Session;

use super::{How, ask, show};
use crate::context::Context;
use crate::follow::JournalWatch;
use crate::out::{Failure, Painter, escape};
use crate::verb::inspect::{look, state_name};
use crate::verb::status::not_reachable;

/// A coordinator that is replaced answers again within this.
const AWAY_NS_MAX: u64 = 10_000_000_000;

/// Bring a crashed session back now, with the usual safety checks
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl recover 3f2a --dry-run   print what would be done, or why not\n  coordctl recover 3f2a             report the steps, and return when the session is back\n  coordctl recover 3f2a --no-wait   return when the order is recorded\n  coordctl recover 3f2a --restart   end its idle process and resume it\n\ncoord leaves a living session alone. With --restart, it ends the process of an idle session and\nresumes the session; text that was typed and not sent is lost. It never ends a working session:\nthe order is refused, or, with --when-idle, waits until the session is idle. Other orders expire\nafter 10 seconds.\nExit code 1: the session was not brought back; the message says why. After Ctrl-C the recovery\ncontinues; `coord explain 3f2a` shows its result."
)]
pub(crate) struct Args {
    /// A session id, or the beginning of one (4 characters or more)
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    /// End the process of an idle session and resume the session; text typed and not sent is lost
    #[arg(long)]
    restart: bool,
    /// With --restart: wait until the session is idle, or its process is proved to hang
    #[arg(long, requires = "restart")]
    when_idle: bool,
    /// Return as soon as the order is recorded
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let new = OperatorRequest::new(OperatorVerb::Recover);
    let sessions = vec![args.id.clone()];
    let Args { restart, when_idle, .. } = *args;
    let dry_run = args.how.dry_run;
    let request = OperatorRequest { sessions, restart, when_idle, dry_run, ..new };
    let answer = ask(&request, context)?;
    show(&answer, &args.how, Painter::for_stdout(), &mut std::io::stdout().lock())?;
    if args.no_wait || args.how.dry_run {
        return Ok(());
    }
    let ids = answer.results.iter().filter_map(|result| result.session_id.as_deref());
    for id in ids {
        follow(id, args.how.json, context)?;
    }
    Ok(())
}

/// Waits for the end of a session's recovery, and says what it is at.
fn follow(id: &str, is_quiet: bool, context: &Context) -> Result<(), Failure> {
    let journal = JournalWatch::new(context)?;
    let mut said = String::new();
    let mut away_since_ns = None;
    loop {
        let looked = look(Some(id), &context.at_present())?;
        if let Some(miss) = looked.miss {
            let since_ns = *away_since_ns.get_or_insert_with(mono_ns);
            if AWAY_NS_MAX <= mono_ns().saturating_sub(since_ns) {
                return Err(Failure::NotReachable(not_reachable(miss, context)));
            }
            journal.pause(Duration::MAX)?;
            continue;
        }
        away_since_ns = None;
        let sessions = looked.answer.sessions;
        let owed = sessions.iter().find(|one| one.pending_recovery.is_some());
        let Some(session) = owed else {
            return sessions.first().map_or(Ok(()), |session| ended(session, is_quiet));
        };
        let line = progress(session);
        if line != said && !is_quiet {
            writeln!(std::io::stdout(), "{line}")?;
        }
        said = line;
        journal.pause(Duration::MAX)?;
    }
}

/// What a recovery is at, in one line.
fn progress(session: &Session) -> String {
    let mut line = format!("{} {}", short(session), state_name(session.state));
    if let Some(hold) = &session.hold {
        line = format!("{line}, waits: {}", escape(&hold.reason));
    }
    let recovery = &session.recovery;
    if let (Some("failed"), Some(why)) = (recovery.last_outcome.as_deref(), &recovery.last_reason) {
        line = format!("{line} (the last attempt failed: {})", escape(why));
    }
    line
}

/// Says how it ended.
fn ended(session: &Session, is_quiet: bool) -> Result<(), Failure> {
    let id = short(session);
    let recovery = &session.recovery;
    let why = match recovery.last_outcome.as_deref() {
        Some("verified") => {
            let pid = session.owner.as_ref().map_or(0, |owner| owner.pid);
            if !is_quiet {
                writeln!(std::io::stdout(), "{id} is back, as process {pid}")?;
            }
            return Ok(());
        }
        Some("observed") => "recovery.mode is \"observe\"".to_owned(),
        Some(_) | None => recovery.last_reason.clone().unwrap_or_else(|| session.because.clone()),
    };
    Err(Failure::Failed(anyhow::anyhow!("{id} was not brought back: {why}")))
}

fn short(session: &Session) -> String {
    escape(&session.session_id.chars().take(8).collect::<String>())
}
