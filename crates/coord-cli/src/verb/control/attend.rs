//! `coordctl attend ID|--dir DIR`: says whether anybody watches a session, and what may be done with
//! it (H-06).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use coord_model::MarkChange;
use coord_wire::api::{OperatorRequest, OperatorVerb};

use super::{How, order};
use crate::context::Context;
use crate::out::Failure;
use crate::verb::completions;

/// Mark a session as watched or unattended, and set whether it comes back by itself
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "coordctl attend <ID|--dir <DIR>> <OPTIONS>",
    after_help = "Examples:\n  coordctl attend 3f2a --unattended             nobody watches it; it comes back by itself\n  coordctl attend 3f2a --recover                it comes back by itself although it is watched\n  coordctl attend --dir . --recover             the same for every session started here\n  coordctl attend 3f2a --name tests --task-dir ~/tasks/7\n  coordctl attend 3f2a --accept tests           it accepts messages from the session named tests"
)]
#[command(group = clap::ArgGroup::new("whom").required(true).args(["id", "dir"]))]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args(
    [
        "unattended", "attended", "recover", "no_recover", "answers", "no_answers", "ask_for_agents",
        "no_ask_for_agents", "name", "parent", "task_dir", "accept",
    ]
))]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag of the command line")]
pub(crate) struct Args {
    /// A session id, or the beginning of one (4 characters or more)
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::session())]
    id: Option<String>,
    /// Every session started in this directory, now or later
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Mark it as unattended: nobody watches it
    #[arg(long)]
    unattended: bool,
    /// Mark it as watched
    #[arg(long, conflicts_with = "unattended")]
    attended: bool,
    /// Bring it back after a crash although it is watched
    #[arg(long)]
    recover: bool,
    /// Undo --recover
    #[arg(long, conflicts_with = "recover")]
    no_recover: bool,
    /// Also answer its agent's (y/n) questions with yes, where `stall.answers` allows answers at all
    #[arg(long, conflicts_with = "dir")]
    answers: bool,
    /// Undo --answers
    #[arg(long, conflicts_with_all = ["answers", "dir"])]
    no_answers: bool,
    /// Let prompts of its subagents wait for `coordctl approve` while it is unattended: meanwhile Claude Code shows
    /// no dialog for them, for `approvals.headless_bound` at most
    #[arg(long, conflicts_with = "dir")]
    ask_for_agents: bool,
    /// Undo --ask-for-agents
    #[arg(long, conflicts_with_all = ["ask_for_agents", "dir"])]
    no_ask_for_agents: bool,
    /// Give it a name
    #[arg(long, conflicts_with = "dir", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Id of the session that gets a message when this one ends
    #[arg(long, value_name = "ID", conflicts_with = "dir", value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::session())]
    parent: Option<String>,
    /// Directory of its task, for .auto-signal and .auto-stop
    #[arg(long, value_name = "DIR", conflicts_with = "dir")]
    task_dir: Option<PathBuf>,
    /// Accept messages from this sender although the session's agent acts without asking. SENDER is a
    /// session's id or name, program:NAME, machine:NAME, or any; none removes all senders
    #[arg(long, value_name = "SENDER", conflicts_with = "dir", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    accept: Vec<String>,
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let marks = MarkChange {
        answers: either(args.answers, args.no_answers),
        asks_for_agents: either(args.ask_for_agents, args.no_ask_for_agents),
        unattended: either(args.unattended, args.attended),
        recover: either(args.recover, args.no_recover),
        name: args.name.clone(),
        parent: args.parent.clone(),
        task_dir: args.task_dir.as_deref().map(directory).transpose()?,
        accepts: args.accept.clone(),
    };
    let request = OperatorRequest {
        sessions: args.id.iter().cloned().collect(),
        directory: args.dir.as_deref().map(directory).transpose()?,
        marks,
        ..OperatorRequest::new(OperatorVerb::Attend)
    };
    order(&request, &args.how, context)
}

fn either(yes: bool, no: bool) -> Option<bool> {
    (yes || no).then_some(yes)
}

/// A directory that is there, as the kernel names it: absolute and without links.
fn directory(path: &Path) -> anyhow::Result<String> {
    let shown = || path.display().to_string();
    let path = path.canonicalize().with_context(shown)?;
    if !path.is_dir() {
        bail!("{} is not a directory", shown());
    }
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", shown()))
}
