//! Captures panes: finds the pane of a process and reads its screen (H-16, G11).
//!
//! This module decides which pane belongs to a process, by the process's terminal alone: the pane that an
//! environment names is only where the search begins. What a screen means is decided in `coord-screen` and
//! the core. One tmux process answers all requests for one server at once. A second one is needed only for
//! panes other than the expected ones, and for panes with output since the last sweep. The text of a pane is
//! never kept.

pub mod answer;
mod asker;
mod program;
pub(crate) mod servers;
mod socket;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use answer::{Listed, View};
use coord_model::{Farewell, Look, PaneFound, PaneProof, PaneSeen, ProcessRef, TmuxPane};
use coord_screen::Reading;
use coord_store::clock::{Clock, RealClock};

use crate::process;
use crate::registry::Readable;
pub use asker::Asker;
pub(crate) use socket::ServerSocket;
use socket::ServerSockets;

/// Most answers remembered for sweeps; beyond this, those of dead processes are dropped.
const KNOWN_MAX: usize = 1024;

/// A request to capture the pane of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneWish {
    /// The process, alive or dead.
    pub process: ProcessRef,
    /// The pane: proved earlier, or claimed by an environment.
    pub pane: TmuxPane,
    /// The proof that the pane belongs to the process, if there was one.
    pub proof: Option<PaneProof>,
    /// Why the pane is captured.
    pub look: Look,
}

/// The answer to a [`PaneWish`]; each request gets one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneAnswer {
    /// The process.
    pub process: ProcessRef,
    /// What was found.
    pub pane: PaneFound,
    /// When the capture began, in nanoseconds of CLOCK_MONOTONIC.
    pub looked_ns: u64,
    /// Whether the capture followed the death of the process.
    pub after_death: bool,
}

/// The adapter to tmux.
#[derive(Debug)]
pub struct Tmux {
    asker: Asker,
    read: fn(&str) -> Reading,
    known: BTreeMap<ProcessRef, Known>,
}

/// The tmux program that is run: the first executable one of `places`, which are files or their directories,
/// and of the usual places.
pub fn find_program(places: &[PathBuf]) -> Result<PathBuf, String> {
    program::find(places)
}

/// Checks that the server at `socket` exists and may be queried (H-14, H-27).
pub fn check_socket(readable: &Readable, socket: &Path) -> Result<(), String> {
    ServerSockets::default().open(readable, socket).map(drop)
}

/// The last answer for a process, reused by sweeps over panes without new output.
#[derive(Debug)]
struct Known {
    server: ProcessRef,
    pane: Listed,
    /// Whether more output may have followed: tmux reports the time of a pane's output only to the second.
    may_have_more: bool,
    /// Whether there was output since the look before. More is likely by the next one.
    is_changing: bool,
    seen: PaneFound,
}

/// The state of one server at one moment.
struct Sight {
    server: ProcessRef,
    view: View,
    /// The living panes by the device number of their terminal. A dead pane still names its terminal, which
    /// may belong to another pane by now.
    by_terminal: BTreeMap<u64, u32>,
    /// When the server was queried, in seconds since 1970.
    asked_s: u64,
}

/// What the view of a server means for a request.
enum Outcome {
    Is(PaneFound),
    /// The pane with this id has to be captured.
    Capture(u32),
}

impl Tmux {
    /// Creates an adapter. `places` are tried before the usual places; `readable` says which sockets may be
    /// queried (H-14).
    pub fn new(places: Vec<PathBuf>, readable: Readable, read: fn(&str) -> Reading) -> Self {
        Self { asker: Asker::new(places, readable), read, known: BTreeMap::new() }
    }

    /// Creates an adapter with the same settings, which remembers nothing.
    pub(crate) fn another(&self) -> Self {
        Self { asker: self.asker.another(), read: self.read, known: BTreeMap::new() }
    }

    /// Captures all these panes, with one tmux process for each server.
    pub fn look(&mut self, wishes: Vec<PaneWish>) -> Vec<PaneAnswer> {
        let mut by_socket: BTreeMap<String, Vec<PaneWish>> = BTreeMap::new();
        for wish in wishes {
            by_socket.entry(wish.pane.socket.clone()).or_default().push(wish);
        }
        by_socket.into_iter().flat_map(|(socket, wishes)| self.look_at(&socket, wishes)).collect()
    }

