//! `coord`: looks at sessions, installs the hooks, runs the coordinator.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::context::Context;
use crate::out::Failure;
use crate::verb;

/// Show what your Claude Code sessions are doing, and bring crashed ones back.
#[derive(Debug, Parser)]
#[command(
    name = "coord",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  coord inspect            all sessions\n  coord inspect 3f2a       one session in depth\n  coord explain 3f2a       why it is in its state\n  coord events 3f2a        what happened in it\n  coord send 3f2a 'TEXT'   send its agent a message\n\nExit codes: 0 ok, 1 failed, 2 usage, 3 no such session, 4 coordinator not reachable.\nCOORD_HOME=DIR keeps everything below DIR."
)]
struct Cli {
    /// Keep everything below DIR, as COORD_HOME does
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<std::path::PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show all sessions, or one in depth
    Inspect(verb::inspect::Args),
    /// Show why a session is in its state
    Explain(verb::explain::Args),
    /// Run a command under supervision, and end it when it hangs
    Run(verb::run::Args),
    /// Work on a task with a pool of agents until it is done
    Loop(verb::task_loop::Args),
    /// Send a message to a session's agent
    Send(verb::send::Args),
    /// Send messages to programs, process them, and see their state
    Queue(verb::queue::Args),
    /// Wait until sessions reach a state
    Wait(verb::wait::Args),
    /// Show what happened, from the journal
    Events(verb::events::Args),
    /// Show whether the coordinator runs and is well
    Status(verb::status::Args),
    /// Check everything that coord needs; each finding names its remedy
    Doctor(verb::doctor::Args),
    /// Start the coordinator in the background
    Up(verb::up::Args),
    /// Stop the coordinator until `coord up`
    Down(verb::down::Args),
    /// Run the coordinator in the foreground
    Serve(verb::serve::Args),
    /// Register the hooks in Claude Code's settings
    Install(verb::install::InstallArgs),
    /// Remove the hooks from Claude Code's settings
    Uninstall(verb::install::UninstallArgs),
    /// Run the coordinator as a user service, from login on
    Service(verb::service::Args),
    /// Make a Claude Code plugin that names the installed hooks
    Plugin(verb::install::PluginArgs),
    /// Show or check the configuration
    Config(verb::config::Args),
    /// Print completions for a shell
    Completions(verb::completions::Args),
    /// Print the manual
    Man(verb::man::Args),
}

/// Says what is wrong with the arguments. 2 as everywhere, but for verbs whose other exit codes belong to
/// what they run.
fn wrong_usage(error: &clap::Error) -> ! {
    let verb = verb_of(std::env::args_os().skip(1));
    if error.use_stderr()
        && OWN_CODES.iter().any(|own| verb.as_ref().is_some_and(|verb| verb == own))
    {
        drop(error.print());
        std::process::exit(verb::run::USAGE.into());
    }
    error.exit()
}

/// The first word that is neither an option nor the value of one.
fn verb_of(mut words: impl Iterator<Item = OsString>) -> Option<OsString> {
    loop {
        let word = words.next()?;
        if word == "--root" {
            words.next()?;
        } else if !word.as_encoded_bytes().starts_with(b"-") {
            return Some(word);
        }
    }
}

const OWN_CODES: [&str; 2] = ["run", "loop"];

pub(crate) fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| wrong_usage(&error));
    let result = Context::from_environment(cli.root).map_err(Failure::from).and_then(|context| {
        match cli.verb {
            Verb::Inspect(args) => verb::inspect::run(&args, &context),
            Verb::Explain(args) => verb::explain::run(&args, &context),
            Verb::Run(args) => verb::run::run(&args, &context),
            Verb::Loop(args) => verb::task_loop::run(&args, &context),
            Verb::Send(args) => verb::send::run(&args, &context),
            Verb::Queue(args) => verb::queue::run(&args, &context),
            Verb::Wait(args) => verb::wait::run(&args, &context),
            Verb::Events(args) => verb::events::run(&args, &context),
            Verb::Status(args) => verb::status::run(&args, &context),
            Verb::Doctor(args) => verb::doctor::run(&args, &context),
            Verb::Up(args) => verb::up::run(&args, &context),
            Verb::Down(args) => verb::down::run(&args, &context),
            Verb::Serve(args) => verb::serve::run(&args, &context),
            Verb::Install(args) => {
                verb::install::run_install(&args, &context).map_err(Failure::from)
            }
            Verb::Uninstall(args) => {
                verb::install::run_uninstall(&args, &context).map_err(Failure::from)
            }
            Verb::Service(args) => verb::service::run(&args, &context),
            Verb::Plugin(args) => verb::install::run_plugin(&args, &context).map_err(Failure::from),
            Verb::Config(args) => verb::config::run(&args, &context),
            Verb::Completions(args) => verb::completions::run::<Cli>(&args),
            Verb::Man(args) => verb::man::run::<Cli>(&args),
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("coord"),
    }
}
