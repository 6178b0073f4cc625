//! Decides what the coordinator is to hear of the needs of other machines, and of who tells of this one's (F-02).

use std::collections::BTreeSet;

use coord_model::{MachineId, NeedElsewhere, NeedId, NeedKind};
use coord_wire::fleet::{FleetNotices, HeardNotifier, MachineNeeds, NoticesAnswer, TakenNeed};
use coord_wire::inspect;
use serde::Deserialize;

use crate::peers::{Peer, Peers, SILENT_MS, SessionState};

/// What a session without needs has in its text. Most have none, and are not parsed.
const WITHOUT: &str = "\"needs\":[]";
/// Needs of which the coordinator hears at once are about so long, in bytes. It hears of the others later.
const BYTES_MAX: usize = 256 * 1024;
/// Taken needs of which it hears, of all machines.
const TAKEN_MAX: usize = 4_000;
/// Machines that tell for others, of which it hears.
const NOTIFIERS_MAX: usize = 1_000;
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
    /// The machine that tells of this one's needs.
    notifier: Option<MachineId>,
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
        Self { own, changed: BTreeSet::new(), tells_for: BTreeSet::new(), notifier: None }
    }

    /// Something of these machines changed.
    pub fn note_changed(&mut self, machines: &BTreeSet<MachineId>) {
        self.changed.extend(machines.iter().filter(|machine| **machine != self.own));
    }

    /// What the coordinator is to hear at a time of CLOCK_BOOTTIME.
    pub fn notices(&mut self, peers: &Peers, now_ms: u64) -> FleetNotices {
        let heard = |peer: &Peer| now_ms.saturating_sub(peer.heard_ms) <= SILENT_MS;
        let notifiers = self.notifiers(peers, &heard);
        // Those that have fallen silent did not change.
        let silent = self.tells_for.iter().filter(|machine| {
            !peers.all().get(machine).is_some_and(|peer| heard(peer) && self.is_left_to_us(peer))
        });
        let machines: BTreeSet<MachineId> = self.changed.iter().chain(silent).copied().collect();
        let needs = |machine: MachineId| {
            let peer = peers.all().get(&machine)?;
            (heard(peer) && self.is_left_to_us(peer)).then(|| needs(machine, peer))
        };
        let (mut found, mut no_news) = (Vec::new(), Vec::new());
        let mut left = BYTES_MAX;
        for machine in machines {
            if left == 0 {
                break;
            }
            let needs = needs(machine);
            // What is not told here, and was not, is no news.
            if needs.is_none() && !self.tells_for.contains(&machine) {
                no_news.push(machine);
                continue;
            }
            let bytes = serde_json::to_string(&needs).map_or(0, |text| text.len());
            left = left.saturating_sub(bytes);
            found.push(MachineNeeds { machine, needs });
        }
        for machine in no_news {
            self.changed.remove(&machine);
        }
        FleetNotices { notifiers, machines: found }
    }

    /// The machines that tell for others, the one that does it for this one first.
    fn notifiers(&self, peers: &Peers, heard: &impl Fn(&Peer) -> bool) -> Vec<HeardNotifier> {
        let others = peers.all().iter().filter(|(machine, _)| **machine != self.own);
        let mut found: Vec<(&MachineId, &Peer)> =
            others.filter(|(_, peer)| peer.beat.notifies && heard(peer)).collect();
        found.sort_by_key(|(machine, _)| Some(**machine) != self.notifier);
        let mut left = TAKEN_MAX;
        let mut named = |(machine, peer): (&MachineId, &Peer)| {
            let taken: Vec<&TakenNeed> = taken_of(peer, self.own).take(left).collect();
            left = left.saturating_sub(taken.len());
            let told = taken.iter().filter(|one| one.told).map(|one| one.need).collect();
            let taken = taken.iter().map(|one| one.need).collect();
            HeardNotifier { machine: *machine, told, taken }
        };
        found.into_iter().take(NOTIFIERS_MAX).map(&mut named).collect()
    }

    /// The coordinator heard this.
    pub fn note_answer(&mut self, heard: &FleetNotices, answer: &NoticesAnswer) {
        for one in &heard.machines {
            self.changed.remove(&one.machine);
        }
        self.tells_for = answer.tells_for.iter().copied().collect();
        self.notifier = answer.notifier;
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
    let all = peer.sessions.values().flat_map(|state| needs_of(state, &told));
    all.take(NeedElsewhere::OF_MACHINE_MAX).map(NeedElsewhere::bounded).collect()
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
