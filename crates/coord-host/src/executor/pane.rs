//! Determines the state of a session's pane, from one moment of its server (H-16).
//!
//! This module decides whether the pane is still the same, which process is in the foreground of its
//! terminal, and when a client's key may last have reached it. tmux reports keys only to the second, and
//! those of a client in control mode not at all (measured): while such a client is attached, a key may have
//! come at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use coord_model::{PaneProof, PaneState, ProcessRef, Subject, TmuxPane};
use coord_screen::Reading;
use coord_store::clock::{Clock, RealClock};

use super::processes::Table;
use crate::process;
use crate::tmux::{self, Asker, ServerSocket, answer};

/// One line for each pane and each session that it is in; no field can contain a space.
const PANES: &str = "p #{pane_id} #{pane_pid} #{pane_dead} #{pane_height} #{cursor_x} #{cursor_y} \
                     #{pane_in_mode} #{pane_synchronized} #{pid} #{session_id} #{pane_tty}";
const SESSIONS: &str = "s #{session_id} #{session_activity} #{session_last_attached}";
const CLIENTS: &str =
    "c #{session_id} #{client_activity} #{client_control_mode} #{client_readonly}";
/// Ends the lists; tmux itself writes everything before it.
const END: &str = "end";
/// Punctuation in a terminal's path, or in a session's id after its `$`, that needs no quoting.
const PLAIN: [char; 5] = ['/', '.', '_', '-', '+'];

/// Whether a text means itself to both a shell and tmux.
pub(super) fn is_plain(text: &str) -> bool {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || PLAIN.contains(&one);
    !text.is_empty() && text.chars().all(is_plain)
}

/// The state of a pane, and of the server around it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) state: PaneState,
    pub(super) key_ms: Option<u64>,
    pub(super) any_key_ms: Option<u64>,
    pub(super) is_in_mode: bool,
    pub(super) is_synchronized: bool,
    /// The pane, if it is still the same one.
    pub(super) spot: Option<Spot>,
    /// The session for a new window: that of the pane, or else the one used last.
    pub(super) session: Option<String>,
}

impl Found {
    fn nothing(state: PaneState) -> Self {
        Self {
            state,
            key_ms: None,
            any_key_ms: None,
            is_in_mode: false,
            is_synchronized: false,
            spot: None,
            session: None,
        }
    }
}

/// A pane as the server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) id: u32,
    pub(super) pid: u32,
    pub(super) is_dead: bool,
    height: usize,
    pub(super) cursor: (u32, u32),
    is_in_mode: bool,
    is_synchronized: bool,
    pub(super) tty: String,
}

/// The state of one server at one moment.
#[derive(Debug, Default)]
struct View {
    server_pid: u32,
    panes: BTreeMap<u32, Spot>,
    /// The sessions that each pane is in.
    sessions_of: BTreeMap<u32, BTreeSet<String>>,
    sessions: BTreeMap<String, Session>,
    clients: Vec<Client>,
    /// The text of the requested pane, with escape sequences.
    text: String,
}

/// A session of the server; the one used last is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Session {
    /// Whether a client was ever attached; if not, the activity is the session's creation.
    was_attached: bool,
    /// When a client was last active in the session, in seconds since 1970.
    activity_s: u64,
}

#[derive(Debug)]
struct Client {
    session: String,
    activity_s: u64,
    /// Whether the client's keys arrive as commands, which do not update the activity.
    is_unseen: bool,
}

/// Captures the pane of a session whose processes are in `table`.
pub(super) fn look(asker: &mut Asker, subject: &Subject, table: &Table) -> Found {
    let Some((pane, proof)) = &subject.pane else { return Found::nothing(PaneState::None) };
    let unreadable = |why: String| Found::nothing(PaneState::Unreadable { why });
    let Some(id) = answer::pane_id(&pane.pane) else {
        return unreadable("no such pane id".to_owned());
    };
    let is_there = process::is_alive(pane.server);
    if pane.server.start_time != 0 && !is_there && !subject.any_server {
        return Found::nothing(PaneState::NoServer);
    }
    let may_ask = |server_socket: &ServerSocket| {
        if subject.any_server { Ok(()) } else { is_server(server_socket, pane) }
    };
    let view = asker.ask(&pane.socket, may_ask, &script(id)).and_then(|(_, output)| {
        let view = parse(&output.stdout, id).map_err(|why| output.complaint().unwrap_or(why))?;
        let is_it = view.server_pid == pane.server.pid || subject.any_server;
        is_it.then_some(view).ok_or_else(|| "another server answered".to_owned())
    });
    match view {
        // The panes of a new server begin with the same ids, but none of them is the proved one.
        Ok(mut view) if view.server_pid != pane.server.pid => {
            view.panes.clear();
            view.sessions_of.clear();
            found(&view, id, proof, subject, table)
        }
        Ok(view) => found(&view, id, proof, subject, table),
        Err(why) => unreadable(why),
    }
}

/// Checks that the listening server is exactly the one that had the pane when it was proved (H-16).
pub(super) fn is_server(server_socket: &ServerSocket, pane: &TmuxPane) -> Result<(), String> {
    let is_it = server_socket.server == pane.server;
    is_it.then_some(()).ok_or_else(|| "another server listens there".to_owned())
}

