//! Decides what the coordinator is to hear of the needs of other machines, and of who tells of this one's (F-02).

use std::collections::BTreeSet;

use coord_model::{MachineId, NeedElsewhere, NeedId, NeedKind};
use coord_wire::fleet::{FleetNotices, HeardNotifier, MachineNeeds, NoticesAnswer, TakenNeed};
use coord_wire::inspect;
use serde::Deserialize;

use crate::peers::{Peer, Peers, SILENT_MS, SessionState};

/// What a session without needs has in its text. Most have none, and are not parsed.
const WITHOUT: &str = "\"needs\":[]";
/// Letters of an id that people read.
const SHORT_ID: usize = 8;

/// The machines of which the coordinator has not heard the newest.
#[derive(Debug)]
pub struct NeedsHeard {
    own: MachineId,
    /// Machines of which something changed.
    changed: BTreeSet<MachineId>,
    /// The machines whose needs the coordinator tells.
    tells_for: BTreeSet<MachineId>,
}

/// The part of a session's state that is told.
#[derive(Deserialize)]
struct Shown {
    session_id: String,
    #[serde(default)]
    display_name: Option<String>,
    #[serde(default)]
    cwd: String,
    #[serde(default, rename = "where")]
    place: Option<inspect::Where>,
    #[serde(default)]
    needs: Vec<inspect::Need>,
}

impl NeedsHeard {
    /// Nothing was heard yet.
    pub fn new(own: MachineId) -> Self {
        Self { own, changed: BTreeSet::new(), tells_for: BTreeSet::new() }
    }

    /// Something of these machines changed.
    pub fn note_changed(&mut self, machines: &BTreeSet<MachineId>) {
        self.changed.extend(machines.iter().filter(|machine| **machine != self.own));
    }

    /// What the coordinator is to hear at a time of CLOCK_BOOTTIME.
    pub fn notices(&mut self, peers: &Peers, now_ms: u64) -> FleetNotices {
        let heard = |peer: &Peer| now_ms.saturating_sub(peer.heard_ms) <= SILENT_MS;
        let others = peers.all().iter().filter(|(machine, _)| **machine != self.own);
        let notifiers = others.filter(|(_, peer)| peer.beat.notifies && heard(peer));
        let notifiers = notifiers.map(|(machine, peer)| HeardNotifier {
            machine: *machine,
            told: taken_of(peer, self.own).filter(|one| one.told).map(|one| one.need).collect(),
            taken: taken_of(peer, self.own).map(|one| one.need).collect(),
        });
        // Those that have fallen silent did not change.
        let silent = self.tells_for.iter().filter(|machine| {
            !peers.all().get(machine).is_some_and(|peer| heard(peer) && self.is_left_to_us(peer))
        });
        let machines: BTreeSet<MachineId> = self.changed.iter().chain(silent).copied().collect();
        let needs = |machine: MachineId| {
            let peer = peers.all().get(&machine)?;
            (heard(peer) && self.is_left_to_us(peer)).then(|| needs(machine, peer))
        };
        let machines =
            machines.into_iter().map(|machine| MachineNeeds { machine, needs: needs(machine) });
        // What is not told here, and was not, is no news.
        let machines: Vec<MachineNeeds> = machines
            .filter(|one| one.needs.is_some() || self.tells_for.contains(&one.machine))
            .collect();
        let notifiers = notifiers.collect();
        self.changed = machines.iter().map(|one| one.machine).collect();
        FleetNotices { notifiers, machines }
    }

    /// The coordinator heard this.
    pub fn note_answer(&mut self, heard: &FleetNotices, answer: &NoticesAnswer) {
        for one in &heard.machines {
            self.changed.remove(&one.machine);
        }
        self.tells_for = answer.tells_for.iter().copied().collect();
    }

    fn is_left_to_us(&self, peer: &Peer) -> bool {
        peer.beat.notifier == Some(self.own)
    }
}

/// The needs of a machine of which a peer tells.
fn taken_of(peer: &Peer, machine: MachineId) -> impl Iterator<Item = &TakenNeed> {
    peer.beat.taken.iter().filter(move |taken| taken.machine == machine)
}

fn needs(machine: MachineId, peer: &Peer) -> Vec<NeedElsewhere> {
    let told = taken_of(peer, machine).filter(|one| one.told).map(|one| one.need).collect();
    peer.sessions.values().flat_map(|state| needs_of(state, &told)).collect()
}

fn needs_of(state: &SessionState, told: &BTreeSet<NeedId>) -> Vec<NeedElsewhere> {
    let text = state.session.get();
    if text.contains(WITHOUT) {
        return Vec::new();
    }
    let Ok(shown) = serde_json::from_str::<Shown>(text) else { return Vec::new() };
    let Shown { session_id, display_name, cwd, place, needs } = shown;
    let short = || session_id.chars().take(SHORT_ID).collect::<String>();
    let name = display_name.unwrap_or_else(short);
    let place = place.filter(|place| place.kind == "tmux").map(|place| place.text);
    let heard = needs.into_iter().filter_map(|need| {
        let id: NeedId = need.id.parse().ok()?;
        Some(NeedElsewhere {
            id,
            kind: NeedKind::ALL.into_iter().find(|kind| kind.name() == need.kind)?,
            since_ms: coord_model::stamp::parse_rfc3339(&need.since)?,
            session_id: session_id.clone(),
            name: name.clone(),
            text: need.text,
            directory: cwd.clone(),
            place: place.clone(),
            was_told: told.contains(&id),
        })
    });
    heard.collect()
}
