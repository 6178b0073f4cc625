//! The subagents of a session, as hooks report them.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::Moment;

use super::clocks::clocks;
use super::protected::Protected;

/// Maximum number of subagents that are remembered; those that ended first are forgotten first.
const SUBAGENTS_MAX: usize = 32;

/// One subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subagent {
    /// The client's id of it.
    pub id: String,
    /// Its type, such as `Explore`; empty if no event named it.
    pub kind: String,
    /// When the first hook of it was emitted that is known.
    pub since: Moment,
    /// When the newest hook of it was emitted that did not report its end.
    #[serde(default)]
    pub heard: Moment,
    /// When it ended; none if that is not known.
    pub ended: Option<Moment>,
}

impl Protected<Vec<Subagent>> {
    /// An event of a subagent was emitted at `at`. One that ended stays ended, however late its earlier events arrive, until
    /// a message resumes it.
    pub(crate) fn hear(&mut self, id: &str, kind: &str, at: Moment) {
        if let Some(known) = self.0.iter_mut().find(|one| one.id == id) {
            if known.kind.is_empty() {
                kind.clone_into(&mut known.kind);
            }
            known.heard = known.heard.max(at);
            known.ended = known.ended.filter(|ended| at <= *ended);
            return;
        }
        if SUBAGENTS_MAX <= self.0.len() {
            let ended = self.0.iter().position(|one| one.ended.is_some());
            self.0.remove(ended.unwrap_or(0));
        }
        let (id, kind) = (id.into(), kind.into());
        self.0.push(Subagent { id, kind, since: at, heard: at, ended: None });
    }

    /// A subagent reported its end at `at`. The client reports ends of some that it never started, in a compaction (measured).
    pub(crate) fn end(&mut self, id: &str, at: Moment) {
        if let Some(subagent) = self.0.iter_mut().find(|one| one.id == id) {
            subagent.ended = Some(at);
        }
    }

    /// A turn ended at `at` with no subagent in the background: the ends of the others were lost.
    pub(crate) fn end_all(&mut self, at: Moment) {
        for running in self.0.iter_mut().filter(|one| one.ended.is_none() && one.heard <= at) {
            running.ended = Some(at);
        }
    }

    /// Another turn begins: those that ended were of the one before.
    pub(crate) fn drop_ended(&mut self) {
        self.0.retain(|one| one.ended.is_none());
    }

    /// Another process, or another conversation.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

clocks!(struct Subagent { id, kind, since, heard, ended } until {});
