//! `coord`: looks at sessions, installs the hooks, runs the coordinator.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, Parser, Subcommand, value_parser};

use crate::context::Context;
use crate::out::{Colours, Failure, complain};
use crate::usage::{self, Program};
use crate::verb;

/// The verbs, by task; a test holds that none is missing.
const HELP: &str = "\
{about}

Usage: coord [VERB]      without a verb: the list of sessions

See
  inspect      Show who needs you and what all sessions do, or one session in depth
  top          Show the list live, go to sessions, and see what they do
  dashboard    Show the list on a page, for a browser here or on a phone
  demo         Show recorded sessions in `coord top`, without Claude Code
  explain      Show why a session, a message or a need is in its state
  events       Show what happened, from the journal
  status       Show whether the coordinator runs and is well
  quota        Show what is left of usage limits, and when they reset
  metrics      Print metrics for Prometheus, or serve them

Move
  go           Go to a session's tmux pane
  next         Go to the session that has needed you longest
  back         Return to where `coord go` or `coord next` left

Talk
  send         Send a message to a session's agent
  queue        Send messages to programs, process them, and see their state
  wait         Wait until sessions reach a state

Be told
  notice       Test the channels through which coord tells you that a session needs you
  tmux         Print lines for tmux.conf: who needs you in the status line
  statusline   Run your status line's command, and report what Claude Code tells it

Run
  run          Run a command under supervision, and end it when it hangs
  loop         Work on a task with a pool of agents until it is done

Set up
  install      Register the hooks in Claude Code's settings
  uninstall    Remove the hooks from Claude Code's settings
  up, down     Start the coordinator in the background, or stop it
  serve        Run the coordinator in the foreground
  service      Run the coordinator as a user service, from login on
  fleet        See and reach the sessions of several machines
  doctor       Check everything that coord needs; each finding names its remedy
  config       Show or check the configuration
  plugin       Make a Claude Code plugin that names the installed hooks
  completions  Print completions for a shell
  man          Print the manual
  help         Print help about a verb, or about the states of sessions

Options
{options}{after-help}";

/// Show who needs you among your Claude Code sessions, and what all of them do.
#[derive(Debug, Parser)]
#[command(
    name = "coord",
    version,
    help_template = HELP,
    disable_help_subcommand = true,
    after_help = "A session is named by its name, its id, or the beginning of its id.\nExit codes: 0 ok, 1 failed, 2 usage, 3 no such session, 4 coordinator not reachable.\nTo act on sessions (recover, hold, attend, dismiss): coordctl --help"
)]
pub(crate) struct Cli {
    /// Keep everything below DIR, as COORD_HOME does
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
    /// When output has colours
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    color: Colours,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show who needs you and what all sessions do, or one session in depth
    Inspect(verb::inspect::Args),
    /// Go to a session's tmux pane
    Go(verb::go::GoArgs),
    /// Go to the session that has needed you longest
    Next(verb::go::NextArgs),
    /// Return to where `coord go` or `coord next` left
    Back(verb::go::BackArgs),
    /// Show the list live, go to sessions, and see what they do
    Top(verb::top::Args),
    /// Show the list on a page that a browser opens, on this machine or a phone
    Dashboard(verb::dashboard::Args),
    /// Show recorded sessions in `coord top`, without Claude Code
    Demo(verb::demo::Args),
    /// Show why a session, a message or a need is in its state
    Explain(verb::explain::Args),
    /// Test the channels through which coord tells you that a session needs you
    Notice(verb::notice::Args),
    /// Print lines for tmux.conf: who needs you in the status line, and keys to go there
    Tmux(verb::tmux::Args),
    /// Run your status line's command, and report what Claude Code tells it
    Statusline(verb::statusline::Args),
    /// Run a command under supervision, and end it when it hangs
    Run(verb::run::Args),
    /// Work on a task with a pool of agents until it is done
    Loop(verb::task_loop::Args),
    /// Send a message to a session's agent
    Send(verb::send::Args),
    /// Send messages to programs, process them, and see their state
    Queue(verb::queue::Args),
    /// Show what is left of usage limits, and when they reset
    Quota(verb::quota::Args),
    /// Wait until sessions reach a state
    Wait(verb::wait::Args),
    /// Show what happened, from the journal
    Events(verb::events::Args),
    /// Show whether the coordinator runs and is well
    Status(verb::status::Args),
    /// Print metrics for Prometheus, or serve them
    Metrics(verb::metrics::Args),
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
    /// See and reach the sessions of several machines
    Fleet(verb::fleet::Args),
    /// Make a Claude Code plugin that names the installed hooks
    Plugin(verb::install::PluginArgs),
    /// Show or check the configuration
    Config(verb::config::Args),
    /// Print completions for a shell
    Completions(verb::completions::Args),
    /// Print the manual
    Man(verb::man::Args),
    /// Print help about a verb, or about the states of sessions
    Help(verb::help::Args),
}

/// Says what is wrong with the arguments. 2 as everywhere, but for verbs whose other exit codes belong to
/// what they run.
fn wrong_usage(error: &clap::Error) -> ! {
    let verb = verb_of(std::env::args_os().skip(1));
    let has_own_codes = OWN_CODES.iter().any(|own| verb.as_ref().is_some_and(|verb| verb == own));
    let code = if has_own_codes { verb::run::USAGE } else { USAGE };
    if !error.use_stderr() {
        error.exit()
    }
    match usage::line(Program::Coord, error) {
        Some(line) => complain("coord", &line),
        None => drop(error.print()),
    }
    std::process::exit(code.into())
}