    fn look_at(&mut self, socket: &str, wishes: Vec<PaneWish>) -> Vec<PaneAnswer> {
        let mut answers = Vec::with_capacity(wishes.len());
        let mut captures: BTreeSet<u32> =
            wishes.iter().filter_map(|wish| self.capture_at_once(wish)).collect();
        let mut open = wishes;
        let mut unseen = "the pane changed during the capture".to_owned();
        let mut looked_ns = 0;
        for _ in 0..2 {
            looked_ns = RealClock.mono_ns();
            let sight = match self.ask(socket, &open, &captures) {
                Ok(sight) => sight,
                Err(why) => {
                    unseen = why;
                    break;
                }
            };
            captures.clear();
            open.retain(|wish| match self.judge(socket, wish, &sight) {
                Outcome::Is(pane) => {
                    answers.push(answer_to(wish, pane, looked_ns));
                    false
                }
                Outcome::Capture(id) => {
                    captures.insert(id);
                    true
                }
            });
            if open.is_empty() {
                break;
            }
        }
        answers.extend(open.iter().map(|wish| answer_to(wish, *unreadable(&unseen), looked_ns)));
        answers
    }

    /// The pane to capture together with the list of panes, because its text is needed in any case.
    fn capture_at_once(&self, wish: &PaneWish) -> Option<u32> {
        let known = self.known.get(&wish.process);
        let is_quiet = |known: &Known| !(known.may_have_more || known.is_changing);
        if wish.look == Look::Sweep && known.is_some_and(is_quiet) {
            return None;
        }
        known.map(|known| known.pane.id).or_else(|| answer::pane_id(&wish.pane.pane))
    }

    fn ask(
        &mut self,
        socket: &str,
        wishes: &[PaneWish],
        captures: &BTreeSet<u32>,
    ) -> Result<Sight, String> {
        let asked_s = RealClock.wall_ms() / 1000;
        let may_ask = |server_socket: &ServerSocket| {
            let is_any = wishes.iter().any(|wish| is_server_of(server_socket, wish));
            let no_ancestor = "the process behind it is no ancestor of the session's process";
            is_any.then_some(()).ok_or_else(|| no_ancestor.to_owned())
        };
        let (server_socket, output) = self.asker.ask(socket, may_ask, &answer::script(captures))?;
        let view = answer::parse(&output.stdout, captures)
            .map_err(|why| format!("{socket}: {}", output.complaint().unwrap_or(why)))?;
        if view.server_pid != server_socket.server.pid {
            return Err(format!("{socket}: another server answered"));
        }
        let alive = view.panes.values().filter(|pane| !pane.is_dead);
        let by_terminal = alive.filter_map(|pane| Some((device(&pane.tty)?, pane.id))).collect();
        Ok(Sight { server: server_socket.server, view, by_terminal, asked_s })
    }

    fn judge(&mut self, socket: &str, wish: &PaneWish, sight: &Sight) -> Outcome {
        if let Some(seen) = self.unchanged(wish, sight) {
            return Outcome::Is(seen);
        }
        let is_dead = wish.look == Look::AfterDeath;
        let found = if is_dead { dead(wish, sight) } else { living(wish, sight) };
        let (pane, tty) = match found {
            Ok(found) => found,
            Err(instead) => {
                self.known.remove(&wish.process);
                return Outcome::Is(*instead);
            }
        };
        let Some(text) = sight.view.texts.get(&pane.id) else { return Outcome::Capture(pane.id) };
        let Reading { screen, farewell, signature, digest } = (self.read)(text);
        let says_end = matches!(farewell, Some(Farewell::Last(_)));
        if is_dead && !says_end && is_taken(pane, wish.process) {
            return Outcome::Is(*unreadable("another program has its terminal by now"));
        }
        let (socket, id) = (socket.to_owned(), format!("%{}", pane.id));
        let seen = PaneFound::Found(PaneSeen {
            pane: TmuxPane { socket, server: sight.server, pane: id },
            proof: PaneProof { pane_pid: pane.pid, tty },
            screen,
            farewell,
            signature,
            digest,
            place: Some(pane.place.clone()),
        });
        if is_dead {
            self.known.remove(&wish.process);
        } else {
            if KNOWN_MAX <= self.known.len() {
                self.known.retain(|process, _| process::is_alive(*process));
            }
            let before = self.known.get(&wish.process);
            let known = Known {
                server: sight.server,
                pane: pane.clone(),
                may_have_more: sight.asked_s <= pane.happened_s,
                is_changing: before.is_some_and(|before| before.pane.happened != pane.happened),
                seen: seen.clone(),
            };
            self.known.insert(wish.process, known);
        }
        Outcome::Is(seen)
    }

