//! Everything that the core can ask of the world, as one closed enum.
//!
//! An effect is identified by the journal position of its event and its place in the list. Its outcome
//! returns as an event. After a crash of the coordinator, an *idempotent* effect without an outcome is
//! repeated: the first event of a new coordinator asks for it again. A *once* effect is never repeated
//! blindly: the core decides on a new look.

use alloc::boxed::Box;
use alloc::string::String;

use crate::{
    DeliveryPath, EventId, Intent, MessageId, PaneProof, ProcessRef, Proof, SessionKey, Subject,
    TmuxPane,
};

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
    /// Read the files of a session's task (S1-15, S1-16).
    ReadTask {
        /// The directory.
        dir: String,
    },
    /// Try the lock on a configuration directory (H-14).
    LockConfigDir {
        /// The directory.
        config_dir: String,
    },
    /// Take the file away that has a message's text.
    RemoveBody {
        /// Whose.
        message: MessageId,
    },
    /// Put what waits for a session into the answer of the hook that reported this event (S4-24).
    Offer {
        /// The event.
        event: EventId,
        /// The session.
        session: SessionKey,
        /// Which hook that is.
        delivery: DeliveryPath,
    },
    /// Look into a session's transcript for the messages that are on their way to it (H-30).
    SeekMessages {
        /// The session.
        session: SessionKey,
    },
    /// Look into the whole of it for one whose lease is over, and say what was found.
    SeekLast {
        /// The message.
        message: MessageId,
    },
    /// Send a session word of what became of another one (S4-27).
    Tell {
        /// To whom.
        to: SessionKey,
        /// Of whom.
        about: SessionKey,
        /// Names the end: told twice, it is one message.
        name: String,
        /// All that is told.
        text: String,
    },
    /// Something done to a session, or the look that it is decided on.
    Act(Box<Action>),
}

/// What is done to a session. Each is answered once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Look, and lock its transcript (G4, H-13). Answered with a [`Proof`].
    Prove {
        /// For which step.
        intent: Intent,
        /// What to look at.
        subject: Subject,
    },
    /// Send a signal to its harness, by its pidfd.
    End {
        /// For which step.
        intent: Intent,
        /// What to look at once more.
        subject: Subject,
        /// What was decided on; a change is no licence (H-08).
        proof: Proof,
        /// Which signal.
        signal: Signal,
    },
    /// Type the one line into its proved, empty shell (S0-25a).
    TypeResume {
        /// For which step.
        intent: Intent,
        /// What to look at once more.
        subject: Subject,
        /// What was decided on.
        proof: Proof,
    },
    /// Run the line in its kept dead pane (S0-25e).
    RespawnPane {
        /// For which step.
        intent: Intent,
        /// What to look at once more.
        subject: Subject,
        /// What was decided on.
        proof: Proof,
    },
    /// Run the line in a new window of its tmux session (S0-25e).
    NewWindow {
        /// For which step.
        intent: Intent,
        /// What to look at once more.
        subject: Subject,
        /// What was decided on.
        proof: Proof,
    },
    /// Wake it with a text, by its wake hook (H-02).
    Wake {
        /// For which step.
        intent: Intent,
        /// All that its agent is told.
        text: String,
    },
    /// Give the lock on its transcript back.
    Release {
        /// Whose.
        session_id: String,
    },
    /// Write the stop file of its task, unless there is one (S1-15).
    WriteStop {
        /// The task's directory.
        dir: String,
        /// All that goes into it.
        text: String,
    },
    /// Take the stop file of its task away, if nothing else stands in it (S1-24).
    RemoveStop {
        /// The task's directory.
        dir: String,
        /// What was written into it.
        text: String,
    },
    /// Tell whoever looks at its pane.
    Notify {
        /// Its pane.
        pane: TmuxPane,
        /// One line of our own words.
        text: String,
        /// For so long, milliseconds, or until a key.
        for_ms: u32,
    },
}

impl Action {
    /// Its class: all that anybody has to know of it but the executor that does it.
    pub fn class(&self) -> ActionClass {
        match self {
            Self::Prove { .. } | Self::Release { .. } => ActionClass::Look,
            Self::WriteStop { .. } | Self::RemoveStop { .. } | Self::Notify { .. } => {
                ActionClass::Notice
            }
            Self::End { intent, .. }
            | Self::TypeResume { intent, .. }
            | Self::RespawnPane { intent, .. }
            | Self::NewWindow { intent, .. }
            | Self::Wake { intent, .. } => ActionClass::Once(*intent),
        }
    }
}

/// What ends a harness (S0-25).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum Signal {
    /// It may clean up behind itself.
    Term,
    /// It may not.
    Kill,
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

/// What an action does to the world, and whether it may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionClass {
    /// It looks, or gives back what a look took. It may be repeated.
    Look,
    /// It leaves a notice for people. It may be repeated, and nothing waits for it.
    Notice,
    /// It acts on a session: once, or a person decides. This step waits for its outcome.
    Once(Intent),
}
