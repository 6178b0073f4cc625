//! Everything the core can ask of the world, as one closed enum.
//!
//! An effect is named by the journal position of its event and its place in the list. Its outcome
//! comes back as an event. After a crash of the coordinator, an *idempotent* effect without an
//! outcome is simply repeated (the first event of a new coordinator asks for them anew); a *once*
//! effect would never be repeated blindly, and there is none yet.

use alloc::string::String;
use alloc::vec::Vec;

use crate::event::ProcessRef;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Look at the process, then report its death at once.
    WatchProcess {
        /// Which.
        process: ProcessRef,
    },
    /// Read the client's registry entry of the process. After a death, take in first what the
    /// socket and the spool hold (H-05).
    ReadRegistry {
        /// The process.
        process: ProcessRef,
        /// The client's configuration directory.
        config_dir: String,
        /// Whether the process is dead.
        after_death: bool,
    },
    /// Watch the registry of a configuration directory.
    WatchRegistry {
        /// The directory.
        config_dir: String,
    },
    /// Try the lock on a configuration directory (H-14).
    LockConfigDir {
        /// The directory.
        config_dir: String,
    },
}

/// Whether an effect may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectClass {
    /// It may.
    Idempotent,
    /// Once, or a person decides.
    Once,
}

impl Effect {
    /// Its class.
    pub fn class(&self) -> EffectClass {
        match self {
            Self::WatchProcess { .. }
            | Self::ReadRegistry { .. }
            | Self::WatchRegistry { .. }
            | Self::LockConfigDir { .. } => EffectClass::Idempotent,
        }
    }
}

/// A decision, recorded with what was seen and which rule decided (G9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The session.
    pub session_id: String,
    /// Requirement id of the rule.
    pub rule: &'static str,
    /// What was seen.
    pub saw: String,
    /// What was decided.
    pub did: String,
}

/// What one step asks for and has decided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    /// To be done, in this order, after the event is recorded.
    pub effects: Vec<Effect>,
    /// To be recorded.
    pub decisions: Vec<Decision>,
}

impl Effects {
    pub(crate) fn ask(&mut self, effect: Effect) {
        if !self.effects.contains(&effect) {
            self.effects.push(effect);
        }
    }
}
