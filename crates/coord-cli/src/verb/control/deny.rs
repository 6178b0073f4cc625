//! `coordctl deny R|NAME`: refuses the one call that a session asks for; its turn goes on.

use coord_model::ReplyKind;

use super::answer::{How, Words, answer};
use crate::context::Context;
use crate::out::Failure;

/// Refuse the one call that a session asks for; its turn goes on
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl deny r_7k2d --message 'use the staging database'\n  coordctl deny parser        the agent reads: Denied by the user.\n\nExit codes: 0 taken; 1 not seen, or not answerable here; 3 the prompt is over; 7 the terminal answered first."
)]
pub(crate) struct Args {
    /// What the agent reads
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    message: Option<String>,
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let words = Words { question: "Deny this call?", taken: "denied" };
    answer(&args.how, (ReplyKind::Deny, args.message.clone()), &words, context)
}
