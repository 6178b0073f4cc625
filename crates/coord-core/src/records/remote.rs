//! What came from other machines: which messages, and what became of each (F-05). A message that comes again is known by
//! its id, and one that comes again after its id was forgotten by its number.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{Awake, Fate, MachineId, MessageId, Origin};

use super::clocks::clocks;
use super::protected::Protected;

/// A message is known by its id for so long, milliseconds: a day longer than any message lives.
const KEPT_MS: u64 = 8 * 24 * 3_600_000;
/// Ids of one machine that are kept. Its messages wait beyond that.
const KEPT_MAX: usize = 10_000;
/// Journals of one machine of which numbers are kept.
const INCARNATIONS_MAX: usize = 64;

/// Everything that came from other machines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FromMachines {
    machines: BTreeMap<MachineId, FromMachine>,
    /// The messages whose fate is to be sent.
    unsent: BTreeSet<(MachineId, MessageId)>,
}

/// What came from one machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct FromMachine {
    received: BTreeMap<MessageId, Received>,
    /// The highest number among the ids that were forgotten, by journal. Whatever has a lower one and no id here came
    /// before, or lived for longer than a message may.
    forgotten: BTreeMap<String, u64>,
}

/// A message that came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Received {
    incarnation: String,
    number: u64,
    fate: Fate,
    until: Awake,
}

/// What a message from another machine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// It was never seen.
    New,
    /// It came before, and this became of it.
    Known(Fate),
    /// It is older than all that are remembered: a repeat, or long expired.
    TooOld,
    /// Too many of this machine are remembered. It may come again later.
    Full,
}

impl FromMachines {
    /// What this message is.
    pub(crate) fn arrival(&self, origin: &Origin, now: Awake) -> Arrival {
        let Some(machine) = self.machines.get(&origin.machine) else { return Arrival::New };
        if let Some(received) = machine.received.get(&origin.id) {
            return Arrival::Known(received.fate.clone());
        }
        let forgotten = machine.forgotten.get(&origin.incarnation);
        let is_old = forgotten.is_some_and(|last| origin.number <= *last);
        let is_new_journal = forgotten.is_none() && INCARNATIONS_MAX <= machine.forgotten.len();
        if is_old || is_new_journal {
            return Arrival::TooOld;
        }
        let kept = machine.received.values().filter(|one| now < one.until).count();
        if KEPT_MAX <= kept { Arrival::Full } else { Arrival::New }
    }

    /// The fates that are to be sent.
    pub(crate) fn unsent(&self) -> impl Iterator<Item = (MachineId, MessageId, &Fate)> {
        self.unsent.iter().filter_map(|(machine, id)| {
            let received = self.machines.get(machine)?.received.get(id)?;
            Some((*machine, *id, &received.fate))
        })
    }
}

impl Protected<FromMachines> {
    /// A message came, and this became of it.
    pub(crate) fn receive(&mut self, origin: &Origin, fate: Fate, now: Awake) {
        let machine = self.0.machines.entry(origin.machine).or_default();
        let FromMachine { received, forgotten } = machine;
        let mut gone = alloc::vec::Vec::new();
        received.retain(|id, one| {
            let is_kept = now < one.until;
            if !is_kept {
                let last = forgotten.entry(one.incarnation.clone()).or_default();
                *last = one.number.max(*last);
                gone.push(*id);
            }
            is_kept
        });
        let Origin { id, incarnation, number, .. } = origin.clone();
        let until = now.plus_ms(KEPT_MS);
        received.insert(id, Received { incarnation, number, fate, until });
        for id in gone {
            self.0.unsent.remove(&(origin.machine, id));
        }
        self.0.unsent.insert((origin.machine, id));
    }

    /// Something became of a message that came.
    pub(crate) fn note_fate(&mut self, origin: &Origin, fate: Fate) {
        let machine = self.0.machines.get_mut(&origin.machine);
        if let Some(received) = machine.and_then(|one| one.received.get_mut(&origin.id))
            && received.fate != fate
        {
            received.fate = fate;
            self.0.unsent.insert((origin.machine, origin.id));
        }
    }

    /// A message that came is lost, and counts as one that never came.
    pub(crate) fn forget(&mut self, origin: &Origin) {
        if let Some(machine) = self.0.machines.get_mut(&origin.machine) {
            machine.received.remove(&origin.id);
        }
        self.0.unsent.remove(&(origin.machine, origin.id));
    }

    /// The fate of a message is to be sent once more.
    pub(crate) fn send_again(&mut self, machine: MachineId, id: MessageId) {
        if self.0.machines.get(&machine).is_some_and(|one| one.received.contains_key(&id)) {
            self.0.unsent.insert((machine, id));
        }
    }

    /// A fate was sent. If it has changed since, the new one is still to be sent.
    pub(crate) fn note_sent(&mut self, machine: MachineId, id: MessageId, fate: &Fate) {
        let received = self.0.machines.get(&machine).and_then(|one| one.received.get(&id));
        if received.is_none_or(|received| received.fate == *fate) {
            self.0.unsent.remove(&(machine, id));
        }
    }
}

clocks!(struct FromMachines { machines, unsent } until {});
clocks!(struct FromMachine { received, forgotten } until {});
clocks!(struct Received { incarnation, number, fate } until { until });
