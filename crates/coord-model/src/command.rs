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

/// What is changed of a session's marks; none leaves it as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MarkChange {
    /// Prompts of its agent that ask for consent are answered too (H-40).
    pub answers: Option<bool>,
    /// Nobody watches it.
    pub unattended: Option<bool>,
    /// It comes back by itself after a crash although somebody watches it (H-06).
    pub recover: Option<bool>,
    /// A name for people.
    pub name: Option<String>,
    /// The session that its end is told to.
    pub parent: Option<String>,
    /// The directory of its task.
    pub task_dir: Option<String>,
    /// Senders that are allowed from now on, or `none` for no more than before anybody was (H-04).
    pub accepts: Vec<String>,
}
