//! What a person orders with `coordctl`.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::{NeedId, ProcessRef, ReplyKind, RequestId, SessionKey};

/// An order from a person. The adapters decide who may give one (H-22).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Command {
    /// Suspend all actions.
    Hold {
        /// The session; none for all.
        session: Option<SessionKey>,
        /// Duration, milliseconds; none until it is released.
        for_ms: Option<u64>,
    },
    /// End a hold.
    Release {
        /// The session; none for the hold on all.
        session: Option<SessionKey>,
    },
    /// Change marks.
    Attend {
        /// The session or directory that they are set on.
        whom: Whom,
        /// The change.
        marks: MarkChange,
    },
    /// Bring a session back now, under the same guards.
    Recover {
        /// The session.
        session: SessionKey,
        /// Whether its living harness may be ended for that (H-53).
        #[serde(default)]
        restart: bool,
        /// Whether to wait until the living harness is idle. Otherwise the order is for the moment.
        #[serde(default)]
        when_idle: bool,
    },
    /// Bring back the sessions that a host event interrupted, one after the other (H-10, S0-25f).
    Restore {
        /// The sessions, in this order.
        sessions: Vec<SessionKey>,
    },
    /// Hide a need until it ends (U-01).
    Dismiss {
        /// The session.
        session: SessionKey,
        /// The need.
        need: NeedId,
    },
    /// Answer an open request of the client.
    Reply {
        /// The session.
        session: SessionKey,
        /// The request.
        request: RequestId,
        /// The hook process that waits for the reply.
        hook: ProcessRef,
        /// The reply.
        reply: ReplyKind,
        /// The terminal that it was given on, such as `/dev/pts/3`.
        #[serde(default)]
        from: String,
    },
    /// Lift `needs_operator` and the limits that led to it (G5).
    ResetFailed {
        /// The session; none for all, which also resets the breaker of H-11.
        session: Option<SessionKey>,
    },
}

/// What marks are set on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whom {
    /// One session.
    Session(SessionKey),
    /// Every session whose client was started in this directory, now and later.
    Directory(String),
}

/// A change of marks; a field that is left out stays as it is. A request of `attend` names sessions by an id, the
/// beginning of one, or a name. A command names them by the ids that these meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MarkChange {
    /// Whether prompts in which its agent asks for consent are answered too (S1-10, S1-11, H-40).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<bool>,
    /// Whether requests of its subagents may wait for a reply while the client shows no dialog (H-38).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks_for_agents: Option<bool>,
    /// Whether the session is unattended.
    pub unattended: Option<bool>,
    /// Whether it comes back by itself after a crash although it is attended (H-06).
    pub recover: Option<bool>,
    /// A name for people.
    pub name: Option<String>,
    /// The session that is notified of its end.
    pub parent: Option<String>,
    /// The directory of its task; absolute.
    pub task_dir: Option<String>,
    /// Senders whose messages it accepts from now on although its agent acts without asking: sessions,
    /// `program:NAME`, `any`. `none` removes all of them (H-04).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<String>,
}
