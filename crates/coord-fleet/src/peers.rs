//! Decides what is known of the other machines, and how old it is (F-02, F-07). Nothing here follows another machine's
//! clock: order within a machine is its own, and an age is measured by this machine's clock since something was heard.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use coord_model::MachineId;
use coord_wire::fleet::TakenNeed;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::batch::Incarnation;
use crate::engine::{Change, Watched};
use crate::keys::{Keys, PublicKey};
use crate::sealed::{self, Purpose, Unsealed};

/// A machine says so often that it is there, milliseconds.
pub const BEAT_MS: u64 = 15_000;
/// After so long without a beat nothing is known of a machine any more, milliseconds.
pub const SILENT_MS: u64 = 3 * BEAT_MS;
/// A clock that is off by less is not worth a word, milliseconds.
pub const SKEW_SHOWN_MS: u64 = 2_000;

/// What a machine says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// Its name, for people.
    pub name: String,
    /// The version of its coord.
    pub version: String,
    /// Its journal.
    pub incarnation: Incarnation,
    /// The newest record of its journal.
    pub last: u64,
    /// Its wall clock, milliseconds since 1970.
    pub at_ms: u64,
    /// Whether it tells people of the needs of other machines.
    #[serde(default)]
    pub notifies: bool,
    /// The machine that it leaves telling of its needs to.
    #[serde(default)]
    pub notifier: Option<MachineId>,
    /// The open needs of other machines that it has taken on, and its own of which it has told people.
    #[serde(default)]
    pub taken: Vec<TakenNeed>,
}

/// The state of a session, as its own machine shows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionState {
    /// The session's machine.
    pub machine: MachineId,
    /// Its journal.
    pub incarnation: Incarnation,
    /// The newest record of the journal that it follows from.
    pub seq: u64,
    /// The session, as `coord inspect --json` shows it.
    pub session: Box<RawValue>,
}

impl Beat {
    /// Seals it.
    pub fn seal(&self, keys: &Keys) -> Vec<u8> {
        sealed::seal(Purpose::Beat, &serde_json::to_string(self).unwrap_or_default(), keys)
    }
}

impl SessionState {
    /// Seals it.
    pub fn seal(&self, keys: &Keys) -> Vec<u8> {
        sealed::seal(Purpose::State, &serde_json::to_string(self).unwrap_or_default(), keys)
    }
}

/// A machine of the fleet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Peer {
    /// Its key.
    pub key: PublicKey,
    /// The newest beat.
    pub beat: Beat,
    /// When it was heard: this machine's CLOCK_BOOTTIME, milliseconds.
    pub heard_ms: u64,
    /// Whether it came live, so that it was heard when it was said.
    #[serde(skip)]
    is_live: bool,
    /// How far its clock is ahead of the engine's, milliseconds.
    pub skew_ms: i64,
    /// Its sessions, by their ids.
    pub sessions: BTreeMap<String, SessionState>,
}

/// A value that was not believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The machine in whose name it was put.
    pub machine: MachineId,
    /// Why.
    pub why: Unsealed,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value in the name of machine {} was not believed: {}", self.machine, self.why)
    }
}

/// The machines of the fleet, this one included.
#[derive(Debug, Default)]
pub struct Peers {
    by_id: BTreeMap<MachineId, Peer>,
    /// States that came before their machine's beat.
    early: BTreeMap<(MachineId, String), SessionState>,
    /// Machines that changed since they were last taken.
    changed: BTreeSet<MachineId>,
    /// The engine's clock ahead of this machine's CLOCK_BOOTTIME, milliseconds; none before anything was heard live.
    engine_ahead_ms: Option<u64>,
}

impl Peers {
    /// The machines.
    pub fn all(&self) -> &BTreeMap<MachineId, Peer> {
        &self.by_id
    }

    /// The machines that changed since the last call, or are gone.
    pub fn take_changed(&mut self) -> impl Iterator<Item = MachineId> + use<> {
        std::mem::take(&mut self.changed).into_iter()
    }

    /// The machines that changed, or are gone, since the last call of [`Self::take_changed`].
    pub fn changed(&self) -> &BTreeSet<MachineId> {
        &self.changed
    }

