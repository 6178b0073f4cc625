//! What is known of a session's recoveries (S0): the pending one, and how the last one ended.
//!
//! A session has at most one pending recovery (S0-09). Its stage says what was decided last. A step that touches
//! the world is decided on a proof made for it, and is stored in the state before it is performed. It is never
//! repeated blindly: after a restart, as after a lost answer, coord looks for its effect.

mod transitions;

use alloc::string::String;
use serde::{Deserialize, Serialize};

use coord_model::{Awake, Moment, PaneState, ProcessRef, Prompt, Signal};

use super::budget::Budget;
use super::clocks::{NEVER, clocks};
use super::hold::Hold;
use super::obstacle::Obstacle;

/// What is known of a session's recoveries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovery {
    /// The pending recovery.
    pub pending: Option<Pending>,
    /// What was used of the limits of G5.
    pub budget: Budget,
    /// How the last one ended.
    pub last: Option<Last>,
    /// Why a person has to look, and since when (G5, H-35).
    pub needs_operator: Option<Flag>,
    /// After an attempt, detections are dropped while this lasts (S0-11).
    pub cooldown: Option<Hold>,
    /// Number of detections that were dropped (S0-14).
    pub dropped: u32,
    /// When a recovery was last verified, to recognize a death soon after (H-06).
    pub verified_at: Option<Awake>,
    /// The dead harness whose conversation continued in another process (H-42).
    #[serde(default)]
    pub passed_on: Option<ProcessRef>,
    /// The harness whose death opened or closed a case: one death is one case.
    pub judged: Option<ProcessRef>,
    /// Number of prompts that arrived while its harness was being ended (H-53).
    #[serde(default)]
    pub harmed_prompts: u32,
    /// The id of a conversation that was found to have no turn, or no transcript (H-36).
    pub nothing_left: Option<String>,
}

impl Recovery {
    /// The process that claimed the resume and has not reported yet.
    pub(crate) fn claimer(&self) -> Option<ProcessRef> {
        match self.pending.as_ref()?.stage {
            Stage::Claimed { process, .. } => Some(process),
            Stage::Waiting { .. }
            | Stage::Grace { .. }
            | Stage::Proving { .. }
            | Stage::Ending { .. }
            | Stage::Placing { .. }
            | Stage::Started { .. } => None,
        }
    }

    /// Whether this process was the last to claim the resume.
    pub(crate) fn claimed_by(&self, process: ProcessRef) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.claimed == Some(process))
    }
}

/// A reason with its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flag {
    /// Why, in words.
    pub reason: String,
    /// Since when.
    pub since: Moment,
    /// Whether a limit on repeated acts led to it (G5, S1-15).
    #[serde(default)]
    pub is_limit: bool,
}

/// How a recovery ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// When.
    pub at: Moment,
    /// The result.
    pub outcome: Ending,
}

/// The result of a recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The resumed session proved itself (H-33).
    Verified,
    /// The session was not brought back, and nothing was touched.
    Closed {
        /// Why, in words.
        why: String,
    },
    /// An attempt failed.
    Failed {
        /// Why, in words.
        why: String,
    },
    /// The session would have been brought back, but in this mode nothing is done.
    Observed,
}

impl Ending {
    /// The name of the result.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Closed { .. } => "closed",
            Self::Failed { .. } => "failed",
            Self::Observed => "observed",
        }
    }
}

/// Why a session is to be brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// A crash signature on the screen of a living harness (S0-08).
    Signature,
    /// Its harness died (S0-28a).
    Death,
    /// A host event interrupted it, and a person asked for it (S0-25f).
    Interrupted,
    /// A person asked.
    Operator,
}

impl Cause {
    /// The name of the cause in `inspect`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Signature => "crash_signature",
            Self::Death => "crashed",
            Self::Interrupted => "interrupted",
            Self::Operator => "operator",
        }
    }

    /// In words for people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Signature => "crash signature",
            Self::Death => "crash",
            Self::Interrupted => "interruption",
            Self::Operator => "asked for by a person",
        }
    }
}

/// A pending recovery.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Why the session is to be brought back.
    pub cause: Cause,
    /// The harness that the recovery is about.
    pub harness: ProcessRef,
    /// The session id that the last proof was made for (H-36).
    pub session_id: String,
    /// When the cause was detected.
    pub detected_at: Moment,
    /// When the harness died; none while it lives.
    pub died_at: Option<Moment>,
    /// Whether a person asked for it.
    pub by_hand: bool,
    /// Whether that person's order waits until the living harness is idle (H-53).
    #[serde(default)]
    pub when_idle: bool,
    /// Whether a turn was open at the crash, so that its work was cut off.
    pub was_working: bool,
    /// Whether coord signalled the living harness for this recovery: SIGTERM at rest, or when proved hung.
    pub ended_by_us: bool,
    /// Attempts so far.
    pub attempts: u32,
    /// When the latest step of this attempt that touches the world began. The machine's limits count the attempt
    /// by this time (H-11); the session's budget was charged at the first step.
    #[serde(default)]
    pub begun: Option<Awake>,
    /// Acts in a row that were not performed because something had changed.
    pub changes: u32,
    /// What the recovery waits for; none while a step is in progress.
    #[serde(default)]
    pub obstacle: Option<Obstacle>,
    /// What it waits for, in words.
    pub waits_for: String,
    /// Since when it waits for that.
    pub waits_since: Moment,
    /// Whether its user was notified that it waits (H-35).
    #[serde(rename = "is_told")]
    pub is_notified: bool,
    /// Whether its user was notified and had the time to cancel it (H-06).
    pub is_graced: bool,
    /// When that time began (H-54).
    #[serde(default)]
    pub graced_at: Option<Moment>,
    /// When a prompt was entered after coord had decided to end the harness, milliseconds since 1970 (H-53).
    #[serde(default)]
    pub prompt_ms: Option<u64>,
    /// The evidence that the living harness does nothing in an open turn (H-07).
    #[serde(default)]
    pub still: Option<Still>,
    /// The first prompt that the shell showed after the death (H-18).
    pub prompt: Option<Prompt>,
    /// The nonce that was typed last (H-34).
    pub typed: Option<String>,
    /// The last process that claimed a resume, whatever became of that process (G6).
    #[serde(default)]
    pub claimed: Option<ProcessRef>,
    /// Whether an unproved SessionStart named that process. It counts once the client's registry confirms the
    /// process (H-44).
    #[serde(default)]
    pub is_start_heard: bool,
    /// The step in progress.
    pub stage: Stage,
}

