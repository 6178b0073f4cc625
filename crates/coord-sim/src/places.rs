//! Places where clients run, one after the other: a pane with its shell, or what else started them.

use coord_model::{Input, Launch, ParentKind, Place as Directory, ProcessRef, Screen};
use coord_screen::Reading;

use crate::host_events::SOCKET;
use crate::living::Running;
use crate::machine::{Pane, ShellLine};
use crate::simulation::{Simulation, Time};

/// The first pane's terminal.
pub(crate) const TTYS: u64 = 34_816;
/// The shell of a place without tmux, and one within a pane's own.
const OTHER_SHELL: u32 = 19;

/// What starts the clients of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parent {
    /// Its pane's shell.
    Shell,
    /// A shell within that.
    Inner,
    /// Tmux: a client is its pane's first process.
    Tmux,
    /// A loop that starts the next one by itself.
    Wrapper,
    /// Claude Code's own background supervisor.
    Supervisor,
}

/// A place.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Place {
    pub(crate) client: Option<Running>,
    /// The conversation that was here last.
    pub(crate) last_session: Option<String>,
    /// Its terminal.
    pub(crate) tty: u64,
    /// Its pane now.
    pub(crate) pane: String,
    pub(crate) parent: Parent,
    /// Runs with `-p`, on no terminal.
    pub(crate) is_headless: bool,
    /// Its clients' command line cannot be used again.
    pub(crate) is_unfit: bool,
    /// Its panes are kept when their first process ends.
    pub(crate) is_kept: bool,
    /// Its clients are given their prompts by a script: no key is pressed.
    pub(crate) is_scripted: bool,
    /// The coordinator opened it for one resume.
    pub(crate) is_window: bool,
    /// Where its clients work.
    pub(crate) cwd: String,
    /// What stands in its shell's line in truth.
    pub(crate) typed: String,
    /// Text that was not sent stands in its client's input.
    pub(crate) has_draft: bool,
    /// An editor that its client has opened.
    pub(crate) editor: Option<ProcessRef>,
    /// When a client's key came to it last.
    pub(crate) key_at: Option<Time>,
    /// A line of the coordinator's that runs here and is no client yet.
    pub(crate) taker: Option<ProcessRef>,
    /// The nonce of the last line that was typed here.
    pub(crate) nonce: Option<String>,
}

impl Place {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            client: None,
            last_session: None,
            tty: TTYS + number,
            pane: format!("%{number}"),
            parent: Parent::Shell,
            is_headless: false,
            is_unfit: false,
            is_kept: false,
            is_scripted: false,
            is_window: false,
            cwd: "/home/dev/project".to_owned(),
            typed: String::new(),
            has_draft: false,
            editor: None,
            key_at: None,
            taker: None,
            nonce: None,
        }
    }

    /// Whether nothing of ours is on its terminal.
    pub(crate) fn is_free(&self) -> bool {
        self.client.is_none() && self.taker.is_none()
    }
}

impl Simulation {
    /// The places of a seed.
    pub(crate) fn draw_places(&mut self) {
        for number in 0..2 + self.random.below(4) {
            let mut place = Place::new(number);
            if self.random.chance(self.habits.odd_places) {
                let kinds = [Parent::Inner, Parent::Tmux, Parent::Tmux, Parent::Wrapper];
                place.parent = self.random.pick(&kinds).copied().unwrap_or(Parent::Shell);
                if self.rates.has_registry && self.random.chance(0.1) {
                    place.parent = Parent::Supervisor;
                }
                place.is_unfit = self.random.chance(0.2);
            }
            place.is_headless = self.random.chance(0.15);
            place.is_kept = self.random.chance(0.3);
            place.is_scripted = self.random.chance(0.4);
            place.cwd = format!("/home/dev/{}", if self.random.coin() { "one" } else { "two" });
            self.places.push(place);
        }
    }

    /// Does something with the pane of a place, if it is there.
    pub(crate) fn with_pane<T>(
        &mut self,
        place: usize,
        what: impl FnOnce(&mut Pane) -> T,
    ) -> Option<T> {
        let id = &self.places.get(place)?.pane;
        self.machine.get().tmux.get_mut(SOCKET)?.panes.get_mut(id).map(what)
    }

    /// Whether the pane of a place is there with a shell in it, and nobody else's program.
    pub(crate) fn has_shell(&mut self, place: usize) -> bool {
        let is_free = self.places.get(place).is_some_and(Place::is_free);
        let is_shell = |pane: &mut Pane| !pane.is_dead;
        is_free && self.with_pane(place, is_shell).unwrap_or(false)
    }

