//! The one table of a run's lifecycle states (S3-15): total, idempotent, never failing.

use serde::{Deserialize, Serialize};

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Its process is there and has said nothing yet.
    Spawned,
    /// It speaks.
    Streaming,
    /// A tool of its main thread runs.
    ToolActive,
    /// A result came, and nothing behind it.
    IdlePostResult,
    /// Its output ended a moment ago.
    ReaderEof,
    /// Its output ended, and it lives on (S3-03).
    Subcountdown,
    /// It lives on with nothing to wait for (S3-13, S3-14).
    Limbo,
    /// It was told to end.
    SigtermSent,
    /// It was killed.
    SigkillSent,
    /// It is gone.
    Exited,
}

/// What moves a run from state to state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunCause {
    /// It said something.
    Output,
    /// A tool of its main thread began.
    ToolBegan,
    /// The last open one ended.
    ToolsEnded,
    /// A result line.
    Result,
    /// Everybody who could write its output is gone or has closed it (S3-01).
    Eof,
    /// It was there a moment after that.
    StillAlive,
    /// Nothing is left to wait for, and it is still there.
    NothingLeft,
    /// It was sent SIGTERM.
    Term,
    /// It was sent SIGKILL.
    Kill,
    /// It ended.
    Exit,
}

impl RunState {
    /// Every state, in the order in which a life passes them.
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

    /// The state after `cause`; itself where the cause says nothing new.
    #[must_use]
    pub fn after(self, cause: RunCause) -> Self {
        use RunCause as Why;
        match (self, cause) {
            (_, Why::Exit) | (Self::Exited, _) => Self::Exited,
            (Self::SigkillSent, _) | (Self::SigtermSent, Why::Kill) => Self::SigkillSent,
            (Self::SigtermSent, _) | (_, Why::Term | Why::Kill) => Self::SigtermSent,
            // Behind the end of its output only its process counts.
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

    /// Its word in logs and for people.
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
