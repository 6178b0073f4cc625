//! Decides what is done about a headless run, from what its supervisor saw (S2, S3).
//!
//! Each supervisor has one [`Run`], and nothing else decides for it. The supervisor reports what the stream said,
//! what the process tree does and how time passes. The run requests looks, records, signals and notes. Time is the
//! supervisor's own [`Awake`] (S3-18), which does not include sleep and gaps (H-32).

mod event;
mod lifecycle;
mod outcome;
mod post_result;
mod stream;
mod teardown;
mod tree;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use coord_model::{Awake, Moment, Signal};

use crate::records::Hold;
pub use event::{
    ExitReason, ResultSeen, ResultUsage, RunAct, RunEvent, RunNote, RunTasks, StreamFact,
};
pub use lifecycle::{RunCause, RunState};
pub use outcome::{Complaint, Ended, ErrorText, ExitStatus, Judged, Provider, RunOutcome, judge};
use post_result::Verdict;
pub use teardown::{Teardown, TeardownStep};
pub use tree::{KillSet, Role, RunRoot, TreeProcess, TreeSeen, kill_set, tree_seen};

/// Maximum number of tool calls, and of requests, remembered as open.
const OPEN_MAX: usize = 256;

/// The time limits of a run, in milliseconds (S3-19). Each is a key of `[run]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLimits {
    /// Maximum duration of a run (S2-20).
    pub timeout_ms: u64,
    /// Maximum silence in a turn that gave no result (S3-22).
    pub first_result_ms: u64,
    /// How long a run may live after the end of its output, unless something is pending (S3-06).
    pub post_result_ms: u64,
    /// How long a run may live after its result while its output is open and nothing is pending (S3-10).
    pub limbo_ms: u64,
    /// Delay of the warning after the end of the output (S3-14).
    pub limbo_warning_ms: u64,
    /// Time between SIGTERM and SIGKILL (S3-07).
    pub kill_grace_ms: u64,
    /// Interval of the watchdog's looks (S3-16).
    pub tick_ms: u64,
    /// Silence that confirms a hang after a known error, once there was a result (S2-05).
    pub confirm_ms: u64,
    /// Silence that confirms a hang before the first result. The client's own limits are shorter (H-09).
    pub confirm_before_result_ms: u64,
    /// How long live work is waited for after its tree became quiet (S3-21).
    pub quiet_ms: u64,
    /// How long live work is waited for if its tree cannot be read.
    pub unknown_ms: u64,
    /// How long live work is waited for while its tree is busy.
    pub busy_ms: u64,
    /// How long a scheduled wake-up is waited for (S3-12).
    pub wakeup_ms: u64,
    /// Use of a core by the tree without its client, in percent, from which on the tree is busy.
    pub busy_percent: u64,
    /// How long nothing is done after a suspend, a clock step or a gap (H-32).
    pub settle_ms: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            timeout_ms: 10_800_000,
            first_result_ms: 3_600_000,
            post_result_ms: 600_000,
            limbo_ms: 660_000,
            limbo_warning_ms: 30_000,
            kill_grace_ms: 5_000,
            tick_ms: 30_000,
            confirm_ms: 20_000,
            confirm_before_result_ms: 360_000,
            quiet_ms: 60_000,
            unknown_ms: 600_000,
            busy_ms: 1_800_000,
            wakeup_ms: 3_600_000,
            busy_percent: 2,
            settle_ms: 30_000,
        }
    }
}

/// A forced end in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ending {
    reason: ExitReason,
    /// When it was decided; later, when the last signal was sent.
    at: Awake,
    /// When to record it again, if the disk refused.
    record_again: Option<Awake>,
    is_recorded: bool,
}

/// A known error text that was seen (S2-03).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Case {
    text: ErrorText,
    at: Awake,
}