fn script(id: u32) -> String {
    let mut script = String::new();
    for (command, format) in
        [("list-panes -a", PANES), ("list-sessions", SESSIONS), ("list-clients", CLIENTS)]
    {
        let _ = writeln!(script, "{command} -F '{format}'");
    }
    // Each command is on a line of its own: if it fails, the others still run.
    let _ = write!(script, "display-message -p {END}\ncapture-pane -p -e -t %{id}\n");
    script
}

fn parse(stdout: &[u8], id: u32) -> Result<View, String> {
    let text = String::from_utf8_lossy(stdout);
    let whole = text.strip_suffix('\n').ok_or("the answer is cut")?;
    let mut lines = whole.split('\n');
    let mut view = View::default();
    loop {
        let line = lines.next().ok_or("the answer is cut")?;
        if line == END {
            break;
        }
        take(&mut view, line).ok_or("the lists have an unknown shape")?;
    }
    if let Some(pane) = view.panes.get(&id) {
        for _ in 0..pane.height {
            view.text.push_str(lines.next().ok_or("the answer is cut")?);
            view.text.push('\n');
        }
    }
    match lines.next() {
        None => Ok(view),
        Some(_) => Err("the answer is longer than its pane".to_owned()),
    }
}

fn take(view: &mut View, line: &str) -> Option<()> {
    let fields: Vec<&str> = line.split(' ').collect();
    match fields.as_slice() {
        ["p", id, pid, dead, height, x, y, mode, synchronized, server, session, tty] => {
            let id = answer::pane_id(id)?;
            view.server_pid = server.parse().ok()?;
            let spot = Spot {
                id,
                pid: pid.parse().ok()?,
                is_dead: *dead == "1",
                height: height.parse().ok()?,
                cursor: (x.parse().ok()?, y.parse().ok()?),
                is_in_mode: *mode != "0",
                is_synchronized: *synchronized != "0",
                tty: (*tty).to_owned(),
            };
            view.panes.insert(id, spot);
            view.sessions_of.entry(id).or_default().insert((*session).to_owned());
        }
        ["s", session, activity, attached] => {
            let was_attached = !attached.is_empty() && *attached != "0";
            let session_of = Session { was_attached, activity_s: activity.parse().ok()? };
            view.sessions.insert((*session).to_owned(), session_of);
        }
        ["c", session, activity, control, readonly] => view.clients.push(Client {
            session: (*session).to_owned(),
            activity_s: activity.parse().ok()?,
            is_unseen: *control == "1" && *readonly != "1",
        }),
        _ => return None,
    }
    Some(())
}

impl View {
    /// When a key may last have reached one of these sessions, in milliseconds since 1970.
    fn key_ms(&self, is_one: impl Fn(&str) -> bool) -> Option<u64> {
        let now_s = RealClock.wall_ms() / 1000;
        let of_sessions =
            self.sessions.iter().filter(|(id, session)| is_one(id) && session.was_attached);
        let of_clients = self.clients.iter().filter(|client| is_one(&client.session));
        of_sessions
            .map(|(_, session)| session.activity_s)
            .chain(of_clients.map(|one| if one.is_unseen { now_s } else { one.activity_s }))
            .max()
            .map(|newest_s| newest_s.saturating_mul(1000))
    }

    /// The session for a new window.
    fn session(&self, id: u32) -> Option<String> {
        let own = self.sessions_of.get(&id).and_then(BTreeSet::first);
        let newest = || self.sessions.iter().max_by_key(|(_, session)| **session);
        own.or_else(|| newest().map(|(id, _)| id)).cloned()
    }
}

fn found(view: &View, id: u32, proof: &PaneProof, subject: &Subject, table: &Table) -> Found {
    let sessions = view.sessions_of.get(&id);
    let mut found = Found {
        key_ms: view.key_ms(|session| sessions.is_some_and(|all| all.contains(session))),
        any_key_ms: view.key_ms(|_| true),
        session: view.session(id),
        ..Found::nothing(PaneState::Closed)
    };
    // A server never reuses pane ids, but a pane can get a new first process.
    let Some(spot) = view.panes.get(&id).filter(|spot| spot.pid == proof.pane_pid) else {
        return found;
    };
    // A dead pane still names its terminal, which may belong to another pane by now.
    if !spot.is_dead && tmux::device(Path::new(&spot.tty)) != Some(proof.tty) {
        return found;
    }
    found.is_in_mode = spot.is_in_mode;
    found.is_synchronized = spot.is_synchronized;
    found.spot = Some(spot.clone());
    found.state = if spot.is_dead {
        PaneState::Dead
    } else {
        // Read after the server was queried: a process that still has the terminal had it all the time.
        match process::stat(subject.harness.pid).filter(|stat| is_it(stat, subject.harness)) {
            Some(stat) if i64::try_from(proof.tty) != Ok(stat.tty) => {
                PaneState::Unreadable { why: "the client is on another terminal".to_owned() }
            }
            Some(stat) if stat.front == i64::from(stat.group) => client(&view.text),
            Some(_) => PaneState::Other,
            None => shell(spot, &view.text, proof, subject, table),
        }
    };
    found
}

