//! Everything that can wake the core, as one closed enum.

use alloc::boxed::Box;
use alloc::string::String;

use crate::{
    Command, Domain, EventId, Failure, HookEvent, Host, Intent, Kind, Launch, Outcome, PaneFound,
    ProcessRef, Proof, QueueEvent, Registry, SessionKey, Settings,
};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A coordinator opened the store.
    Started(Host, Box<Settings>),
    /// The configuration was changed: these settings hold from now on (U-06).
    Settings(Box<Settings>),
    /// The loop did not turn, or the wall clock jumped, for this many nanoseconds (H-32).
    Gap {
        /// Awake time that passed without the loop turning; 0 for a clock step or a suspend.
        ns: u64,
    },
    /// A hook reported.
    Hook(Box<HookEvent>),
    /// A hook's event of which only the fact is kept (H-29).
    Folded {
        /// Its id.
        id: EventId,
        /// The session.
        session_id: String,
    },
    /// Events that hooks only counted, the spool being full (H-29).
    SpoolFolded {
        /// How many.
        events: u64,
    },
    /// Something arrived that was no event.
    Malformed,
    /// A process was looked at.
    ProcessSeen {
        /// Which.
        process: ProcessRef,
        /// Whether it is alive.
        alive: bool,
        /// Judged from argv and terminal.
        kind: Option<Kind>,
        /// Stopped by a signal (Ctrl-Z).
        is_stopped: bool,
        /// The session that its command line forks.
        forked_from: Option<String>,
        /// How it was started, where that could be read.
        launch: Option<Box<Launch>>,
    },
    /// A watched process is gone.
    ProcessExited {
        /// Which.
        process: ProcessRef,
    },
    /// The client's registry entry of a process was looked for.
    RegistryRead {
        /// The process.
        process: ProcessRef,
        /// What was there.
        found: Registry,
        /// Looked for after the death, socket and spool having been emptied first (H-05).
        after_death: bool,
        /// Where the process lives, if not where the coordinator does (H-15).
        domain: Option<Domain>,
    },
    /// The pane of a process was looked at (H-16).
    PaneSeen {
        /// The process.
        process: ProcessRef,
        /// What was there.
        found: PaneFound,
        /// CLOCK_MONOTONIC when the look began: what happened later is not on it.
        looked_ns: u64,
        /// The look followed its death (H-05).
        after_death: bool,
    },
    /// The end of a process's transcript was read.
    TranscriptRead {
        /// The process.
        process: ProcessRef,
        /// When its newest entry, an interrupt, was written, milliseconds since 1970.
        interrupted_ms: Option<u64>,
        /// Whether the crash signature that was seen on the pane stands in it as content (S0-29).
        has_signature: Option<bool>,
        /// The API error that is its newest word (S1-22).
        failure: Option<Failure>,
    },
    /// A session's task directory was read.
    TaskRead {
        /// Which.
        dir: String,
        /// What was in it.
        found: TaskFound,
    },
    /// Something happened to a message (S4).
    Queue(QueueEvent),
    /// A person asked for something by `coordctl`.
    Operator(Command),
    /// A look made for an act was answered (G4).
    Proved {
        /// For which step.
        intent: Intent,
        /// What was found.
        proof: Box<Proof>,
    },
    /// An act was carried out, or not.
    Acted {
        /// Which.
        intent: Intent,
        /// What came of it.
        outcome: Outcome,
    },
    /// A process took the line that resumes a session, and becomes its client.
    ResumeClaimed {
        /// The record.
        session: SessionKey,
        /// The nonce on that line.
        nonce: String,
        /// The process.
        process: ProcessRef,
    },
    /// The process that took the line gave up before it became a client.
    ResumeFailed {
        /// The record.
        session: SessionKey,
        /// Why, in words.
        why: String,
    },
    /// Whether the machine is being shut down (H-10).
    Shutdown(bool),
    /// The lock on a configuration directory was tried (H-14).
    ConfigDirLock {
        /// The directory.
        config_dir: String,
        /// Whether this coordinator holds it.
        held: bool,
    },
    /// Time alone changes something: [`crate::State::is_due`]. Recorded, so that a replay changes it at
    /// the same moment.
    Due,
    /// Looks may be due. They change nothing that is shown, and are not recorded.
    Tick,
}

/// What was found in a task directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFound {
    /// A digest of the signal file, if there is one.
    pub signal: Option<u64>,
    /// The reason that the stop file gives, in plain words, if there is one.
    pub stop: Option<String>,
}