/// The state of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    limits: RunLimits,
    state: RunState,
    since: Moment,
    begun: Awake,
    /// The last time that its output grew, or that anything else proved progress.
    last_output: Awake,
    session_id: Option<String>,
    has_stream: bool,
    last_result: Option<(Awake, ResultSeen)>,
    results: u32,
    used: Option<(Moment, ResultUsage)>,
    eof: Option<Awake>,
    /// When what deferred the countdowns ended. They start again from here (S3-05).
    rearmed: Awake,
    tools: Vec<u64>,
    /// Open requests, and the calls that they concern.
    controls: Vec<(u64, Option<u64>)>,
    tasks: RunTasks,
    wakes_at: Option<Awake>,
    /// Since when its requests are refused for quota, and how long that was in total (S1-19).
    quota_since: Option<Awake>,
    quota_ms: u64,
    failure: Option<String>,
    resets_ms: Option<u64>,
    is_rejected: bool,
    case: Option<Case>,
    /// The last look, and the one that the next look is compared with.
    tree: Option<(Awake, TreeSeen)>,
    sample: Option<(Awake, TreeSeen)>,
    activity: Activity,
    /// Since when its tree has this activity.
    activity_since: Awake,
    settles_until: Awake,
    hold: Option<Hold>,
    /// When each kind of warning was given: once per kind (S3-13, S3-14).
    limbo_said: Option<Awake>,
    warned: Option<Awake>,
    forwarded: Option<i32>,
    ending: Option<Ending>,
    next_tick: Awake,
    exit: Option<(ExitStatus, ExitReason)>,
}

/// What the samples of a tree's processor time show (S3-21). Unknown does not count as busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Activity {
    /// The tree uses the processor.
    Busy,
    /// The tree is idle.
    Quiet,
    /// There are no two samples yet, or one cannot be read.
    #[default]
    Unknown,
}

impl Activity {
    fn word(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Quiet => "quiet",
            Self::Unknown => "unknown",
        }
    }
}

impl Run {
    /// A run whose process was started just now.
    pub fn begin(limits: RunLimits, now: Moment) -> (Self, Vec<RunAct>) {
        let at = now.awake;
        let run = Self {
            next_tick: at.plus_ms(limits.tick_ms),
            limits,
            state: RunState::Spawned,
            since: now,
            begun: at,
            last_output: at,
            session_id: None,
            has_stream: false,
            last_result: None,
            results: 0,
            used: None,
            eof: None,
            rearmed: at,
            tools: Vec::new(),
            controls: Vec::new(),
            tasks: RunTasks::default(),
            wakes_at: None,
            quota_since: None,
            quota_ms: 0,
            failure: None,
            resets_ms: None,
            is_rejected: false,
            case: None,
            tree: None,
            sample: None,
            activity: Activity::Unknown,
            activity_since: at,
            settles_until: at,
            hold: None,
            limbo_said: None,
            warned: None,
            forwarded: None,
            ending: None,
            exit: None,
        };
        let acts = [
            note("subprocess.state.spawned", false, "the process was started"),
            note(
                "watchdog.entry",
                false,
                &format!("the time limit is {} s", run.limits.timeout_ms / 1000),
            ),
        ];
        (run, acts.into())
    }

    /// The state, and since when the run is in it.
    pub fn state(&self) -> (RunState, Moment) {
        (self.state, self.since)
    }

    /// What holds the run, if anything does (G12).
    pub fn hold(&self) -> Option<&Hold> {
        self.hold.as_ref()
    }

    /// The conversation, once the client named it.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// How it ended.
    pub fn exit(&self) -> Option<(ExitStatus, ExitReason)> {
        self.exit
    }

    /// Number of result lines so far.
    pub fn results(&self) -> u32 {
        self.results
    }

    /// What it has used, and when it said so; none before the first result.
    pub fn used(&self) -> Option<&(Moment, ResultUsage)> {
        self.used.as_ref()
    }

    /// The background work that the client lists.
    pub fn tasks(&self) -> RunTasks {
        self.tasks
    }

