//! What other sources than hooks told of a session's harness: its registry entry, its pane, words of a crash.
//! Decides nothing.

use alloc::string::String;
use coord_model::{Awake, Moment, PaneProof, RegistryStatus, Screen, TmuxPane};
use serde::{Deserialize, Serialize};

use super::clocks::clocks;

/// What the client's registry said of the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegistryFact {
    /// Nothing is known.
    Unknown,
    /// Its entry is there, and says this as long as nothing else is read.
    Present {
        /// When it was read last.
        at: Moment,
        /// The client's status; none for a word that is not in the table (H-35).
        status: Option<RegistryStatus>,
        /// When the client changed it, milliseconds since 1970.
        changed_ms: u64,
        /// When it was seen to change; none for the first that was read of it.
        #[serde(default)]
        seen_changing: Option<Awake>,
    },
    /// Its entry was gone after its death.
    Removed {
        /// When.
        at: Moment,
    },
    /// Its entry was still there after its death.
    LeftBehind {
        /// When.
        at: Moment,
    },
}

/// What was seen of the harness's pane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaneFact {
    /// Nobody looked yet.
    Unknown,
    /// It could not be looked at, and never was.
    Unreadable {
        /// Since when.
        at: Moment,
        /// Why, in words.
        why: String,
    },
    /// The pane is proved by its terminal (H-16).
    Its(PaneView),
    /// No pane of that server has the harness's terminal, whatever its environment claims.
    NotThere {
        /// When that was seen.
        at: Moment,
    },
}

/// A proved pane, as it was seen last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneView {
    /// When.
    pub at: Moment,
    /// Which.
    pub pane: TmuxPane,
    /// What makes it the same pane.
    pub proof: PaneProof,
    /// What stood on its screen.
    pub screen: Option<Screen>,
    /// Looks in a row that found the same screen.
    pub looks: u32,
}

/// A crash signature that was seen on the pane of the present harness: evidence, nothing else (H-07).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Its name.
    pub name: String,
    /// When it was seen first.
    pub at: Moment,
    /// Whether it stands in the transcript as content (S0-29); none where that is not known.
    pub is_content: Option<bool>,
    /// It was weighed: text counts once per harness process (H-07).
    #[serde(default)]
    pub is_weighed: bool,
}

/// The client writes a change to its registry within 0.1 s (measured); this much is allowed.
pub(crate) const WRITTEN_MS: u64 = 1_000;

/// The registry's word, as far as it is a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// The status.
    pub status: RegistryStatus,
    /// When the client changed it, milliseconds since 1970.
    pub changed_ms: u64,
    /// When it was seen to change.
    pub seen_changing: Option<Awake>,
}

impl Level {
    /// Whether the client changed it after `then`: by the wall clock, which somebody may have set
    /// meanwhile, or by when the two came to be known.
    pub(crate) fn is_after(self, then: Moment) -> bool {
        let known_after = then.awake.plus_ms(WRITTEN_MS);
        let was_seen = self.seen_changing.is_some_and(|seen| known_after <= seen);
        then.wall_ms <= self.changed_ms || was_seen
    }
}

impl RegistryFact {
    /// The status it gives, if it gives one.
    pub fn level(&self) -> Option<Level> {
        match *self {
            Self::Present { status: Some(status), changed_ms, seen_changing, .. } => {
                Some(Level { status, changed_ms, seen_changing })
            }
            Self::Present { status: None, .. }
            | Self::Unknown
            | Self::Removed { .. }
            | Self::LeftBehind { .. } => None,
        }
    }
}

/// A source of facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Hooks.
    Hooks,
    /// The client's registry.
    Registry,
    /// The pane's screen.
    Pane,
    /// The transcript.
    Transcript,
}

clocks!(struct Signature { name, at, is_content, is_weighed } until {});

clocks!(struct PaneView { at, pane, proof, screen, looks } until {});

clocks!(enum RegistryFact {
    Unknown {} until {}
    Present { at: at, status: status, changed_ms: changed, seen_changing: seen } until {}
    Removed { at: at } until {}
    LeftBehind { at: at } until {}
});

clocks!(enum PaneFact {
    Unknown {} until {}
    Unreadable { at: at, why: why } until {}
    Its { 0: view } until {}
    NotThere { at: at } until {}
});

clocks!(none in Source);
