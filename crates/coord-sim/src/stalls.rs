//! How true `stalled` is: measured, since no rule says how often it may be false.
//!
//! A stall is false where the client's main thread did not hang as it was said. One is missed where an
//! unattended turn hung for longer than the clock of what it was at and three heartbeats, all that time
//! under the sources of the coordinator, and nobody was told before it went on or ended. A client is not under
//! its sources while a second process holds its session (H-13), or before a verified hook named its pane (H-44).

use std::collections::{BTreeMap, BTreeSet};

use coord_core::Session;
use coord_model::{ProcessRef, SessionState, StallLimits};
use serde_json::Value;

use crate::client::Truth;
use crate::host_events::SOCKET;
use crate::living::Running;
use crate::meter::Conditions;
use crate::places::Place;
use crate::simulation::{MS, Simulation, Time};

/// Heartbeats that a stall may be said later than its clock.
const LATE: u64 = 3;

/// Clients that are said to have stalled, and those that hang.
#[derive(Debug, Default)]
pub(crate) struct StallWatch {
    said: BTreeSet<ProcessRef>,
    hangs: BTreeMap<ProcessRef, Hang>,
}

/// A client that hangs in an unattended turn.
#[derive(Debug, Clone, Copy)]
struct Hang {
    /// Since when the coordinator could see it all the time, and what it counts from.
    seen: Option<(Time, Option<u64>)>,
    /// For so long that it is to be said.
    is_due: bool,
    was_said: bool,
    /// What the time was like when it began: late hooks of that time are still about.
    under: Conditions,
}

impl Simulation {
    /// Looks at all clients once more.
    pub(crate) fn measure_stalls(&mut self) {
        let under = self.conditions();
        let state = self.serving.as_ref().map(|serving| serving.coordinator().state());
        let says_any = state.is_some_and(|state| state.sessions().any(is_stalled));
        let hanging: Vec<(ProcessRef, bool, Option<Hang>)> = self
            .places
            .iter()
            .filter_map(|place| {
                let one = place.client.as_ref()?;
                let hang = self.hang_of(place, one);
                Some((one.process, says_any && self.is_said_stalled(one), hang))
            })
            .collect();
        let mut watch = StallWatch::default();
        for (process, is_said, hang) in hanging {
            if is_said {
                watch.said.insert(process);
                if !self.stalls.said.contains(&process) {
                    let meter = self.meter.stalls.entry(under).or_default();
                    meter.said += 1;
                    meter.not_true += u64::from(!self.machine.get().is_hung(process));
                }
            }
            let Some(hang) = hang else { continue };
            let was_due = self.stalls.hangs.get(&process).is_some_and(|before| before.is_due);
            let due = &mut self.meter.stalls.entry(hang.under).or_default().due;
            *due += u64::from(hang.is_due && !was_due);
            watch.hangs.insert(process, hang);
        }
        let before = std::mem::replace(&mut self.stalls, watch);
        let is_missed = |(process, hang): &(ProcessRef, Hang)| {
            let is_over = !self.stalls.hangs.contains_key(process);
            is_over && hang.is_due && !hang.was_said
        };
        let missed: Vec<(ProcessRef, Hang)> = before.hangs.into_iter().filter(is_missed).collect();
        for (process, hang) in missed {
            self.meter.stalls.entry(hang.under).or_default().missed += 1;
            self.note(|| format!("pid {} hung, and nobody was told", process.pid));
        }
    }

    fn is_said_stalled(&self, one: &Running) -> bool {
        let process = one.process;
        let state = self.serving.as_ref().map(|serving| serving.coordinator().state());
        let session = state.and_then(|state| state.session_of(process));
        session.is_some_and(is_stalled)
    }

    /// Whether nobody watches a client, by what the coordinator was told.
    pub(crate) fn is_unattended(&self, one: &Running) -> bool {
        let process = one.process;
        let state = self.serving.as_ref().map(|serving| serving.coordinator().state());
        let session = state.and_then(|state| Some((state, state.session_of(process)?)));
        session.is_some_and(|(state, session)| state.is_unattended(session))
    }

    /// A client that hangs in a turn, as it is now.
    fn hang_of(&self, place: &Place, one: &Running) -> Option<Hang> {
        let is_hung = self.machine.get().is_hung(one.process) && one.truth == Truth::Running;
        if !is_hung || !one.client.is_interactive {
            return None;
        }
        let before = self.stalls.hangs.get(&one.process);
        let mut hang = before.copied().unwrap_or(Hang {
            seen: None,
            is_due: false,
            was_said: false,
            under: self.conditions(),
        });
        hang.was_said |= self.is_said_stalled(one);
        let counts_from = self.checks.settling_from();
        let is_seen = self.serving.is_some()
            && self.stalled_until <= self.time
            && self.is_unattended(one)
            && self.is_known(one)
            && self.can_be_seen(place);
        hang.seen = is_seen.then(|| match hang.seen {
            // What was counted before a gap counts no more (S1-25, H-32).
            Some((since, from)) if from == counts_from => (since, from),
            Some(_) | None => (self.time, counts_from),
        });
        let limits = StallLimits::default();
        let wanted = (one.clock_ms(&limits) + LATE * limits.heartbeat_ms) * MS;
        hang.is_due |= hang.seen.is_some_and(|(since, _)| since + wanted <= self.time);
        Some(hang)
    }

    /// Whether a verified hook told of it, and no second process holds its session.
    fn is_known(&self, one: &Running) -> bool {
        let process = one.process;
        let state = self.serving.as_ref().map(|serving| serving.coordinator().state());
        let session = state.and_then(|state| state.session_of(process));
        session.is_some_and(|session| {
            let has_reported = session.owner.as_ref().is_some_and(|owner| owner.has_reported);
            has_reported && !session.two_owners
        })
    }

    fn can_be_seen(&self, place: &Place) -> bool {
        let machine = self.machine.get();
        let server = machine.tmux.get(SOCKET).filter(|server| server.answers);
        server.is_some_and(|server| server.panes.contains_key(&place.pane))
    }
}

impl Running {
    /// The calls of tools that are under way follow from what a client fires.
    pub(crate) fn note_tool(&mut self, payload: &Value) {
        let text = |name: &str| payload.get(name).and_then(Value::as_str).unwrap_or_default();
        if payload.get("agent_id").is_some() {
            return;
        }
        let (id, tool) = (text("tool_use_id").to_owned(), text("tool_name").to_owned());
        match text("hook_event_name") {
            "PreToolUse" => self.tools.push((id, tool)),
            "PostToolUse" | "PostToolUseFailure" => self.tools.retain(|(of, _)| *of != id),
            "Stop" | "StopFailure" | "SessionStart" => self.tools.clear(),
            _ => (),
        }
    }

    /// When what it is at has taken too long.
    fn clock_ms(&self, limits: &StallLimits) -> u64 {
        let of_tool = |(_, tool): &(String, String)| match tool.as_str() {
            "Agent" => limits.subagent_after_ms,
            _ => limits.tool_after_ms,
        };
        self.tools.iter().map(of_tool).max().unwrap_or(limits.thinking_after_ms)
    }
}

fn is_stalled(session: &Session) -> bool {
    session.shown.state == SessionState::Stalled
}