    /// Applies an event. Returns what has to be done.
    pub fn step(&mut self, event: &RunEvent, now: Moment) -> Vec<RunAct> {
        let mut acts = Vec::new();
        if self.exit.is_some() {
            return acts;
        }
        match event {
            RunEvent::Output => self.spoke(now, &mut acts),
            RunEvent::Stream(fact) => self.stream(fact, now, &mut acts),
            RunEvent::Eof => self.ended_output(now, &mut acts),
            RunEvent::ErrorText(text) => self.named_error(*text, now, &mut acts),
            RunEvent::TreeSeen(tree) => self.saw_tree(*tree, now, &mut acts),
            RunEvent::Recorded => self.recorded(now, &mut acts),
            RunEvent::NotRecorded => self.not_recorded(now, &mut acts),
            RunEvent::Forwarded { signal } => {
                self.forwarded = Some(*signal);
                acts.push(note("signal_forwarded", false, &format!("signal {signal}")));
            }
            RunEvent::Gap => self.gap(now, &mut acts),
            RunEvent::Exited(status) => {
                self.exited(*status, now, &mut acts);
                return acts;
            }
            RunEvent::Tick => (),
        }
        self.pass_time(now, &mut acts);
        acts
    }

    /// When the run has to be called again; none if never.
    pub fn next_deadline(&self) -> Option<Awake> {
        if self.exit.is_some() {
            return None;
        }
        if let Some(ending) = &self.ending {
            return if ending.is_recorded {
                Some(self.kill_at(ending))
            } else {
                ending.record_again
            };
        }
        let limbo_said =
            self.eof.filter(|_| self.warned.is_none() && self.state == RunState::Subcountdown);
        let alive = self.eof.filter(|_| self.state == RunState::ReaderEof);
        [
            Some(self.next_tick),
            self.hold.as_ref().map(|hold| hold.until),
            limbo_said.map(|eof| eof.plus_ms(self.limits.limbo_warning_ms)),
            alive.map(|eof| eof.plus_ms(ALIVE_AFTER_MS)),
            post_result::next_base(self),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn enter(&mut self, cause: RunCause, because: &str, now: Moment, acts: &mut Vec<RunAct>) {
        let next = self.state.after(cause);
        if next != self.state {
            self.state = next;
            self.since = now;
            acts.push(note(&format!("subprocess.state.{}", next.word()), false, because));
        }
    }

    fn ended_output(&mut self, now: Moment, acts: &mut Vec<RunAct>) {
        if self.eof.is_none() {
            self.eof = Some(now.awake);
            self.rearmed = self.rearmed.max(now.awake);
            self.enter(RunCause::Eof, "the output ended", now, acts);
            acts.push(RunAct::Look);
        }
    }

    fn named_error(&mut self, text: ErrorText, now: Moment, acts: &mut Vec<RunAct>) {
        if self.case.is_none() {
            self.case = Some(Case { text, at: now.awake });
            let because = format!("{} on standard error; no proof by itself", text.word());
            acts.push(note("error_case_opened", true, &because));
        }
    }

    fn saw_tree(&mut self, tree: TreeSeen, now: Moment, acts: &mut Vec<RunAct>) {
        let at = now.awake;
        self.tree = Some((at, tree));
        let (then, before) = *self.sample.get_or_insert((at, tree));
        let between_ms = at.ms_since(then);
        if let Some(activity) = tree::activity(before, tree, between_ms, self.limits.busy_percent) {
            self.sample = Some((at, tree));
            if activity != self.activity {
                // Two looks prove that the time between them was quiet.
                self.activity_since = if activity == Activity::Quiet { then } else { at };
            }
            self.activity = activity;
        }
        let because = format!(
            "{} processes, {} of them tools, {}",
            tree.members,
            tree.tools,
            self.activity.word()
        );
        acts.push(note("watchdog.tick", false, &because));
    }

    fn gap(&mut self, now: Moment, acts: &mut Vec<RunAct>) {
        self.settles_until = now.awake.plus_ms(self.limits.settle_ms);
        // Every fact has to be observed again (H-32).
        (self.tree, self.sample) = (None, None);
        (self.activity, self.activity_since) = (Activity::Unknown, now.awake);
        acts.push(note(
            "gap",
            false,
            "the supervisor did not run for a while; it waits before it acts",
        ));
    }

    fn exited(&mut self, status: ExitStatus, now: Moment, acts: &mut Vec<RunAct>) {
        let forced = self.ending.as_ref().filter(|ending| ending.is_recorded);
        let reason = match (forced, self.forwarded, status) {
            (Some(ending), _, _) => ending.reason,
            (None, Some(_), _) => ExitReason::ForwardedSignal,
            (None, None, ExitStatus::Signal(_)) => ExitReason::KilledBySignal,
            (None, None, ExitStatus::Code(_)) if self.eof_was_long_ago(now.awake) => {
                ExitReason::ExitedDuringSubcountdown
            }
            (None, None, ExitStatus::Code(_)) if (self.results > 0) => {
                ExitReason::ExitedAfterResult
            }
            (None, None, ExitStatus::Code(_)) => ExitReason::Exited,
        };
        self.exit = Some((status, reason));
        self.hold = None;
        self.enter(RunCause::Exit, &format!("{}, {}", status.words(), reason.word()), now, acts);
        acts.push(note("watchdog.exit", false, reason.word()));
    }

    fn eof_was_long_ago(&self, at: Awake) -> bool {
        let is_counting = matches!(self.state, RunState::Subcountdown | RunState::Limbo);
        is_counting && self.eof.is_some_and(|eof| at.ms_since(eof) >= ALIVE_AFTER_MS)
    }

    fn pass_time(&mut self, now: Moment, acts: &mut Vec<RunAct>) {
        if self.ending.is_some() {
            return self.pursue(now, acts);
        }
        let at = now.awake;
        if self.next_tick <= at {
            self.next_tick = at.plus_ms(self.limits.tick_ms);
            acts.push(RunAct::Look);
        }
        if self.eof.is_some_and(|eof| eof.plus_ms(ALIVE_AFTER_MS) <= at)
            && self.state == RunState::ReaderEof
        {
            self.enter(
                RunCause::StillAlive,
                "the output ended, but the process still runs",
                now,
                acts,
            );
            let because =
                format!("{} s after the end of the output", self.limits.post_result_ms / 1000);
            acts.push(note("reader_done_but_alive", false, &because));
        }
        self.warn(now, acts);
        match post_result::verdict(self, at) {
            Verdict::Nothing => self.hold = None,
            Verdict::Wait { reason, until } => self.wait(reason, until, now, acts),
            Verdict::Look => {
                if !acts.contains(&RunAct::Look) {
                    acts.push(RunAct::Look);
                }
            }
            Verdict::End { reason, because } => self.end(reason, &because, now, acts),
        }
    }

    /// S3-14: warns once, 30 s after the end of the output.
    fn warn(&mut self, now: Moment, acts: &mut Vec<RunAct>) {
        let Some(eof) =
            self.eof.filter(|_| self.state == RunState::Subcountdown && self.warned.is_none())
        else {
            return;
        };
        if now.awake < eof.plus_ms(self.limits.limbo_warning_ms) {
            return;
        }
        self.warned = Some(now.awake);
        if let Some(pending) = post_result::pending(self, now.awake) {
            acts.push(note("runner.limbo_detected", false, &format!("but {pending} is pending")));
        } else {
            self.enter(RunCause::NothingLeft, "nothing is pending", now, acts);
            let because = "the output ended, the process still runs, and nothing is pending";
            acts.push(note("runner.limbo_detected", true, because));
        }
    }

    fn wait(&mut self, reason: &str, until: Awake, now: Moment, acts: &mut Vec<RunAct>) {
        let is_same = self.hold.as_ref().is_some_and(|hold| hold.reason == reason);
        match &mut self.hold {
            Some(hold) if is_same => hold.until = until,
            hold => {
                *hold = Some(Hold { reason: reason.to_owned(), since: now, until });
                let s = until.ms_since(now.awake) / 1000;
                let because = format!("{reason}, at most {s} s more");
                acts.push(note("subcountdown_deferred", false, &because));
            }
        }
    }

    fn end(&mut self, reason: ExitReason, because: &str, now: Moment, acts: &mut Vec<RunAct>) {
        if reason == ExitReason::PostResultLimbo && self.limbo_said.is_none() {
            self.limbo_said = Some(now.awake);
            self.enter(RunCause::NothingLeft, because, now, acts);
            acts.push(note("post_result_limbo_detected", true, because));
        }
        self.hold = None;
        let at = now.awake;
        self.ending = Some(Ending { reason, at, record_again: None, is_recorded: false });
        let word = reason.word().to_string();
        acts.push(note("end_decided", true, &format!("{word}: {because}")));
        acts.push(self.record(reason));
    }

    fn record(&self, reason: ExitReason) -> RunAct {
        let quarantine = self.session_id.clone().filter(|_| self.results > 0);
        RunAct::Record { reason, quarantine }
    }

    fn recorded(&mut self, now: Moment, acts: &mut Vec<RunAct>) {
        let Some(ending) = self.ending.as_mut().filter(|ending| !ending.is_recorded) else {
            return;
        };
        // The run produced output while its end was being recorded (G4), or nobody watched it (H-32).
        let has_spoken = ending.reason != ExitReason::Invocation && ending.at < self.last_output;
        if has_spoken || now.awake < self.settles_until {
            self.ending = None;
            let because = if has_spoken {
                "the run produced output"
            } else {
                "the supervisor did not run for a while"
            };
            acts.push(note("end_withdrawn", true, &format!("{because} in the meantime")));
            return;
        }
        ending.is_recorded = true;
        ending.record_again = None;
        ending.at = now.awake;
        let reason = ending.reason.word();
        self.enter(RunCause::Term, reason, now, acts);
        acts.push(note("sigterm_after_timeout", true, reason));
        acts.push(RunAct::End(Signal::Term));
    }

    fn not_recorded(&mut self, now: Moment, acts: &mut Vec<RunAct>) {
        let Some(ending) = self.ending.as_mut().filter(|ending| !ending.is_recorded) else {
            return;
        };
        if ending.record_again.is_none() {
            let because = "the end cannot be recorded, so the run is not ended";
            acts.push(note("end_not_recorded", true, because));
        }
        ending.record_again = Some(now.awake.plus_ms(RECORD_AGAIN_MS));
    }

    fn kill_at(&self, ending: &Ending) -> Awake {
        let is_killed = self.state == RunState::SigkillSent;
        let ms = if is_killed { UNKILLABLE_AFTER_MS } else { self.limits.kill_grace_ms };
        ending.at.plus_ms(ms).max(self.settles_until)
    }

    fn pursue(&mut self, now: Moment, acts: &mut Vec<RunAct>) {
        let at = now.awake;
        let Some(ending) = self.ending.clone() else { return };
        if !ending.is_recorded {
            if ending.record_again.is_some_and(|again| again <= at) {
                // Whatever the run does by now, the decision has to be made again.
                self.ending = None;
                self.pass_time(now, acts);
            }
            return;
        }
        if at < self.kill_at(&ending) {
            return;
        }
        let ending = Ending { at, ..ending };
        if self.state == RunState::SigkillSent {
            let status = ExitStatus::Signal(9);
            self.exit = Some((status, ExitReason::Unkillable));
            self.enter(RunCause::Exit, "the process outlived SIGKILL", now, acts);
            acts.push(note("watchdog.exit", true, ExitReason::Unkillable.word()));
            acts.push(RunAct::GiveUp);
            return;
        }
        self.ending = Some(ending);
        self.enter(RunCause::Kill, "the process outlived SIGTERM", now, acts);
        let s = self.limits.kill_grace_ms / 1000;
        acts.push(note("sigkill_after_grace", true, &format!("{s} s after SIGTERM")));
        acts.push(RunAct::End(Signal::Kill));
    }
}

/// How long a process may take to end after its output did, in milliseconds. One that takes longer lives on.
const ALIVE_AFTER_MS: u64 = 1_000;
/// Delay of the next attempt after the disk refused a record, in milliseconds.
const RECORD_AGAIN_MS: u64 = 5_000;
/// Time after SIGKILL from which on only the kernel can be keeping a process, in milliseconds.
const UNKILLABLE_AFTER_MS: u64 = 60_000;

fn note(name: &str, is_warning: bool, because: &str) -> RunAct {
    RunAct::Note(RunNote { name: name.to_owned(), is_warning, because: because.to_owned() })
}
