//! The verbs of `coordctl`, one file each; and what they share: an order is sent, and what comes of it
//! is shown, one line per session.

pub(crate) mod answer;
pub(crate) mod approve;
pub(crate) mod attend;
pub(crate) mod deny;
pub(crate) mod dismiss;
pub(crate) mod hold;
pub(crate) mod page;
pub(crate) mod passphrase;
pub(crate) mod recover;
pub(crate) mod recovery_mode;
pub(crate) mod release;
mod reply;
pub(crate) mod requests;
pub(crate) mod reset_failed;
pub(crate) mod restore;
mod shown;
mod tmux_server;

use std::io::Write;

use coord_wire::api::{OperatorAnswer, OperatorRequest, REFUSED};

use crate::client;
use crate::context::Context;
use crate::out::{Colour, Failure, Painter, escape, print_json};
use crate::verb::completions;
use crate::verb::status::not_reachable;

/// What every one of them takes.
#[derive(Debug, clap::Args)]
pub(crate) struct How {
    /// Print what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One session, or all of them.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Whom {
    /// A session id, or the beginning of one (4 characters or more)
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::session())]
    id: Option<String>,
    /// All sessions
    #[arg(long)]
    all: bool,
}

impl Whom {
    /// The request about these.
    fn put_into(&self, request: OperatorRequest) -> OperatorRequest {
        OperatorRequest { sessions: self.id.iter().cloned().collect(), all: self.all, ..request }
    }
}

/// Sends the request and shows what came of it.
fn order(request: &OperatorRequest, how: &How, context: &Context) -> Result<(), Failure> {
    let request = OperatorRequest { dry_run: how.dry_run, ..request.clone() };
    let answer = ask(&request, context)?;
    show(&answer, how, Painter::for_stdout(), &mut std::io::stdout().lock())
}

/// Sends the request, after the passphrase where it is needed. Its record is durable when the answer is there.
fn ask(request: &OperatorRequest, context: &Context) -> Result<OperatorAnswer, Failure> {
    match ask_once(request, context) {
        Err(Failure::PassphraseNeeded(_)) => {
            passphrase::unlock(context)?;
            ask_once(request, context)
        }
        answer => answer,
    }
}

/// Sends the request. Where the passphrase is needed, nothing is done.
fn ask_once(request: &OperatorRequest, context: &Context) -> Result<OperatorAnswer, Failure> {
    match client::post(context, "/v1/operator", request) {
        Ok(answer) => answer,
        Err(miss) => Err(Failure::NotReachable(not_reachable(miss, context))),
    }
}

fn show(
    answer: &OperatorAnswer,
    how: &How,
    painter: Painter,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if how.json {
        print_json(out, answer)?;
        return ended(answer, how);
    }
    for result in &answer.results {
        let id = result
            .session_id
            .as_ref()
            .map_or_else(|| answer.what.clone(), |id| id.chars().take(8).collect());
        let id = painter.paint(Colour::Bold, &escape(&id));
        let name = result.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        writeln!(out, "{id}{}  {}", escape(&name), escape(&result.would))?;
    }
    if answer.results.is_empty() {
        let done = if how.dry_run { "" } else { "done; " };
        writeln!(out, "{}: {done}this applies to no session now", escape(&answer.what))?;
    }
    if how.dry_run {
        writeln!(out, "{}", painter.paint(Colour::Dim, "Dry run: nothing was changed."))?;
    }
    ended(answer, how)
}

/// A failure where a guard stood against it, which has been said.
fn ended(answer: &OperatorAnswer, how: &How) -> Result<(), Failure> {
    let is_refused = answer.results.iter().any(|result| result.outcome == REFUSED);
    if is_refused && !how.dry_run { Err(Failure::Told) } else { Ok(()) }
}
