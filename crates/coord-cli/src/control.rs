//! `coordctl`: the verbs that act on sessions, or allow it (H-22). The coordinator takes them from a
//! person at a terminal only.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::context::Context;
use crate::coord::USAGE;
use crate::out::{Colours, Failure, complain};
use crate::usage::{self, Program};
use crate::verb;
use crate::verb::control;

/// The name by which these verbs are called.
pub(crate) const NAME: &str = "coordctl";

/// Act on your Claude Code sessions: bring them back, or keep coord from acting on them.
#[derive(Debug, Parser)]
#[command(
    name = "coordctl",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  coordctl recover 3f2a           bring a crashed session back\n  coordctl hold --all --for 10m   suspend all actions for 10 minutes\n  coordctl attend 3f2a --unattended   bring it back by itself after a crash\n\nOnly a person at a terminal may run these commands; coord refuses agents.\nExit codes: 0 ok, 1 failed or refused, 2 usage, 3 no such session, 4 coordinator not reachable.\nCOORD_HOME=DIR keeps everything below DIR."
)]
pub(crate) struct Cli {
    /// Keep everything below DIR, as COORD_HOME does
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<std::path::PathBuf>,
    /// When output has colours
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    color: Colours,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Bring a crashed session back now, with the usual safety checks
    Recover(control::recover::Args),
    /// Bring back the sessions that a restart of the machine or of tmux interrupted
    Restore(control::restore::Args),
    /// Let coord recover a session again that it has given up
    ResetFailed(control::reset_failed::Args),
    /// Take a session out of NEEDS YOU until its state changes
    Dismiss(control::dismiss::Args),
    /// List the open prompts, with the exact input of those that can be answered here
    Requests(control::requests::Args),
    /// Let a session run the one call that it asks for, or go on with its plan
    Approve(control::approve::Args),
    /// Refuse what a session asks for; its turn goes on
    Deny(control::deny::Args),
    /// Answer a session's questions
    Answer(control::answer::Args),
    /// Suspend coord's actions on a session
    Hold(control::hold::Args),
    /// End a hold
    Release(control::release::Args),
    /// Mark a session as watched or unattended, and set whether it comes back by itself
    Attend(control::attend::Args),
    /// Set, change or remove the passphrase that answering permission prompts needs
    Passphrase(control::passphrase::Args),
    /// Show the list live, with keys that act on sessions
    Top(verb::top::Args),
    /// Show the list on a page, and answer there
    Dashboard(verb::dashboard::Args),
    /// Write the recovery mode into config.toml
    #[command(hide = true)]
    RecoveryMode(control::recovery_mode::Args),
    /// Start the client of a session that coord brings back
    #[command(hide = true)]
    ResumeExec(verb::resume_exec::Args),
    /// Print completions for a shell
    #[command(
        after_help = "Example:\n  coordctl completions bash > ~/.local/share/bash-completion/completions/coordctl"
    )]
    Completions(verb::completions::Args),
    /// Print the manual
    #[command(
        after_help = "Examples:\n  coordctl man recover | man -l -\n  coordctl man --dir ~/.local/share/man/man1"
    )]
    Man(verb::man::Args),
}

pub(crate) fn main() -> ExitCode {
    verb::completions::answer::<Cli>();
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        match usage::line(Program::Coordctl, &error).filter(|_| error.use_stderr()) {
            Some(line) => complain(NAME, &line),
            None => error.exit(),
        }
        std::process::exit(USAGE.into())
    });
    cli.color.choose();
    let result = Context::from_environment(cli.root).map_err(Failure::from).and_then(|context| {
        match cli.verb {
            Verb::Recover(args) => control::recover::run(&args, &context),
            Verb::Restore(args) => control::restore::run(&args, &context),
            Verb::ResetFailed(args) => control::reset_failed::run(&args, &context),
            Verb::Dismiss(args) => control::dismiss::run(&args, &context),
            Verb::Requests(args) => control::requests::run(&args, &context),
            Verb::Approve(args) => control::approve::run(&args, &context),
            Verb::Answer(args) => control::answer::run(&args, &context),
            Verb::Deny(args) => control::deny::run(&args, &context),
            Verb::Hold(args) => control::hold::run(&args, &context),
            Verb::Release(args) => control::release::run(&args, &context),
            Verb::Attend(args) => control::attend::run(&args, &context),
            Verb::Passphrase(args) => control::passphrase::run(&args, &context),
            Verb::Top(args) => verb::top::run(&args, true, &context),
            Verb::Dashboard(args) => verb::dashboard::run(&args, true, &context),
            Verb::RecoveryMode(args) => control::recovery_mode::run(&args, &context),
            Verb::ResumeExec(args) => verb::resume_exec::run(&args, &context),
            Verb::Completions(args) => verb::completions::run::<Cli>(&args),
            Verb::Man(args) => verb::man::run::<Cli>(&args),
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(NAME),
    }
}
