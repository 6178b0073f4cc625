//! Panes: how one is named, and what a look at it found.

use alloc::string::String;
use serde::{Deserialize, Serialize};

use crate::{ProcessRef, Screen};

/// A pane as the environment names it: a claim until the terminal proves it (H-16).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TmuxPane {
    /// Socket of the server.
    pub socket: String,
    /// The server; its start time is 0 if that could not be read.
    pub server: ProcessRef,
    /// Pane id.
    pub pane: String,
}

/// What a look at a process's pane found. The text itself is never kept (G11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "snake_case")]
pub enum PaneFound {
    /// The pane whose terminal is the process's own (H-16).
    #[serde(rename = "its")]
    Found(PaneSeen),
    /// Its server has no pane on the process's terminal.
    NotThere,
    /// The server gave no answer, or must not be asked.
    Unreadable {
        /// Why, in words.
        why: String,
    },
}

/// A proved pane and what it shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneSeen {
    /// Which pane, proved by its terminal and not by what an environment claims.
    #[serde(flatten)]
    pub pane: TmuxPane,
    /// The proof that it is still the same pane.
    #[serde(flatten)]
    pub proof: PaneProof,
    /// The class of its screen; none if it fits no class.
    pub screen: Option<Screen>,
    /// The last farewell of a client on the screen (H-05).
    #[serde(default)]
    pub farewell: Option<Farewell>,
    /// The name of a crash signature on the screen (S0-01).
    #[serde(default)]
    pub signature: Option<String>,
    /// A hash of its text, without what moves by itself (S1-04); none if there is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<u64>,
    /// Where it is, for people: tmux's `session:window.pane` (U-04).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// What a client prints when it exits: the command line that resumes its session. Only the last one on a screen
/// counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Farewell {
    /// A farewell of this session id, with nothing but a shell's prompt below it.
    Last(String),
    /// A farewell with something below it that was drawn later.
    Above {
        /// The session id.
        session: String,
    },
}

/// What makes a pane the same pane (H-16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PaneProof {
    /// Its first process.
    pub pane_pid: u32,
    /// Its terminal's device number.
    pub tty: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    // Version 1 knew only the last thing on the screen, as a plain string.
    #[test]
    fn farewells_are_read_as_version_1_wrote_them_and_as_this_one_does() {
        let stored = |farewell: &str| {
            alloc::format!(
                r#"{{"found":"its","socket":"s","server":{{"pid":1,"start_time":"2"}},"pane":"%0","pane_pid":3,"tty":4,"screen":null,"farewell":{farewell}}}"#
            )
        };
        for (text, farewell) in [
            ("null", None),
            (r#""s1""#, Some(Farewell::Last("s1".into()))),
            (r#"{"session":"s1"}"#, Some(Farewell::Above { session: "s1".into() })),
        ] {
            let found: PaneFound = serde_json::from_str(&stored(text)).unwrap();
            let PaneFound::Found(seen) = &found else { panic!("{found:?}") };
            assert_eq!(seen.farewell, farewell);
            let written = serde_json::to_string(&found).unwrap();
            assert_eq!(serde_json::from_str::<PaneFound>(&written).unwrap(), found, "{written}");
        }
    }
}
