//! Tmux servers and their panes: what stands on a terminal, who has it, and when somebody touched it.

use std::collections::BTreeMap;

use coord_model::{Input, PaneState, ProcessRef, Prompt, Screen, Subject};
use coord_screen::Reading;

use super::{MS, Machine, Process};

/// A shell has taken its terminal back and painted its prompt after this.
const PROMPT_AFTER_NS: u64 = 100 * MS;
/// FNV-1a.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// A tmux server.
#[derive(Debug, Clone)]
pub struct TmuxServer {
    /// It.
    pub process: ProcessRef,
    /// Whether it answers.
    pub answers: bool,
    /// Its panes by id, as `%3`.
    pub panes: BTreeMap<String, Pane>,
    /// Wall time of the newest key of any of its clients, milliseconds since 1970; none if it never
    /// had a client.
    pub key_ms: Option<u64>,
}

impl TmuxServer {
    /// A server without a pane.
    pub fn new(process: ProcessRef) -> Self {
        Self { process, answers: true, panes: BTreeMap::new(), key_ms: None }
    }

    /// A client's key, at this wall time: it goes to one pane, or, with none named, may have gone to any.
    pub fn press(&mut self, pane: Option<&str>, wall_ms: u64) {
        self.key_ms = self.key_ms.max(Some(wall_ms));
        for (id, one) in &mut self.panes {
            if pane.is_none_or(|pane| pane == id) {
                one.key_ms = one.key_ms.max(Some(wall_ms));
            }
        }
    }
}

/// A pane.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone)]
pub struct Pane {
    /// Its first process.
    pub pid: u32,
    /// Device number of its terminal.
    pub tty: u64,
    /// What stands on it.
    pub shown: Reading,
    /// A dialog of the client over that.
    pub dialog: Option<Screen>,
    /// What stands in the client's input line.
    pub input: Input,
    /// The line of its shell.
    pub line: ShellLine,
    /// A program that its shell or its client started is in front.
    pub is_covered: bool,
    /// In copy mode.
    pub is_in_mode: bool,
    /// What is typed into it goes to others as well.
    pub is_synchronized: bool,
    /// It is kept when its first process ends.
    pub is_kept: bool,
    /// That process has ended, and it was kept.
    pub is_dead: bool,
    /// Wall time of the newest key that may have reached it, milliseconds since 1970.
    pub key_ms: Option<u64>,
    /// CLOCK_MONOTONIC when its shell shows a prompt again.
    prompt_from_ns: u64,
}

impl Pane {
    /// A pane with its shell.
    pub fn new(pid: u32, tty: u64, shown: Reading) -> Self {
        Self {
            pid,
            tty,
            shown,
            dialog: None,
            input: Input::Empty,
            line: ShellLine::default(),
            is_covered: false,
            is_in_mode: false,
            is_synchronized: false,
            is_kept: false,
            is_dead: false,
            key_ms: None,
            prompt_from_ns: 0,
        }
    }

    /// What stands on its screen.
    pub fn screen(&self) -> Option<Screen> {
        self.dialog.or(self.shown.screen)
    }

    /// What stands on it without what moves by itself; a client that works painted it at `painted_ns`.
    pub fn digest(&self, painted_ns: u64) -> u64 {
        let works = matches!(self.screen(), Some(Screen::Working | Screen::Retry));
        let still = if works { painted_ns } else { 0 };
        self.shown.digest.unwrap_or(still)
    }

    fn client(&self) -> PaneState {
        let input = if self.dialog.is_some() { Input::Unreadable } else { self.input };
        let signature = self.shown.signature.clone();
        PaneState::Client { screen: self.screen(), input, signature }
    }

    fn shell(&self, typed: Option<&str>, now_ns: u64) -> PaneState {
        let has_prompt = self.prompt_from_ns <= now_ns && self.line.typed.is_empty();
        PaneState::Shell {
            prompt: has_prompt.then(|| self.line.shown()).flatten(),
            signature: self.shown.signature.clone(),
            has_typed: typed.is_some_and(|nonce| self.line.typed.contains(nonce)),
        }
    }
}

