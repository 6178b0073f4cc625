//! `coord help [VERB]`, `coord help states`: what `--help` prints, and what the states mean.

use std::io::Write;

use anyhow::anyhow;
use clap::CommandFactory;
use coord_model::SessionState;
use coord_view::list::state_name;
use coord_view::lookup::nearest;

use crate::out::Failure;

/// The one topic that is no verb.
const STATES: &str = "states";

/// Print help about a verb, or about the states of sessions
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord help inspect\n  coord help states    what each state means"
)]
pub(crate) struct Args {
    /// A verb, or `states`
    topic: Option<String>,
}

pub(crate) fn run<C: CommandFactory>(args: &Args) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let mut all = C::command();
    all.build();
    let Some(topic) = &args.topic else {
        return Ok(write!(out, "{}", all.render_long_help())?);
    };
    if topic == STATES {
        for state in ALL {
            writeln!(out, "{:20} {}", state_name(state), meaning(state))?;
        }
        return Ok(());
    }
    if let Some(verb) = all.find_subcommand_mut(topic) {
        return Ok(write!(out, "{}", verb.render_long_help())?);
    }
    let verbs = all.get_subcommands().map(clap::Command::get_name).chain([STATES]);
    let remedy = match nearest(topic, verbs) {
        Some(meant) => format!("Did you mean {meant}?"),
        None => format!("→ {} --help", all.get_name()),
    };
    Err(anyhow!("No help about {topic:?}. {remedy}").into())
}

/// In the order of the list: those that need a person first.
pub(crate) const ALL: [SessionState; 19] = [
    SessionState::AwaitingPermission,
    SessionState::AwaitingInput,
    SessionState::BlockedAuth,
    SessionState::BlockedBilling,
    SessionState::Stalled,
    SessionState::Crashed,
    SessionState::Interrupted,
    SessionState::Starting,
    SessionState::Running,
    SessionState::Background,
    SessionState::Recovering,
    SessionState::RecoveryPending,
    SessionState::QuotaWait,
    SessionState::Suspended,
    SessionState::Foreign,
    SessionState::Elsewhere,
    SessionState::Unknown,
    SessionState::Idle,
    SessionState::Stopped,
];

fn meaning(state: SessionState) -> &'static str {
    match state {
        SessionState::AwaitingPermission => "a permission dialog is open",
        SessionState::AwaitingInput => "a question, a plan or another dialog is open",
        SessionState::BlockedAuth => "Claude Code must log in: /login in the session",
        SessionState::BlockedBilling => "the account needs payment",
        SessionState::Stalled => "unattended, and without any change for too long",
        SessionState::Crashed => "its process died without ending the session",
        SessionState::Interrupted => "ended with the machine or with its tmux server",
        SessionState::Starting => "a headless run that has not taken its prompt yet",
        SessionState::Running => "a turn is open",
        SessionState::Background => "the turn ended, and background work continues",
        SessionState::Recovering => "coord is bringing it back",
        SessionState::RecoveryPending => "it crashed, and coord will bring it back",
        SessionState::QuotaWait => "waits for the end of a usage limit",
        SessionState::Suspended => "stopped by Ctrl-Z; type fg",
        SessionState::Foreign => "owned by Claude Code's own background supervisor",
        SessionState::Elsewhere => "on another machine or in a container",
        SessionState::Unknown => "the evidence does not suffice; coord explain says why",
        SessionState::Idle => "at its prompt, or between turns",
        SessionState::Stopped => "ended by its user or by itself",
    }
}
