//! `coord send ID TEXT`: a message to a session's agent (S4-24, S4-25).

use crate::context::Context;
use crate::out::Failure;
use crate::verb::queue::{MessageArgs, To, send};

/// Send a message to a session's agent
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord send 3f2a 'rebase on main, please'\n  coord send tests 'is the suite green?'     by the session's name\n  git log -1 | coord send 3f2a -             the text comes from standard input\n  coord send 3f2a 'stop: wrong branch' --urgent   with its next tool call\n  coord send 3f2a 'all done?' --wait 10m     and say what became of it\n\nAn idle session gets it within 2 s, by its wake hook. One that works gets it when its turn ends,\nand an urgent one with the result of the next tool. Nothing is typed. The answer says what the\nmessage waits for, and so does `coord queue`.\nExit codes with --wait: 1 it failed, 5 the time is over."
)]
pub(crate) struct Args {
    /// A session id, the beginning of one, or the name of a session
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    #[command(flatten)]
    message: MessageArgs,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    send(To::Session(args.id.clone()), &args.message, context)
}
