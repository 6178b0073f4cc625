//! What sources other than hooks reported of a session's harness: its registry entry, its pane, crash signatures.
//! Decides nothing.

use alloc::string::String;
use coord_model::{
    Awake, Moment, PaneProof, ProcessRef, RegistryEntry, RegistryStatus, Screen, TmuxPane,
};
use serde::{Deserialize, Serialize};

use super::clocks::clocks;
use super::protected::Protected;

/// What the client's registry says of the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegistryFact {
    /// Nothing is known.
    Unknown,
    /// The entry is there. It holds until another one is read.
    Present {
        /// When the entry was read last.
        at: Moment,
        /// The client's status; none if the status is not in the table (H-35).
        status: Option<RegistryStatus>,
        /// When the client changed the status, milliseconds since 1970.
        changed_ms: u64,
        /// When coord saw the status change; none for the first status that was read.
        #[serde(default)]
        seen_changing: Option<Awake>,
    },
    /// The entry was gone after the harness died.
    Removed {
        /// When.
        at: Moment,
    },
    /// The entry was still there after the harness died.
    LeftBehind {
        /// When.
        at: Moment,
    },
}

/// What was seen of the harness's pane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaneFact {
    /// It was not captured yet.
    Unknown,
    /// It could not be captured, and never was.
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
        /// The tmux server that had the pane until then. Its death may be the reason (H-10).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<ProcessRef>,
    },
}

/// A proved pane, as it was captured last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneView {
    /// When it was captured.
    pub at: Moment,
    /// The pane.
    pub pane: TmuxPane,
    /// The proof that it is still the same pane.
    pub proof: PaneProof,
    /// Where it is, for people (U-04).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What its screen shows; none if not recognized.
    pub screen: Option<Screen>,
    /// Captures in a row that found the same screen.
    pub looks: u32,
}

/// A crash signature that was seen on the pane of the present harness. It is evidence only (H-07).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// The name of the signature.
    pub name: String,
    /// When it was seen first.
    pub at: Moment,
    /// Whether the transcript has it as content (S0-29); none if that is not known.
    pub is_content: Option<bool>,
    /// Whether it was weighed: a text counts once per harness process (H-07).
    #[serde(default)]
    pub is_weighed: bool,
}

/// How long the client may take to write a change to its registry, in milliseconds. It takes up to 0.1 s
/// (measured).
pub(crate) const WRITTEN_MS: u64 = 1_000;

/// The registry's status, where the registry counts as a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// The status.
    pub status: RegistryStatus,
    /// When the client changed it, milliseconds since 1970.
    pub changed_ms: u64,
    /// When coord saw the status change.
    pub seen_changing: Option<Awake>,
}

impl Level {
    /// Whether the client changed the status after `then`. That is so by the wall clock, which may have been set
    /// meanwhile, or by the times at which both became known.
    pub(crate) fn is_after(self, then: Moment) -> bool {
        let known_after = then.awake.plus_ms(WRITTEN_MS);
        let was_seen = self.seen_changing.is_some_and(|seen| known_after <= seen);
        then.wall_ms <= self.changed_ms || was_seen
    }

    /// Whether the client says that it waits for a person.
    pub(crate) fn is_waiting(self) -> bool {
        matches!(self.status, RegistryStatus::WaitingPermission | RegistryStatus::WaitingInput)
    }
}

impl RegistryFact {
    /// The status as a source; none if the entry has no known status.
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

impl Protected<RegistryFact> {
    /// The entry of the living process was read. The first one that is read may be of any age; a later one that
    /// differs was seen to change.
    pub(crate) fn note_entry(&mut self, entry: &RegistryEntry, at: Moment) {
        let seen_changing = match self.0 {
            RegistryFact::Present { status, changed_ms, seen_changing, .. } => {
                let is_same = status == entry.known_status() && changed_ms == entry.changed_ms;
                if is_same { seen_changing } else { Some(at.awake) }
            }
            RegistryFact::Unknown
            | RegistryFact::Removed { .. }
            | RegistryFact::LeftBehind { .. } => None,
        };
        self.0 = RegistryFact::Present {
            at,
            status: entry.known_status(),
            changed_ms: entry.changed_ms,
            seen_changing,
        };
    }

    /// The entry is gone.
    pub(crate) fn note_removed(&mut self, at: Moment) {
        self.0 = RegistryFact::Removed { at };
    }

    /// The process is dead, and its entry is there.
    pub(crate) fn note_left_behind(&mut self, at: Moment) {
        self.0 = RegistryFact::LeftBehind { at };
    }

    /// The registry is no source: it cannot be read, or what was read was of another process.
    pub(crate) fn forget(&mut self) {
        self.0 = RegistryFact::Unknown;
    }

    /// What was seen was on the clock of the old boot.
    pub(crate) fn begin_boot(&mut self) {
        if let RegistryFact::Present { seen_changing, .. } = &mut self.0 {
            *seen_changing = None;
        }
    }
}

impl Protected<PaneFact> {
    /// The pane was captured.
    pub(crate) fn note_view(&mut self, view: PaneView) {
        self.0 = PaneFact::Its(view);
    }

    /// No pane has the harness's terminal.
    pub(crate) fn note_not_there(&mut self, at: Moment) {
        let server = match &self.0 {
            PaneFact::Its(view) => Some(view.pane.server),
            PaneFact::Unknown | PaneFact::Unreadable { .. } => None,
            PaneFact::NotThere { .. } => return,
        };
        self.0 = PaneFact::NotThere { at, server };
    }

    /// The pane could not be captured. One that was proved before stays proved; its screen ages by itself.
    pub(crate) fn note_unreadable(&mut self, why: &str, at: Moment) {
        if !matches!(self.0, PaneFact::Its(_)) {
            self.0 = PaneFact::Unreadable { at, why: why.into() };
        }
    }

    /// The screen is too old to count.
    pub(crate) fn forget_screen(&mut self) {
        if let PaneFact::Its(view) = &mut self.0 {
            view.screen = None;
            view.looks = 0;
        }
    }

    /// The pane was another process's, or another boot's.
    pub(crate) fn forget(&mut self) {
        self.0 = PaneFact::Unknown;
    }
}

impl Protected<Option<Signature>> {
    /// A crash signature was seen that counts.
    pub(crate) fn note(&mut self, signature: Signature) {
        self.0 = Some(signature);
    }

    /// The transcript was searched for it; none if that showed nothing.
    pub(crate) fn note_content(&mut self, is_content: Option<bool>) {
        if let Some(signature) = &mut self.0 {
            signature.is_content = is_content.or(signature.is_content);
        }
    }

    /// It was weighed: it opens no second case.
    pub(crate) fn weigh(&mut self) {
        if let Some(signature) = &mut self.0 {
            signature.is_weighed = true;
        }
    }
}

impl Protected<Option<(Source, Moment)>> {
    /// This source contradicts the hooks now, or none does.
    pub(crate) fn contest(&mut self, against: Option<Source>, at: Moment) {
        if self.0.map(|(source, _)| source) != against {
            self.0 = against.map(|source| (source, at));
        }
    }
}

clocks!(struct Signature { name, at, is_content, is_weighed } until {});

clocks!(struct PaneView { at, pane, proof, place, screen, looks } until {});

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
    NotThere { at: at, server: server } until {}
});

clocks!(none in Source);
