//! What people and scripts do at terminals, what crashes, and what the machine is short of.

use coord_model::{Input, Kind, ProcessRef};
use serde_json::json;

use crate::client::{End, Truth};
use crate::places::Place;
use crate::serving::CONFIG_DIR;
use crate::simulation::{MINUTE, MS, SECOND, Simulation, WORK_END, What};

/// A crash signature.
pub(crate) const SIGNATURE: &str = "RangeError: Maximum call stack size exceeded";
/// A line that is not sent.
const HALF: &str = "git st";
/// The same, which ends as a prompt does.
const LIKE_A_PROMPT: &str = "echo $ ";

/// One thing that happens beside what clients plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A client crashes.
    Crash,
    /// Several do.
    Burst,
    /// Somebody does something at a terminal.
    Person,
    /// An order is given.
    Order,
    /// The machine lacks something for a while.
    Shortage,
    /// A client hangs.
    Hang,
    /// A message is sent.
    Message,
}

impl Action {
    pub(crate) const ALL: [Self; 7] = [
        Self::Crash,
        Self::Burst,
        Self::Person,
        Self::Order,
        Self::Shortage,
        Self::Hang,
        Self::Message,
    ];
}

/// What is over after a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Passing {
    /// What stood in a shell's line.
    Line,
    /// What stood in a client's input.
    Draft,
    Editor,
    CopyMode,
    Synchronized,
    Covered,
    Memory,
    Gone(String),
    Locked(String),
    /// A client hung.
    Hung(ProcessRef),
}

impl Simulation {
    /// Lets it happen at its rate.
    pub(crate) fn schedule_action(&mut self, action: Action) {
        let rate = match action {
            Action::Crash => self.habits.crashes,
            Action::Burst => self.habits.bursts,
            Action::Person => self.habits.people,
            Action::Order => self.habits.orders,
            Action::Shortage => self.habits.shortages,
            Action::Hang => self.habits.hangs,
            Action::Message => self.habits.messages,
        };
        let after = self.after(rate);
        if 0.0 < rate {
            self.at(after, What::Happens(action));
        }
    }

    /// It happens, and will again.
    pub(crate) fn action(&mut self, action: Action) {
        if WORK_END <= self.time {
            return;
        }
        self.schedule_action(action);
        let place = self.random.index(self.places.len());
        match action {
            Action::Crash => self.crash(place),
            Action::Burst => {
                for place in 0..self.places.len() {
                    let after = self.random.below(20 * SECOND);
                    self.at(after, What::Crashes(place));
                }
            }
            Action::Person => self.does_something(place),
            Action::Order => self.gives_order(),
            Action::Message => self.sends_something(),
            Action::Shortage => self.lacks_something(place),
            Action::Hang => {
                let place = self.working_place().unwrap_or(place);
                self.hangs(place);
            }
        }
    }

    /// Somebody, or a script, does something in a place: most of it passes.
    pub(crate) fn does_something(&mut self, place: usize) {
        let n = self.random.below(14);
        self.note(|| format!("place {place}: somebody does {n}"));
        let while_ns = self.random.range(200 * MS..200 * SECOND);
        match n {
            0..3 => self.press(place),
            3 | 4 => self.types(place, HALF, n == 3, while_ns),
            5 => self.types(place, LIKE_A_PROMPT, false, while_ns),
            6 => {
                let number = self.random.below(3);
                let prompt = format!("dev@host:~/project-{number}$ ");
                self.with_pane(place, |pane| pane.line.prompt = Some(prompt));
            }
            7 => {
                self.with_pane(place, |pane| pane.is_in_mode = true);
                self.at(while_ns, What::Passes(place, Passing::CopyMode));
            }
            8 => {
                self.with_pane(place, |pane| pane.is_synchronized = true);
                self.at(while_ns, What::Passes(place, Passing::Synchronized));
            }
            9 if self.has_shell(place) => {
                self.with_pane(place, |pane| pane.is_covered = true);
                self.at(while_ns, What::Passes(place, Passing::Covered));
            }
            10 => self.closes_pane(place),
            11 => self.drafts(place, while_ns),
            12 => self.opens_editor(place, while_ns),
            _ => self.shows_signature(place),
        }
    }

