//! Looks at panes: which one is a process's own, and what stands on it (H-16, S0-30, G11).
//!
//! Decides whose a pane is, by its terminal alone: the environment's word for a pane is only where
//! the look begins. What a screen means is decided in `coord-screen` and the core. One tmux process
//! serves all that is asked of one server in one look; a second one is needed only for panes that
//! turned out to be others than expected, or in which something happened since the last sweep. No
//! text of a pane is kept.

mod answer;
mod program;
mod socket;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use coord_core::{Look, PaneProof, TmuxPane};
use coord_screen::Reading;
use coord_store::clock::{Clock, RealClock};
use coord_wire::journal::Pane;
use coord_wire::stamp::ProcessRef;

use crate::registry::Readable;
use crate::{convert, process};
use answer::{Listed, View};
use socket::{Door, Doors};

/// Answers remembered for sweeps; beyond this those of dead processes are dropped.
const KNOWN_MAX: usize = 1024;

/// A wish to look at the pane of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneWish {
    /// The process, alive or dead.
    pub process: ProcessRef,
    /// The pane: proved before, or as an environment claims.
    pub pane: TmuxPane,
    /// The proof, where there was one.
    pub proof: Option<PaneProof>,
    /// What for.
    pub look: Look,
}

/// What became of a [`PaneWish`]; every wish gets one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneAnswer {
    /// The process.
    pub process: ProcessRef,
    /// What was found.
    pub pane: Pane,
    /// CLOCK_MONOTONIC when the look began.
    pub looked_ns: u64,
    /// The look followed the process's death.
    pub after_death: bool,
}

/// The adapter to tmux.
#[derive(Debug)]
pub struct Tmux {
    /// Where the program may be, before the usual places.
    places: Vec<PathBuf>,
    readable: Readable,
    read: fn(&str) -> Reading,
    doors: Doors,
    known: BTreeMap<ProcessRef, Known>,
}

/// The last answer for a process, for sweeps over panes in which nothing happened.
#[derive(Debug)]
struct Known {
    pane: u32,
    happened: String,
    /// tmux tells the time of a pane's output to the second: more may have come in that second.
    may_have_more: bool,
    seen: Pane,
}

/// What one view of a server says of a wish.
enum Outcome {
    Is(Pane),
    /// This pane has to be captured.
    Capture(u32),
}

impl Tmux {
    /// `places` are tried before the usual ones; `readable` says which sockets may be asked (H-14).
    pub fn new(places: Vec<PathBuf>, readable: Readable, read: fn(&str) -> Reading) -> Self {
        Self { places, readable, read, doors: Doors::default(), known: BTreeMap::new() }
    }

    /// Looks at all these panes, one tmux process for each server.
    pub fn look(&mut self, wishes: Vec<PaneWish>) -> Vec<PaneAnswer> {
        let mut by_socket: BTreeMap<String, Vec<PaneWish>> = BTreeMap::new();
        for wish in wishes {
            by_socket.entry(wish.pane.socket.clone()).or_default().push(wish);
        }
        by_socket.into_iter().flat_map(|(socket, wishes)| self.look_at(&socket, wishes)).collect()
    }

