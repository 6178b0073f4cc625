//! `coordctl release ID|--all`: ends a hold.

use coord_wire::api::{OperatorRequest, OperatorVerb};

use super::{How, Whom, order};
use crate::context::Context;
use crate::out::Failure;

/// End a hold
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl release 3f2a    end the hold of `coordctl hold 3f2a`\n  coordctl release --all   end the hold of `coordctl hold --all`"
)]
pub(crate) struct Args {
    #[command(flatten)]
    whom: Whom,
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let request = args.whom.put_into(OperatorRequest::new(OperatorVerb::Release));
    order(&request, &args.how, context)
}