    /// Text comes into the line of a shell, by keys or by a script.
    fn types(&mut self, place: usize, text: &str, by_keys: bool, while_ns: u64) {
        if !self.has_shell(place) {
            return;
        }
        if by_keys {
            self.press(place);
        }
        let Some(one) = self.places.get_mut(place).filter(|one| one.typed.is_empty()) else {
            return;
        };
        text.clone_into(&mut one.typed);
        self.with_pane(place, |pane| match &mut pane.line.prompt {
            // What ends as a prompt does is taken for one.
            Some(prompt) if text == LIKE_A_PROMPT => prompt.push_str(text),
            Some(_) | None => text.clone_into(&mut pane.line.typed),
        });
        self.at(while_ns, What::Passes(place, Passing::Line));
    }

    fn closes_pane(&mut self, place: usize) {
        let Some(one) = self.places.get(place).filter(|one| one.taker.is_none()) else { return };
        let id = one.pane.clone();
        if self.running(place).is_some() && self.random.chance(0.8) {
            return;
        }
        if let Some(server) = self.machine.get().tmux.get_mut(crate::host_events::SOCKET) {
            server.panes.remove(&id);
        }
        // Who runs in it is sent SIGHUP.
        if self.running(place).is_some_and(|one| one.client.is_interactive) {
            self.fire(place, &self.end_payload(place));
            self.take_leave(place);
            self.dies(place, End::Other);
        }
    }

    fn drafts(&mut self, place: usize, while_ns: u64) {
        if self.running(place).is_none_or(|one| !one.client.is_interactive) {
            return;
        }
        if self.random.coin() {
            self.press(place);
        }
        if self.with_pane(place, |pane| pane.input = Input::Draft).is_none() {
            return;
        }
        if let Some(one) = self.places.get_mut(place) {
            one.has_draft = true;
        }
        self.at(while_ns, What::Passes(place, Passing::Draft));
    }

    fn opens_editor(&mut self, place: usize, while_ns: u64) {
        let Some(one) = self.running(place).filter(|one| one.client.is_interactive) else { return };
        let of = (one.session_id.clone(), one.process.pid);
        let (pid, parent) = (self.free_pid(), of.1);
        let tty = self.places.get(place).map_or(0, |one| one.tty);
        let editor = self.machine.get().spawn(pid, Kind::Headless, tty);
        if let Some(one) = self.machine.get().processes.get_mut(&pid) {
            one.parent = parent;
            one.tool_of = Some(of);
        }
        let before = self.places.get_mut(place).and_then(|one| one.editor.replace(editor));
        if let Some(before) = before {
            self.machine.get().end(before);
        }
        self.at(while_ns, What::Passes(place, Passing::Editor));
    }

    /// A crash signature comes onto the screen of a client, painted by it or printed by its agent.
    fn shows_signature(&mut self, place: usize) {
        let boot = self.boot();
        let Some(one) = self.running(place).filter(|one| one.client.is_interactive) else { return };
        let process = one.process;
        if self.random.chance(0.3) {
            // A tool printed it.
            let text = json!([{"type": "tool_result", "content": SIGNATURE}]);
            let line = json!({"type": "user", "message": {"role": "user", "content": text}});
            self.write_transcript(place, line);
        }
        self.with_pane(place, |pane| pane.shown.signature = Some(SIGNATURE.to_owned()));
        if let Some(life) = self.lives.get_mut(&(boot, process)) {
            life.has_signature = true;
        }
    }

    /// Some place whose client is in a turn.
    fn working_place(&mut self) -> Option<usize> {
        let works = |place: &Place| {
            let one = place.client.as_ref();
            one.is_some_and(|one| one.truth == Truth::Running && one.client.is_interactive)
        };
        let all = self.places.iter().enumerate().filter(|(_, place)| works(place));
        let all: Vec<usize> = all.map(|(number, _)| number).collect();
        self.random.pick(&all).copied()
    }

