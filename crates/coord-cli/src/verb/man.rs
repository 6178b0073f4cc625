//! `coord man [VERB]`, `coordctl man [VERB]`: the manual in roff, made from the same descriptions as `--help`.
//!
//! Decides where pages go, and nothing of what they say.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory;
use clap_mangen::Man;

use crate::out::Failure;

/// Print the manual
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord man inspect | man -l -\n  coord man --dir ~/.local/share/man/man1"
)]
pub(crate) struct Args {
    /// Print the page of this verb instead of the program's
    verb: Option<String>,
    /// Write every page into DIR
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    dir: Option<PathBuf>,
}

pub(crate) fn run<C: CommandFactory>(args: &Args) -> Result<(), Failure> {
    if let Some(dir) = &args.dir {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        clap_mangen::generate_to(C::command(), dir).with_context(|| dir.display().to_string())?;
        return Ok(());
    }
    let mut all = C::command();
    all.build();
    let name = all.get_name().to_owned();
    let command = match &args.verb {
        None => all,
        Some(verb) => all
            .find_subcommand(verb)
            .with_context(|| format!("no verb {verb:?}; `{name} help` lists them"))?
            .clone(),
    };
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(std::io::stdout().write_all(&page)?)
}
