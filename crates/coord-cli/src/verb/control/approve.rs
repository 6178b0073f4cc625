//! `coordctl approve R|NAME`: lets a session run the one call that it asks for, or go on with its plan.

use anyhow::anyhow;
use coord_model::{NeedKind, PlanMode, ReplyKind};
use coord_wire::api::OpenRequest;

use super::reply::{Answerable, How, Reply, send_reply};
use super::requests::called;
use super::shown::what;
use crate::context::Context;
use crate::out::Failure;

/// Let a session run the one call that it asks for, or go on with its plan
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl approve r_7k2d     shows the exact input, asks, and tells what became of it\n  coordctl approve parser     the same, where the session has one open request\n  coordctl approve docs --mode acceptEdits\n                              approves its plan; it goes on without asking before each edit\n\nExit codes: 0 taken, or the proof follows; 1 the dialog is still open, or not answerable here;\n3 the prompt is over; 7 the terminal answered first."
)]
pub(crate) struct Args {
    #[command(flatten)]
    how: How,
    /// The permission mode in which the session goes on with its plan; it asks before each edit unless told otherwise
    #[arg(long)]
    mode: Option<Mode>,
}

/// A permission mode, by the client's own name.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Mode {
    /// It asks before each edit
    #[value(name = "default")]
    Default,
    /// It edits files of its project without asking
    #[value(name = "acceptEdits")]
    AcceptEdits,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let answerable = Answerable::find(&args.how, context)?;
    let mode = args.mode.map(|mode| match mode {
        Mode::Default => PlanMode::Default,
        Mode::AcceptEdits => PlanMode::AcceptEdits,
    });
    let one = reply(&answerable.request, mode)?;
    answerable.show(&mut std::io::stdout().lock())?;
    send_reply(&answerable, one, &args.how, context)
}

/// What lets the session go on, and the words for it.
pub(super) fn reply(request: &OpenRequest, mode: Option<PlanMode>) -> Result<Reply, Failure> {
    let id = called(request);
    let (kind, question, taken) = match (request.kind, mode) {
        (NeedKind::Question, _) => {
            let hint = format!("{id} is a question. → coordctl answer {id} --option N");
            return Err(anyhow!(hint).into());
        }
        (NeedKind::Plan, mode) => {
            let mode = mode.unwrap_or(PlanMode::Default);
            let then = match mode {
                PlanMode::Default => "asks before each edit",
                PlanMode::AcceptEdits => "edits its project's files without asking",
            };
            let name = mode.name();
            let question =
                format!("Approve this plan? The session goes on in {name} mode and {then}.");
            (ReplyKind::Approve(mode), question, "took the plan as approved".to_owned())
        }
        (_, Some(_)) => return Err(anyhow!("--mode goes with a plan; {id} is none").into()),
        (_, None) => {
            let taken = format!("allowed {}", what(request));
            (ReplyKind::Allow, "Allow this one call?".to_owned(), taken)
        }
    };
    Ok(Reply { kind, message: None, answers: Vec::new(), question, taken })
}
