//! `coord completions SHELL`, `coordctl completions SHELL`.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::out::Failure;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  coord completions bash > ~/.local/share/bash-completion/completions/coord"
)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run<C: CommandFactory>(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    let mut command = C::command();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}
