//! What the journal and the spool hold: one JSON text per record, in [`crate::frame`] framing.
//!
//! The journal is the history, the evidence and the source of the state: state = snapshot +
//! replay of the journal's tail. Its entries are wire types; the core never sees them.

use crate::stamp::{ProcessRef, WallMs};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Version of journal and snapshot. An older coordinator refuses a newer store by it.
pub const STORE_VERSION: u32 = 1;

/// One record of the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Position in the journal, from 1, without gaps.
    pub seq: u64,
    /// Wall time at which the coordinator took it.
    pub at: WallMs,
    /// The coordinator's CLOCK_MONOTONIC at that moment, nanoseconds.
    pub mono_ns: u64,
    /// What happened.
    pub entry: Entry,
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

/// [`Record`], to be written.
#[derive(Debug, Clone, Serialize)]
pub struct RecordRef<'a> {
    /// As in [`Record`].
    pub seq: u64,
    /// As in [`Record`].
    pub at: WallMs,
    /// As in [`Record`].
    pub mono_ns: u64,
    /// As in [`Record`].
    pub entry: &'a Entry,
}

/// What can happen. Tagged from outside: only so can the envelope be kept as it came.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A coordinator opened the store.
    Started(Started),
    /// The loop did not turn, or the wall clock jumped (H-32).
    Gap {
        /// Awake time without the loop turning, nanoseconds; 0 for a clock step or a suspend.
        ns: u64,
    },
    /// Time alone changed something: a silence, a lag or a judgement was over.
    Due,
    /// A hook reported an event.
    Hook {
        /// How it came.
        via: Via,
        /// The socket's peer was a child of the harness the envelope names (H-25).
        verified: bool,
        /// What the coordinator confirmed of an event that is not verified, when it took it (H-44).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        corroborated: Option<Corroborated>,
        /// The envelope as it came; unknown fields are kept.
        envelope: Box<RawValue>,
    },
    /// A high-frequency event of a session over its share: only its count is kept (H-29).
    Folded {
        /// The session.
        session_id: String,
        /// The event's name.
        event: String,
        /// Its id.
        id: String,
    },
    /// Tool events that hooks counted instead of spooling them, the spool being full (H-29).
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
    /// A look at a process that a session named.
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
        entry: RegistryEntry,
        /// The look followed the process's death, after socket and spool were emptied (H-05).
        after_death: bool,
        /// Where the process lives, if that is not where this coordinator does (H-15).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        domain: Option<Domain>,
    },
    /// The pane of a process was looked at (H-16).
    PaneSeen {
        /// The process: alive, or the one that died.
        process: ProcessRef,
        /// What was there.
        pane: Pane,
        /// CLOCK_MONOTONIC when the look began, nanoseconds: what happened later is not on it.
        looked_ns: u64,
        /// The look followed the process's death (H-05).
        after_death: bool,
    },
    /// The end of a transcript was read: it has something that no hook said.
    TranscriptRead {
        /// The process that writes it.
        process: ProcessRef,
        /// When the client wrote "[Request interrupted by user" as its newest entry of the main
        /// thread, milliseconds since 1970.
        #[serde(default)]
        interrupted_ms: Option<u64>,
        /// Whether the crash signature that was seen on the pane stands in it as content (S0-29); none
        /// if that was not looked for.
        #[serde(default)]
        has_signature: Option<bool>,
        /// The API error that is its newest entry of the main thread.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<ApiFailure>,
    },
    /// The directory of a session's task was read: something in it is other than before.
    TaskRead {
        /// Which.
        dir: String,
        /// A digest of its signal file (S1-16).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<u64>,
        /// The reason in its stop file, which may be empty (S1-15); none without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop: Option<String>,
    },
    /// A look made for an act was answered (G4).
    Proved {
        /// The session.
        session_id: String,
        /// For which step of its recovery, as the core writes it.
        intent: Box<RawValue>,
        /// What was found, as the core writes it. No text of a pane is in it.
        proof: Box<RawValue>,
    },
    /// An act was carried out, or not.
    Acted {
        /// The session.
        session_id: String,
        /// Which, as the core writes it.
        intent: Box<RawValue>,
        /// What came of it, as the core writes it.
        outcome: Box<RawValue>,
    },
    /// A process took the line that resumes a session, and becomes its client (S0-25a).
    ResumeClaimed {
        /// The session.
        session_id: String,
        /// Number of its record.
        session: u64,
        /// The nonce on that line.
        nonce: String,
        /// The process.
        process: ProcessRef,
    },
    /// The process that took the line gave up before it became a client.
    ResumeFailed {
        /// The session.
        session_id: String,
        /// Number of its record.
        session: u64,
        /// Why.
        why: String,
    },
    /// A person asked for something by `coordctl` (H-22). Who asked was checked before.
    Operator {
        /// The session it is about; none where it is about several, or about none that is there yet.
        session_id: Option<String>,
        /// What was asked for, in one line for people.
        what: String,
        /// The command, as the core writes it.
        command: Box<RawValue>,
    },
    /// Something happened to a message (S4). What it says is not in it (G11).
    Message {
        /// Its id.
        id: String,
        /// What happened, in one line for people.
        what: String,
        /// The same, as the core writes it.
        event: Box<RawValue>,
    },
    /// The configuration was changed: from here on these settings hold (U-06).
    ConfigChanged {
        /// All of the core's settings, as the core writes them.
        settings: Box<RawValue>,
        /// What differs from before.
        changes: Vec<ConfigChange>,
    },
    /// A sync had failed, and the journal was read back, written anew and takes records again (H-52).
    JournalReopened {
        /// Why the sync, or the last try to reopen it, had failed.
        why: String,
        /// For how long nothing was recorded.
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
    /// What the rules decided; replay derives it anew, people read it (G9).
    Decision(Decision),
}

