//! The prompts that are open in a session, as hooks report them, and the calls that ended lately (S0-18, G2).

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use coord_model::{Awake, Moment, RegistryStatus, RequestId};

use super::clocks::clocks;
use super::facts::Level;
use super::protected::Protected;

/// Maximum number of open prompts per session; more are not told apart.
const WAITS_MAX: usize = 32;

/// Maximum number of calls remembered as over: those whose request may still be on its way.
const OVER_MAX: usize = 8;

/// An open prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The subagent that asks; none for the main thread.
    pub agent: Option<String>,
    /// The tool; empty if only a notification reported the prompt.
    pub tool: String,
    /// Keyed digest of the tool's input.
    pub digest: Option<u64>,
    /// What is asked for.
    pub kind: WaitKind,
    /// The client's id of the call that it is about: that of its PreToolUse, since a request names none (measured).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The event that reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestId>,
    /// Since when.
    pub since: Moment,
    /// When the hook that reported it was emitted, CLOCK_MONOTONIC nanoseconds.
    #[serde(default)]
    pub mono_ns: u64,
    /// Until when its hook may wait although the client shows no dialog meanwhile (H-38); none for a prompt whose
    /// dialog is on the screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_until: Option<Awake>,
}

impl Wait {
    /// Whether this status, another one than `waiting`, ended it; see [`Protected::end_before`].
    pub(crate) fn is_ended_by(&self, level: Level, dialog: Option<Level>) -> bool {
        let was_shown = dialog.is_some_and(|dialog| dialog.is_after(self.since));
        let is_hidden = self.hidden_until.is_some() && !was_shown;
        level.is_after(self.since) && !(is_hidden && level.status == RegistryStatus::Busy)
    }
}

/// How long hooks of a session waited while the client showed no dialog (H-38).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HiddenWaits {
    /// Since when one waits.
    pub since: Option<Awake>,
    /// How long earlier ones waited, milliseconds.
    pub spent_ms: u64,
}

impl HiddenWaits {
    /// How long they waited in all.
    pub(crate) fn in_all_ms(&self, awake: Awake) -> u64 {
        let now = self.since.map_or(0, |since| awake.ms_since(since));
        self.spent_ms.saturating_add(now)
    }
}

/// What a prompt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitKind {
    /// Permission to use a tool.
    Permission,
    /// An answer: a question, a plan, a dialog.
    Input,
}

/// A call, or a whole subagent, that ended. Keys are hashes, which are enough to tell a few of them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over {
    /// Key of the thread it belongs to.
    pub thread: u32,
    /// Key of tool and input; none if the thread itself ended.
    pub call: Option<u32>,
    /// When it ended, CLOCK_MONOTONIC nanoseconds.
    pub mono_ns: u64,
}

impl Protected<Vec<Wait>> {
    /// A prompt opens. If its notification arrived before it, they are one prompt.
    pub(crate) fn open(&mut self, wait: Wait) {
        let notified = |one: &&mut Wait| one.tool.is_empty() && one.agent == wait.agent;
        if let Some(one) = self.0.iter_mut().find(notified) {
            (one.tool, one.digest, one.kind, one.call, one.mono_ns) =
                (wait.tool, wait.digest, wait.kind, wait.call, wait.mono_ns);
        } else if self.0.len() < WAITS_MAX {
            self.0.push(wait);
        }
    }

    /// The first of these prompts is about this call.
    pub(crate) fn name_call(&mut self, call: Option<String>, is_it: impl Fn(&Wait) -> bool) {
        if let Some(wait) = self.0.iter_mut().find(|wait| is_it(wait)) {
            wait.call = call;
        }
    }

    /// These prompts are over.
    pub(crate) fn end_all_of(&mut self, is_over: impl Fn(&Wait) -> bool) {
        self.0.retain(|wait| !is_over(wait));
    }

    /// The prompt at this place is over.
    pub(crate) fn end_at(&mut self, place: usize) {
        self.0.remove(place);
    }

    /// The prompt of this request is over.
    pub(crate) fn end_request(&mut self, request: RequestId) {
        self.0.retain(|wait| wait.request != Some(request));
    }

    /// The main thread, or this subagent, waits for nothing any more.
    pub(crate) fn end_of_thread(&mut self, agent: Option<&String>) {
        self.0.retain(|wait| wait.agent.as_ref() != agent);
    }

    /// The registry's status is another one than `waiting`. If it is newer than a prompt, that prompt is over (S0-18); but
    /// the status stays busy while the client shows no dialog (H-38). `dialog` is the status before it, if that was
    /// `waiting` for the only prompt: then its dialog was shown.
    pub(crate) fn end_before(&mut self, level: Level, dialog: Option<Level>) {
        self.0.retain(|wait| !wait.is_ended_by(level, dialog));
    }

    /// Hooks that kept these prompts from everybody at a terminal wait no longer. A prompt that is over is left out; the
    /// client shows the dialog of any other.
    pub(crate) fn end_hidden(
        &mut self,
        is_it: impl Fn(&Wait) -> bool,
        is_over: impl Fn(&Wait) -> bool,
    ) {
        let is_hidden = |wait: &Wait| wait.hidden_until.is_some() && is_it(wait);
        self.0.retain(|wait| !(is_hidden(wait) && is_over(wait)));
        for wait in self.0.iter_mut().filter(|wait| is_hidden(wait)) {
            wait.hidden_until = None;
        }
    }

    /// No prompt is open.
    pub(crate) fn end_all(&mut self) {
        self.0.clear();
    }
}

impl Protected<HiddenWaits> {
    /// Whether a hook waits now, while the client shows no dialog.
    pub(crate) fn note(&mut self, is_hidden: bool, at: Moment) {
        match (self.0.since, is_hidden) {
            (None, true) => self.0.since = Some(at.awake),
            (Some(_), false) => {
                self.0.spent_ms = self.0.in_all_ms(at.awake);
                self.0.since = None;
            }
            (None, false) | (Some(_), true) => (),
        }
    }

    /// The hook that waited ended within the last `unseen_ms`, in which nobody watched and the clock stood still.
    pub(crate) fn end_unseen(&mut self, unseen_ms: u64, at: Moment) {
        if self.0.since.is_some() {
            self.note(false, at);
            self.0.spent_ms = self.0.spent_ms.saturating_add(unseen_ms);
        }
    }

    /// A turn begins: what earlier ones took does not count.
    pub(crate) fn begin_turn(&mut self) {
        self.0.spent_ms = 0;
    }

    /// Another process has the conversation.
    pub(crate) fn forget(&mut self) {
        self.0 = HiddenWaits::default();
    }
}

impl Protected<Vec<Over>> {
    /// A call, or a whole subagent, ended.
    pub(crate) fn remember(&mut self, over: Over) {
        if self.0.len() == OVER_MAX {
            self.0.remove(0);
        }
        self.0.push(over);
    }

    /// A turn edge was applied: an event that is late for an older entry is late for the edge too.
    pub(crate) fn forget_before(&mut self, mono_ns: u64) {
        self.0.retain(|over| mono_ns < over.mono_ns);
    }

    /// Stamps begin again.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

clocks!(struct Wait { agent, tool, digest, kind, call, request, since, mono_ns } until { hidden_until });

clocks!(struct HiddenWaits { since, spent_ms } until {});

clocks!(none in WaitKind, Over);
