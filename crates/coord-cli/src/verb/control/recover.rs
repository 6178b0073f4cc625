//! `coordctl recover ID`: brings a session back by hand, under the guards that always hold.

use coord_wire::api::{OperatorRequest, OperatorVerb};

use super::{How, order};
use crate::context::Context;
use crate::out::Failure;

/// Bring a crashed session back now, under the same guards as always
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl recover 3f2a --dry-run   what would be done, and what stands against it\n  coordctl recover 3f2a\n  coordctl recover 3f2a --restart   end its idle process and resume it\n\nA session that lives is left alone. With --restart its process is ended and the session is resumed: what was typed and not sent is lost. A session that works is never ended: the order is refused, or waits with --when-idle. An order expires after 10 seconds otherwise. `coord explain 3f2a` shows what came of it."
)]
pub(crate) struct Args {
    /// A session id, or the beginning of one (4 characters or more)
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    /// End the process of a living, idle session and resume it; what was typed and not sent is lost
    #[arg(long)]
    restart: bool,
    /// With --restart: wait until the session is idle, or its process is proved hung
    #[arg(long, requires = "restart")]
    when_idle: bool,
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let new = OperatorRequest::new(OperatorVerb::Recover);
    let Args { restart, when_idle, .. } = *args;
    let sessions = vec![args.id.clone()];
    order(&OperatorRequest { sessions, restart, when_idle, ..new }, &args.how, context)
}
