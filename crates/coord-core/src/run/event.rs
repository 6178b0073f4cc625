//! What a run's supervisor reports, and what it is asked to do.

use alloc::string::String;

use coord_model::{Decimal, Signal, TokenCounts};

use super::{ErrorText, ExitStatus, TreeSeen};

/// One fact from a line of the stream. A line may contain several.
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
    /// The result of that call.
    ToolEnded {
        /// A digest of its id.
        call: u64,
    },
    /// All background work that exists now.
    Tasks(RunTasks),
    /// The client scheduled its own wake-up.
    Wakeup {
        /// Time until then, in milliseconds.
        after_ms: u64,
    },
    /// A request to the API is being retried.
    Retry {
        /// The typed error, if there is one.
        error: Option<String>,
    },
    /// A request to the program that drives the run: a permission, a hook, an elicitation (S3-05).
    ControlOpened {
        /// A digest of its id.
        request: u64,
        /// A digest of the id of the call that it concerns. The end of that call shows that the request was
        /// answered, which no line of the stream does (measured).
        call: Option<u64>,
    },
    /// That request was withdrawn, or answered where the stream shows it.
    ControlClosed {
        /// A digest of its id.
        request: u64,
    },
    /// The state of the account's usage limit.
    RateLimit {
        /// Whether requests are refused.
        is_rejected: bool,
        /// When the limit ends, milliseconds since 1970.
        resets_ms: Option<u64>,
    },
    /// The client's own typed error in place of an answer.
    Failed {
        /// Its name.
        error: String,
    },
    /// A result line.
    Result(ResultSeen),
    /// Anything else.
    Said,
}

/// Background work, as the client lists it (S3-21).
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
    /// Whether there is any background work.
    pub fn is_any(self) -> bool {
        self != Self::default()
    }
}

/// The fields of a result line that outcomes are judged from. Its text is not included.
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
    /// What the run has used so far. Nothing is judged by it.
    pub used: ResultUsage,
}

/// What a run has used, as the newest result line says it. The client adds up from the start of its process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResultUsage {
    /// `total_cost_usd`.
    pub cost_usd: Option<Decimal>,
    /// `modelUsage`, summed over the models. The model is named if there is one only.
    pub tokens: Option<TokenCounts>,
}

/// An event that a run reacts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEvent {
    /// Output without a known line, or output that its reader does not accept.
    Output,
    /// A fact from a line of the stream.
    Stream(StreamFact),
    /// Its output ended: no process is left that could write to it.
    Eof,
    /// A known error text on its standard error (S2-03).
    ErrorText(ErrorText),
    /// The answer to [`RunAct::Look`].
    TreeSeen(TreeSeen),
    /// The answer to [`RunAct::Record`]: the record is on the disk.
    Recorded,
    /// The record could not be written to the disk.
    NotRecorded,
    /// A signal from outside was forwarded to the run.
    Forwarded {
        /// The signal number.
        signal: i32,
    },
    /// The machine slept, the clock stepped, or the supervisor did not run (H-32).
    Gap,
    /// The run's process ended.
    Exited(ExitStatus),
    /// Time passed.
    Tick,
}

/// What the supervisor has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunAct {
    /// Look at the process tree.
    Look,
    /// Record a forced end on the disk before its signal (S3-23).
    Record {
        /// Why the run is ended.
        reason: ExitReason,
        /// The conversation whose next resume has to prove itself.
        quarantine: Option<String>,
    },
    /// Send a signal to the whole tree (S3-06, H-20).
    End(Signal),
    /// Stop trying: the run outlived SIGKILL.
    GiveUp,
    /// Write a line to the run's log.
    Note(RunNote),
}

/// A line of a run's log (S3-09, S3-15, S3-16, G9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunNote {
    /// The name of the event.
    pub name: String,
    /// Whether somebody should read it.
    pub is_warning: bool,
    /// What was seen, and what was decided.
    pub because: String,
}

/// Why a run is over (S3-08).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExitReason {
    /// By itself, before a result line.
    Exited,
    /// By itself, after a result line.
    ExitedAfterResult,
    /// By itself, after its output had ended.
    ExitedDuringSubcountdown,
    /// By a signal that was forwarded to it.
    ForwardedSignal,
    /// By a signal from elsewhere.
    KilledBySignal,
    /// Ended by coord: its output had ended and it lived on.
    ReaderDoneButAlive,
    /// Ended by coord: its result had come, and nothing was pending.
    PostResultLimbo,
    /// Ended by coord: no result and no other output came.
    FirstResult,
    /// Ended by coord: it reported a known error and hung.
    ErrorHang,
    /// Ended by coord: it took too long.
    Invocation,
    /// It outlived SIGKILL.
    Unkillable,
    /// It could not be started.
    NotStarted,
}

impl ExitReason {
    /// All reasons.
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

    /// Whether coord ended it by its own signals, which is no crash (S3-24).
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

    /// The name of the reason.
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