    /// The main thread of a client at work hangs for a while, half of the time behind a crash signature. What it was
    /// about to do it does afterwards.
    fn hangs(&mut self, place: usize) {
        let Some(one) = self.running(place).filter(|one| one.client.is_interactive) else { return };
        let process = one.process;
        let is_running = one.truth == Truth::Running;
        let life = self.lives.get(&(self.boot(), process));
        // One that told of its end is on its way out, whatever it did before.
        let has_ended = life.is_some_and(|life| !life.ends.is_empty());
        if !is_running || has_ended || self.hung_at(process).is_some() {
            return;
        }
        if self.random.chance(0.5) {
            self.shows_signature(place);
        }
        let while_ns = match self.random.below(20) {
            0..10 => self.random.range(10 * SECOND..15 * MINUTE),
            10..19 => self.random.range(15 * MINUTE..60 * MINUTE),
            _ => self.random.range(180 * MINUTE..220 * MINUTE),
        };
        self.note(|| format!("place {place}: pid {} hangs", process.pid));
        self.delay_moves(place, while_ns);
        self.at(while_ns, What::Passes(place, Passing::Hung(process)));
        let mut machine = self.machine.get();
        let now = machine.now.mono_ns;
        if let Some(one) = machine.processes.get_mut(&process.pid) {
            one.hung_at = Some(now);
        }
    }

    /// Since when (CLOCK_MONOTONIC) the main thread of a client hangs.
    pub(crate) fn hung_at(&self, process: ProcessRef) -> Option<u64> {
        self.machine.get().hung_at(process)
    }

    fn lacks_something(&mut self, place: usize) {
        let while_ns = self.random.range(SECOND..10 * MINUTE);
        let Some(one) = self.places.get(place) else { return };
        let passing = match self.random.below(3) {
            0 => {
                self.machine.get().want = Some("too little memory is free".to_owned());
                Passing::Memory
            }
            1 => {
                self.machine.get().gone.insert(one.cwd.clone());
                Passing::Gone(one.cwd.clone())
            }
            _ => {
                let Some(id) = &one.last_session else { return };
                let path = crate::client::transcript_of(id);
                self.machine.get().locked_transcripts.insert(path.clone());
                Passing::Locked(path)
            }
        };
        self.at(while_ns, What::Passes(place, passing));
    }

    /// What was for a while is over.
    pub(crate) fn passes(&mut self, place: usize, passing: &Passing) {
        match passing {
            Passing::Line => {
                let Some(one) = self.places.get_mut(place) else { return };
                let typed = std::mem::take(&mut one.typed);
                self.with_pane(place, |pane| {
                    pane.line.typed.clear();
                    if let Some(prompt) = &mut pane.line.prompt
                        && prompt.ends_with(&typed)
                    {
                        prompt.truncate(prompt.len() - typed.len());
                    }
                });
            }
            Passing::Draft => {
                if let Some(one) = self.places.get_mut(place) {
                    one.has_draft = false;
                }
                self.with_pane(place, |pane| pane.input = Input::Empty);
            }
            Passing::Editor => {
                let editor = self.places.get_mut(place).and_then(|one| one.editor.take());
                if let Some(editor) = editor {
                    self.machine.get().end(editor);
                }
            }
            Passing::CopyMode => {
                self.with_pane(place, |pane| pane.is_in_mode = false);
            }
            Passing::Synchronized => {
                self.with_pane(place, |pane| pane.is_synchronized = false);
            }
            Passing::Covered => {
                self.with_pane(place, |pane| pane.is_covered = false);
            }
            Passing::Memory => self.machine.get().want = None,
            Passing::Gone(path) => drop(self.machine.get().gone.remove(path)),
            Passing::Hung(process) => {
                self.note(|| format!("place {place}: pid {} no longer hangs", process.pid));
                let machine = &mut *self.machine.get();
                if machine.is_alive(*process)
                    && let Some(one) = machine.processes.get_mut(&process.pid)
                {
                    one.hung_at = None;
                }
            }
            Passing::Locked(path) => drop(self.machine.get().locked_transcripts.remove(path)),
        }
    }

    /// A process that is no client ends.
    pub(crate) fn ends(&mut self, process: ProcessRef) {
        self.machine.get().end(process);
    }

    /// What a seed's machine is like.
    pub(crate) fn set_habits(&mut self) {
        let mut machine = self.machine.get();
        machine.is_line_plain = self.habits.is_line_plain;
        if self.habits.is_dir_locked {
            machine.locked.insert(CONFIG_DIR.to_owned());
        }
    }
}
