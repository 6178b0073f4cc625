//! A message to another machine and its fate, as they are sealed.

use coord_model::{Fate, MachineId, MessageId, Origin, RemoteWho};
use serde::{Deserialize, Serialize};

use crate::keys::{Keys, PublicKey};
use crate::sealed::{self, Purpose, Unsealed};

/// A message to a session of another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteMessage {
    /// The machine that it is for. It counts on no other one.
    pub to: MachineId,
    /// The session, by its id there.
    pub session: String,
    /// Its id.
    pub id: MessageId,
    /// The sender's journal.
    pub incarnation: String,
    /// Its number among all messages of the sender.
    pub number: u64,
    /// Who sent it.
    pub who: RemoteWho,
    /// Whether it is delivered before those that are not urgent.
    #[serde(default)]
    pub urgent: bool,
    /// How many messages led to it (H-21).
    #[serde(default)]
    pub depth: u32,
    /// How long it lives from when the engine stores it, milliseconds.
    pub ttl_ms: u64,
    /// Its text.
    pub text: String,
}

/// The fate of a message that another machine sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FateReport {
    /// The machine that sent the message.
    pub to: MachineId,
    /// The message.
    pub id: MessageId,
    /// What became of it.
    pub fate: Fate,
}

impl RemoteMessage {
    /// Seals it.
    pub fn seal(&self, keys: &Keys) -> Vec<u8> {
        sealed::seal(Purpose::Message, &serde_json::to_string(self).unwrap_or_default(), keys)
    }

    /// Reads a sealed message, and whose it is.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn open(bytes: &[u8]) -> Result<(PublicKey, Self), Unsealed> {
        let (key, text) = sealed::open(Purpose::Message, bytes)?;
        serde_json::from_str(text).map(|message| (key, message)).map_err(|_| Unsealed::NoSeal)
    }

    /// Where it came from, if this machine sealed it.
    pub fn origin(&self, machine: MachineId) -> Origin {
        let Self { id, incarnation, number, .. } = self;
        Origin { machine, id: *id, incarnation: incarnation.clone(), number: *number }
    }
}

impl FateReport {
    /// Seals it.
    pub fn seal(&self, keys: &Keys) -> Vec<u8> {
        sealed::seal(Purpose::Fate, &serde_json::to_string(self).unwrap_or_default(), keys)
    }

    /// Reads a sealed fate, and whose word it is.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn open(bytes: &[u8]) -> Result<(PublicKey, Self), Unsealed> {
        let (key, text) = sealed::open(Purpose::Fate, bytes)?;
        serde_json::from_str(text).map(|report| (key, report)).map_err(|_| Unsealed::NoSeal)
    }
}
