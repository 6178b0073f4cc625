//! `coordctl recover NAME…`: brings sessions back, under the guards that always hold, reports each step, and
//! returns when all have come back or it is certain that one does not (U-07).

mod end;
mod follow;
mod progress;

use std::io::Write as _;

use coord_store::{RealDisk, StateLock};
use coord_view::history::{self, Wanted};
use coord_view::list::shown_name;
use coord_view::work;
use coord_wire::api::{ACCEPTED, OperatorAnswer, OperatorRequest, OperatorResult, OperatorVerb};
use coord_wire::exchange::mono_ns;
use serde::Serialize;

use super::{How, ask, show};
use crate::context::Context;
use crate::out::{Failure, Painter, escape, print_json};
use crate::verb::completions;
use crate::verb::inspect::{git, look};
use end::End;
use follow::{Follow, Target, Wait};

/// Bring a crashed session back now, with the usual safety checks
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl recover site --dry-run   print what would be done, or why not\n  coordctl recover site             report each step, and return when the session is back\n  coordctl recover site 3f2a        the same for two sessions; returns when both have ended\n  coordctl recover site --no-wait   return when the order is recorded\n  coordctl recover site --restart   end its idle process and resume it\n\ncoord leaves a living session alone. With --restart, it ends the process of an idle session and\nresumes the session; text that was typed and not sent is lost. It never ends a working session:\nthe order is refused, or, with --when-idle, waits until the session is idle. Other orders for a\nliving session expire after 10 seconds.\nIf the recovery waits for a person, such as for the end of a hold, the command says so and\nreturns; the order stays. Ctrl-C ends only the command: the recovery goes on, and\n`coord explain site` shows its result.\nExit code 1: a session was not brought back; the message says why and what to do."
)]
pub(crate) struct Args {
    /// Names or ids of sessions, or the beginnings of ids (4 characters or more)
    #[arg(required = true, value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::crashed_session())]
    ids: Vec<String>,
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
    if !args.how.json {
        show_work(args, context)?;
    }
    let (began_ns, after_seq) = (mono_ns(), last_seq(context)?);
    let answer = give_orders(args, context)?;
    if args.no_wait || args.how.dry_run {
        return show(&answer, &args.how, Painter::for_stdout(), &mut std::io::stdout().lock());
    }
    let is_quiet = args.how.json;
    let mut result = Ok(());
    if !is_quiet {
        result = show(&answer, &args.how, Painter::for_stdout(), &mut std::io::stdout().lock());
        // A refusal of one session does not end the wait for the others.
        if !matches!(result, Ok(()) | Err(Failure::Told)) {
            return result;
        }
    }
    let accepted = answer.results.iter().filter(|one| one.outcome == ACCEPTED);
    let targets: Vec<Target> =
        accepted.map(|one| Target::of(one, context)).collect::<Result<_, Failure>>()?;
    let wait = Wait { began_ns, after_seq, is_patient: args.when_idle, is_quiet };
    let mut follow = Follow::new(targets, wait, context)?;
    let waited = follow.wait_for_ends();
    if is_quiet && !matches!(waited, Err(Failure::ReaderGone)) {
        print_json(&mut std::io::stdout().lock(), &Report::of(&answer, &follow))?;
    }
    waited?;
    let are_all_back = answer.results.len() == follow.recovered();
    if are_all_back { result } else { Err(Failure::Told) }
}

/// Shows what the sessions whose client is gone left in their repositories. Whether a name means a session is
/// the order's business.
fn show_work(args: &Args, context: &Context) -> Result<(), Failure> {
    let looked = args.ids.iter().filter_map(|id| look(Some(id), context).ok());
    let sessions = looked.flat_map(|looked| looked.answer.sessions);
    let gone =
        sessions.filter(|one| one.owner.as_ref().is_none_or(|owner| owner.alive != Some(true)));
    let mut out = std::io::stdout().lock();
    for session in gone {
        if let Some(git) = git(&session, context) {
            let line = format!("{}: {}", shown_name(&session), work::words(&git.work));
            writeln!(out, "{}", escape(&line))?;
        }
    }
    Ok(())
}

/// Sends one order for each session. If a name means no session, no order is given.
fn give_orders(args: &Args, context: &Context) -> Result<OperatorAnswer, Failure> {
    let order = |id: &String, dry_run: bool| {
        let new = OperatorRequest::new(OperatorVerb::Recover);
        let Args { restart, when_idle, .. } = *args;
        let sessions = vec![id.clone()];
        ask(&OperatorRequest { sessions, restart, when_idle, dry_run, ..new }, context)
    };
    let mut ids: Vec<String> = Vec::new();
    for id in &args.ids {
        if let [_] = args.ids.as_slice() {
            ids.push(id.clone());
            continue;
        }
        for result in order(id, true)?.results {
            ids.extend(result.session_id.filter(|id| !ids.contains(id)));
        }
    }
    let mut all = OperatorAnswer { what: String::new(), results: Vec::new() };
    for id in &ids {
        let OperatorAnswer { what, results } = order(id, args.how.dry_run)?;
        all.what = what;
        all.results.extend(results);
    }
    Ok(all)
}

/// The position of the newest record in the journal; 0 if there is none yet.
fn last_seq(context: &Context) -> Result<u64, Failure> {
    let journal = context.paths.journal();
    if !journal.is_dir() {
        return Ok(0);
    }
    let _lock = StateLock::shared(&context.paths.state_lock()).map_err(anyhow::Error::from)?;
    let newest = history::newest(&RealDisk, &journal, &Wanted::default(), 1);
    let newest = newest.map_err(anyhow::Error::from)?;
    Ok(newest.last().map_or(0, |line| line.seq))
}

/// What `--json` prints: the answer to the order, and how each recovery ended.
#[derive(Debug, Serialize)]
struct Report<'a> {
    what: &'a str,
    results: Vec<Reported<'a>>,
}

#[derive(Debug, Serialize)]
struct Reported<'a> {
    #[serde(flatten)]
    result: &'a OperatorResult,
    /// Null if the order was refused.
    recovery: Option<&'a End>,
}

impl<'a> Report<'a> {
    fn of(answer: &'a OperatorAnswer, follow: &'a Follow<'_>) -> Self {
        let reported = |result: &'a OperatorResult| {
            let id = result.session_id.as_deref();
            Reported { result, recovery: id.and_then(|id| follow.end_of(id)) }
        };
        Self { what: &answer.what, results: answer.results.iter().map(reported).collect() }
    }
}
