//! What an action is decided on: the look that is asked for, and what it found.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::{LastWords, PaneProof, Place, ProcessRef, Screen, SessionKey, TmuxPane};

/// Which step of which recovery a proof or an act belongs to. Never used twice in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Intent {
    /// The record.
    pub session: SessionKey,
    /// The number of the step.
    pub number: u64,
}

/// What is to be looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// The id that would be resumed.
    pub session_id: String,
    /// Its harness, alive or dead.
    pub harness: ProcessRef,
    /// Whether the harness is to be alive; else it is to be dead.
    pub lives: bool,
    /// The client's configuration directory.
    pub config_dir: String,
    /// The transcript.
    pub transcript_path: String,
    /// The pane it had, with its proof; none without one.
    pub pane: Option<(TmuxPane, PaneProof)>,
    /// A person asked for it after its server or machine had gone: whichever server listens at that
    /// socket now will do, and has no pane of it (S0-25f).
    #[serde(default)]
    pub any_server: bool,
    /// Where it worked.
    pub cwd: Place,
    /// The executable that would be run.
    pub program: String,
    /// The nonce of a line that was typed before, to be looked for (H-34).
    pub typed: Option<String>,
    /// The directory of its task, where it has one.
    #[serde(default)]
    pub task_dir: Option<String>,
    /// Whether the end of its conversation is to be read too (H-40). Such a look keeps no lock: no act follows from
    /// it, but a wake.
    #[serde(default)]
    pub reads_last_words: bool,
}

/// What was found.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Proof {
    /// CLOCK_MONOTONIC when the look began.
    pub looked_ns: u64,
    /// Whether exactly this harness process is alive.
    pub is_alive: bool,
    /// Since when its registry entry says idle, for this session id, milliseconds since 1970; none
    /// where it says anything else or nothing.
    pub idle_since_ms: Option<u64>,
    /// What its main thread has run so far, nanoseconds; none where that is not told, or where somebody
    /// has stopped it: Ctrl-Z, a debugger, a frozen control group (H-07).
    #[serde(default)]
    pub ran_ns: Option<u64>,
    /// Other living processes that hold the session id: by registry or command line (H-13).
    pub owners: Vec<ProcessRef>,
    /// Living processes that the harness started: while it lives those on its terminal (an editor),
    /// after its death those of its tools (H-08, H-33).
    pub children: Vec<ProcessRef>,
    /// What is with its pane.
    pub pane: PaneState,
    /// Wall time of the newest key of a client that may have reached this pane, milliseconds since 1970
    /// and to the second; none if no client ever could.
    pub key_ms: Option<u64>,
    /// The same of any client of the server (H-08).
    pub any_key_ms: Option<u64>,
    /// The pane is in a mode of tmux's own (copy mode).
    pub is_in_mode: bool,
    /// What is typed into it goes to others as well (H-17).
    pub is_synchronized: bool,
    /// The transcript.
    pub transcript: TranscriptState,
    /// The working directory is there, and the same one.
    pub has_cwd: bool,
    /// The executable is there.
    pub has_program: bool,
    /// The machine cannot take another start: too little memory or disk, in words (H-11).
    pub want: Option<String>,
    /// A fresh nonce for the act that may follow.
    pub nonce: String,
    /// The line that would be typed has plain characters only (H-18).
    pub is_line_plain: bool,
    /// There is a stop file in the directory of its task (S1-15).
    #[serde(default)]
    pub is_task_stopped: bool,
    /// What stands at the end of its conversation; none where nobody asked, or it cannot be read.
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

/// What is with a pane.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PaneState {
    /// The session had none.
    None,
    /// Its server gave no answer, or may not be asked.
    Unreadable {
        /// Why, in words.
        why: String,
    },
    /// Its server is gone.
    NoServer,
    /// The server is there, the pane is closed.
    Closed,
    /// The pane was kept after the end of its first process.
    Dead,
    /// The harness is in front.
    Client {
        /// What stands on its screen.
        screen: Option<Screen>,
        /// What stands in its input line.
        input: Input,
        /// The name of a crash signature on it.
        signature: Option<String>,
    },
    /// The pane's first process is in front on its terminal: the shell that ran the harness.
    Shell {
        /// Its prompt, if the cursor stands right behind one; none where anything else stands there.
        prompt: Option<Prompt>,
        /// The name of a crash signature on the screen.
        signature: Option<String>,
        /// The line typed before stands there (H-34).
        has_typed: bool,
    },
    /// Something else is in front.
    Other,
}

impl PaneState {
    /// The name of the crash signature on it.
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
    /// Text stands in it, or a draft is stashed.
    Draft,
    /// Not to be read.
    Unreadable,
}

/// A shell's prompt with nothing typed behind it. Its text is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Prompt {
    /// Column of the cursor.
    pub column: u32,
    /// Digest of what stands left of it.
    pub digest: u64,
}

/// A transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TranscriptState {
    /// Not there, or not to be read.
    Absent,
    /// There, without a turn: nothing to resume (H-36).
    Empty,
    /// Another process has locked it (H-13).
    Locked,
    /// There, with a turn, and locked by this coordinator until [`crate::Action::Release`].
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

/// What came of an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was carried out.
    Done,
    /// It was not: something was no longer as it was decided on. Nothing was touched.
    Changed {
        /// What, in words.
        what: String,
    },
    /// It was tried and failed.
    Failed {
        /// Why, in words.
        why: String,
    },
    /// It was not carried out: nothing is, in this mode.
    Observed,
}
