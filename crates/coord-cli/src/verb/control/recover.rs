//! `coordctl recover ID`: brings a session back by hand, under the guards that always hold.

use coord_wire::api::{OperatorRequest, OperatorVerb};

use super::{How, order};
use crate::context::Context;
use crate::out::Failure;

/// Bring a session back now, under the same guards as always
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl recover 3f2a --dry-run   what would be done, and what stands against it\n  coordctl recover 3f2a\n\nA session that lives and works is left alone. `coord explain 3f2a` tells what came of it."
)]
pub(crate) struct Args {
    /// A session id, or the beginning of one (4 characters or more)
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let new = OperatorRequest::new(OperatorVerb::Recover);
    order(&OperatorRequest { sessions: vec![args.id.clone()], ..new }, &args.how, context)
}
