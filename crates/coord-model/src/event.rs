//! Everything that can happen, as one closed enum: what the journal records and what the core takes in.
//!
//! The journal is the history, the evidence and the source of the state: state = snapshot + replay of the
//! journal's tail. Each record is one JSON text; an event is tagged from outside, since only so can a hook's
//! envelope be kept as it came.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::stamp::WallMs;
use crate::{
    Command, Domain, EventId, Failure, HookEvent, Host, Intent, Outcome, PaneFound, ProcessRef,
    ProcessSeen, Proof, QueueEvent, Registry, SessionKey, Settings, Via,
};

/// Version of journal and snapshot. An older coordinator refuses a newer store by it. Since 2 processes,
/// screens and launches have the same spelling in both.
pub const STORE_VERSION: u32 = 2;

/// One record of the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record<Entry = Event> {
    /// Position in the journal, from 1, without gaps.
    pub seq: u64,
    /// Wall time at which the coordinator took it.
    pub at: WallMs,
    /// The coordinator's CLOCK_MONOTONIC at that moment, nanoseconds.
    pub mono_ns: u64,
    /// What happened.
    pub entry: Entry,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A coordinator opened the store.
    Started(Box<Started>),
    /// The loop did not turn, or the wall clock jumped (H-32).
    Gap {
        /// Awake time that passed without the loop turning, nanoseconds; 0 for a clock step or a suspend.
        ns: u64,
    },
    /// Time alone changed something: a silence, a lag or a judgement was over. Recorded, so that a replay
    /// changes it at the same moment.
    Due,
    /// Looks may be due. They change nothing that is shown, and are not recorded.
    #[serde(skip)]
    Tick,
    /// A hook reported.
    Hook(Box<HookEvent>),
    /// A hook's event over its session's share: only that it came is kept (H-29).
    Folded {
        /// The session.
        session_id: String,
        /// The event's name.
        event: String,
        /// Its id.
        #[serde(with = "crate::hook::id_digits")]
        id: EventId,
    },
    /// Events that were only counted, the spool or a share being full (H-29).
    SpoolFolded {
        /// How many.
        events: u64,
    },
    /// Something arrived that was no event.
    Malformed {
        /// How it came.
        via: Via,
        /// What was wrong, in one line.
        why: String,
    },
    /// A process was looked at.
    ProcessSeen(ProcessSeen),
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
        #[serde(rename = "entry")]
        found: Registry,
        /// Looked for after the death, socket and spool having been emptied first (H-05).
        after_death: bool,
        /// Where the process lives, if not where the coordinator does (H-15).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        domain: Option<Domain>,
    },
    /// The pane of a process was looked at (H-16).
    PaneSeen {
        /// The process: alive, or the one that died.
        process: ProcessRef,
        /// What was there.
        #[serde(rename = "pane")]
        found: PaneFound,
        /// CLOCK_MONOTONIC when the look began, nanoseconds: what happened later is not on it.
        looked_ns: u64,
        /// The look followed the process's death (H-05).
        after_death: bool,
    },
    /// The end of a process's transcript was read: it has something that no hook said.
    TranscriptRead {
        /// The process that writes it.
        process: ProcessRef,
        /// When the client wrote "[Request interrupted by user" as its newest entry of the main thread,
        /// milliseconds since 1970.
        #[serde(default)]
        interrupted_ms: Option<u64>,
        /// Whether the crash signature that was seen on the pane stands in it as content (S0-29); none
        /// if that was not looked for.
        #[serde(default)]
        has_signature: Option<bool>,
        /// The API error that is its newest entry of the main thread (S1-22).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
    /// The directory of a session's task was read: something in it is other than before.
    TaskRead {
        /// Which.
        dir: String,
        /// What was in it.
        #[serde(flatten)]
        found: TaskFound,
    },
    /// A look made for an act was answered (G4).
    Proved {
        /// The session.
        session_id: String,
        /// For which step of its recovery.
        intent: Intent,
        /// What was found. No text of a pane is in it.
        proof: Box<Proof>,
    },
    /// An act was carried out, or not.
    Acted {
        /// The session.
        session_id: String,
        /// Which.
        intent: Intent,
        /// What came of it.
        outcome: Outcome,
    },
    /// A process took the line that resumes a session, and becomes its client (S0-25a).
    ResumeClaimed {
        /// The session.
        session_id: String,
        /// Its record.
        session: SessionKey,
        /// The nonce on that line.
        nonce: String,
        /// The process.
        process: ProcessRef,
    },
    /// The process that took the line gave up before it became a client.
    ResumeFailed {
        /// The session.
        session_id: String,
        /// Its record.
        session: SessionKey,
        /// Why, in words.
        why: String,
    },
    /// A person asked for something by `coordctl` (H-22). Who asked was checked before.
    Operator {
        /// The session it is about; none where it is about several, or about none that is there yet.
        session_id: Option<String>,
        /// What was asked for, in one line for people.
        what: String,
        /// The command.
        command: Command,
    },
    /// Something happened to a message (S4). What it says is not in it (G11).
    Message {
        /// Its id.
        id: String,
        /// What happened, in one line for people.
        what: String,
        /// What happened.
        event: QueueEvent,
    },
    /// The configuration was changed: these settings hold from now on (U-06).
    ConfigChanged {
        /// All of the core's settings.
        settings: Box<Settings>,
        /// What differs from before.
        changes: Vec<ConfigChange>,
    },
    /// A sync had failed, and the journal was read back, written anew and takes records again (H-52).
    /// Changes no state.
    JournalReopened {
        /// Why the sync, or the last try to reopen it, had failed.
        why: String,
        /// For how long nothing was recorded, milliseconds.
        after_ms: u64,
    },
    /// The machine is being shut down, or no longer is (H-10).
    Shutdown {
        /// Whether it is under way.
        under_way: bool,
    },
    /// The lock on a configuration directory was tried (H-14).
    ConfigDirLock {
        /// The directory.
        config_dir: String,
        /// Whether this coordinator holds it; without it nothing acts there.
        held: bool,
    },
    /// What the rules decided; a replay derives it anew, people read it (G9). Changes no state.
    Decision(Decision),
}

/// Where and as what a coordinator runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Its program version.
    pub version: String,
    /// Where it runs.
    #[serde(flatten)]
    pub host: Host,
    /// The durations and limits that the core's rules use.
    pub settings: Settings,
}

/// One changed key of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigChange {
    /// Table and name, such as `recovery.mode`.
    pub key: String,
    /// The value before, as written in the file.
    pub old: String,
    /// The value from now on.
    pub new: String,
    /// It takes effect when the coordinator is restarted.
    #[serde(default)]
    pub needs_restart: bool,
}

impl fmt::Display for ConfigChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, old, new, needs_restart } = self;
        let when = if *needs_restart { " (after a restart)" } else { "" };
        write!(f, "{key}: {old} → {new}{when}")
    }
}

/// A decision, recorded with what was seen and which rule decided (G9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The session, or the message.
    pub session_id: String,
    /// Requirement id of the rule.
    pub rule: Cow<'static, str>,
    /// The facts it was decided on, in words.
    pub saw: String,
    /// What was decided.
    pub did: String,
}

/// What was found in a task directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFound {
    /// A digest of the signal file, if there is one (S1-16).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u64>,
    /// The reason that the stop file gives, in plain words, which may be empty (S1-15); none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}
