//! Decides the lifecycle state of a run, in one table (S3-15): total, idempotent, and without failure.

use serde::{Deserialize, Serialize};

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Its process exists and has produced no output yet.
    Spawned,
    /// It produces output.
    Streaming,
    /// A tool of its main thread runs.
    ToolActive,
    /// A result came, and nothing after it.
    IdlePostResult,
    /// Its output ended a moment ago.
    ReaderEof,
    /// Its output ended, and it is still alive (S3-03).
    Subcountdown,
    /// It is still alive with nothing pending (S3-13, S3-14).
    Limbo,
    /// It was sent SIGTERM.
    SigtermSent,
    /// It was sent SIGKILL.
    SigkillSent,
    /// Its process ended.
    Exited,
}

/// What moves a run from state to state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunCause {
    /// It produced output.
    Output,
    /// A tool of its main thread began.
    ToolBegan,
    /// Its last open tool call ended.
    ToolsEnded,
    /// A result line.
    Result,
    /// Every process that could write its output is gone or has closed it (S3-01).
    Eof,
    /// It was still alive a moment after that.
    StillAlive,
    /// Nothing is pending, and it is still alive.
    NothingLeft,
    /// It was sent SIGTERM.
    Term,
    /// It was sent SIGKILL.
    Kill,
    /// It ended.
    Exit,
}

impl RunState {
    /// All states, in the order in which a run passes them.
    pub const ALL: [Self; 10] = [
        Self::Spawned,
        Self::Streaming,
        Self::ToolActive,
        Self::IdlePostResult,
        Self::ReaderEof,
        Self::Subcountdown,
        Self::Limbo,
        Self::SigtermSent,
        Self::SigkillSent,
        Self::Exited,
    ];

    /// The state after `cause`; the same state if the cause changes nothing.
    #[must_use]
    pub fn after(self, cause: RunCause) -> Self {
        use RunCause as Why;
        match (self, cause) {
            (_, Why::Exit) | (Self::Exited, _) => Self::Exited,
            (Self::SigkillSent, _) | (Self::SigtermSent, Why::Kill) => Self::SigkillSent,
            (Self::SigtermSent, _) | (_, Why::Term | Why::Kill) => Self::SigtermSent,
            // After the end of the output only the process counts.
            (Self::ReaderEof, Why::StillAlive) => Self::Subcountdown,
            (Self::Subcountdown | Self::IdlePostResult, Why::NothingLeft) => Self::Limbo,
            (Self::ReaderEof | Self::Subcountdown, _) => self,
            (_, Why::Eof) => Self::ReaderEof,
            (_, Why::ToolBegan) => Self::ToolActive,
            (_, Why::Result) => Self::IdlePostResult,
            (Self::ToolActive, Why::ToolsEnded) => Self::Streaming,
            (Self::ToolActive, Why::Output)
            | (_, Why::StillAlive | Why::NothingLeft | Why::ToolsEnded) => self,
            (_, Why::Output) => Self::Streaming,
        }
    }

    /// The name of the state in logs and for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Spawned => "spawned",
            Self::Streaming => "streaming",
            Self::ToolActive => "tool_active",
            Self::IdlePostResult => "idle_post_result",
            Self::ReaderEof => "reader_eof",
            Self::Subcountdown => "subcountdown",
            Self::Limbo => "limbo",
            Self::SigtermSent => "sigterm_sent",
            Self::SigkillSent => "sigkill_sent",
            Self::Exited => "exited",
        }
    }
}
