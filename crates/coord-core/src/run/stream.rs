//! Decides what the lines of a run's stream mean for the run.

use alloc::format;
use alloc::vec::Vec;

use coord_model::{Awake, Moment};

use super::event::{RunAct, StreamFact};
use super::lifecycle::RunCause;
use super::{OPEN_MAX, Run};

/// How far apart lines of the two streams may be read that were written together, in milliseconds.
const RACE_MS: u64 = 1_000;

impl Run {
    pub(super) fn spoke(&mut self, now: Moment, acts: &mut Vec<RunAct>) {
        self.last_output = now.awake;
        self.end_quota(now.awake);
        self.heard("the run produced output", now, acts);
    }

    fn end_quota(&mut self, at: Awake) {
        if let Some(since) = self.quota_since.take() {
            self.quota_ms = self.quota_ms.saturating_add(at.ms_since(since));
        }
    }

    pub(super) fn stream(&mut self, fact: &StreamFact, now: Moment, acts: &mut Vec<RunAct>) {
        let at = now.awake;
        self.last_output = at;
        self.has_stream = true;
        if !matches!(fact, StreamFact::Retry { .. } | StreamFact::RateLimit { .. }) {
            self.end_quota(at);
        }
        match fact {
            StreamFact::Init { session_id } => {
                self.session_id = Some(session_id.clone());
                self.wakes_at = None;
                self.enter(RunCause::Output, "a turn began", now, acts);
            }
            StreamFact::ToolBegan { call } => {
                if self.tools.len() < OPEN_MAX && !self.tools.contains(call) {
                    self.tools.push(*call);
                }
                self.enter(RunCause::ToolBegan, "a tool runs", now, acts);
            }
            StreamFact::ToolEnded { call } => {
                self.tools.retain(|open| open != call);
                self.close_controls(|(_, about)| *about == Some(*call), at);
                let cause =
                    if self.tools.is_empty() { RunCause::ToolsEnded } else { RunCause::Output };
                self.enter(cause, "the tools ended", now, acts);
            }
            StreamFact::Tasks(tasks) => {
                self.tasks = *tasks;
                self.heard("the run listed its work", now, acts);
            }
            StreamFact::Wakeup { after_ms } => {
                let wakes_at = at.plus_ms((*after_ms).min(self.limits.wakeup_ms));
                self.wakes_at = self.wakes_at.max(Some(wakes_at));
            }
            StreamFact::Retry { error } => {
                if error.as_deref() == Some("rate_limit") {
                    self.quota_since.get_or_insert(at);
                }
                self.enter(RunCause::Output, "a request is retried", now, acts);
            }
            StreamFact::ControlOpened { request, call } => {
                if self.controls.len() < OPEN_MAX {
                    self.controls.push((*request, *call));
                }
            }
            StreamFact::ControlClosed { request } => {
                self.close_controls(|(open, _)| open == request, at);
            }
            StreamFact::RateLimit { is_rejected, resets_ms } => {
                self.is_rejected = *is_rejected;
                self.resets_ms = if *is_rejected { *resets_ms } else { None };
            }
            StreamFact::Failed { error } => {
                self.failure = Some(error.clone());
                self.heard("the run reported an error", now, acts);
            }
            StreamFact::Result(result) => {
                self.results = self.results.saturating_add(1);
                self.tools.clear();
                // A request that concerns no call ends with its turn, because no line reports its answer.
                self.controls.retain(|(_, call)| call.is_some());
                self.last_result = Some((at, result.clone()));
                self.used = Some((now, result.used.clone()));
                let because = format!("result {}, {}", self.results, result.terminal_reason);
                self.enter(RunCause::Result, &because, now, acts);
            }
            StreamFact::Said => self.heard("the run produced output", now, acts),
        }
        self.after_a_result(fact, at);
    }

    fn close_controls(&mut self, is_over: impl Fn(&(u64, Option<u64>)) -> bool, at: Awake) {
        let n = self.controls.len();
        self.controls.retain(|open| !is_over(open));
        if self.controls.len() < n {
            self.rearmed = at;
        }
    }

    /// Notes output. After a result, output alone opens no turn: only a fact that begins one does.
    fn heard(&mut self, because: &str, now: Moment, acts: &mut Vec<RunAct>) {
        if self.last_result.is_none() {
            self.enter(RunCause::Output, because, now, acts);
        }
    }

    /// Notes a turn that begins after a result: it has to give a result of its own.
    fn after_a_result(&mut self, fact: &StreamFact, at: Awake) {
        let begins = matches!(
            fact,
            StreamFact::Init { .. } | StreamFact::ToolBegan { .. } | StreamFact::Retry { .. }
        );
        if begins && self.last_result.is_some() {
            self.last_result = None;
            self.limbo_said = None;
        }
        if matches!(fact, StreamFact::Init { .. } | StreamFact::ToolBegan { .. }) {
            self.failure = None;
        }
        let goes_on = matches!(
            fact,
            StreamFact::Init { .. }
                | StreamFact::Said
                | StreamFact::ToolBegan { .. }
                | StreamFact::ToolEnded { .. }
                | StreamFact::ControlOpened { .. }
        );
        if goes_on {
            // A hung client produces no output. What it printed just before may be read later, because it comes by
            // another stream.
            self.case.take_if(|case| RACE_MS < at.ms_since(case.at));
        }
    }
}
