//! What follows from an act: how a client takes a signal, and what becomes of a line that resumes a
//! session. The clients of a scenario do this by themselves, as its world says.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use coord_core::Way;
use coord_model::{Farewell, MarkChange, ProcessRef, Screen, Signal};
use coord_screen::Reading;
use coord_wire::api::{OperatorRequest, OperatorVerb, ResumeOrder};
use serde_json::{Map, Value, json};

use super::player::Player;
use crate::machine::Happening;
use crate::scenario::{Dialog, Hook, Resume, Words};
use crate::serving::Serving;

const MS: u64 = 1_000_000;
/// `resume-exec` asks the coordinator after this.
const CLAIM_AFTER: u64 = 50 * MS;
/// It ends this long after it was refused.
const REFUSED_AFTER: u64 = 10 * MS;
/// A client that ends on SIGTERM says so after this, and is gone after that (measured: 0.6 s).
const GOODBYE_AFTER: u64 = 300 * MS;
const GONE_AFTER: u64 = 600 * MS;
/// A resumed client writes its entry, and reports (measured).
const ENTRY_AFTER: u64 = 580 * MS;
const REPORT_AFTER: u64 = 600 * MS;
/// One that cannot resume ends after this.
const FAILS_AFTER: u64 = 400 * MS;

/// What is about to be done, and how the world is.
#[derive(Debug, Default)]
pub(super) struct Doings {
    queue: BTreeMap<(u64, u64), Doing>,
    number: u64,
    resume: Option<Resume>,
    kill_alone_ends: bool,
    asks_for_trust: bool,
    /// Processes that took a line: their parents and panes.
    placed: BTreeMap<u32, (u32, String)>,
    /// Those that wait for the answer to their claim.
    claiming: BTreeSet<ProcessRef>,
}

/// One thing that a client does.
#[derive(Debug, Clone)]
pub(super) enum Doing {
    /// Asks the coordinator for the session.
    Claim { process: ProcessRef, nonce: String },
    /// A hook of its fires.
    Report { process: ProcessRef, payload: Map<String, Value> },
    /// It writes its registry entry; with no status it removes it.
    Entry { process: ProcessRef, status: Option<&'static str> },
    /// It paints this.
    Paint { process: ProcessRef, screen: Option<Screen>, farewell: Option<String> },
    /// It writes a line to its transcript.
    Writes { process: ProcessRef, line: Value },
    /// Its hook has waited for as long as it may.
    GivesUp { process: ProcessRef, id: u128 },
    /// It ends.
    End { process: ProcessRef },
}

impl Doing {
    fn process(&self) -> ProcessRef {
        match self {
            Self::Claim { process, .. }
            | Self::Report { process, .. }
            | Self::Entry { process, .. }
            | Self::Paint { process, .. }
            | Self::Writes { process, .. }
            | Self::GivesUp { process, .. }
            | Self::End { process } => *process,
        }
    }
}

impl Doings {
    /// The world's words that concern it.
    pub(super) fn set(&mut self, words: &Words) {
        self.resume = words.resume.or(self.resume);
        if let Some(signal) = words.terminates_on {
            self.kill_alone_ends = signal == Signal::Kill;
        }
        if let Some(dialog) = words.dialog {
            self.asks_for_trust = dialog == Dialog::Trust;
        }
    }

    /// When the next one is due, in the scenario's time.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.queue.keys().next().map(|(at, _)| *at)
    }

    /// The next one, if it is due.
    pub(super) fn take(&mut self, at_ns: u64) -> Option<Doing> {
        let first = self.queue.first_entry().filter(|entry| entry.key().0 <= at_ns)?;
        Some(first.remove())
    }

    pub(super) fn add(&mut self, at_ns: u64, doing: Doing) {
        self.number += 1;
        self.queue.insert((at_ns, self.number), doing);
    }
}

