//! `coord queue`: messages to programs, by name: sent, taken under a lease, settled, looked at (S4).

mod list;
mod send;
mod settle;
mod work;

pub(crate) use list::{find, is_any_open, totals};
pub(crate) use send::{MessageArgs, To, hand_in, send};

use std::io::Write;

use coord_wire::exchange::Miss;
use coord_wire::message::Sent;
use serde::Serialize;

use crate::client::{self, segment};
use crate::context::Context;
use crate::out::{Failure, escape, print_json};
use crate::verb::status::not_reachable;

/// Send messages to programs, take them, and see what became of them
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  coord queue                                    which messages wait, who holds them, what failed\n  coord queue send builds 'build main'           send to a consumer of \"builds\"\n  coord queue work builds -- ./build.sh          run a command for each message\n  coord queue claim builds --wait 10m --json     or claim the next one, with its fence\n  coord queue done m_x7d2 41                     report it done, with that fence\n  coord queue fail m_x7d2 41 --why 'no disk'     report a failure; retried up to 3 times\n  coord queue retry m_x7d2                       retry a failed message\n\nA consumer holds a message for 5 minutes (--lease, or renew in time); then it goes back to the\nqueue."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    list: list::ListArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Send a message to the consumers of a name
    Send(send::Args),
    /// Show one message with its text
    Show(list::ShowArgs),
    /// Run a command for each message
    Work(work::Args),
    /// Take the next message under a lease
    Claim(settle::ClaimArgs),
    /// Report a claimed message as done
    Done(settle::DoneArgs),
    /// Report a claimed message as failed
    Fail(settle::FailArgs),
    /// Extend the lease of a claimed message
    Renew(settle::RenewArgs),
    /// Retry a failed message
    Retry(list::OneArgs),
    /// Drop a message that no consumer holds
    Drop(list::OneArgs),
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    match &args.verb {
        None => list::run(&args.list, context),
        Some(Verb::Send(args)) => send::run(args, context),
        Some(Verb::Show(args)) => list::show(args, context),
        Some(Verb::Work(args)) => work::run(args, context),
        Some(Verb::Claim(args)) => settle::claim(args, context),
        Some(Verb::Done(args)) => settle::done(args, context),
        Some(Verb::Fail(args)) => settle::fail(args, context),
        Some(Verb::Renew(args)) => settle::renew(args, context),
        Some(Verb::Retry(args)) => one("retry", args, context),
        Some(Verb::Drop(args)) => one("drop", args, context),
    }
}

fn one(verb: &str, args: &list::OneArgs, context: &Context) -> Result<(), Failure> {
    tell(&post(&args.id, verb, &serde_json::json!({}), context)?, args.json)
}

/// `POST /v1/messages/ID/VERB`.
fn post(id: &str, verb: &str, body: &impl Serialize, context: &Context) -> Result<Sent, Failure> {
    let path = format!("/v1/messages/{}/{verb}", segment(id));
    answered(client::post(context, &path, body), context)
}

pub(super) fn answered<T>(
    answer: Result<Result<T, Failure>, Miss>,
    context: &Context,
) -> Result<T, Failure> {
    answer.unwrap_or_else(|miss| Err(Failure::NotReachable(not_reachable(miss, context))))
}

/// What became of a message, in one line.
fn tell(sent: &Sent, is_json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if is_json {
        return print_json(&mut out, sent);
    }
    Ok(writeln!(out, "{}", escape(&words(sent)))?)
}

/// What became of a message that was sent, in one line.
pub(crate) fn words(sent: &Sent) -> String {
    let folded = if sent.folded { " (already sent)" } else { "" };
    let because = sent.because.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{} {}{folded}{because}", sent.id, sent.state)
}
