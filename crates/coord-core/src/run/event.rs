//! What a run's supervisor tells, and what it is asked to do.

use alloc::string::String;

use coord_model::Signal;

use super::{ErrorText, ExitStatus, TreeSeen};

/// One thing that a line of the stream says. A line may say several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamFact {
    /// The client began, or began another turn.
    Init {
        /// The conversation.
        session_id: String,
    },
    /// A call of a tool by the main thread.
    ToolBegan {
        /// A digest of its id.
        call: u64,
    },
    /// The answer to it.
    ToolEnded {
        /// A digest of its id.
        call: u64,
    },
    /// The background work there is now, all of it.
    Tasks(RunTasks),
    /// It will wake itself.
    Wakeup {
        /// In so many milliseconds.
        after_ms: u64,
    },
    /// A request to the API is tried again.
    Retry {
        /// The typed error, if it says one.
        error: Option<String>,
    },
    /// A question to whoever drives the run: a permission, a hook, an elicitation (S3-05).
    ControlOpened {
        /// A digest of its id.
        request: u64,
        /// A digest of the id of the call that it is about: its end tells of an answer, which no line
        /// of the stream does (measured).
        call: Option<u64>,
    },
    /// It was withdrawn, or answered where the stream shows it.
    ControlClosed {
        /// A digest of its id.
        request: u64,
    },
    /// The account's limit.
    RateLimit {
        /// Requests are refused.
        is_rejected: bool,
        /// When it ends, milliseconds since 1970.
        resets_ms: Option<u64>,
    },
    /// The client's own typed error in the place of an answer.
    Failed {
        /// Its name.
        error: String,
    },
    /// A result line.
    Result(ResultSeen),
    /// Anything else.
    Said,
}

/// Background work (S3-21): what the client lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunTasks {
    /// Subagents.
    pub subagents: u32,
    /// Shells.
    pub shells: u32,
    /// Monitors, and kinds this version does not know.
    pub others: u32,
}

impl RunTasks {
    /// Whether there is any.
    pub fn is_any(self) -> bool {
        self != Self::default()
    }
}

/// The fields of a result line that outcomes are judged from; its text is not among them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResultSeen {
    /// `is_error`.
    pub is_error: bool,
    /// `subtype`.
    pub subtype: String,
    /// `terminal_reason`.
    pub terminal_reason: String,
    /// `api_error_status`.
    pub api_error_status: Option<u16>,
    /// `num_turns`.
    pub turns: u32,
}

/// What wakes a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEvent {
    /// Output of which no line says anything known, or that its reader does not take.
    Output,
    /// What a line said.
    Stream(StreamFact),
    /// Its output ended: nobody is left who could write it.
    Eof,
    /// A known error text on its standard error (S2-03).
    ErrorText(ErrorText),
    /// The answer to [`RunAct::Look`].
    TreeSeen(TreeSeen),
    /// The answer to [`RunAct::Record`]: it is on the disk.
    Recorded,
    /// It could not be put on the disk.
    NotRecorded,
    /// A signal from outside was passed on to it.
    Forwarded {
        /// Which.
        signal: i32,
    },
    /// The machine slept, the clock stepped, or the supervisor did not run (H-32).
    Gap,
    /// It ended.
    Exited(ExitStatus),
    /// Time passed.
    Tick,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunAct {
    /// Look at the process tree.
    Look,
    /// Put a forced end on the disk before its signal (S3-23).
    Record {
        /// Why it is ended.
        reason: ExitReason,
        /// The conversation whose next resume has to prove itself.
        quarantine: Option<String>,
    },
    /// Send a signal to the whole tree (S3-06, H-20).
    End(Signal),
    /// It outlived SIGKILL: nothing more can be done.
    GiveUp,
    /// A line of its log.
    Note(RunNote),
}

/// A line of a run's log (S3-09, S3-15, S3-16, G9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunNote {
    /// The event's name.
    pub name: String,
    /// Whether somebody should read it.
    pub is_warning: bool,
    /// What was seen, and what was decided on it.
    pub because: String,
}

/// Why a run is over (S3-08).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExitReason {
    /// By itself, before a result line.
    Exited,
    /// By itself, after one.
    ExitedAfterResult,
    /// By itself, while its output was at its end already.
    ExitedDuringSubcountdown,
    /// By a signal that was passed on to it.
    ForwardedSignal,
    /// By a signal from elsewhere.
    KilledBySignal,
    /// Ended: its output was at its end and it lived on.
    ReaderDoneButAlive,
    /// Ended: its result had come, and nothing was left to wait for.
    PostResultLimbo,
    /// Ended: no result came, and nothing else.
    FirstResult,
    /// Ended: it named a known error and hung.
    ErrorHang,
    /// Ended: it took too long.
    Invocation,
    /// It outlived SIGKILL.
    Unkillable,
    /// It could not be started.
    NotStarted,
}

impl ExitReason {
    /// Every one.
    pub const ALL: [Self; 12] = [
        Self::Exited,
        Self::ExitedAfterResult,
        Self::ExitedDuringSubcountdown,
        Self::ForwardedSignal,
        Self::KilledBySignal,
        Self::ReaderDoneButAlive,
        Self::PostResultLimbo,
        Self::FirstResult,
        Self::ErrorHang,
        Self::Invocation,
        Self::Unkillable,
        Self::NotStarted,
    ];

    /// Whether coord ended it: by its own signals, which are no crash (S3-24).
    pub fn is_forced(self) -> bool {
        match self {
            Self::ReaderDoneButAlive
            | Self::PostResultLimbo
            | Self::FirstResult
            | Self::ErrorHang
            | Self::Invocation
            | Self::Unkillable => true,
            Self::Exited
            | Self::ExitedAfterResult
            | Self::ExitedDuringSubcountdown
            | Self::ForwardedSignal
            | Self::KilledBySignal
            | Self::NotStarted => false,
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::ExitedAfterResult => "exited_after_result",
            Self::ExitedDuringSubcountdown => "subprocess_exited_during_subcountdown",
            Self::ForwardedSignal => "forwarded_signal",
            Self::KilledBySignal => "killed_by_signal",
            Self::ReaderDoneButAlive => "reader_done_but_alive_timeout",
            Self::PostResultLimbo => "post_result_limbo_timeout",
            Self::FirstResult => "first_result_timeout",
            Self::ErrorHang => "error_hang_timeout",
            Self::Invocation => "invocation_timeout",
            Self::Unkillable => "unkillable",
            Self::NotStarted => "not_started",
        }
    }
}