/// The step that is in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// No step. The next attempt is made at `until`, or when an event allows it.
    Waiting {
        /// When the next attempt is made.
        until: Awake,
    },
    /// The grace period: its user is notified and can cancel it with any key.
    Grace {
        /// Until when.
        until: Awake,
    },
    /// A look was requested.
    Proving {
        /// The number of the step that the look is for.
        number: u64,
        /// When it was requested.
        since: Awake,
        /// Whether the look is at a living harness. Its answer then says nothing of a dead one.
        #[serde(default)]
        lives: bool,
    },
    /// A signal was sent to the living harness, and coord waits for it to end.
    Ending {
        /// The number of the step.
        number: u64,
        /// When.
        since: Awake,
        /// The signal.
        signal: Signal,
    },
    /// The line that resumes the session was placed. No process has claimed it yet.
    Placing {
        /// The number of the step.
        number: u64,
        /// When.
        since: Awake,
        /// The nonce, which is good once, for this step.
        nonce: String,
        /// Where the line was placed.
        way: Way,
    },
    /// A process claimed the nonce and becomes the client.
    Claimed {
        /// The process.
        process: ProcessRef,
        /// When.
        since: Awake,
        /// The number of the look that is to tell why this takes longer than expected (H-43).
        asked: Option<u64>,
    },
    /// The client reported its start.
    Started {
        /// The process.
        process: ProcessRef,
        /// When.
        since: Awake,
        /// The number of the look for another owner (H-13).
        asked: Option<u64>,
        /// Whether the look found no other owner.
        is_sole: bool,
    },
}

/// Where the line that resumes a session is placed (S0-25e).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Typed into the session's shell.
    Shell,
    /// Run in the session's kept pane.
    Pane,
    /// Run in a new window.
    Window,
}

impl Way {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Shell => "resume line typed into the shell",
            Self::Pane => "resume line run in the kept pane",
            Self::Window => "resume line run in a new window",
        }
    }
}

impl Pending {
    /// Whether coord decided to end the harness. The harness's SessionEnd may arrive before the outcome of the
    /// act.
    pub(crate) fn is_ended_by_us(&self) -> bool {
        self.ended_by_us || matches!(self.stage, Stage::Ending { .. })
    }

    /// Whether an act on the session is in progress.
    pub fn is_under_way(&self) -> bool {
        match self.stage {
            Stage::Waiting { .. } | Stage::Grace { .. } | Stage::Proving { .. } => false,
            Stage::Ending { .. }
            | Stage::Placing { .. }
            | Stage::Claimed { .. }
            | Stage::Started { .. } => true,
        }
    }

    /// When the next attempt is made, if only time decides that.
    pub fn next_at(&self) -> Option<Awake> {
        match self.stage {
            Stage::Waiting { until } | Stage::Grace { until } => (until != NEVER).then_some(until),
            Stage::Proving { .. }
            | Stage::Ending { .. }
            | Stage::Placing { .. }
            | Stage::Claimed { .. }
            | Stage::Started { .. } => None,
        }
    }
}

/// A client that showed no sign of life between two looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Still {
    /// CPU time that its main thread has used in total, nanoseconds.
    pub ran_ns: u64,
    /// The time of the look that found this value first.
    pub since: Awake,
    /// When it was found not to have ended on SIGTERM. Any sign of life after that withdraws the case.
    #[serde(default)]
    pub asked_at: Option<Awake>,
    /// What its pane showed.
    #[serde(default)]
    pub pane: Option<PaneState>,
}

clocks!(struct Flag { reason, since, is_limit } until {});

clocks!(struct Last { at, outcome } until {});

clocks!(struct Still { ran_ns, since, asked_at, pane } until {});

clocks!(struct Recovery {
    pending, budget, last, needs_operator, cooldown, dropped, verified_at, passed_on, judged, harmed_prompts,
    nothing_left,
} until {});

clocks!(struct Pending {
    cause, harness, session_id, detected_at, died_at, by_hand, when_idle, was_working, ended_by_us, attempts, begun, changes,
    obstacle, waits_for, waits_since, is_notified, is_graced, graced_at, prompt_ms, still, prompt, typed, claimed, is_start_heard,
    stage,
} until {});

clocks!(enum Stage {
    Waiting {} until { until: until }
    Grace {} until { until: until }
    Proving { number: number, since: since, lives: lives } until {}
    Ending { number: number, since: since, signal: signal } until {}
    Placing { number: number, since: since, nonce: nonce, way: way } until {}
    Claimed { process: process, since: since, asked: asked } until {}
    Started { process: process, since: since, asked: asked, is_sole: sole } until {}
});

clocks!(none in Cause, Ending, Way);
