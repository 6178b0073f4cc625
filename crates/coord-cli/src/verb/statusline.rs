//! `coord statusline`: the program of Claude Code's status line, by a name that people can write (N-08). What it does is
//! decided there.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;

use anyhow::anyhow;

use crate::context::Context;
use crate::out::Failure;
use crate::verb::install::status_line_program;

/// Run your status line's command, and report what Claude Code tells it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples, as the command of \"statusLine\" in settings.json:\n  exec coord statusline -- ~/.claude/my-status-line.sh\n  exec coord statusline\n\nClaude Code writes JSON to standard input, which your command reads unchanged. Its output and\nexit code are the status line's. After it has ended, coord reads model, context use, cost and\nusage limits from the JSON. Without a command, coord prints a line of its own.\n`coord install --statusline` registers this, and keeps your own command."
)]
pub(crate) struct Args {
    /// Your own command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Returns only what went wrong: else this process is the program.
pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let mut program = status_line_program(context)?;
    if !args.command.is_empty() {
        program.arg("--").args(&args.command);
    }
    let error = program.exec();
    let name = program.get_program().display().to_string();
    Err(Failure::Failed(anyhow!(error).context(name)))
}
