//! `coord`: takes the command line apart and hands each verb to its module.

mod install;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tracks running Claude Code sessions.
#[derive(Debug, Parser)]
#[command(name = "coord", version)]
struct Cli {
    /// Keep configuration, state and socket below DIR (also: `COORD_HOME`).
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Install(install::InstallArgs),
    Uninstall(install::UninstallArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let root = cli.root.or_else(|| {
        std::env::var_os("COORD_HOME").filter(|root| !root.is_empty()).map(PathBuf::from)
    });
    let done = match &cli.verb {
        Verb::Install(args) => install::run_install(args, root.as_deref()),
        Verb::Uninstall(args) => install::run_uninstall(args, root.as_deref()),
    };
    done.unwrap_or_else(|error| {
        // Nothing is left to be done about a standard error that cannot be written.
        drop(writeln!(std::io::stderr(), "coord: {error:#}"));
        ExitCode::FAILURE
    })
}
