//! The hand of the simulated machine: it proves and acts as the real one does, on the machine's own
//! model, and says what came of it.
//!
//! An act looks again at the moment it is carried out, and touches nothing if something is other than
//! in the proof that it was decided on. What an act sets going (a client that is sent a signal, a line
//! that runs) is a [`Happening`]: how a client takes it is decided by whoever plays the clients.

use std::path::Path;

use coord_core::{Way, change_since};
use coord_host::executor::Reply;
use coord_host::registry;
use coord_host::transcript::tail_of;
use coord_model::{
    Action, Kind, LastWords, Launch, Outcome, PaneState, Parent, ParentKind, ProcessRef, Proof,
    Registry, Signal, Subject, TmuxPane, TranscriptState,
};
use coord_screen::Reading;
use coord_wire::api::ResumeOrder;

use super::{Machine, Pane};

/// Where `coordctl` lies.
const COORDCTL: &str = "/home/dev/.local/bin/coordctl";
/// Device numbers of the terminals of new windows begin here.
const WINDOW_TTYS: u64 = 40_000;

/// What an act set going.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// A process was sent a signal.
    Signalled {
        /// Which.
        process: ProcessRef,
        /// Which signal.
        signal: Signal,
    },
    /// The line that resumes a session was put into a pane.
    Placed {
        /// Where.
        way: Way,
        /// The pane.
        pane: String,
        /// The line.
        line: String,
        /// The nonce on it.
        nonce: String,
        /// The process that runs it; none if the line was typed and not sent.
        process: Option<ProcessRef>,
    },
    /// Whoever looks at a pane was told something.
    Told {
        /// The pane.
        pane: String,
        /// What.
        text: String,
    },
    /// A file was written where none was.
    Written {
        /// Which.
        path: String,
        /// All that stands in it.
        text: String,
    },
    /// A file was taken away.
    Removed {
        /// Which.
        path: String,
        /// What stood in it.
        text: String,
    },
}

