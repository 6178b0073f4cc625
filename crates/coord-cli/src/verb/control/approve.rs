//! `coordctl approve R|NAME`: lets a session run the one call that it asks for.

use coord_model::ReplyKind;

use super::answer::{How, Words, answer};
use crate::context::Context;
use crate::out::Failure;

/// Let a session run the one call that it asks for
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl approve r_7k2d     shows the exact input, asks, and tells what became of it\n  coordctl approve parser     the same, where the session has one open request\n\nExit codes: 0 taken, or the proof follows; 1 not seen, or not answerable here; 3 the prompt is over;\n7 the terminal answered first."
)]
pub(crate) struct Args {
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let words = Words { question: "Allow this one call?", taken: "allowed" };
    answer(&args.how, (ReplyKind::Allow, None), &words, context)
}
