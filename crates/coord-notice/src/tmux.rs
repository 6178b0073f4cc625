//! The channel `tmux`: a message on every attached client of the user's servers, and user options for status lines
//! (N-02, N-07).
//!
//! A message is shown for 5 s by `display-message`, never with `-N`: that swallows the key that should cancel a
//! recovery. Servers are asked at the same time, each for at most 2 s per tmux process, so that one that hangs
//! holds up no other. No server is ever started.
//!
//! tmux has no command that rings the bell of a client. The bell is one BEL byte, written to the client's
//! terminal. Each write to a terminal is whole, so that the byte can only come into the middle of what tmux paints
//! if the terminal is so slow that tmux had to stop there.

mod script;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coord_wire::notice::{Notice, NoticeEvent, PaneState, SendAnswer, TmuxState};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use crate::answer::{Failure, NOTHING_TO_WITHDRAW, sent};
use crate::budget::Budget;
use script::Client;
use server::Server;

/// How long one tmux process may take.
const LIMIT: Duration = Duration::from_secs(2);
/// Most servers; a user has one or two.
const SERVERS_MAX: usize = 32;

/// What a server did.
type Done = Result<usize, Failure>;

/// Shows a line on every attached client.
pub(crate) fn tell(
    program: &str,
    sockets: &[String],
    bell: bool,
    notice: &Notice,
    line: &str,
    budget: Budget,
) -> SendAnswer {
    if notice.event == NoticeEvent::Withdrawn {
        // The message is gone by itself.
        return sent(NOTHING_TO_WITHDRAW, None, 0);
    }
    let sockets: BTreeSet<&str> = sockets.iter().map(String::as_str).collect();
    let done = each(sockets.into_iter().map(|socket| (socket, ())), |socket, ()| {
        let Some(server) = Server::open(program, socket)? else { return Ok(0) };
        let clients = script::clients(&server.ask(script::LIST_CLIENTS, budget.part(LIMIT))?);
        if clients.is_empty() {
            return Ok(0);
        }
        let said = server.ask(&script::display(&clients, line), budget.part(LIMIT))?;
        if bell {
            clients.iter().for_each(ring);
        }
        // A client that was detached meanwhile is complained about.
        Ok(clients.len().saturating_sub(said.complaints.len()))
    });
    let shown: usize = done.iter().filter_map(|(_, done)| done.as_ref().ok()).sum();
    let failed = first_failure(&done);
    match (shown, failed) {
        (0, Some(failure)) => failure.answer(1),
        (0, None) => {
            let answer = Failure::new("no terminal is attached").answer(1);
            SendAnswer { is_nobody_there: true, ..answer }
        }
        (n, failure) => {
            let terminals = if n == 1 { "1 terminal".to_owned() } else { format!("{n} terminals") };
            let failure = failure.map(|failure| format!("; {}", failure.why)).unwrap_or_default();
            sent(format!("shown on {terminals}{failure}"), None, 1)
        }
    }
}

/// Sets the options that status lines show, on every server.
pub(crate) fn show_state(
    program: &str,
    sockets: &[String],
    state: &TmuxState,
    budget: Budget,
) -> SendAnswer {
    let mut servers: BTreeMap<&str, Vec<&PaneState>> = BTreeMap::new();
    for socket in sockets {
        servers.entry(socket).or_default();
    }
    for pane in &state.panes {
        servers.entry(&pane.socket).or_default().push(pane);
    }
    let done = each(servers, |socket, panes| {
        let Some(server) = Server::open(program, socket)? else { return Ok(0) };
        let said = server.ask(&script::set_state(state, &panes), budget.part(LIMIT))?;
        let windows = script::windows(&said);
        if !panes.is_empty() && !windows.is_empty() {
            server.ask(&script::sum_up(&windows), budget.part(LIMIT))?;
        }
        Ok(1)
    });
    match first_failure(&done) {
        Some(failure) => failure.answer(1),
        None => {
            let n: usize = done.iter().filter_map(|(_, done)| done.as_ref().ok()).sum();
            let servers = if n == 1 { "1 server".to_owned() } else { format!("{n} servers") };
            sent(format!("set on {servers}"), None, 1)
        }
    }
}

/// Asks all servers at the same time.
fn each<'a, T: Send>(
    servers: impl IntoIterator<Item = (&'a str, T)>,
    ask: impl Fn(&str, T) -> Done + Sync,
) -> Vec<(&'a str, Done)> {
    let ask = &ask;
    std::thread::scope(|scope| {
        let started: Vec<_> = servers
            .into_iter()
            .take(SERVERS_MAX)
            .map(|(socket, what)| {
                let asked =
                    std::thread::Builder::new().spawn_scoped(scope, move || ask(socket, what));
                (socket, asked)
            })
            .collect();
        let ended = started.into_iter().map(|(socket, asked)| {
            let done = asked.map_err(|error| Failure::new(error.to_string()));
            let done = done.and_then(|asked| {
                asked.join().unwrap_or_else(|_| Err(Failure::new("the sender failed")))
            });
            (socket, done)
        });
        ended.collect()
    })
}

/// The first failure, with its server.
fn first_failure(done: &[(&str, Done)]) -> Option<Failure> {
    let mut failures =
        done.iter().filter_map(|(socket, done)| Some((socket, done.as_ref().err()?)));
    let (socket, failure) = failures.next()?;
    Some(Failure { why: format!("{socket}: {}", failure.why), ..failure.clone() })
}

/// Rings the bell of a client's terminal, if it takes a byte at once.
fn ring(client: &Client) {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(terminal) = open(&client.terminal, flags | OFlags::NOCTTY, Mode::empty()) else {
        return;
    };
    let is_ours = fstat(&terminal).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
            && stat.st_uid == rustix::process::geteuid().as_raw()
    });
    if is_ours && rustix::termios::isatty(&terminal) {
        let _ = rustix::io::write(&terminal, b"\x07");
    }
}
