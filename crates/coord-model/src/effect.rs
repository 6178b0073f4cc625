//! Everything that the core can request from the world, as one closed enum.
//!
//! An effect is identified by the journal position of its event and its place in the list. Its outcome returns as
//! an event. After a crash of the coordinator, an *idempotent* effect without an outcome is repeated: the first
//! event of a new coordinator requests it again. A *once* effect is never repeated blindly: the core decides on a
//! new look.

use alloc::boxed::Box;
use alloc::string::String;

use crate::{
    DeliveryPath, EventId, Intent, MessageId, NeedId, PaneProof, ProcessRef, Proof, ReplyKind,
    RequestId, SessionKey, Subject, Tell, TmuxPane,
};

/// A request from the core to the adapters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Watch the process: observe it now, then report its death at once.
    WatchProcess {
        /// The process.
        process: ProcessRef,
    },
    /// Read the client's registry entry of the process. After a death, first apply what the socket and the spool
    /// hold (H-05).
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
    /// Capture the pane of the process.
    CapturePane {
        /// The process.
        process: ProcessRef,
        /// The pane: proved before, or as its environment claims.
        pane: TmuxPane,
        /// The proof, if there was one. After a death only the proof identifies the pane.
        proof: Option<PaneProof>,
        /// The purpose of the look.
        look: Look,
    },
    /// Read the end of the process's transcript, and again whenever it changes while the session is in doubt.
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
    /// Look at the repository of a session's work. Answered once, by an event.
    LookAtWork {
        /// The session.
        session: SessionKey,
        /// The directory that the session works in.
        dir: String,
    },
    /// Try the lock on a configuration directory (H-14).
    LockConfigDir {
        /// The directory.
        config_dir: String,
    },
    /// Remove the file with the text of a message.
    RemoveBody {
        /// The message.
        message: MessageId,
    },
    /// Put the pending messages of a session into the answer of the hook that reported this event (S4-24).
    Offer {
        /// The event.
        event: EventId,
        /// The session.
        session: SessionKey,
        /// The delivery path that this hook is.
        delivery: DeliveryPath,
    },
    /// Look in a session's transcript for the messages in transit to it (H-30).
    SeekMessages {
        /// The session.
        session: SessionKey,
    },
    /// Search the whole transcript for a message whose lease is over, and report the result.
    SeekLast {
        /// The message.
        message: MessageId,
    },
    /// Hand a person's reply to the hook that waits for it, once the order is durable. Never repeated.
    HandReply {
        /// The session.
        session: SessionKey,
        /// The request.
        request: RequestId,
        /// The reply.
        reply: ReplyKind,
    },
    /// Look in a session's transcript how the calls were decided to which a person replied.
    SeekDecisions {
        /// The session.
        session: SessionKey,
    },
    /// Notify a session of what became of another one (S4-27).
    SendNotice {
        /// The session to notify.
        to: SessionKey,
        /// The session that the notice is about.
        about: SessionKey,
        /// A name for the end: a second notice with the same name is the same message.
        name: String,
        /// The whole text of the notice.
        text: String,
    },
    /// Tell people through a channel, or take a notice back (N-03). Answered once, by an event.
    Tell(Box<Tell>),
    /// Look whether a person is watching the pane of a need (N-04). Answered once, by an event.
    LookForPresence {
        /// The need.
        need: NeedId,
        /// The pane.
        pane: TmuxPane,
    },
    /// An action on a session, or the look that it is decided on.
    Act(Box<Action>),
}

/// An action on a session. Each is answered once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Look, and lock the session's transcript (G4, H-13). Answered with a [`Proof`].
    Prove {
        /// The step that it is for.
        intent: Intent,
        /// What to look at.
        subject: Subject,
    },
    /// Send a signal to the session's harness, by its pidfd.
    End {
        /// The step that it is for.
        intent: Intent,
        /// What to look at once more.
        subject: Subject,
        /// The proof that was decided on. If something has changed since, nothing is done (H-08).
        proof: Proof,
        /// The signal.
        signal: Signal,
    },
    /// Type the resume line into the session's proved, empty shell (S0-25a).
    TypeResume {
        /// The step that it is for.
        intent: Intent,
        /// What to look at once more.
        subject: Subject,
        /// The proof that was decided on.
        proof: Proof,
    },
    /// Run the resume line in the session's kept dead pane (S0-25e).
    RespawnPane {
        /// The step that it is for.
        intent: Intent,
        /// What to look at once more.
        subject: Subject,
        /// The proof that was decided on.
        proof: Proof,
    },
    /// Run the resume line in a new window of the session's tmux session (S0-25e).
    NewWindow {
        /// The step that it is for.
        intent: Intent,
        /// What to look at once more.
        subject: Subject,
        /// The proof that was decided on.
        proof: Proof,
    },
    /// Wake the session with a text, by its wake hook (H-02).
    Wake {
        /// The step that it is for.
        intent: Intent,
        /// The whole text for its agent.
        text: String,
    },
    /// Release the lock on a session's transcript.
    Release {
        /// The session id.
        session_id: String,
    },
    /// Write the stop file of the session's task, unless there is one (S1-15).
    WriteStop {
        /// The task's directory.
        dir: String,
        /// The whole text of the file.
        text: String,
    },
    /// Remove the stop file of the session's task, if its text is still the same (S1-24).
    RemoveStop {
        /// The task's directory.
        dir: String,
        /// The text that was written.
        text: String,
    },
    /// Show a notice to the person who looks at the session's pane.
    Notify {
        /// Its pane.
        pane: TmuxPane,
        /// One line of coord's own words.
        text: String,
        /// How long it is shown, milliseconds, or until a key is pressed.
        for_ms: u32,
    },
}

impl Action {
    /// Its class: all that anything but its executor has to know of it.
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

/// A signal that ends a harness (S0-25).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum Signal {
    /// SIGTERM: the process may clean up.
    Term,
    /// SIGKILL: the process cannot clean up.
    Kill,
}

/// The purpose of a look at a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// The slow sweep: a pane without activity since the last look need not be captured again.
    Sweep,
    /// A decision depends on it.
    Decision,
    /// The process died, and its farewell is looked for (H-05).
    AfterDeath,
}

/// What an action does to the world, and whether it may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionClass {
    /// It looks, or releases what a look locked. It may be repeated.
    Look,
    /// It shows a notice to people. It may be repeated, and nothing waits for it.
    Notice,
    /// It acts on a session. It is never repeated without a new decision, and this step waits for its outcome.
    Once(Intent),
}