impl Player {
    /// Takes down what acts set going, and what was answered to those that ask.
    pub(super) fn take_doings(&mut self) -> Result<()> {
        let happenings = self.machine.get().take_happenings();
        for happening in happenings {
            self.on_happening(happening)?;
        }
        self.take_messages()?;
        let answers = self.serving.as_mut().map(Serving::take_answers);
        for (process, response) in answers.unwrap_or_default() {
            self.doings.claiming.remove(&process);
            let order = serde_json::from_slice::<ResumeOrder>(&response.body).ok();
            match order.filter(|_| response.status == 200) {
                Some(order) => {
                    let text = order.argv.join(" ");
                    let pid = process.pid;
                    self.show_effect(json!({"kind": "spawn", "pid": pid, "text": text}))?;
                    self.become_client(process, &order);
                }
                None => self.doings.add(self.clock.at_ns + REFUSED_AFTER, Doing::End { process }),
            }
        }
        Ok(())
    }

    /// The coordinator is gone: a process that waits for its answer gives up.
    pub(super) fn refuse_claims(&mut self) {
        for process in std::mem::take(&mut self.doings.claiming) {
            self.doings.add(self.clock.at_ns + REFUSED_AFTER, Doing::End { process });
        }
    }

    fn on_happening(&mut self, happening: Happening) -> Result<()> {
        match happening {
            Happening::Signalled { process, signal } => {
                let word = if signal == Signal::Term { "TERM" } else { "KILL" };
                self.show_effect(json!({"kind": "signal", "signal": word, "pid": process.pid}))?;
                self.on_signal(process, signal);
            }
            Happening::Placed { way, pane, line, nonce, process } => {
                let kind = match way {
                    Way::Shell => "type_text",
                    Way::Pane => "respawn_pane",
                    Way::Window => "new_window",
                };
                self.show_effect(json!({"kind": kind, "pane": pane, "text": line}))?;
                if let Some(process) = process {
                    let parent = self.machine.get().processes.get(&process.pid).map(|it| it.parent);
                    self.doings.placed.insert(process.pid, (parent.unwrap_or(1), pane));
                    let claim = Doing::Claim { process, nonce };
                    self.doings.add(self.clock.at_ns + CLAIM_AFTER, claim);
                }
            }
            Happening::Told { pane, text } => {
                self.show_effect(json!({"kind": "notify", "pane": pane, "text": text}))?;
            }
            Happening::Written { path, text } => {
                self.show_effect(json!({"kind": "write_file", "path": path, "text": text}))?;
            }
            Happening::Removed { path, text } => {
                self.show_effect(json!({"kind": "remove_file", "path": path, "text": text}))?;
            }
        }
        Ok(())
    }

    /// A client cleans up behind itself on SIGTERM; nothing does on SIGKILL.
    fn on_signal(&mut self, process: ProcessRef, signal: Signal) {
        let now = self.clock.at_ns;
        if signal == Signal::Kill {
            return self.doings.add(now, Doing::End { process });
        }
        let is_hung =
            self.machine.get().processes.get(&process.pid).is_some_and(|one| one.hung_at.is_some());
        if self.doings.kill_alone_ends || is_hung {
            return;
        }
        let session = self.clients.session_of(process.pid).unwrap_or_default();
        let payload = payload(&session, &[("hook_event_name", "SessionEnd"), ("reason", "other")]);
        let (screen, farewell) = (Some(Screen::Shell), Some(session));
        for (after, doing) in [
            (GOODBYE_AFTER, Doing::Report { process, payload }),
            (GOODBYE_AFTER, Doing::Entry { process, status: None }),
            (GONE_AFTER, Doing::Paint { process, screen, farewell }),
            (GONE_AFTER, Doing::End { process }),
        ] {
            self.doings.add(now + after, doing);
        }
    }

