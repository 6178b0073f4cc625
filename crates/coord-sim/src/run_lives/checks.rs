//! What must hold of every run, whatever it does. Reckoned from what the supervisor was told, with no
//! look at how the core decides.

use coord_core::{ExitReason, Run, RunEvent, StreamFact};
use coord_model::Awake;

use super::tree::Tree;
use crate::Violation;

const SECOND: u64 = 1_000;
/// A look or a record takes no longer, and a tick is no further away.
const SLACK: u64 = 120 * SECOND;

/// How far a forced end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    None,
    Decided,
    Recorded,
    Signalled,
}

/// What is known of the run, and what was wrong.
pub(super) struct Checks {
    wrong: Option<Violation>,
    begun_ms: u64,
    spoke_ms: u64,
    eof_ms: Option<u64>,
    /// A result came, and no turn behind it.
    has_result: bool,
    tools: Vec<u64>,
    requests: Vec<(u64, Option<u64>)>,
    /// When the last request was closed.
    closed_ms: u64,
    wakes_ms: Option<u64>,
    has_tasks: bool,
    results: u32,
    /// It named an error, and nothing that it said since says that it goes on.
    case_ms: Option<u64>,
    limited_ms: Option<u64>,
    waited_ms: u64,
    gap_ms: Option<u64>,
    gaps: u64,
    refused_ms: Option<u64>,
    unrecorded_ms: u64,
    end: End,
    hold: Option<(String, Awake)>,
}

impl Checks {
    pub(super) fn new(now_ms: u64) -> Self {
        Self {
            wrong: None,
            begun_ms: now_ms,
            spoke_ms: now_ms,
            eof_ms: None,
            has_result: false,
            tools: Vec::new(),
            requests: Vec::new(),
            closed_ms: now_ms,
            wakes_ms: None,
            has_tasks: false,
            results: 0,
            case_ms: None,
            limited_ms: None,
            waited_ms: 0,
            gap_ms: None,
            gaps: 0,
            refused_ms: None,
            unrecorded_ms: 0,
            end: End::None,
            hold: None,
        }
    }

    pub(super) fn wrong(&self) -> Option<Violation> {
        self.wrong.clone()
    }

    pub(super) fn fail(&mut self, rule: &'static str, what: &str) {
        self.wrong.get_or_insert_with(|| Violation::new(rule, what.to_owned()));
    }

    pub(super) fn is_eof(&self) -> bool {
        self.eof_ms.is_some()
    }

    /// An event is about to be told.
    pub(super) fn before(&mut self, event: &RunEvent, run: &Run, now_ms: u64) {
        self.hold = run.hold().map(|hold| (hold.reason.clone(), hold.until));
        match event {
            RunEvent::Stream(fact) => self.hear(fact, now_ms),
            RunEvent::Output => {
                self.spoke_ms = now_ms;
                self.end_of_limit(now_ms);
            }
            RunEvent::Eof => self.eof_ms = Some(now_ms),
            RunEvent::ErrorText(_) => {
                self.case_ms.get_or_insert(now_ms);
            }
            RunEvent::Gap => {
                self.gap_ms = Some(now_ms);
                self.gaps += 1;
            }
            RunEvent::Recorded => {
                self.end = self.end.max(End::Recorded);
                self.end_of_refusal(now_ms);
            }
            RunEvent::NotRecorded => {
                self.refused_ms.get_or_insert(now_ms);
            }
            RunEvent::TreeSeen(_)
            | RunEvent::Forwarded { .. }
            | RunEvent::Exited(_)
            | RunEvent::Tick => (),
        }
    }

    fn end_of_refusal(&mut self, now_ms: u64) {
        if let Some(since) = self.refused_ms.take() {
            self.unrecorded_ms += now_ms.saturating_sub(since);
        }
    }

    fn end_of_limit(&mut self, now_ms: u64) {
        if let Some(since) = self.limited_ms.take() {
            self.waited_ms += now_ms.saturating_sub(since);
        }
    }

