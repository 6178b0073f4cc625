//! What a person orders by `coordctl`.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::SessionKey;

/// What a person asked for. Who may ask is the border's matter (H-22).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Command {
    /// Nothing acts on it.
    Hold {
        /// Which; none for all.
        session: Option<SessionKey>,
        /// For so long, milliseconds; none until it is released.
        for_ms: Option<u64>,
    },
    /// The end of a hold.
    Release {
        /// Which; none for the hold on all.
        session: Option<SessionKey>,
    },
    /// Marks.
    Attend {
        /// What they are set on.
        whom: Whom,
        /// What is changed.
        marks: MarkChange,
    },
    /// Bring it back now, under the same guards.
    Recover {
        /// Which.
        session: SessionKey,
        /// End its living harness for it (H-53).
        #[serde(default)]
        restart: bool,
        /// Wait until the living harness is idle. Otherwise the order is for the moment.
        #[serde(default)]
        when_idle: bool,
    },
    /// Bring back what a host event interrupted, one after the other (H-10, S0-25f).
    Restore {
        /// Which, in this order.
        sessions: Vec<SessionKey>,
    },
    /// Lifts `needs_operator` and the limits that led to it (G5).
    ResetFailed {
        /// Which; none for all, which also ends what H-11 stopped.
        session: Option<SessionKey>,
    },
}

/// Whom marks are set on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whom {
    /// One session.
    Session(SessionKey),
    /// Every session whose client was started in this directory, now and later.
    Directory(String),
}

/// What is changed of a session's marks; what is left out stays as it is. In a request of `attend`, sessions are
/// named by an id, the beginning of one, or a name; in a command, by the ids that these meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MarkChange {
    /// Prompts of its agent that ask for consent are answered too (S1-10, S1-11, H-40).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<bool>,
    /// Nobody watches it.
    pub unattended: Option<bool>,
    /// It comes back by itself after a crash although somebody watches it (H-06).
    pub recover: Option<bool>,
    /// A name for people.
    pub name: Option<String>,
    /// The session that its end is told to.
    pub parent: Option<String>,
    /// The directory of its task; absolute.
    pub task_dir: Option<String>,
    /// Senders whose messages it takes from now on although its agent acts without asking: sessions, `program:NAME`,
    /// `any`; `none` takes all of that back (H-04).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<String>,
}
