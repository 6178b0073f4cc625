//! Holds every step to U-01: a need begins once, ends once, and is open in between, whatever happens.

use std::collections::BTreeMap;

use coord_core::State;
use coord_model::{Decision, NeedChange, NeedId, NeedKind, NeedStep};

/// The needs that the steps so far began and ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct NeedLog {
    open: BTreeMap<NeedId, NeedKind>,
    /// Each change, with what was seen.
    pub(crate) changes: Vec<(NeedChange, String)>,
}

impl NeedLog {
    /// Takes the decisions about needs out of those of a step.
    pub(crate) fn take(&mut self, decisions: Vec<Decision>, state: &State) -> Vec<Decision> {
        let (of_needs, others): (Vec<_>, Vec<_>) =
            decisions.into_iter().partition(|decision| decision.need.is_some());
        for Decision { need, saw, .. } in of_needs {
            let change = need.expect("these have one");
            self.note(change);
            self.changes.push((change, saw));
        }
        let open: BTreeMap<NeedId, NeedKind> = state
            .sessions()
            .flat_map(|session| &session.needs)
            .map(|need| (need.id, need.kind))
            .collect();
        let ids: Vec<&NeedId> = self.open.keys().collect();
        assert_eq!(ids, open.keys().collect::<Vec<_>>(), "begun and not ended, and open");
        others
    }

    fn note(&mut self, change: NeedChange) {
        let NeedChange { id, kind, step } = change;
        match step {
            NeedStep::Begun => {
                let is_new = self.changes.iter().all(|(before, _)| before.id != id);
                assert!(is_new, "{id} began twice");
                self.open.insert(id, kind);
            }
            NeedStep::Dismissed => assert!(self.open.contains_key(&id), "{id} is not open"),
            NeedStep::Ended => {
                assert!(self.open.remove(&id).is_some(), "{id} ended twice, or never began");
            }
        }
    }
}
