//! What the user set for a session, or for all sessions of a directory (H-06). This includes whether it is
//! unattended, whether it comes back by itself, and whether it is on hold.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::{Awake, MarkChange, Mode};

use super::clocks::clocks;
use super::hold::Hold;
use super::protected::Protected;
use super::session::Session;
use super::state::State;

/// In a change of marks: removes all allowed senders.
const NOBODY: &str = "none";

/// The marks of a session, or those of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Marks {
    /// Whether prompts in which its agent asks for consent are answered too (H-40).
    pub answers: Option<bool>,
    /// Whether requests of its subagents may wait for a reply (H-38).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks_for_agents: Option<bool>,
    /// Whether the session is unattended; none if that was never set.
    pub unattended: Option<bool>,
    /// Whether it comes back by itself after a crash; none if that was never set.
    pub recover: Option<bool>,
    /// A name for people.
    pub name: Option<String>,
    /// The session that is notified of its end.
    pub parent: Option<String>,
    /// The directory of its task.
    pub task_dir: Option<String>,
    /// Senders whose messages it accepts although its agent acts without asking: ids and names of sessions,
    /// `program:NAME`, `any` (H-04).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<String>,
}

impl Protected<Marks> {
    /// Applies a change.
    pub(crate) fn change(&mut self, change: MarkChange) {
        self.0.change(change);
    }

    /// Another session has its task now.
    pub(crate) fn lose_task(&mut self) {
        self.0.task_dir = None;
    }
}

impl Marks {
    /// Applies a change.
    pub fn change(&mut self, change: MarkChange) {
        let MarkChange {
            answers,
            asks_for_agents,
            unattended,
            recover,
            name,
            parent,
            task_dir,
            accepts,
        } = change;
        self.answers = answers.or(self.answers);
        self.asks_for_agents = asks_for_agents.or(self.asks_for_agents);
        self.unattended = unattended.or(self.unattended);
        self.recover = recover.or(self.recover);
        self.name = name.or(self.name.take());
        self.parent = parent.or(self.parent.take());
        self.task_dir = task_dir.or(self.task_dir.take());
        for sender in accepts {
            if sender == NOBODY {
                self.accepts.clear();
            } else if !self.accepts.contains(&sender) {
                self.accepts.push(sender);
            }
        }
    }
}

impl State {
    /// Whether the session is unattended: its own mark decides, else that of its directory.
    pub fn is_unattended(&self, session: &Session) -> bool {
        let of_dir = self.marks_of_dir(session).and_then(|marks| marks.unattended);
        session.marks.unattended.or(of_dir).unwrap_or(false)
    }

    /// Whether the user wants the session back after a crash (H-06).
    pub(crate) fn is_opted_in(&self, session: &Session) -> bool {
        let of_dir = self.marks_of_dir(session).and_then(|marks| marks.recover);
        let is_for_all = self.header.settings.mode == Mode::Act;
        session.marks.recover.or(of_dir).unwrap_or(is_for_all)
    }

    fn marks_of_dir(&self, session: &Session) -> Option<&Marks> {
        self.header.machine.marks.get(&session.launch.as_ref()?.cwd.path)
    }

    /// The hold that an operator set on this session or on all sessions, or that its task's stop file causes; none
    /// if no hold lasts (H-06, S1-15).
    pub fn operators_hold<'a>(&'a self, session: &'a Session, awake: Awake) -> Option<&'a Hold> {
        let of_all = self.header.machine.held.as_ref();
        let of_task = session.task.stop.as_ref();
        session
            .held
            .as_ref()
            .into_iter()
            .chain(of_task)
            .chain(of_all)
            .find(|hold| hold.lasts(awake))
    }
}

clocks!(none in Marks);