/// The first word that is neither an option nor the value of one.
pub(crate) fn verb_of(mut words: impl Iterator<Item = OsString>) -> Option<OsString> {
    loop {
        let word = words.next()?;
        if word == "--root" {
            words.next()?;
        } else if !word.as_encoded_bytes().starts_with(b"-") {
            return Some(word);
        }
    }
}

/// Exit code for wrong usage.
pub(crate) const USAGE: u8 = 2;

const OWN_CODES: [&str; 3] = ["run", "loop", "statusline"];

/// Parses the arguments of a verb that scripts call often, without the description of all other verbs, which is
/// most of what parsing costs. None for anything else, and for anything that is wrong.
fn parse_quickly(words: impl IntoIterator<Item = OsString>) -> Option<Cli> {
    let mut words = words.into_iter().peekable();
    let mut before = vec![OsString::from("coord")];
    if words.peek().is_some_and(|word| word == "--root") {
        before.extend(words.by_ref().take(2));
    }
    let verb = words.next()?;
    let words = before.into_iter().chain(words);
    match verb.to_str()? {
        "inspect" => parse_alone(words, Verb::Inspect),
        "explain" => parse_alone(words, Verb::Explain),
        "events" => parse_alone(words, Verb::Events),
        "send" => parse_alone(words, Verb::Send),
        "statusline" => parse_alone(words, Verb::Statusline),
        _ => None,
    }
}

/// Parses the arguments of one verb, which is left out of `words`.
fn parse_alone<A: clap::Args>(
    words: impl Iterator<Item = OsString>,
    verb: fn(A) -> Verb,
) -> Option<Cli> {
    let root = Arg::new("root").long("root").value_parser(value_parser!(PathBuf));
    let command = clap::Command::new("coord").disable_help_flag(true).arg(root);
    let matches = A::augment_args(command).try_get_matches_from(words).ok()?;
    let args = A::from_arg_matches(&matches).ok()?;
    let (root, color) = (matches.get_one("root").cloned(), Colours::Auto);
    Some(Cli { root, color, verb: Some(verb(args)) })
}

pub(crate) fn main() -> ExitCode {
    verb::completions::answer::<Cli>();
    let cli = parse_quickly(std::env::args_os().skip(1))
        .unwrap_or_else(|| Cli::try_parse().unwrap_or_else(|error| wrong_usage(&error)));
    cli.color.choose();
    let result = Context::from_environment(cli.root).map_err(Failure::from).and_then(|context| {
        match cli.verb.unwrap_or_else(|| Verb::Inspect(verb::inspect::Args::default())) {
            Verb::Inspect(args) => verb::inspect::run(&args, &context),
            Verb::Top(args) => verb::top::run(&args, false, &context),
            Verb::Dashboard(args) => verb::dashboard::run(&args, false, &context),
            Verb::Demo(args) => verb::demo::run(&args, &context),
            Verb::Go(args) => verb::go::go(&args, &context),
            Verb::Next(args) => verb::go::next(&args, &context),
            Verb::Back(args) => verb::go::back(&args, &context),
            Verb::Explain(args) => verb::explain::run(&args, &context),
            Verb::Statusline(args) => verb::statusline::run(&args, &context),
            Verb::Run(args) => verb::run::run(&args, &context),
            Verb::Loop(args) => verb::task_loop::run(&args, &context),
            Verb::Send(args) => verb::send::run(&args, &context),
            Verb::Queue(args) => verb::queue::run(&args, &context),
            Verb::Wait(args) => verb::wait::run(&args, &context),
            Verb::Events(args) => verb::events::run(&args, &context),
            Verb::Status(args) => verb::status::run(&args, &context),
            Verb::Quota(args) => verb::quota::run(&args, &context),
            Verb::Metrics(args) => verb::metrics::run(&args, &context),
            Verb::Notice(args) => verb::notice::run(&args, &context),
            Verb::Tmux(args) => verb::tmux::run(&args),
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
            Verb::Fleet(args) => verb::fleet::run(&args, &context),
            Verb::Service(args) => verb::service::run(&args, &context),
            Verb::Plugin(args) => verb::install::run_plugin(&args, &context).map_err(Failure::from),
            Verb::Config(args) => verb::config::run(&args, &context),
            Verb::Completions(args) => verb::completions::run::<Cli>(&args),
            Verb::Help(args) => verb::help::run::<Cli>(&args),
            Verb::Man(args) => verb::man::run::<Cli>(&args),
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("coord"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // What scripts call is read as everything else is, only faster.
    #[test]
    fn the_quick_parser_reads_what_the_full_one_does() {
        for line in [
            "inspect",
            "inspect parser --json",
            "inspect --needs-me -o wide --width 80",
            "inspect --root /r 3f2a",
            "--root /r inspect --all",
            "explain m_x7d2 --json",
            "events parser --since 10m --follow",
            "--root /r send parser TEXT --urgent",
            "statusline",
            "--root /r statusline -- my-line --root x",
        ] {
            let words = || line.split(' ').map(OsString::from);
            let quick = parse_quickly(words()).unwrap_or_else(|| panic!("{line}"));
            let full = Cli::try_parse_from(std::iter::once("coord".into()).chain(words()));
            assert_eq!(format!("{quick:?}"), format!("{:?}", full.expect("it is right")), "{line}");
        }
        for line in ["inspect --help", "inspect --bad", "inspect a b", "status", "--version", ""] {
            assert!(parse_quickly(line.split(' ').map(OsString::from)).is_none(), "{line}");
        }
    }
}
