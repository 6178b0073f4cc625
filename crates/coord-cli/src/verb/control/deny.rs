//! `coordctl deny R|NAME`: refuses what a session asks for; its turn goes on.

use coord_model::{NeedKind, ReplyKind};
use coord_wire::api::OpenRequest;

use super::reply::{Answerable, How, Reply, send_reply};
use super::shown::what;
use crate::context::Context;
use crate::out::Failure;

/// Refuse what a session asks for; its turn goes on
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl deny r_7k2d --message 'use the staging database'\n  coordctl deny parser        the agent reads: Denied by the user.\n\nExit codes: 0 taken; 1 the dialog is still open, or not answerable here; 3 the prompt is over;\n7 the terminal answered first."
)]
pub(crate) struct Args {
    /// What the agent reads
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    message: Option<String>,
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let answerable = Answerable::find(&args.how, context)?;
    let one = reply(&answerable.request, args.message.clone());
    answerable.show(&mut std::io::stdout().lock())?;
    send_reply(&answerable, one, &args.how, context)
}

/// What refuses it, and the words for that.
pub(super) fn reply(request: &OpenRequest, message: Option<String>) -> Reply {
    let (question, denied) = if request.kind == NeedKind::Question {
        ("Leave this question without an answer?", "the question".to_owned())
    } else if request.kind == NeedKind::Plan {
        ("Deny this plan?", "the plan".to_owned())
    } else {
        ("Deny this call?", what(request))
    };
    let passed_on = if message.is_some() { " and passed on your message" } else { "" };
    let taken = format!("denied {denied}{passed_on}");
    let (kind, question, answers) = (ReplyKind::Deny, question.to_owned(), Vec::new());
    Reply { kind, message, answers, question, taken }
}