    /// The last answer, if a sweep finds the pane unchanged.
    fn unchanged(&mut self, wish: &PaneWish, sight: &Sight) -> Option<PaneFound> {
        let known = self.known.get_mut(&wish.process).filter(|known| !known.may_have_more)?;
        let is_same = wish.look == Look::Sweep
            && known.server == sight.server
            && sight.view.panes.get(&known.pane.id) == Some(&known.pane);
        known.is_changing &= !is_same;
        is_same.then(|| known.seen.clone())
    }
}

/// Whether a request may query this server: the server was proved earlier, or the process descends from it.
///
/// The socket is named by an environment that a project's settings can set (H-24), and a hostile listener
/// could tell our tmux process to write files. The listener of a confined agent is never an ancestor of its
/// harness.
fn is_server_of(server_socket: &ServerSocket, wish: &PaneWish) -> bool {
    let is_proved = wish.proof.is_some() && wish.pane.server == server_socket.server;
    is_proved || socket::descends_from(wish.process, server_socket.server)
}

/// The pane on the terminal of a living process.
fn living<'a>(wish: &PaneWish, sight: &'a Sight) -> Result<(&'a Listed, u64), Box<PaneFound>> {
    // Read after the server was queried: a process that still has its terminal had it all the time.
    let stat = process::stat(wish.process.pid)
        .filter(|stat| stat.start_time == wish.process.start_time && !stat.is_zombie)
        .ok_or_else(|| unreadable("the process is gone"))?;
    let terminal = u64::try_from(stat.tty).ok().filter(|tty| *tty != 0);
    let pane = terminal.and_then(|terminal| {
        let id = sight.by_terminal.get(&terminal)?;
        Some((sight.view.panes.get(id)?, terminal))
    });
    pane.ok_or_else(|| Box::new(PaneFound::NotThere))
}

/// The pane that was proved to belong to a dead process while it lived. A server never reuses pane ids, but a
/// pane can get a new first process.
fn dead<'a>(wish: &PaneWish, sight: &'a Sight) -> Result<(&'a Listed, u64), Box<PaneFound>> {
    let proof = wish.proof.ok_or_else(|| unreadable("the pane was not proved in life"))?;
    if wish.pane.server != sight.server {
        return Err(Box::new(PaneFound::NotThere));
    }
    let id = answer::pane_id(&wish.pane.pane).ok_or_else(|| unreadable("no such pane id"))?;
    let pane = sight.view.panes.get(&id).filter(|pane| pane.pid == proof.pane_pid);
    let pane = pane.filter(|pane| pane.is_dead || device(&pane.tty) == Some(proof.tty));
    pane.map(|pane| (pane, proof.tty)).ok_or_else(|| Box::new(PaneFound::NotThere))
}

/// Whether a program that started after the dead process is in the foreground of its terminal: it may already
/// have overwritten the process's last output.
fn is_taken(pane: &Listed, dead: ProcessRef) -> bool {
    if pane.is_dead {
        return false;
    }
    let front = process::stat(pane.pid).and_then(|first| u32::try_from(first.front).ok());
    let leader = front.filter(|front| *front != pane.pid).and_then(process::stat);
    leader.is_some_and(|leader| dead.start_time < leader.start_time)
}

fn answer_to(wish: &PaneWish, pane: PaneFound, looked_ns: u64) -> PaneAnswer {
    let after_death = wish.look == Look::AfterDeath;
    PaneAnswer { process: wish.process, pane, looked_ns, after_death }
}

fn unreadable(why: &str) -> Box<PaneFound> {
    Box::new(PaneFound::Unreadable { why: why.to_owned() })
}

/// The device number of a terminal's file, as the process table reports it.
pub(crate) fn device(tty: &Path) -> Option<u64> {
    std::fs::symlink_metadata(tty).ok().map(|file| file.rdev())
}
