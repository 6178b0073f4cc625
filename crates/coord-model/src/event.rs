//! Everything that can happen, as one closed enum: what the journal records and what the core applies.
//!
//! The journal is the history, the evidence and the source of the state: state = snapshot + replay of the
//! journal's tail. Each record is one JSON text. An event is tagged externally, because only then can a hook's
//! envelope be kept as it came.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::stamp::WallMs;
use crate::{
    Command, Decided, Domain, EventId, Failure, FleetEvent, HookEvent, Host, Intent, LocalOffset,
    NeedChange, NeedId, Outcome, PaneFound, ProcessRef, ProcessSeen, Proof, QueueEvent, Registry,
    RequestId, SendAnswer, SessionKey, Settings, Via, Work,
};

/// Version of journal and snapshot. By it, an older coordinator refuses a newer store. Since version 2, processes,
/// screens and launches have the same spelling in both.
pub const STORE_VERSION: u32 = 2;

/// One record of the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record<Entry = Event> {
    /// Position in the journal, from 1, without gaps.
    pub seq: u64,
    /// Wall time at which the coordinator recorded it.
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
    /// The event loop did not run, or the wall clock jumped (H-32).
    Gap {
        /// Awake time that passed while the loop did not run, nanoseconds; 0 for a clock step or a suspend.
        ns: u64,
    },
    /// Time alone changed something: a silence, a lag or a judgement was over. It is recorded, so that a replay
    /// makes the change at the same moment.
    Due,
    /// Looks may be due. They change nothing that is shown, and are not recorded.
    #[serde(skip)]
    Tick,
    /// A hook reported.
    Hook(Box<HookEvent>),
    /// A hook's event beyond its session's share: only its arrival is kept (H-29).
    Folded {
        /// The session.
        session_id: String,
        /// The event's name.
        event: String,
        /// Its id.
        #[serde(with = "crate::hook::id_digits")]
        id: EventId,
    },
    /// Events that were only counted, because the spool or a share was full (H-29).
    SpoolFolded {
        /// Number of events.
        events: u64,
    },
    /// Something arrived that is not a valid event.
    Malformed {
        /// How it arrived.
        via: Via,
        /// What was wrong, in one line.
        why: String,
    },
    /// A process was observed.
    ProcessSeen(ProcessSeen),
    /// A watched process is gone.
    ProcessExited {
        /// The process.
        process: ProcessRef,
    },
    /// The client's registry entry of a process was read.
    RegistryRead {
        /// The process.
        process: ProcessRef,
        /// What was there.
        #[serde(rename = "entry")]
        found: Registry,
        /// Whether it was read after the death, once socket and spool had been emptied (H-05).
        after_death: bool,
        /// Where the process lives, if not where the coordinator does (H-15).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        domain: Option<Domain>,
    },
    /// The pane of a process was captured (H-16).
    PaneSeen {
        /// The process: alive, or the one that died.
        process: ProcessRef,
        /// What was there.
        #[serde(rename = "pane")]
        found: PaneFound,
        /// CLOCK_MONOTONIC when the look began, nanoseconds: the screen does not show what happened later.
        looked_ns: u64,
        /// Whether the look followed the process's death (H-05).
        after_death: bool,
    },
    /// The end of a process's transcript was read, and it has something that no hook reported.
    TranscriptRead {
        /// The process that writes it.
        process: ProcessRef,
        /// When the client wrote "[Request interrupted by user" as its newest entry of the main thread,
        /// milliseconds since 1970.
        #[serde(default)]
        interrupted_ms: Option<u64>,
        /// Whether it has the crash signature from the pane as content (S0-29); none if that was not looked for.
        #[serde(default)]
        has_signature: Option<bool>,
        /// The API error that is its newest entry of the main thread (S1-22).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
    /// The directory of a session's task was read, and something in it has changed.
    TaskRead {
        /// The directory.
        dir: String,
        /// What was in it.
        #[serde(flatten)]
        found: TaskFound,
    },
    /// The repository of a session's work was looked at after its client died.
    WorkSeen {
        /// The session.
        session_id: String,
        /// Its record.
        session: SessionKey,
        /// What the look found.
        work: Box<Work>,
    },
    /// A look for an act was answered (G4).
    Proved {
        /// The session.
        session_id: String,
        /// The step of its recovery.
        intent: Intent,
        /// The result. It contains no text of a pane.
        proof: Box<Proof>,
    },
    /// An act was performed, or not.
    Acted {
        /// The session.
        session_id: String,
        /// The step.
        intent: Intent,
        /// The outcome.
        outcome: Outcome,
    },
    /// A process claimed the line that resumes a session, and becomes its client (S0-25a).
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
    /// The process that claimed the line gave up before it became a client.
    ResumeFailed {
        /// The session.
        session_id: String,
        /// Its record.
        session: SessionKey,
        /// Why, in words.
        why: String,
    },
    /// A person ordered something with `coordctl` (H-22). Who may order was checked before.
    Operator {
        /// The session that it concerns; none if it concerns several, or none that exists yet.
        session_id: Option<String>,
        /// The order, in one line for people.
        what: String,
        /// The command.
        command: Command,
    },
    /// The transcript shows how a call was decided to which a person replied, or the hook was gone.
    ReplySeen {
        /// The session.
        session_id: String,
        /// Its record.
        session: SessionKey,
        /// The request.
        request: RequestId,
        /// How its call was decided; none if the hook ended before it could take the reply.
        decided: Option<Decided>,
    },
    /// The hook of a request has ended, or never came to wait, whose client shows no dialog as long as it waits (H-38).
    RequestHookEnded {
        /// The session.
        session_id: String,
        /// Its record.
        session: SessionKey,
        /// The request.
        request: RequestId,
    },
    /// Something happened to a message (S4). The message's text is not included (G11).
    Message {
        /// Its id.
        id: String,
        /// What happened, in one line for people.
        what: String,
        /// What happened.
        event: QueueEvent,
    },
    /// A channel answered a request to tell people (N-03).
    NoticeSent {
        /// The channel.
        channel: String,
        /// The number of the request.
        number: u64,
        /// The answer.
        answer: SendAnswer,
        /// What was told, in one line for people.
        what: String,
        /// The needs that were told, or taken back.
        needs: Vec<NeedId>,
    },
    /// A look for a person who is watching the pane of a need was answered (N-04).
    PresenceSeen {
        /// The need.
        need: NeedId,
        /// Whether the pane is on a terminal on which a key was pressed lately.
        is_present: bool,
    },
    /// The local clock, for quiet hours (N-01).
    LocalClock {
        /// Its distances from UTC, from the oldest on.
        offsets: Vec<LocalOffset>,
    },
    /// What machines of the fleet tell for each other changed (F-02).
    Fleet(FleetEvent),
    /// The configuration was changed: these settings apply from now on (U-06).
    ConfigChanged {
        /// All of the core's settings.
        settings: Box<Settings>,
        /// What differs from before.
        changes: Vec<ConfigChange>,
    },
    /// After a failed sync the journal was read back and rewritten, and accepts records again (H-52). Changes no
    /// state.
    JournalReopened {
        /// Why the sync, or the last try to reopen it, had failed.
        why: String,
        /// How long nothing was recorded, milliseconds.
        after_ms: u64,
    },
    /// The machine is being shut down, or no longer is (H-10).
    Shutdown {
        /// Whether the shutdown is in progress.
        under_way: bool,
    },
    /// The lock on a configuration directory was tried (H-14).
    ConfigDirLock {
        /// The directory.
        config_dir: String,
        /// Whether this coordinator holds the lock; without it nothing acts there.
        held: bool,
    },
    /// What the rules decided. A replay derives it again; people read it (G9). Changes no state.
    Decision(Decision),
}

/// The program and the place of a coordinator that started.
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
    /// Whether it takes effect only when the coordinator is restarted.
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
    /// The need that began or ended with it (U-01).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<NeedChange>,
    /// The need, or the news, that it is about: its notice (N-04), or a reply to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<NeedId>,
}

/// The content of a task directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFound {
    /// A digest of the signal file, if there is one (S1-16).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u64>,
    /// The reason in the stop file, in plain words, possibly empty (S1-15); none without a stop file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}
