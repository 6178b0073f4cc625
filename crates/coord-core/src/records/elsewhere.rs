//! Needs of other machines that are told here, and who tells of this machine's (F-02).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{MachineId, NamedMachine, NeedElsewhere, NeedId};

use super::clocks::clocks;
use super::protected::Protected;

/// What machines of the fleet tell for each other.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NoticesElsewhere {
    /// The open needs of other machines, by their ids here.
    pub needs: BTreeMap<NeedId, HeardNeed>,
    /// Number of the newest of them.
    last: u32,
    /// The machine that tells of this one's needs; none if this one does.
    pub notifier: Option<NamedMachine>,
    /// The open needs of this machine of which another one has told.
    pub told: BTreeSet<NeedId>,
    /// The open needs of this machine that the notifier has taken on.
    pub taken: BTreeSet<NeedId>,
}

/// A need of another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeardNeed {
    /// The machine.
    pub of: NamedMachine,
    /// The need.
    pub need: NeedElsewhere,
}

impl NoticesElsewhere {
    /// The needs of a machine.
    pub fn of(&self, machine: MachineId) -> impl Iterator<Item = (NeedId, &NeedElsewhere)> {
        let of_it = self.needs.iter().filter(move |(_, heard)| heard.of.machine == machine);
        of_it.map(|(id, heard)| (*id, &heard.need))
    }

    /// The name of the session that has a need.
    pub(crate) fn name(&self, id: NeedId) -> Option<String> {
        let HeardNeed { of, need } = self.needs.get(&id)?;
        Some(format!("{}/{}", of.name, need.name))
    }
}

impl Protected<NoticesElsewhere> {
    /// Another machine's need is told here from now on. Returns its id.
    pub(crate) fn begin(&mut self, heard: HeardNeed) -> NeedId {
        self.0.last = self.0.last.saturating_add(1);
        let id = NeedId::elsewhere(self.0.last);
        self.0.needs.insert(id, heard);
        id
    }

    /// More is known of a need.
    pub(crate) fn update(&mut self, id: NeedId, heard: HeardNeed) {
        self.0.needs.insert(id, heard);
    }

    /// A need is over, or told elsewhere.
    pub(crate) fn end(&mut self, id: NeedId) {
        self.0.needs.remove(&id);
    }

    /// This machine tells of the needs of this one.
    pub(crate) fn leave_to(
        &mut self,
        notifier: Option<NamedMachine>,
        told: BTreeSet<NeedId>,
        taken: BTreeSet<NeedId>,
    ) {
        (self.0.notifier, self.0.told, self.0.taken) = (notifier, told, taken);
    }
}

clocks!(struct NoticesElsewhere { needs, last, notifier, told, taken } until {});
clocks!(none in HeardNeed, NamedMachine, BTreeSet<NeedId>);
