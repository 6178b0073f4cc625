//! Everything the core can ask of the world, as one closed enum.
//!
//! An effect is named by the journal position of its event and its place in the list. Its outcome
//! comes back as an event. After a crash of the coordinator, an *idempotent* effect without an
//! outcome is simply repeated (the first event of a new coordinator asks for them anew); a *once*
//! effect would never be repeated blindly, and there is none yet.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use crate::event::{PaneProof, ProcessRef, TmuxPane};
use crate::session::Session;

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
    /// Look at the pane of the process.
    CapturePane {
        /// The process.
        process: ProcessRef,
        /// The pane: proved before, or as its environment claims.
        pane: TmuxPane,
        /// The proof, where there was one; after a death it is all that tells the pane.
        proof: Option<PaneProof>,
        /// What for.
        look: Look,
    },
    /// Read the end of the process's transcript, and again whenever it changes while the session is
    /// in doubt.
    ReadTranscript {
        /// The process.
        process: ProcessRef,
        /// The transcript.
        path: String,
        /// The configuration directory it must lie in (H-27).
        config_dir: String,
    },
    /// Try the lock on a configuration directory (H-14).
    LockConfigDir {
        /// The directory.
        config_dir: String,
    },
}

/// What a look at a pane is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// The slow sweep: a pane without activity since the last look need not be read again.
    Sweep,
    /// Something is decided on it.
    Decision,
    /// The process died, and its farewell is looked for (H-05).
    AfterDeath,
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
            | Self::CapturePane { .. }
            | Self::ReadTranscript { .. }
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
    /// Records a decision about `session`.
    pub(crate) fn decide(&mut self, session: &Session, rule: &'static str, saw: &str, did: &str) {
        self.decisions.push(Decision {
            session_id: session.session_id.clone(),
            rule,
            saw: saw.to_owned(),
            did: did.to_owned(),
        });
    }

    pub(crate) fn ask(&mut self, effect: Effect) {
        if !self.effects.contains(&effect) {
            self.effects.push(effect);
        }
    }
}