fn is_it(stat: &process::Stat, process: ProcessRef) -> bool {
    stat.start_time == process.start_time && !stat.is_zombie
}

fn client(text: &str) -> PaneState {
    let Reading { screen, signature, .. } = coord_screen::read(&coord_screen::plain(text));
    PaneState::Client { screen, input: coord_screen::input(text), signature }
}

/// The state of the pane's first process: a shell if it alone is in the foreground and its user has left no
/// stopped job there. With `fg`, the user returns to a suspended editor or client (H-01).
fn shell(
    spot: &Spot,
    text: &str,
    proof: &PaneProof,
    subject: &Subject,
    table: &Table,
) -> PaneState {
    let Some(stat) = process::stat(spot.pid) else { return PaneState::Other };
    let is_leader = stat.group == spot.pid && i64::try_from(proof.tty) == Ok(stat.tty);
    let is_in_front = stat.front == i64::from(stat.group);
    // A script's programs run in the script's group: any other member may be the one that reads.
    let is_able = !stat.is_zombie && !stat.is_stopped && table.is_alone(spot.pid);
    let has_jobs = table.has_stopped_on(stat.tty);
    if !(is_leader && is_in_front && is_able) || has_jobs {
        return PaneState::Other;
    }
    let text = coord_screen::plain(text);
    let (x, y) = spot.cursor;
    PaneState::Shell {
        prompt: coord_screen::prompt(&text, x, y),
        signature: coord_screen::read(&text).signature,
        has_typed: subject
            .typed
            .as_ref()
            .is_some_and(|typed| coord_screen::has_typed(&text, typed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTS: &str = "p %0 11 0 2 5 1 0 0 9 $0 /dev/pts/4\np %0 11 0 2 5 1 0 0 9 $1 /dev/pts/4\n\
                         p %3 12 1 1 0 0 1 1 9 $2 /dev/pts/5\n\
                         s $0 100 90\ns $1 200 \ns $2 300 0\n\
                         c $0 150 0 0\nc $2 400 0 0\nend\n";

    // H-08, H-18: a session without any client so far has only the time of its creation.
    #[test]
    fn keys_are_those_that_may_have_reached_the_pane() {
        let view = parse(format!("{LISTS}a\nb\n").as_bytes(), 0).unwrap();
        let of = |id: u32| view.key_ms(|session| view.sessions_of[&id].contains(session));
        assert_eq!((of(0), of(3)), (Some(150_000), Some(400_000)));
        assert_eq!(view.key_ms(|_| true), Some(400_000));
        assert_eq!(view.key_ms(|session| session == "$1"), None);
        let detached = LISTS.replace("c $0 150 0 0\n", "");
        let view = parse(format!("{detached}a\nb\n").as_bytes(), 0).unwrap();
        assert_eq!(view.key_ms(|session| session == "$0"), Some(100_000));
        let controlled = LISTS.replace("c $0 150 0 0", "c $0 150 1 0");
        let view = parse(format!("{controlled}a\nb\n").as_bytes(), 0).unwrap();
        assert!(Some(1_700_000_000_000) < view.key_ms(|session| session == "$0"));
    }

    // S0-25e
    #[test]
    fn a_new_window_comes_to_the_session_of_the_pane_or_to_the_one_used_last() {
        let view = parse(format!("{LISTS}a\nb\n").as_bytes(), 0).unwrap();
        assert_eq!(view.session(3).as_deref(), Some("$2"));
        assert_eq!(
            view.session(7).as_deref(),
            Some("$0"),
            "$2 is newer, and nobody ever was there"
        );
        assert_eq!(View::default().session(7), None);
    }

    // H-16: tmux itself writes the lists, whatever the text of the pane.
    #[test]
    fn a_pane_gives_as_many_lines_as_it_is_high() {
        let view = parse(format!("{LISTS}end\np %9\n").as_bytes(), 0).unwrap();
        assert_eq!(view.text, "end\np %9\n");
        assert_eq!(parse(LISTS.as_bytes(), 7).unwrap().text, "", "not there");
        for (text, id) in [("a\n", 0), ("a\nb", 0), ("a\nb\nc\n", 0), ("a\n", 7)] {
            assert!(parse(format!("{LISTS}{text}").as_bytes(), id).is_err(), "{text:?}");
        }
        for text in ["", "end", "p %0\nend\n", "x\nend\n", "s $0 x \nend\n"] {
            assert!(parse(text.as_bytes(), 0).is_err(), "{text:?}");
        }
    }

    // H-18
    #[test]
    fn plain_words_mean_what_they_say() {
        for text in ["/opt/coord/bin/coordctl", "a.b_c-d+1"] {
            assert!(is_plain(text), "{text}");
        }
        for text in
            ["", "a b", "a;b", "$HOME", "~/a", "a'b", "a\"b", "a\\b", "é", "a\nb", "#{x}", "a*"]
        {
            assert!(!is_plain(text), "{text}");
        }
    }
}
