//! Needs of which machines of a fleet tell for each other (F-02).

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::{MachineId, NeedId, NeedKind};

/// A machine, and its name for people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedMachine {
    /// The machine.
    pub machine: MachineId,
    /// Its name here.
    pub name: String,
}

/// An open need of a session of another machine, as it was heard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeedElsewhere {
    /// The need's id there.
    pub id: NeedId,
    /// What is needed.
    pub kind: NeedKind,
    /// Since when by that machine's clock, milliseconds since 1970. People read it, and nothing is decided by it.
    pub since_ms: u64,
    /// The session's id.
    pub session_id: String,
    /// The session's name there, else its short id.
    pub name: String,
    /// Why, in words that follow the session's name.
    pub text: String,
    /// The session's directory.
    pub directory: String,
    /// Where it is in tmux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Whether that machine has told people of it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub was_told: bool,
}

impl NeedElsewhere {
    /// Needs of one machine that others tell of. It tells of those beyond that itself.
    pub const OF_MACHINE_MAX: usize = 100;

    /// The need with texts of bounded length: another machine may say anything.
    #[must_use]
    pub fn bounded(self) -> Self {
        let cut = |text: String, max: usize| -> String { text.chars().take(max).collect() };
        Self {
            session_id: cut(self.session_id, 64),
            name: cut(self.name, 64),
            text: cut(self.text, 120),
            directory: cut(self.directory, 200),
            place: self.place.map(|place| cut(place, 64)),
            ..self
        }
    }
}

/// What machines of a fleet agree on about notices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum FleetEvent {
    /// The open needs of a machine that leaves telling of them to this one.
    Needs {
        /// The machine.
        of: NamedMachine,
        /// All of its open needs.
        needs: Vec<NeedElsewhere>,
    },
    /// A machine tells of its needs itself.
    NeedsLeft {
        /// The machine.
        machine: MachineId,
    },
    /// Who tells of this machine's needs.
    Notifier {
        /// The machine; none if this one does.
        notifier: Option<NamedMachine>,
        /// The open needs of this machine of which it has told.
        told: Vec<NeedId>,
        /// Those that it tells of when their time has come, and those that it has told of.
        taken: Vec<NeedId>,
    },
}