    /// `resume-exec` got its order and becomes the client.
    fn become_client(&mut self, process: ProcessRef, order: &ResumeOrder) {
        self.machine.get().exec(process, order);
        let pane = self.doings.placed.get(&process.pid).map(|(_, pane)| pane.clone());
        self.clients.became(process, &pane.unwrap_or_default(), &order.session_id);
        let now = self.clock.at_ns;
        let painted =
            |screen: Screen| Doing::Paint { process, screen: Some(screen), farewell: None };
        if self.doings.asks_for_trust {
            return self.doings.add(now + FAILS_AFTER, painted(Screen::Trust));
        }
        let id = order.session_id.as_str();
        let start = |id: &str, source: &str| {
            let fields = [("hook_event_name", "SessionStart"), ("source", source)];
            Doing::Report { process, payload: payload(id, &fields) }
        };
        let idle = Doing::Entry { process, status: Some("idle") };
        let end = [("hook_event_name", "SessionEnd"), ("reason", "other")];
        let doings = match self.doings.resume.unwrap_or(Resume::Works) {
            Resume::Works => vec![
                (ENTRY_AFTER, painted(Screen::Prompt)),
                (ENTRY_AFTER, idle),
                (REPORT_AFTER, start(id, "resume")),
            ],
            Resume::Fails => vec![(FAILS_AFTER, Doing::End { process })],
            Resume::NoSession => vec![
                (FAILS_AFTER, Doing::Report { process, payload: payload(id, &end) }),
                (FAILS_AFTER, Doing::End { process }),
            ],
            Resume::OtherId => vec![
                (ENTRY_AFTER, painted(Screen::Prompt)),
                (REPORT_AFTER, start(&format!("{id}-other"), "startup")),
                (REPORT_AFTER, idle),
            ],
            Resume::Silent => Vec::new(),
        };
        for (after, doing) in doings {
            self.doings.add(now + after, doing);
        }
    }

    /// Does what a client is to do now, if it lives.
    pub(super) fn do_one(&mut self, doing: Doing) -> Result<()> {
        let process = doing.process();
        if !self.machine.get().is_alive(process) {
            return Ok(());
        }
        match doing {
            Doing::Claim { nonce, .. } => {
                self.doings.claiming.insert(process);
                self.claim(process, &nonce);
            }
            Doing::Report { payload, .. } => {
                let hook = Hook {
                    payload,
                    pid: Some(process.pid),
                    emitted_ns: None,
                    id: None,
                    is_forged: false,
                };
                self.fire(&hook)?;
            }
            Doing::Entry { status, .. } => {
                let entry = status.map(|status| {
                    [("pid", json!(process.pid)), ("status", json!(status))]
                        .map(|(name, value)| (name.to_owned(), value))
                        .into_iter()
                        .collect()
                });
                self.clients.write_registry(Some(process.pid), entry, self.clock.now())?;
            }
            Doing::Paint { screen, farewell, .. } => {
                let pane = self.clients.pane_of(process.pid).unwrap_or_default();
                let farewell = farewell.map(Farewell::Last);
                self.clients.paint(&pane, Reading { screen, farewell, ..Reading::default() });
            }
            Doing::Writes { line, .. } => {
                self.clients.write_transcript(&line, self.clock.now())?;
            }
            Doing::GivesUp { id, .. } => self.gives_up(id)?,
            Doing::End { .. } => self.clients.exit(process.pid)?,
        }
        Ok(())
    }

    /// `resume-exec` asks; where nobody answers it ends at once.
    fn claim(&mut self, process: ProcessRef, nonce: &str) {
        let parent = self.doings.placed.get(&process.pid).map_or(1, |(parent, _)| *parent);
        match &mut self.serving {
            Some(serving) => {
                serving.claim(process, parent, nonce);
                self.turn(&[], false);
            }
            None => self.doings.add(self.clock.at_ns + REFUSED_AFTER, Doing::End { process }),
        }
    }

    /// Marks the sessions that begin unattended, as soon as they are known.
    pub(super) fn mark_unattended(&mut self) -> Result<()> {
        let Some(serving) = &self.serving else { return Ok(()) };
        let state = serving.coordinator().state();
        let is_known = |id: &&String| state.sessions_with_id(id).next().is_some();
        let known: Vec<String> = self.unattended.iter().filter(is_known).cloned().collect();
        for id in known {
            self.unattended.remove(&id);
            let marks = MarkChange { unattended: Some(true), ..MarkChange::default() };
            let new = OperatorRequest::new(OperatorVerb::Attend);
            self.order(&OperatorRequest { sessions: vec![id], marks, ..new })?;
        }
        Ok(())
    }

    /// A person's command.
    pub(super) fn order(&mut self, order: &OperatorRequest) -> Result<()> {
        let serving = self.serving.as_mut().context("command: the coordinator is down")?;
        serving.begin_turn();
        serving.order(order).context("command")?;
        serving.end_turn(false);
        self.turn(&[], false);
        Ok(())
    }
}

fn payload(session: &str, fields: &[(&str, &str)]) -> Map<String, Value> {
    let all = [("session_id", session)].into_iter().chain(fields.iter().copied());
    all.map(|(name, value)| (name.to_owned(), json!(value))).collect()
}
