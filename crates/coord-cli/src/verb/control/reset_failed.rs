//! `coordctl reset-failed ID|--all`: lifts `needs_operator` and the limits that led to it (G5).

use coord_wire::api::{OperatorRequest, OperatorVerb};

use super::{How, Whom, order};
use crate::context::Context;
use crate::out::Failure;

/// Begin anew with a session that coord has given up
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl reset-failed 3f2a    its limits begin anew\n  coordctl reset-failed --all   so do all, and recoveries that many deaths at once had stopped go on"
)]
pub(crate) struct Args {
    #[command(flatten)]
    whom: Whom,
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let request = args.whom.put_into(OperatorRequest::new(OperatorVerb::ResetFailed));
    order(&request, &args.how, context)
}
