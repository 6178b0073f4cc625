//! `coordctl restore [ID…]`: brings back what a restart of the machine or the end of a tmux server
//! interrupted, one after the other (H-10, S0-25f).

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use coord_model::SessionState;
use coord_wire::api::{OperatorAnswer, OperatorRequest, OperatorResult, OperatorVerb, REFUSED};
use coord_wire::inspect::{Inspect, Session};

use super::{How, ask, show, tmux_server};
use crate::client;
use crate::context::Context;
use crate::out::{Colour, Failure, Painter, age, columns, escape, fit, fit_end, pad};
use crate::verb::completions;
use crate::verb::inspect::{age_s, tilde};
use crate::verb::status::not_reachable;

/// Bring back the sessions that a restart of the machine or of tmux interrupted
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl restore --dry-run    list the sessions, and print what would be done\n  coordctl restore              all of them, after a confirmation\n  coordctl restore 3f2a 91c0    these, in this order\n\ncoord restarts a tmux server that is gone. Sessions come back one after the other, the most\nrecently active one first."
)]
pub(crate) struct Args {
    /// Session ids, or the beginnings of some (4 characters or more)
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::interrupted_session())]
    ids: Vec<String>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let all = sessions(context)?;
    let ids = if args.ids.is_empty() { interrupted(&all) } else { args.ids.clone() };
    let mut out = std::io::stdout().lock();
    if ids.is_empty() {
        if args.how.json {
            let nothing = OperatorAnswer { what: "restore".to_owned(), results: Vec::new() };
            return show(&nothing, &args.how, Painter::for_stdout(), &mut out);
        }
        return Ok(writeln!(out, "No session waits to be brought back.")?);
    }
    let new = OperatorRequest::new(OperatorVerb::Restore);
    let request = OperatorRequest { sessions: ids, ..new };
    // Who may not give orders is told so before anything is started.
    let plan = ask(&OperatorRequest { dry_run: true, ..request.clone() }, context)?;
    let servers = servers(&plan, &all, context)?;
    let painter = Painter::for_stdout();
    if !args.how.json {
        table(&mut out, &plan, &all, painter, context)?;
        let verb = if args.how.dry_run { "would be" } else { "is" };
        for socket in &servers {
            let socket = escape(&socket.display().to_string());
            writeln!(out, "The tmux server {socket} is gone; it {verb} started again.")?;
        }
    }
    if args.how.dry_run {
        return if args.how.json {
            show(&plan, &args.how, painter, &mut out)
        } else {
            Ok(writeln!(out, "{}", painter.paint(Colour::Dim, "Dry run: nothing was changed."))?)
        };
    }
    if !args.yes && !agreed(plan.results.len(), args.how.json, &mut out)? {
        return Ok(writeln!(out, "Nothing was changed.")?);
    }
    for socket in &servers {
        tmux_server::start(socket, context)?;
    }
    show(&ask(&request, context)?, &args.how, painter, &mut out)
}

fn sessions(context: &Context) -> Result<Vec<Session>, Failure> {
    match client::get::<Inspect>(context, "/v1/sessions") {
        Ok(answer) => Ok(answer?.sessions),
        Err(miss) => Err(Failure::NotReachable(not_reachable(miss, context))),
    }
}

/// Those that a host event took along, the ones first that were heard of last.
fn interrupted(all: &[Session]) -> Vec<String> {
    let mut found: Vec<&Session> =
        all.iter().filter(|session| session.state == SessionState::Interrupted).collect();
    // RFC 3339 in UTC sorts as text; the newest come first already where nothing was heard.
    found.sort_by_key(|session| {
        std::cmp::Reverse(session.last_event.as_ref().map(|last| last.at.as_str()))
    });
    found.into_iter().map(|session| session.session_id.clone()).collect()
}

/// The sockets at which nobody listens any more, of the sessions that are to come back.
fn servers(
    plan: &OperatorAnswer,
    all: &[Session],
    context: &Context,
) -> anyhow::Result<Vec<PathBuf>> {
    let readable = tmux_server::readable(context)?;
    let sockets: BTreeSet<PathBuf> = plan
        .results
        .iter()
        .filter(|result| result.outcome != REFUSED)
        .filter_map(|result| session_of(result, all))
        .filter_map(|session| session.tmux.as_ref())
        .map(|tmux| PathBuf::from(&tmux.socket))
        .collect();
    let is_gone = |socket: &PathBuf| readable.allows(socket) && tmux_server::is_gone(socket);
    Ok(sockets.into_iter().filter(is_gone).collect())
}

fn session_of<'a>(result: &OperatorResult, all: &'a [Session]) -> Option<&'a Session> {
    all.iter().find(|one| result.session_id.as_ref() == Some(&one.session_id))
}

fn table(
    out: &mut impl Write,
    plan: &OperatorAnswer,
    all: &[Session],
    painter: Painter,
    context: &Context,
) -> Result<(), Failure> {
    let rest = columns().saturating_sub(8 + 2 + 5 + 2);
    let directory = rest.saturating_sub(2) / 2;
    let room = rest.saturating_sub(directory + 2);
    let line = |id: &str, since: &str, place: &str, what: &str| {
        let id = pad(&fit(id, 8), 8, false);
        let place = pad(&fit_end(place, directory), directory, false);
        let line = format!("{id}  {}  {place}  {}", pad(since, 5, true), fit(what, room));
        line.trim_end().to_owned()
    };
    let head = line("SESSION", "SINCE", "DIRECTORY", "WHAT");
    writeln!(out, "{}", painter.paint(Colour::Bold, &fit(&head, columns())))?;
    for result in &plan.results {
        let session = session_of(result, all);
        let since = session.map_or_else(String::new, |one| age(age_s(&one.since, context)));
        let place = session.map_or_else(String::new, |one| escape(&tilde(&one.cwd)));
        let id = escape(result.session_id.as_deref().unwrap_or_default());
        let id: String = id.chars().take(8).collect();
        let line = line(&id, &since, &place, &escape(&result.would));
        writeln!(out, "{}", fit(&line, columns()))?;
    }
    Ok(())
}

/// Asks the person at the terminal.
fn agreed(n: usize, is_json: bool, out: &mut impl Write) -> Result<bool, Failure> {
    if is_json || !std::io::stdin().is_terminal() {
        return Err(anyhow!(
            "there is no terminal to confirm at: use --yes, or see the plan with --dry-run"
        )
        .into());
    }
    let what = if n == 1 { "this session".to_owned() } else { format!("these {n} sessions") };
    write!(out, "Bring {what} back? [y/N] ")?;
    out.flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
