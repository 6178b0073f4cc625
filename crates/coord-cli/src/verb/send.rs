//! `coord send ID TEXT`: a message to a session's agent (S4-24, S4-25).

use coord_model::RemoteSession;

use crate::context::Context;
use crate::out::Failure;
use crate::verb::completions;
use crate::verb::fleet::machines;
use crate::verb::queue::{MessageArgs, To, send};

/// Send a message to a session's agent
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord send 3f2a 'rebase on main, please'\n  coord send tests 'is the suite green?'     by the session's name\n  git log -1 | coord send 3f2a -             read the text from standard input\n  coord send laptop/3f2a 'rebase, please'    on another machine of the fleet\n  coord send 3f2a 'stop: wrong branch' --urgent   deliver it with the next tool result\n  coord send 3f2a 'all done?' --wait 10m     wait, and print whether it was delivered\n\nAn idle session gets the message within 2 s, by its wake hook. A working session gets it when\nits turn ends, or, if the message is urgent, with the result of its next tool. coord types\nnothing. `coord send` and `coord queue` print what the message waits for.\nExit codes with --wait: 1 the message failed, 5 timeout."
)]
pub(crate) struct Args {
    /// A session id, the beginning of one, or the name of a session; MACHINE/ID for one of another machine
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::session())]
    id: String,
    #[command(flatten)]
    message: MessageArgs,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    send(receiver(&args.id, context)?, &args.message, context)
}

/// The session that a word means, here or on another machine (F-03).
fn receiver(word: &str, context: &Context) -> Result<To, Failure> {
    let Some((machine, session)) = word.split_once('/') else {
        return Ok(To::Session(word.to_owned()));
    };
    let (machine, session) = machines::session(machine, session, context)?;
    Ok(To::Remote(RemoteSession { machine: machine.id, session, name: machine.name }))
}