/// The line of a shell: its prompt, and what was typed behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellLine {
    /// Its prompt; none where the cursor stands behind something that is not known as one.
    pub prompt: Option<String>,
    /// What was typed and not sent.
    pub typed: String,
}

impl Default for ShellLine {
    fn default() -> Self {
        Self { prompt: Some("dev@host:~/project$ ".to_owned()), typed: String::new() }
    }
}

impl ShellLine {
    /// What is taken for its prompt.
    pub fn shown(&self) -> Option<Prompt> {
        let text = self.prompt.as_ref()?;
        let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        let column = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        Some(Prompt { column, digest: text.bytes().fold(FNV_OFFSET, add) })
    }
}

impl Machine {
    /// The pane in which exactly this subject ran, if it is still there and the same (H-16).
    pub(super) fn pane_of_subject(&self, subject: &Subject) -> Result<(&str, &Pane), PaneState> {
        let unreadable = |why: &str| PaneState::Unreadable { why: why.to_owned() };
        let Some((claim, proof)) = &subject.pane else { return Err(PaneState::None) };
        let Some(server) = self.tmux.get(&claim.socket) else { return Err(PaneState::NoServer) };
        let (pid, start_time) = (claim.server.pid, claim.server.start_time);
        let is_its = server.process == (ProcessRef { pid, start_time });
        if !is_its && !subject.any_server {
            return Err(PaneState::NoServer);
        }
        if !server.answers {
            return Err(unreadable("its server did not answer in 2 s"));
        }
        // Another server's panes are others, whatever their ids.
        let pane = server.panes.get_key_value(&claim.pane).filter(|_| is_its);
        let same = pane.filter(|(_, pane)| pane.pid == proof.pane_pid && pane.tty == proof.tty);
        same.map(|(id, pane)| (id.as_str(), pane)).ok_or(PaneState::Closed)
    }

    /// Who is in front on the subject's pane, and what stands there.
    pub(super) fn pane_state(&self, subject: &Subject) -> PaneState {
        let pane = match self.pane_of_subject(subject) {
            Ok((_, pane)) => pane,
            Err(state) => return state,
        };
        if pane.is_dead {
            return PaneState::Dead;
        }
        let harness = self.processes.get(&subject.harness.pid);
        match harness.filter(|one| one.start_time == subject.harness.start_time) {
            Some(one) if one.tty != pane.tty => {
                PaneState::Unreadable { why: "the client is on another terminal".to_owned() }
            }
            Some(one) if one.is_stopped || pane.is_covered => PaneState::Other,
            Some(_) => pane.client(),
            None if pane.is_covered || self.has_another(pane) => PaneState::Other,
            None => pane.shell(subject.typed.as_deref(), self.now.mono_ns),
        }
    }

    /// Whether another process than the pane's first one has its terminal, or is a stopped job there.
    pub(super) fn has_another(&self, pane: &Pane) -> bool {
        let is_there = |one: &Process| one.tty == pane.tty && one.tool_of.is_none();
        self.processes.iter().any(|(pid, one)| *pid != pane.pid && is_there(one))
    }

    /// A process ended: its shell takes the terminal back, or its pane goes with it.
    pub(super) fn free_terminal(&mut self, pid: u32, tty: u64) {
        let prompt_from_ns = self.now.mono_ns.saturating_add(PROMPT_AFTER_NS);
        for server in self.tmux.values_mut() {
            server.panes.retain(|_, pane| pane.pid != pid || pane.is_kept);
            for pane in server.panes.values_mut() {
                pane.is_dead |= pane.pid == pid;
                if tty != 0 && pane.tty == tty {
                    pane.prompt_from_ns = prompt_from_ns;
                    pane.input = Input::Empty;
                    pane.dialog = None;
                }
            }
        }
    }
}