    fn hear(&mut self, fact: &StreamFact, now_ms: u64) {
        self.spoke_ms = now_ms;
        if !matches!(fact, StreamFact::Retry { .. } | StreamFact::RateLimit { .. }) {
            self.end_of_limit(now_ms);
        }
        match fact {
            StreamFact::Init { .. } => {
                (self.has_result, self.wakes_ms) = (false, None);
                self.goes_on(now_ms);
            }
            StreamFact::ToolBegan { call } => {
                self.tools.push(*call);
                self.has_result = false;
                self.goes_on(now_ms);
            }
            StreamFact::ToolEnded { call } => {
                self.tools.retain(|open| open != call);
                self.close(|(_, about)| *about == Some(*call), now_ms);
                self.goes_on(now_ms);
            }
            StreamFact::Tasks(tasks) => self.has_tasks = tasks.is_any(),
            StreamFact::Wakeup { after_ms } => {
                self.wakes_ms = self.wakes_ms.max(Some(now_ms + (*after_ms).min(3_600 * SECOND)));
            }
            StreamFact::Retry { error } => {
                self.has_result = false;
                if error.as_deref() == Some("rate_limit") {
                    self.limited_ms.get_or_insert(now_ms);
                }
            }
            StreamFact::ControlOpened { request, call } => {
                self.requests.push((*request, *call));
                self.goes_on(now_ms);
            }
            StreamFact::ControlClosed { request } => {
                self.close(|(open, _)| open == request, now_ms);
            }
            StreamFact::Result(_) => {
                self.has_result = true;
                self.results += 1;
                self.tools.clear();
                // No line tells of the answer to a question that is about no call.
                self.requests.retain(|(_, call)| call.is_some());
            }
            StreamFact::Said => self.goes_on(now_ms),
            StreamFact::RateLimit { .. } | StreamFact::Failed { .. } => (),
        }
    }

    /// A run that does something after its error does not hang. What it does within a second of it may have come
    /// before it: the two streams have no order among each other.
    fn goes_on(&mut self, now_ms: u64) {
        self.case_ms.take_if(|case| *case + SECOND < now_ms);
    }

    fn close(&mut self, is_over: impl Fn(&(u64, Option<u64>)) -> bool, now_ms: u64) {
        let open = self.requests.len();
        self.requests.retain(|one| !is_over(one));
        if self.requests.len() < open {
            self.closed_ms = now_ms;
        }
    }

    /// G12, S3-02: a hold has a reason, and time alone never makes it longer.
    pub(super) fn after(&mut self, event: &RunEvent, run: &Run) {
        let Some(hold) = run.hold() else { return };
        if hold.reason.is_empty() {
            self.fail("G12", "a hold without a reason");
        }
        let is_time = matches!(event, RunEvent::Tick | RunEvent::Recorded | RunEvent::NotRecorded);
        let before = self.hold.as_ref().filter(|(reason, _)| *reason == hold.reason);
        if is_time && before.is_some_and(|(_, until)| *until < hold.until) {
            let what = format!("the hold {} grows longer by itself", hold.reason);
            self.fail("S3-02", &what);
        }
    }

    /// The latest moment at which any run is still there.
    fn bound_ms(&self, now_ms: u64) -> u64 {
        let limited = self.limited_ms.map_or(0, |since| now_ms.saturating_sub(since));
        let refused = self.refused_ms.map_or(0, |since| now_ms.saturating_sub(since));
        let waits = self.waited_ms + limited + self.unrecorded_ms + refused;
        self.begun_ms + 10_800 * SECOND + waits + self.gaps * 31 * SECOND + SLACK
    }

    /// S3-02, S2-20: nothing outlives all caps.
    pub(super) fn after_a_turn(&mut self, run: &Run, now_ms: u64) {
        if run.exit().is_none() && self.bound_ms(now_ms) < now_ms {
            let what = format!("it is still there, held by {:?}", run.hold());
            self.fail("S3-02", &what);
        }
        let cap = Awake::default().plus_ms(self.bound_ms(now_ms));
        if run.hold().is_some_and(|hold| cap < hold.until) {
            self.fail("S3-02", "a hold outlasts the time that any run may take");
        }
    }

