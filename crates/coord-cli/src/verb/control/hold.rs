//! `coordctl hold ID|--all`: nothing acts on the session (H-06).

use coord_wire::api::{OperatorRequest, OperatorVerb};

use super::{How, Whom, order};
use crate::context::Context;
use crate::out::{Failure, duration_ms};

/// Suspend coord's actions on a session
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl hold 3f2a              until `coordctl release 3f2a`\n  coordctl hold --all --for 10m   all sessions, for ten minutes\n\ncoord does not bring back a session that ends while it is held."
)]
pub(crate) struct Args {
    #[command(flatten)]
    whom: Whom,
    /// Length of the hold, such as 90s, 10m, 2h, 1d [default: until `coordctl release`]
    #[arg(long = "for", value_name = "TIME", value_parser = some_ms)]
    for_ms: Option<u64>,
    #[command(flatten)]
    how: How,
}

fn some_ms(text: &str) -> Result<u64, String> {
    let ms = duration_ms(text)?;
    if ms == 0 { Err("a hold needs a time over 0".to_owned()) } else { Ok(ms) }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let request = args.whom.put_into(OperatorRequest::new(OperatorVerb::Hold));
    order(&OperatorRequest { for_ms: args.for_ms, ..request }, &args.how, context)
}