/// What process table and registry confirmed of an event whose sender could not be verified (H-44).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corroborated {
    /// The process that it names lives and is a recognized client.
    #[serde(default)]
    pub client: bool,
    /// The configuration directory in whose registry the entry of that process names the event's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}

/// How an event reached the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// Its own socket.
    Socket,
    /// The spool.
    Spool,
}

/// Where and as what a coordinator runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Started {
    /// Its program version.
    pub version: String,
    /// Machine id.
    pub machine: String,
    /// Kernel boot id.
    pub boot: String,
    /// Wall time of that boot.
    pub boot_at: WallMs,
    /// Inode of its pid namespace.
    pub pid_ns: u64,
    /// The durations that the core's rules use, as the core writes them.
    pub settings: Box<RawValue>,
}

/// What `/proc` says of a harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSeen {
    /// The process.
    pub process: ProcessRef,
    /// Whether it is alive; false where the pid is gone or is another process by now.
    pub alive: bool,
    /// Interactive or headless, judged from argv and terminal (H-24); none where unreadable.
    pub kind: Option<crate::envelope::Kind>,
    /// Stopped by a signal (Ctrl-Z).
    #[serde(default)]
    pub stopped: bool,
    /// The session that its command line resumes under a new id (`--resume ID --fork-session`).
    #[serde(default)]
    pub forked_from: Option<String>,
    /// How it was started, where that could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Box<Launch>>,
}

/// How a harness was started (S0-25d). What its user asked it to do is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Its parent.
    pub parent: ProcessRef,
    /// What its parent is: `shell`, `tmux`, or the name of anything else (H-13).
    pub parent_kind: ParentKind,
    /// The executable, and what stands before the client's own options.
    pub program: Vec<String>,
    /// Options that are carried over, with their values.
    pub flags: Vec<String>,
    /// Why its command line cannot be used again, in words (H-19).
    #[serde(default)]
    pub unfit: Option<String>,
    /// Its working directory.
    pub cwd: Place,
    /// Names of the variables in its environment that choose account, endpoint or configuration.
    #[serde(default)]
    pub variables: Vec<String>,
    /// The configuration directory that its own environment gives (H-45).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_dir: Option<String>,
}

/// What started a harness (H-13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentKind {
    /// A shell that waits for its user's commands on the same terminal.
    Shell,
    /// The tmux server: the harness is its pane's first process.
    Tmux,
    /// Anything else, by name.
    Other(String),
}

/// A directory, so that another one of the same name is not taken for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its path.
    pub path: String,
    /// Device.
    pub device: u64,
    /// Inode.
    pub inode: u64,
}

/// Where a pid means something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Machine id.
    pub machine: String,
    /// Inode of the pid namespace.
    pub pid_ns: u64,
}

/// What a look at `sessions/PID.json` found. The file is undocumented: anything odd is `Strange`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "snake_case")]
pub enum RegistryEntry {
    /// The entry of exactly this process.
    Present {
        /// The session it holds now.
        session_id: String,
        /// The client's own status word.
        status: Option<String>,
        /// What it waits for, in its own words.
        #[serde(default)]
        waiting_for: Option<String>,
        /// When it changed the status, milliseconds since 1970; 0 where it does not say.
        #[serde(default)]
        changed_ms: u64,
        /// Its `kind` is not `interactive`: another supervisor owns it.
        #[serde(default)]
        foreign: bool,
        /// Its process lives, and its program is not recognized as a client (H-46).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unrecognized: bool,
        /// Its working directory.
        #[serde(default)]
        cwd: String,
        /// The configuration directory whose registry has it.
        #[serde(default)]
        config_dir: String,
    },
    /// The directory is there, the entry is not.
    Absent,
    /// There is no registry, or it may not be read (H-14, H-27).
    Unreadable {
        /// Why.
        why: String,
    },
    /// The file is there and is not this process's entry, or is of another shape.
    Strange {
        /// What is odd.
        why: String,
    },
}

/// What a look at a process's pane found. The text itself is never kept (G11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "snake_case")]
pub enum Pane {
    /// The pane whose terminal is the process's own (H-16).
    Its {
        /// Socket of its server.
        socket: String,
        /// The server.
        server: ProcessRef,
        /// The pane's id, as `%3`.
        pane: String,
        /// The pane's first process.
        pane_pid: u32,
        /// The terminal's device number.
        tty: u64,
        /// What stands on its screen: a word of `coord-screen`; none where it fits no class.
        screen: Option<String>,
        /// The session id that the client's farewell names, if that is the last thing on it (H-05).
        #[serde(default)]
        farewell: Option<String>,
        /// The name of a crash signature on the screen (S0-01).
        #[serde(default)]
        signature: Option<String>,
        /// A hash of its text without what moves by itself (S1-04).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<u64>,
    },
    /// The server answered and has no pane on the process's terminal.
    NotThere,
    /// No answer, or not to be asked (H-14, H-27).
    Unreadable {
        /// Why.
        why: String,
    },
}

/// An API error that ended a turn, as the client wrote it into its transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiFailure {
    /// The client's typed name of it.
    pub error: String,
    /// When the client wrote it down, milliseconds since 1970; 0 where it does not say.
    #[serde(default)]
    pub written_ms: u64,
    /// When a usage limit ends, milliseconds since 1970, where the API said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_ms: Option<u64>,
}

/// A decision: what was seen, which rule, what follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The session, or the message.
    pub session_id: String,
    /// Requirement id of the rule.
    pub rule: String,
    /// The facts it was decided on, in words.
    pub saw: String,
    /// What was decided.
    pub did: String,
}