    /// Panes of a new server, each with its shell.
    pub(crate) fn new_panes(&mut self) -> Vec<(String, Pane)> {
        let mut panes = Vec::new();
        for n in 0..self.places.len() {
            let pid = self.shell_pid();
            let Some(place) = self.places.get_mut(n) else { continue };
            // Who was started while there was no server runs in no pane of the new one.
            let is_elsewhere = place.client.as_ref().is_some_and(|one| one.client.is_interactive);
            if place.is_window || is_elsewhere {
                place.pane.clear();
                continue;
            }
            place.pane = format!("%{n}");
            place.key_at = None;
            place.typed.clear();
            place.nonce = None;
            let mut pane = new_pane(pid, place.tty);
            pane.is_kept = place.is_kept;
            panes.push((place.pane.clone(), pane));
        }
        panes
    }

    fn shell_pid(&mut self) -> u32 {
        self.shells += 1;
        500_000 + self.shells
    }

    /// Another pane has that id now.
    pub(crate) fn forget_pane(&mut self, id: &str) {
        for one in self.places.iter_mut().filter(|one| one.pane == id) {
            one.pane.clear();
        }
    }

    /// Makes sure that a place has a pane with a living first process.
    fn open_pane(&mut self, place: usize) {
        let pid = self.shell_pid();
        let is_there = self.with_pane(place, |pane| {
            if std::mem::take(&mut pane.is_dead) {
                pane.pid = pid;
            }
        });
        if is_there.is_some() {
            return;
        }
        let number = |id: &String| id.trim_start_matches('%').parse::<u64>().ok();
        let last = self
            .machine
            .get()
            .tmux
            .get(SOCKET)
            .map(|server| server.panes.keys().filter_map(number).max().unwrap_or(0));
        let Some(last) = last else { return };
        let id = format!("%{}", last + 1);
        self.forget_pane(&id);
        let Some(one) = self.places.get_mut(place) else { return };
        let mut machine = self.machine.get();
        let Some(server) = machine.tmux.get_mut(SOCKET) else { return };
        one.pane = id;
        one.key_at = None;
        one.typed.clear();
        one.nonce = None;
        let mut pane = new_pane(pid, one.tty);
        pane.is_kept = one.is_kept;
        server.panes.insert(one.pane.clone(), pane);
    }

    /// Starts a client's process in a place: its parent, and how it was started.
    pub(crate) fn launch(&mut self, place: usize, process: ProcessRef) {
        self.open_pane(place);
        let server = self.machine.get().tmux.get(SOCKET).map(|server| server.process);
        let Some(one) = self.places.get_mut(place) else { return };
        one.typed.clear();
        let (parent, is_unfit, cwd) = (one.parent, one.is_unfit, one.cwd.clone());
        let shell = self.with_pane(place, |pane| {
            pane.line = ShellLine::default();
            pane.shown.farewell = None;
            pane.is_covered = false;
            if parent == Parent::Tmux {
                pane.pid = process.pid;
            }
            pane.pid
        });
        let shell = ProcessRef { pid: shell.unwrap_or(OTHER_SHELL), start_time: 1 };
        let inner = ProcessRef { pid: OTHER_SHELL + 1, start_time: 1 };
        let named = |name: &str| ParentKind::Other(name.to_owned());
        let (process_of, kind) = match (parent, server) {
            (Parent::Tmux, Some(server)) => (server, ParentKind::Tmux),
            (Parent::Shell | Parent::Tmux, _) => (shell, ParentKind::Shell),
            (Parent::Inner, _) => (inner, ParentKind::Shell),
            (Parent::Wrapper, _) => (inner, named("again.sh")),
            (Parent::Supervisor, _) => (inner, named("claude")),
        };
        let unfit = is_unfit.then(|| "an option that is not known".to_owned());
        if let Some(one) = self.machine.get().processes.get_mut(&process.pid) {
            one.parent = process_of.pid;
            one.launch = Some(Launch {
                parent: coord_model::Parent { process: process_of, kind },
                program: vec!["/home/dev/.local/bin/claude".to_owned()],
                flags: Vec::new(),
                unfit,
                cwd: Directory { path: cwd, device: 1, inode: 2 },
                variables: Vec::new(),
                config_dir: None,
            });
        }
    }

    /// Somebody who is attached presses a key.
    pub(crate) fn press(&mut self, place: usize) {
        let (time, wall_ms) = (self.time, self.now().wall_ms);
        let Some(one) = self.places.get_mut(place) else { return };
        if let Some(server) = self.machine.get().tmux.get_mut(SOCKET)
            && server.panes.contains_key(&one.pane)
        {
            server.press(Some(&one.pane), wall_ms);
            one.key_at = Some(time);
            self.key_at = Some(time);
        }
    }

    /// What a client leaves on its terminal when it is gone.
    pub(crate) fn leave_terminal(&mut self, place: usize) {
        let Some(one) = self.places.get_mut(place) else { return };
        one.has_draft = false;
        if let Some(editor) = one.editor.take() {
            self.machine.get().end(editor);
        }
        self.with_pane(place, |pane| {
            pane.input = Input::Empty;
            pane.dialog = None;
        });
    }
}

fn new_pane(pid: u32, tty: u64) -> Pane {
    let shown = Reading { screen: Some(Screen::Shell), ..Reading::default() };
    Pane::new(pid, tty, shown)
}
