//! `coord go NAME`, `coord next`, `coord back`: move the caller's own tmux client (U-04). They send no key, and
//! change no window.

mod moves;
mod tmux;

use anyhow::anyhow;
use coord_daemon::operator::check_self;
use coord_host::process;
use coord_model::SessionState;
use coord_view::list::shown_name;
use coord_wire::inspect::Session;

use crate::context::Context;
use crate::out::{Failure, escape, shell_quoted};
use crate::verb::completions;
use crate::verb::fleet::machines::{self, Machine};
use crate::verb::inspect::{look, tilde};
use tmux::Client;

/// Go to a session's tmux pane
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord go parser   show the pane of the session parser in this tmux client\n  coord back        and return\n  coord go laptop/parser   print the command that leads to another machine's session\n\nWithout tmux, on another server, or for a headless session, it prints how to get there."
)]
pub(crate) struct GoArgs {
    /// A session's name or id
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::session_with_pane())]
    name: String,
    #[command(flatten)]
    from: From,
}

/// Go to the session that has needed you longest
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord next   the pane that waits longest; from there, the next one\n\nIn tmux.conf, for prefix n:  bind n run-shell \"coord next --client '#{client_name}'\""
)]
pub(crate) struct NextArgs {
    #[command(flatten)]
    from: From,
}

/// Return to where `coord go` or `coord next` left
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  coord back   undo the last move; up to 20 are remembered")]
pub(crate) struct BackArgs {
    #[command(flatten)]
    from: From,
}

#[derive(Debug, clap::Args)]
struct From {
    /// The tmux client to move, for key bindings; messages are shown there
    #[arg(long, value_name = "CLIENT")]
    client: Option<String>,
}

pub(crate) fn go(args: &GoArgs, context: &Context) -> Result<(), Failure> {
    let client = args.from.open("coord go")?;
    if let Some((machine, session)) = args.name.split_once('/') {
        let (machine, session) = machines::session(machine, session, context)?;
        return client.tell(elsewhere(&machine, &session));
    }
    let found = look(Some(&args.name), context)?.answer.sessions;
    // A conversation that was resumed may have several records: the one with the client is meant, else the newest.
    let is_alive =
        |one: &&Session| one.owner.as_ref().is_some_and(|owner| owner.alive == Some(true));
    let Some(session) = found.iter().rfind(is_alive).or(found.last()) else {
        return client.tell(format!("no session {:?}", args.name));
    };
    match target(session, &client) {
        Ok(pane) => client.move_to(&pane, context),
        Err(why) => client.tell(why),
    }
}

pub(crate) fn next(args: &NextArgs, context: &Context) -> Result<(), Failure> {
    let client = args.from.open("coord next")?;
    let mut waiting = look(None, context)?.answer.sessions;
    waiting.retain(|session| session.need.is_some());
    waiting.sort_by(|a, b| since(a).cmp(since(b)));
    if waiting.is_empty() {
        return client.tell("Nobody needs you.".to_owned());
    }
    let panes: Vec<String> =
        waiting.iter().filter_map(|session| target(session, &client).ok()).collect();
    let here = client.pane();
    let at = panes.iter().position(|pane| Some(pane) == here.as_ref());
    let next = at.map_or(0, |at| at + 1);
    match panes.get(next).or_else(|| panes.first()) {
        Some(pane) => client.move_to(pane, context),
        None => {
            let n = waiting.len();
            let verb = if n == 1 { "needs" } else { "need" };
            client.tell(format!("{n} {verb} you, none in this tmux. → coord inspect --needs-me"))
        }
    }
}

pub(crate) fn back(args: &BackArgs, context: &Context) -> Result<(), Failure> {
    let client = args.from.open("coord back")?;
    match moves::take_last(context, &client.key()) {
        Some(pane) => client.switch(&pane),
        None => client.tell("No earlier place.".to_owned()),
    }
}

impl From {
    /// The client that is to be moved. Only a person moves one.
    fn open(&self, command: &str) -> Result<Client, Failure> {
        check_self(&format!("`{command}`")).map_err(|why| anyhow!(why))?;
        Ok(Client::open(self.client.clone()))
    }
}

fn since(session: &Session) -> &str {
    session.need.as_ref().map_or("", |need| &need.since)
}

/// How a person gets to a session of another machine (F-03).
fn elsewhere(machine: &Machine, id: &str) -> String {
    let host = &machine.name;
    let sessions = machine.sessions();
    let Some(session) = sessions.iter().find(|one| one.session_id == id) else {
        return format!("{} runs on {host}. → ssh {host}", escape(id));
    };
    let name = escape(&shown_name(session));
    match &session.tmux {
        Some(tmux) => format!(
            "{name} runs on {host}. → ssh -t {host} tmux -S {} attach -t {}",
            shell_quoted(&escape(&tmux.socket)),
            shell_quoted(&escape(&tmux.pane))
        ),
        None => format!("{name} runs on {host}, in no tmux pane. → ssh {host}"),
    }
}

/// The pane to go to, or why there is none, and what to do instead.
fn target(session: &Session, client: &Client) -> Result<String, String> {
    let name = escape(&shown_name(session));
    let place = session.place.as_ref().map_or("", |place| place.text.as_str());
    let kind = session.place.as_ref().map_or("", |place| place.kind.as_str());
    if session.state == SessionState::Elsewhere {
        return Err(format!("{name} runs on host {}. Go there by ssh.", escape(&session.host)));
    }
    if session.state == SessionState::Foreign {
        return Err(format!("{name} is a background session. → claude agents"));
    }
    if kind == "headless" {
        return Err(format!("{name} is headless. → coord inspect {name}"));
    }
    let owner = session.owner.as_ref();
    let is_gone = owner.is_some_and(|owner| owner.alive == Some(false));
    let Some(pane) = session.tmux.as_ref().filter(|_| kind == "tmux") else {
        if is_gone {
            return Err(closed(session, &name));
        }
        let pid = owner.map_or_else(String::new, |owner| format!(": pid {}", owner.pid));
        return Err(format!(
            "{name} is in another terminal{pid}, {}.",
            escape(&tilde(&session.cwd))
        ));
    };
    let place = escape(place);
    if client.server() != Some(pane.socket.as_str()) {
        let at = shell_quoted(&pane.socket);
        return Err(match client.server() {
            None => format!("{name} is in tmux {place}. → tmux -S {at} attach -t {}", pane.pane),
            Some(_) => {
                format!("{name} is on another tmux server. → tmux -S {at} attach -t {}", pane.pane)
            }
        });
    }
    let living = owner.filter(|owner| owner.alive == Some(true));
    let terminal = living.and_then(|owner| process::stat(owner.pid)).map(|stat| stat.tty);
    match client.terminal_of(&pane.pane, pane.server_pid) {
        None if is_gone => Err(closed(session, &name)),
        None => Err(format!("{place} now belongs to another program; nothing was switched.")),
        Some(of_pane) if terminal.is_some_and(|own| u64::try_from(own).ok() != Some(of_pane)) => {
            Err(format!("{place} now belongs to another program; nothing was switched."))
        }
        Some(_) => Ok(pane.pane.clone()),
    }
}

/// The client and its pane are gone.
fn closed(session: &Session, name: &str) -> String {
    let what = if session.state == SessionState::Crashed { "crashed" } else { "has ended" };
    match session.need.as_ref().and_then(|need| need.command.as_ref()) {
        Some(command) => format!("{name} {what} and its pane is closed. → {}", escape(command)),
        None => format!("{name} {what} and its pane is closed. → coord inspect {name}"),
    }
}
