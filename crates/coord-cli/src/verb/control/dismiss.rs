//! `coordctl dismiss NAME|NEED`: hides a need until it ends (U-01).

use coord_wire::api::{OperatorRequest, OperatorVerb};

use super::{How, order};
use crate::context::Context;
use crate::out::Failure;
use crate::verb::completions;

/// Take a session out of NEEDS YOU until its state changes
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl dismiss site     its one need, such as a crash that you do not mind\n  coordctl dismiss a_16.3   this need, where a session has several\n\nOnly the need is hidden: the session, its messages and its other needs stay as they are."
)]
pub(crate) struct Args {
    /// A session's name or id, or the id of a need
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::session_in_need())]
    what: String,
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let sessions = vec![args.what.clone()];
    let request = OperatorRequest { sessions, ..OperatorRequest::new(OperatorVerb::Dismiss) };
    order(&request, &args.how, context)
}