    /// The engine's clock, if it is known, at a time of CLOCK_BOOTTIME: milliseconds since 1970.
    pub fn engine_ms(&self, now_ms: u64) -> Option<u64> {
        self.engine_ahead_ms.map(|ahead| ahead.saturating_add(now_ms))
    }

    /// Takes in what a look found at a time of CLOCK_BOOTTIME. Returns what was not believed.
    pub fn take_in(&mut self, watched: Watched, now_ms: u64) -> Vec<Refused> {
        if watched.is_whole {
            self.changed.extend(self.by_id.keys());
            self.by_id.clear();
            self.early.clear();
        }
        self.compare_clocks(&watched, now_ms);
        let is_live = !watched.is_whole;
        let mut refused = Vec::new();
        for change in watched.changes {
            let machine = change.key.machine;
            self.changed.insert(machine);
            if let Err(why) = self.change(change, now_ms, is_live) {
                refused.push(Refused { machine, why });
            }
        }
        refused
    }

    /// Compares the engine's clock with this machine's. A change that comes live was stored just now; the newest of what was
    /// there before may be old, and what follows from it is put right as soon as something comes live.
    fn compare_clocks(&mut self, watched: &Watched, now_ms: u64) {
        let newest = watched.changes.iter().map(|change| change.stored_ms).max();
        let Some(ahead_ms) = newest.map(|newest| newest.saturating_sub(now_ms)) else { return };
        match self.engine_ahead_ms {
            Some(_) if watched.is_whole => (),
            None => self.engine_ahead_ms = Some(ahead_ms),
            Some(before_ms) => {
                self.engine_ahead_ms = Some(ahead_ms);
                let older_ms = ahead_ms.saturating_sub(before_ms);
                for (machine, peer) in self.by_id.iter_mut().filter(|(_, peer)| !peer.is_live) {
                    peer.heard_ms = peer.heard_ms.saturating_sub(older_ms);
                    self.changed.insert(*machine);
                }
            }
        }
    }

    fn change(&mut self, change: Change, now_ms: u64, is_live: bool) -> Result<(), Unsealed> {
        let machine = change.key.machine;
        match (change.key.session, change.value) {
            (Some(session), None) => {
                self.early.remove(&(machine, session.clone()));
                if let Some(peer) = self.by_id.get_mut(&machine) {
                    peer.sessions.remove(&session);
                }
            }
            (None, None) => _ = self.by_id.remove(&machine),
            (Some(session), Some(value)) => {
                let (_, text) = opened(Purpose::State, &value, machine)?;
                let state: SessionState =
                    serde_json::from_str(text).map_err(|_| Unsealed::NoSeal)?;
                if state.machine != machine {
                    return Err(Unsealed::WrongSignature);
                }
                match self.by_id.get_mut(&machine) {
                    Some(peer) => _ = peer.sessions.insert(session, state),
                    None => _ = self.early.insert((machine, session), state),
                }
            }
            (None, Some(value)) => {
                let (key, text) = opened(Purpose::Beat, &value, machine)?;
                let beat: Beat = serde_json::from_str(text).map_err(|_| Unsealed::NoSeal)?;
                let engine_now = self.engine_ahead_ms.unwrap_or_default().saturating_add(now_ms);
                let age_ms = engine_now.saturating_sub(change.stored_ms);
                let heard_ms = now_ms.saturating_sub(age_ms);
                let skew_ms =
                    beat.at_ms.cast_signed().saturating_sub(change.stored_ms.cast_signed());
                let (early, other) = std::mem::take(&mut self.early)
                    .into_iter()
                    .partition(|((of, _), _)| *of == machine);
                self.early = other;
                let early: BTreeMap<(MachineId, String), SessionState> = early;
                let sessions = match self.by_id.remove(&machine) {
                    Some(before) => before.sessions,
                    None => early.into_iter().map(|((_, session), one)| (session, one)).collect(),
                };
                let peer = Peer { key, beat, heard_ms, is_live, skew_ms, sessions };
                self.by_id.insert(machine, peer);
            }
        }
        Ok(())
    }
}

/// A text that this machine sealed.
fn opened(
    purpose: Purpose,
    value: &[u8],
    machine: MachineId,
) -> Result<(PublicKey, &str), Unsealed> {
    let (key, text) = sealed::open(purpose, value)?;
    if key.machine() == machine { Ok((key, text)) } else { Err(Unsealed::WrongSignature) }
}