    /// A forced end is decided: G4, H-09, S2-05, S2-20, S3-05, S3-06, S3-10 to S3-12, S3-21, S3-22.
    pub(super) fn decided(
        &mut self,
        reason: ExitReason,
        has_quarantine: bool,
        tree: &Tree,
        now_ms: u64,
    ) {
        self.end = End::Decided;
        if has_quarantine != (self.results > 0) {
            self.fail("S3-23", "a conversation is quarantined by its result and nothing else");
        }
        let cut = self.cut(reason, tree, now_ms);
        if let Some(what) = cut {
            let what = format!("{}: {what}", reason.word());
            self.fail("S3-21", &what);
        }
    }

    fn cut(&self, reason: ExitReason, tree: &Tree, now_ms: u64) -> Option<&'static str> {
        if self.gap_ms.is_some_and(|gap| now_ms < gap + 30 * SECOND) {
            return Some("right behind a gap");
        }
        let limited = self.limited_ms.map_or(0, |since| self.spoke_ms.saturating_sub(since));
        let cap_ms = self.begun_ms + 10_800 * SECOND + self.waited_ms + limited;
        if reason == ExitReason::Invocation {
            return (now_ms < cap_ms).then_some("before its time was up");
        }
        let from_ms = self.spoke_ms.max(self.closed_ms);
        let confirm = if self.has_result { 20 } else { 360 };
        let base_ms = match reason {
            ExitReason::ReaderDoneButAlive => self.eof_ms?.max(self.closed_ms) + 600 * SECOND,
            ExitReason::PostResultLimbo if self.has_result => from_ms + 660 * SECOND,
            ExitReason::FirstResult if !self.has_result => from_ms + 3_600 * SECOND,
            ExitReason::ErrorHang if self.case_ms.is_some() => from_ms + confirm * SECOND,
            ExitReason::PostResultLimbo
            | ExitReason::FirstResult
            | ExitReason::ErrorHang
            | ExitReason::Exited
            | ExitReason::ExitedAfterResult
            | ExitReason::ExitedDuringSubcountdown
            | ExitReason::ForwardedSignal
            | ExitReason::KilledBySignal
            | ExitReason::Invocation
            | ExitReason::Unkillable
            | ExitReason::NotStarted => return Some("without its cause"),
        };
        let is_in_a_turn = matches!(reason, ExitReason::FirstResult | ExitReason::ErrorHang);
        // So long it has been seen at work, by two looks at least.
        let is_busy = 65 * SECOND <= tree.busy_for_ms();
        let wakes_ms = self.wakes_ms.map(|at| at.min(base_ms + 3_600 * SECOND));
        let is_cut = now_ms < cap_ms
            && (!self.requests.is_empty()
                || (is_in_a_turn && !self.tools.is_empty())
                || wakes_ms.is_some_and(|at| now_ms < at)
                || (is_busy && now_ms < base_ms + 1_800 * SECOND));
        if now_ms < base_ms {
            Some("before its time")
        } else if is_cut {
            Some("live work is cut")
        } else if self.has_tasks && now_ms < base_ms + 59 * SECOND && now_ms < cap_ms {
            Some("listed work is cut without having been seen quiet for a minute")
        } else {
            None
        }
    }

    /// S3-23: the record was there first. H-32: and the machine did not sleep in between.
    pub(super) fn signalled(&mut self, tree: &Tree, now_ms: u64) {
        let end = std::mem::replace(&mut self.end, End::Signalled);
        if end < End::Recorded {
            self.fail("S3-23", "a signal without a record of it");
        }
        if self.gap_ms.is_some_and(|gap| now_ms < gap + 30 * SECOND) {
            self.fail("H-32", "a signal right behind a gap");
        }
        if tree.left() == 0 {
            self.fail("H-20", "a signal to nobody");
        }
    }

    /// H-20, S3-06: whom its end reached.
    pub(super) fn ended(&mut self, tree: &Tree, is_unkillable: bool) {
        if let Some(what) = tree.wrong_at_the_end(self.end == End::Signalled) {
            self.fail("H-20", &what);
        }
        if !is_unkillable && tree.client_lives() {
            self.fail("S3-08", "it is told to be over and lives");
        }
    }
}