    fn look_at(&mut self, socket: &str, wishes: Vec<PaneWish>) -> Vec<PaneAnswer> {
        let mut answers = Vec::with_capacity(wishes.len());
        let answer = |wish: &PaneWish, pane, looked_ns| PaneAnswer {
            process: wish.process,
            pane,
            looked_ns,
            after_death: wish.look == Look::AfterDeath,
        };
        let mut captures: BTreeSet<u32> =
            wishes.iter().filter_map(|wish| self.capture_at_once(wish)).collect();
        let mut open = wishes;
        let mut unseen = "its pane changed while it was looked at".to_owned();
        let mut looked_ns = 0;
        for _ in 0..2 {
            let asked_s = RealClock.wall_ms() / 1000;
            looked_ns = RealClock.mono_ns();
            let view = match self.ask(socket, &open, &captures) {
                Ok(view) => view,
                Err(why) => {
                    unseen = why;
                    break;
                }
            };
            captures.clear();
            open.retain(|wish| match self.judge(socket, wish, &view, asked_s) {
                Outcome::Is(pane) => {
                    answers.push(answer(wish, pane, looked_ns));
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
        answers.extend(open.iter().map(|wish| answer(wish, *unreadable(&unseen), looked_ns)));
        answers
    }

    /// The pane to capture together with the list: what is there will be needed in any case.
    fn capture_at_once(&self, wish: &PaneWish) -> Option<u32> {
        let known = self.known.get(&wish.process);
        if wish.look == Look::Sweep && known.is_some_and(|known| !known.may_have_more) {
            return None;
        }
        known.map(|known| known.pane).or_else(|| answer::pane_id(&wish.pane.pane))
    }

    fn ask(
        &mut self,
        socket: &str,
        wishes: &[PaneWish],
        captures: &BTreeSet<u32>,
    ) -> Result<(Door, View), String> {
        let door = self.doors.open(&self.readable, Path::new(socket))?;
        if !wishes.iter().any(|wish| is_server_of(&door, wish)) {
            return Err(format!(
                "{socket}: the process behind it is no ancestor of the session's process"
            ));
        }
        let program = program::find(&self.places)?;
        let output = program::run(&program, &door, &answer::script(captures))?;
        let view = answer::parse(&output.stdout, captures)
            .map_err(|why| format!("{socket}: {}", output.complaint().unwrap_or(why)))?;
        if view.server_pid != door.server.pid {
            return Err(format!("{socket}: another server answered"));
        }
        Ok((door, view))
    }

    fn judge(
        &mut self,
        socket: &str,
        wish: &PaneWish,
        (door, view): &(Door, View),
        asked_s: u64,
    ) -> Outcome {
        let is_dead = wish.look == Look::AfterDeath;
        let found = if is_dead { dead(wish, door, view) } else { living(wish, view) };
        let (pane, tty) = match found {
            Ok(found) => found,
            Err(instead) => {
                self.known.remove(&wish.process);
                return Outcome::Is(*instead);
            }
        };
        let Some(text) = view.texts.get(&pane.id) else {
            let known = self.known.get(&wish.process).filter(|known| {
                wish.look == Look::Sweep
                    && known.pane == pane.id
                    && known.happened == pane.happened
                    && !known.may_have_more
            });
            return known
                .map_or(Outcome::Capture(pane.id), |known| Outcome::Is(known.seen.clone()));
        };
        let Reading { screen, farewell, signature } = (self.read)(text);
        let seen = Pane::Its {
            socket: socket.to_owned(),
            server: door.server,
            pane: format!("%{}", pane.id),
            pane_pid: pane.pid,
            tty,
            screen: screen.map(|screen| screen.word().to_owned()),
            farewell,
            signature,
        };
        if is_dead {
            self.known.remove(&wish.process);
        } else {
            self.remember(wish.process, pane, asked_s, seen.clone());
        }
        Outcome::Is(seen)
    }

    fn remember(&mut self, process: ProcessRef, pane: &Listed, asked_s: u64, seen: Pane) {
        if KNOWN_MAX <= self.known.len() {
            self.known.retain(|process, _| process::is_alive(*process));
        }
        let known = Known {
            pane: pane.id,
            happened: pane.happened.clone(),
            may_have_more: asked_s <= pane.happened_s,
            seen,
        };
        self.known.insert(process, known);
    }
}

/// Whether the server may be asked for this wish's sake: it was proved before, or the process runs
/// below it. A socket is named by an environment that a project's settings can set (H-24), and
/// whoever listens there could tell our tmux process to write files; a confined agent's own
/// listener is never an ancestor of its harness.
fn is_server_of(door: &Door, wish: &PaneWish) -> bool {
    let is_proved = wish.proof.is_some() && convert::wire_process(wish.pane.server) == door.server;
    is_proved || socket::descends_from(wish.process, door.server)
}

/// The pane on the terminal of a living process.
fn living<'a>(wish: &PaneWish, view: &'a View) -> Result<(&'a Listed, u64), Box<Pane>> {
    let gone = || unreadable("the process is gone");
    // Read after the view was taken: a process that still has its terminal had it all the time.
    let stat = process::stat(wish.process.pid).ok_or_else(gone)?;
    if stat.start_time != wish.process.start_time || stat.is_zombie {
        return Err(gone());
    }
    let terminal = u64::try_from(stat.tty)
        .ok()
        .filter(|tty| *tty != 0)
        .ok_or_else(|| Box::new(Pane::NotThere))?;
    // A dead pane still names its terminal, which may be another pane's by now.
    let mut alive = view.panes.values().filter(|pane| !pane.is_dead);
    let pane = alive
        .find(|pane| device(&pane.tty) == Some(terminal))
        .ok_or_else(|| Box::new(Pane::NotThere))?;
    Ok((pane, terminal))
}

/// The pane that was proved to be a dead process's own while it lived. Within one server pane ids
/// are never used twice, but a pane can be given a new first process.
fn dead<'a>(wish: &PaneWish, door: &Door, view: &'a View) -> Result<(&'a Listed, u64), Box<Pane>> {
    let proof = wish.proof.ok_or_else(|| unreadable("the pane was not proved in life"))?;
    if convert::wire_process(wish.pane.server) != door.server {
        return Err(Box::new(Pane::NotThere));
    }
    let id = answer::pane_id(&wish.pane.pane).ok_or_else(|| unreadable("no such pane id"))?;
    let pane = view.panes.get(&id).filter(|pane| pane.pid == proof.pane_pid);
    let pane = pane.filter(|pane| pane.is_dead || device(&pane.tty) == Some(proof.tty));
    pane.map(|pane| (pane, proof.tty)).ok_or_else(|| Box::new(Pane::NotThere))
}

fn unreadable(why: &str) -> Box<Pane> {
    Box::new(Pane::Unreadable { why: why.to_owned() })
}

/// The device number of a terminal's file, as the process table gives it.
fn device(tty: &Path) -> Option<u64> {
    std::fs::symlink_metadata(tty).ok().map(|file| file.rdev())
}
