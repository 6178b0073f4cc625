//! `coordctl reset-failed ID|--all`: lifts `needs_operator` and the limits that led to it (G5).

use coord_wire::api::{OperatorRequest, OperatorVerb};

use super::{How, Whom, order};
use crate::context::Context;
use crate::out::Failure;

/// Let coord recover a session again that it has given up
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl reset-failed 3f2a    reset the limits of this session\n  coordctl reset-failed --all   reset all limits, and resume recoveries after many crashes at once"
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
