//! What an action is decided on: the look that is requested, and its result.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::{LastWords, PaneProof, Place, ProcessRef, Screen, SessionKey, TmuxPane};

/// The step of a recovery that a proof or an act belongs to. It is never used twice in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Intent {
    /// The record.
    pub session: SessionKey,
    /// The number of the step.
    pub number: u64,
}

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// The id that would be resumed.
    pub session_id: String,
    /// Its harness, alive or dead.
    pub harness: ProcessRef,
    /// Whether the harness is expected to be alive; else it is expected to be dead.
    pub lives: bool,
    /// The client's configuration directory.
    pub config_dir: String,
    /// The transcript.
    pub transcript_path: String,
    /// The pane that the session had, with its proof; none if it had none.
    pub pane: Option<(TmuxPane, PaneProof)>,
    /// Whether a person asked for the session after its server or machine had gone. Any server that listens at
    /// that socket now will do; it has no pane of the session (S0-25f).
    #[serde(default)]
    pub any_server: bool,
    /// The working directory.
    pub cwd: Place,
    /// The executable that would be run.
    pub program: String,
    /// The nonce of a line that was typed before, to look for (H-34).
    pub typed: Option<String>,
    /// The directory of its task, if it has one.
    #[serde(default)]
    pub task_dir: Option<String>,
    /// Whether the end of its conversation is to be read too (H-40). Such a look keeps no lock: no act follows from
    /// it, but a wake.
    #[serde(default)]
    pub reads_last_words: bool,
}

/// The result of a look.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Proof {
    /// CLOCK_MONOTONIC when the look began, nanoseconds.
    pub looked_ns: u64,
    /// Whether exactly this harness process is alive.
    pub is_alive: bool,
    /// Since when its registry entry says idle for this session id, milliseconds since 1970; none if the entry
    /// says anything else or nothing.
    pub idle_since_ms: Option<u64>,
    /// CPU time of its main thread so far, nanoseconds. None if unknown, or if the process is stopped by Ctrl-Z, a
    /// debugger or a frozen control group (H-07).
    #[serde(default)]
    pub ran_ns: Option<u64>,
    /// Other living processes that hold the session id, by registry or command line (H-13).
    pub owners: Vec<ProcessRef>,
    /// Living processes that the harness started. While it lives: those on its terminal, such as an editor. After
    /// its death: those of its tools (H-08, H-33).
    pub children: Vec<ProcessRef>,
    /// The state of its pane.
    pub pane: PaneState,
    /// Wall time of the newest key of a client that may have reached this pane, milliseconds since 1970 with a
    /// resolution of one second. None if no client ever could.
    pub key_ms: Option<u64>,
    /// Wall time of the newest key of any client of the server, in the same unit (H-08).
    pub any_key_ms: Option<u64>,
    /// Whether the pane is in one of tmux's own modes, such as copy mode.
    pub is_in_mode: bool,
    /// Whether input to the pane goes to other panes too (H-17).
    pub is_synchronized: bool,
    /// The transcript.
    pub transcript: TranscriptState,
    /// Whether the working directory exists and is the same one.
    pub has_cwd: bool,
    /// Whether the executable exists.
    pub has_program: bool,
    /// Why the machine cannot take another start, in words: too little memory or disk space (H-11).
    pub want: Option<String>,
    /// A fresh nonce for the act that may follow.
    pub nonce: String,
    /// Whether the line to type has plain characters only (H-18).
    pub is_line_plain: bool,
    /// Whether there is a stop file in the directory of its task (S1-15).
    #[serde(default)]
    pub is_task_stopped: bool,
    /// The end of its conversation; none if that was not requested, or cannot be read.
    #[serde(default)]
    pub last_words: Option<LastWords>,
}

impl Proof {
    /// This proof without the hang check: the harness's main thread may run on.
    #[must_use]
    pub fn without_hang_check(&self) -> Self {
        Self { ran_ns: None, ..self.clone() }
    }
}

/// The state of a pane.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PaneState {
    /// The session had no pane.
    None,
    /// Its server gave no answer, or must not be asked.
    Unreadable {
        /// Why, in words.
        why: String,
    },
    /// Its server is gone.
    NoServer,
    /// The server is there, and the pane is closed.
    Closed,
    /// The pane was kept after the end of its first process.
    Dead,
    /// The harness is in the foreground.
    Client {
        /// The class of its screen.
        screen: Option<Screen>,
        /// The state of its input line.
        input: Input,
        /// The name of a crash signature on the screen.
        signature: Option<String>,
    },
    /// The pane's first process is in the foreground of its terminal: the shell that ran the harness.
    Shell {
        /// The shell's prompt, if the cursor is right after one; none if anything else is there.
        prompt: Option<Prompt>,
        /// The name of a crash signature on the screen.
        signature: Option<String>,
        /// Whether the line that was typed before is still there (H-34).
        has_typed: bool,
    },
    /// Another program is in the foreground.
    Other,
}

impl PaneState {
    /// The name of the crash signature on the screen.
    pub fn signature(&self) -> Option<&str> {
        match self {
            Self::Client { signature, .. } | Self::Shell { signature, .. } => signature.as_deref(),
            Self::None
            | Self::Unreadable { .. }
            | Self::NoServer
            | Self::Closed
            | Self::Dead
            | Self::Other => None,
        }
    }
}

/// A client's input line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Input {
    /// Read, and empty.
    Empty,
    /// It contains text, or a draft is stashed.
    Draft,
    /// It cannot be read.
    Unreadable,
}

/// A shell's prompt with nothing typed after it. Its text is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Prompt {
    /// Column of the cursor.
    pub column: u32,
    /// Digest of what is left of the cursor.
    pub digest: u64,
}

/// The state of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TranscriptState {
    /// It does not exist, or must not be read.
    Absent,
    /// It exists, without a turn: nothing can be resumed (H-36).
    Empty,
    /// Another process has locked it (H-13).
    Locked,
    /// It exists, with a turn, and is locked by this coordinator until [`crate::Action::Release`].
    Held,
}

impl TranscriptState {
    /// Whether nothing can be resumed from it (H-36).
    pub fn is_without_turn(self) -> bool {
        match self {
            Self::Absent | Self::Empty => true,
            Self::Locked | Self::Held => false,
        }
    }
}

/// The outcome of an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was performed.
    Done,
    /// It was not performed, because something had changed since the decision. Nothing was touched.
    Changed {
        /// What had changed, in words.
        what: String,
    },
    /// It was tried and failed.
    Failed {
        /// Why, in words.
        why: String,
    },
    /// It was not performed, because nothing is in this mode.
    Observed,
}