impl Machine {
    /// What acts have set going since the last call.
    pub fn take_happenings(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.happenings)
    }

    /// Does the actions whose time has come.
    pub(super) fn serve_actions(&mut self) {
        let now = self.now.mono_ns;
        while self.pending.actions.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, action)) = self.pending.actions.pop_front() else { return };
            let reply = self.do_action(action);
            self.pending.replies.extend(reply);
        }
    }

    fn do_action(&mut self, action: Action) -> Option<Reply> {
        let (intent, outcome) = match action {
            Action::Prove { intent, subject } => {
                let proof = Box::new(self.look(&subject));
                if subject.reads_last_words {
                    self.held_transcripts.remove(&subject.session_id);
                }
                return Some(Reply::Proved(intent, proof));
            }
            Action::End { intent, subject, proof, signal } => {
                (intent, self.send_signal(&subject, &proof, signal))
            }
            Action::TypeResume { intent, subject, proof } => {
                (intent, self.place(&subject, &proof, Way::Shell))
            }
            Action::RespawnPane { intent, subject, proof } => {
                (intent, self.place(&subject, &proof, Way::Pane))
            }
            Action::NewWindow { intent, subject, proof } => {
                (intent, self.place(&subject, &proof, Way::Window))
            }
            Action::Release { session_id } => {
                self.held_transcripts.remove(&session_id);
                return None;
            }
            // Wakes go by the hooks that wait for them.
            Action::Wake { .. } => return None,
            Action::WriteStop { dir, text } => {
                self.write_stop(format!("{dir}/.auto-stop"), text);
                return None;
            }
            Action::RemoveStop { dir, text } => {
                self.remove_stop(format!("{dir}/.auto-stop"), text);
                return None;
            }
            Action::Notify { pane, text, .. } => {
                self.tell(&pane, text);
                return None;
            }
        };
        Some(Reply::Acted(intent, outcome))
    }

    /// Unless there is one: a person's stays as it is.
    fn write_stop(&mut self, path: String, text: String) {
        if !self.files.contains_key(&path) {
            self.files.insert(path.clone(), text.clone());
            self.happenings.push(Happening::Written { path, text });
        }
    }

    /// If it is still what was written.
    fn remove_stop(&mut self, path: String, text: String) {
        if self.files.get(&path) == Some(&text) {
            self.files.remove(&path);
            self.happenings.push(Happening::Removed { path, text });
        }
    }

    fn look(&mut self, subject: &Subject) -> Proof {
        let transcript = self.lock_transcript(subject);
        let nonce = format!("{:016x}{:016x}", self.random.next(), self.random.next());
        let harness = subject.harness;
        let pane = self.pane_of_subject(subject).ok().map(|(_, pane)| pane.clone());
        let server = subject.pane.as_ref().and_then(|(claim, _)| self.tmux.get(&claim.socket));
        let is_gone = |path: &String| self.gone.contains(path);
        Proof {
            looked_ns: self.now.mono_ns,
            is_alive: self.is_alive(harness),
            idle_since_ms: self.idle_since_ms(subject),
            ran_ns: self.ran_ns(harness),
            owners: self.owners(subject),
            children: self.children(subject),
            pane: self.pane_state(subject),
            key_ms: pane.as_ref().and_then(|pane| pane.key_ms).map(to_the_second),
            any_key_ms: server.and_then(|server| server.key_ms).map(to_the_second),
            is_in_mode: pane.as_ref().is_some_and(|pane| pane.is_in_mode),
            is_synchronized: pane.as_ref().is_some_and(|pane| pane.is_synchronized),
            transcript,
            has_cwd: !is_gone(&subject.cwd.path),
            has_program: !is_gone(&subject.program),
            want: self.want.clone(),
            nonce,
            is_line_plain: self.is_line_plain,
            is_task_stopped: subject
                .task_dir
                .as_ref()
                .is_some_and(|dir| self.files.contains_key(&format!("{dir}/.auto-stop"))),
            last_words: subject.reads_last_words.then(|| self.last_words(subject)),
        }
    }

    fn last_words(&self, subject: &Subject) -> LastWords {
        let end = self.transcripts.get(&subject.transcript_path).map_or(&[][..], Vec::as_slice);
        tail_of(end, None).last_words
    }

    /// A main thread wakes all the time, unless it hangs or was stopped.
    fn ran_ns(&self, harness: ProcessRef) -> Option<u64> {
        let one = self.processes.get(&harness.pid).filter(|_| self.is_alive(harness))?;
        (!one.is_stopped).then_some(one.hung_at.unwrap_or(self.now.mono_ns))
    }

    fn idle_since_ms(&self, subject: &Subject) -> Option<u64> {
        let harness = subject.harness;
        let text = self.registries.get(&subject.config_dir)?.entries.get(&harness.pid)?;
        let found = registry::parse(text.as_bytes(), harness.pid, Path::new(&subject.config_dir));
        let found = found.ok().filter(|found| found.process == harness)?;
        match found.entry {
            Registry::Present(entry) => {
                let is_idle = entry.status.as_deref() == Some("idle") && 0 < entry.changed_ms;
                (is_idle && entry.session_id == subject.session_id).then_some(entry.changed_ms)
            }
            Registry::Absent | Registry::Unreadable { .. } | Registry::Strange { .. } => None,
        }
    }

    /// Other living processes that hold the session (H-13).
    fn owners(&self, subject: &Subject) -> Vec<ProcessRef> {
        let holders = self.holders(&subject.session_id, &subject.config_dir);
        holders.into_iter().filter(|owner| *owner != subject.harness).collect()
    }

    /// Living processes that hold a session, by registry or command line.
    pub fn holders(&self, session: &str, config_dir: &str) -> Vec<ProcessRef> {
        let is_it = |entry: &Registry| matches!(entry, Registry::Present(entry) if entry.session_id == session);
        let entries = self.registries.get(config_dir).map(|registry| &registry.entries);
        let found = entries.into_iter().flatten().filter_map(|(pid, text)| {
            let found = registry::parse(text.as_bytes(), *pid, Path::new(config_dir));
            found.ok().filter(|found| is_it(&found.entry)).map(|found| found.process)
        });
        let named = self.processes.iter().filter_map(|(pid, one)| {
            let process = ProcessRef { pid: *pid, start_time: one.start_time };
            (one.holds.as_deref() == Some(session)).then_some(process)
        });
        let mut holders: Vec<ProcessRef> =
            found.filter(|process| self.is_alive(*process)).chain(named).collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }

    /// What the harness started: while it lives what has its terminal, later all of its tools (H-33).
    fn children(&self, subject: &Subject) -> Vec<ProcessRef> {
        let harness = self.processes.get(&subject.harness.pid);
        let harness = harness.filter(|one| one.start_time == subject.harness.start_time);
        let all = self.processes.iter().filter(|(_, one)| {
            let is_its = |(session_id, pid): &(String, u32)| {
                let began_with_it = subject.harness.start_time <= one.start_time;
                *pid == subject.harness.pid && (*session_id == subject.session_id || began_with_it)
            };
            one.tool_of.as_ref().is_some_and(is_its)
        });
        let counted = all.filter(|(_, one)| {
            harness.is_none_or(|harness| one.tty != 0 && one.tty == harness.tty)
        });
        let process = |(pid, one): (&u32, &super::Process)| ProcessRef {
            pid: *pid,
            start_time: one.start_time,
        };
        counted.map(process).collect()
    }

    fn transcript(&self, path: &str) -> TranscriptState {
        let Some(bytes) = self.transcripts.get(path) else { return TranscriptState::Absent };
        let text = String::from_utf8_lossy(bytes);
        let is_turn = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            line.get("type").is_some_and(|kind| kind == "user" || kind == "assistant")
        };
        if !text.lines().any(is_turn) {
            TranscriptState::Empty
        } else if self.locked_transcripts.contains(path) {
            TranscriptState::Locked
        } else {
            TranscriptState::Held
        }
    }

    /// What is with the transcript; one with a turn that nobody else has locked is locked.
    fn lock_transcript(&mut self, subject: &Subject) -> TranscriptState {
        let path = &subject.transcript_path;
        let state = self.transcript(path);
        if state == TranscriptState::Held {
            self.held_transcripts.insert(subject.session_id.clone(), path.clone());
        } else {
            self.held_transcripts.remove(&subject.session_id);
        }
        state
    }

    fn send_signal(&mut self, subject: &Subject, before: &Proof, signal: Signal) -> Outcome {
        let process = subject.harness;
        if let Some(what) = change_since(&self.look(subject), before) {
            return Outcome::Changed { what: what.to_owned() };
        }
        self.happenings.push(Happening::Signalled { process, signal });
        Outcome::Done
    }

    /// Puts the line that resumes the session where it is to run.
    fn place(&mut self, subject: &Subject, before: &Proof, way: Way) -> Outcome {
        let proof = self.look(subject);
        if let Some(what) = change_since(&proof, before) {
            return Outcome::Changed { what: what.to_owned() };
        }
        let fits = match (way, &proof.pane) {
            (Way::Shell, PaneState::Shell { prompt: Some(_), .. }) => {
                !proof.is_in_mode && !proof.is_synchronized
            }
            (Way::Pane, PaneState::Dead) => true,
            (Way::Window, PaneState::NoServer) => {
                return Outcome::Failed { why: "its tmux server is gone".to_owned() };
            }
            (Way::Window, state) => {
                !matches!(state, PaneState::None | PaneState::Unreadable { .. })
            }
            (Way::Shell | Way::Pane, _) => false,
        };
        let Some((claim, _)) = subject.pane.as_ref().filter(|_| fits) else {
            return Outcome::Changed { what: "the pane changed".to_owned() };
        };
        if !self.is_line_plain {
            return Outcome::Failed { why: "not a path that can be typed".to_owned() };
        }
        let nonce = before.nonce.clone();
        let line = format!("{COORDCTL} resume-exec {nonce}");
        let (pane, process) = match way {
            Way::Shell => (claim.pane.clone(), self.type_line(claim, &line)),
            Way::Pane => (claim.pane.clone(), self.respawn(claim)),
            Way::Window => match self.open_window(claim) {
                Some((pane, process)) => (pane, Some(process)),
                None => return Outcome::Failed { why: "its tmux server is gone".to_owned() },
            },
        };
        self.happenings.push(Happening::Placed { way, pane, line, nonce, process });
        Outcome::Done
    }

    /// Types the line and Enter; the process that runs it, if the Enter arrives.
    fn type_line(&mut self, claim: &TmuxPane, line: &str) -> Option<ProcessRef> {
        let has_enter = self.has_enter;
        let pane = self.pane_mut(claim)?;
        let (parent, tty) = (pane.pid, pane.tty);
        if has_enter {
            return Some(self.run(parent, tty));
        }
        line.clone_into(&mut pane.line.typed);
        None
    }

    fn respawn(&mut self, claim: &TmuxPane) -> Option<ProcessRef> {
        let (parent, tty) = (claim.server.pid, self.pane_mut(claim)?.tty);
        let process = self.run(parent, tty);
        let pane = self.pane_mut(claim)?;
        pane.pid = process.pid;
        pane.is_dead = false;
        pane.shown = Reading::default();
        Some(process)
    }

    fn open_window(&mut self, claim: &TmuxPane) -> Option<(String, ProcessRef)> {
        let server = self.tmux.get(&claim.socket)?;
        let number = |id: &String| id.trim_start_matches('%').parse::<u16>().ok();
        let last = server.panes.keys().filter_map(number).max().unwrap_or(0);
        let id = format!("%{}", last.saturating_add(1));
        let tty = WINDOW_TTYS.saturating_add(u64::from(last));
        let process = self.run(server.process.pid, tty);
        let server = self.tmux.get_mut(&claim.socket)?;
        server.panes.insert(id.clone(), Pane::new(process.pid, tty, Reading::default()));
        Some((id, process))
    }

    /// Starts `coordctl resume-exec` on a terminal.
    fn run(&mut self, parent: u32, tty: u64) -> ProcessRef {
        self.last_pid = self.last_pid.saturating_add(1);
        let process = self.spawn(self.last_pid, Kind::Interactive, tty);
        if let Some(one) = self.processes.get_mut(&process.pid) {
            one.parent = parent;
        }
        process
    }

    /// The process that took the line becomes the client.
    pub fn exec(&mut self, process: ProcessRef, order: &ResumeOrder) {
        let servers: Vec<ProcessRef> = self.tmux.values().map(|server| server.process).collect();
        let Some(one) = self.processes.get_mut(&process.pid) else { return };
        let server = servers.into_iter().find(|server| server.pid == one.parent);
        let kind = if server.is_some() { ParentKind::Tmux } else { ParentKind::Shell };
        let parent = server.unwrap_or(ProcessRef { pid: one.parent, start_time: 1 });
        let end = order.argv.iter().position(|word| word == "--resume");
        let words = order.argv.get(..end.unwrap_or(order.argv.len())).unwrap_or_default();
        let (program, flags) = words.split_at(words.len().min(1));
        one.holds = Some(order.session_id.clone());
        one.launch = Some(Launch {
            parent: Parent { process: parent, kind },
            program: program.to_vec(),
            flags: flags.to_vec(),
            unfit: None,
            cwd: order.cwd.clone(),
            variables: order.variables.clone(),
            config_dir: Some(order.config_dir_in_use.clone()),
        });
        one.config_dir = Some(order.config_dir_in_use.clone());
    }

    fn tell(&mut self, claim: &TmuxPane, text: String) {
        let is_there = self.tmux.get(&claim.socket).is_some_and(|server| {
            server.process == claim.server && server.panes.contains_key(&claim.pane)
        });
        if is_there {
            self.happenings.push(Happening::Told { pane: claim.pane.clone(), text });
        }
    }

    fn pane_mut(&mut self, claim: &TmuxPane) -> Option<&mut Pane> {
        self.tmux.get_mut(&claim.socket)?.panes.get_mut(&claim.pane)
    }
}

/// As tmux tells of keys.
fn to_the_second(ms: u64) -> u64 {
    ms / 1_000 * 1_000
}
