//! What is known of a session's recoveries (S0): the one that is owed, and how the last one ended.
//!
//! A session has at most one pending recovery (S0-09). Its stage says what was decided last; a step
//! that touches the world is decided on a proof made for it, stands in the state before it is done,
//! and is never repeated blindly: after a restart its effect is looked for, as after a lost answer.

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
    /// The one that is owed.
    pub pending: Option<Pending>,
    /// What was used of G5's limits.
    pub budget: Budget,
    /// How the last one ended.
    pub last: Option<Last>,
    /// A person has to look: why, and since when (G5, H-35).
    pub needs_operator: Option<Flag>,
    /// After an attempt, detections are dropped for a while (S0-11).
    pub cooldown: Option<Hold>,
    /// Detections that were dropped (S0-14).
    pub dropped: u32,
    /// When a recovery was verified last, for a death soon after (H-06).
    pub verified_at: Option<Awake>,
    /// The dead harness whose conversation went on in another process (H-42).
    #[serde(default)]
    pub passed_on: Option<ProcessRef>,
    /// The harness whose death opened or closed a case: one death is one case.
    pub judged: Option<ProcessRef>,
    /// Prompts that arrived while its harness was being ended (H-53).
    #[serde(default)]
    pub harmed_prompts: u32,
    /// The id whose conversation was found to have no turn, or no transcript (H-36).
    pub nothing_left: Option<String>,
}

impl Recovery {
    /// The process that claimed its resume and has not reported yet.
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

    /// Whether this process claimed the resume, the last time that one did.
    pub(crate) fn claimed_by(&self, process: ProcessRef) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.claimed == Some(process))
    }

    /// A prompt of its user's opened a turn: limits per turn begin anew (G5), and an attempt that its living harness
    /// outlived is over.
    pub(crate) fn begin_turn(&mut self) {
        self.budget.next_turn();
        if let Some(pending) = self.pending.as_mut().filter(|pending| !pending.is_under_way()) {
            pending.begun = None;
        }
    }

    /// A new coordinator: what the last one wanted to look at is not answered any more.
    pub(crate) fn forget_looks(&mut self, at: Moment) {
        let Some(pending) = &mut self.pending else { return };
        match &mut pending.stage {
            Stage::Proving { .. } => pending.stage = Stage::Waiting { until: at.awake },
            Stage::Claimed { asked, .. } | Stage::Started { asked, is_sole: false, .. } => {
                *asked = None;
            }
            Stage::Waiting { .. }
            | Stage::Grace { .. }
            | Stage::Ending { .. }
            | Stage::Placing { .. }
            | Stage::Started { .. } => (),
        }
    }

    /// A new boot: what was under way is over with the harness.
    pub(crate) fn begin_boot(&mut self, at: Moment) {
        self.cooldown = None;
        self.verified_at = None;
        if self.pending.take().is_some() {
            let why = "the machine was restarted".into();
            self.last = Some(Last { at, outcome: Ending::Closed { why } });
        }
    }
}

/// A reason with its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flag {
    /// Why, in words.
    pub reason: String,
    /// Since when.
    pub since: Moment,
    /// A limit on repeated acts led to it (G5, S1-15).
    #[serde(default)]
    pub is_limit: bool,
}

/// How a recovery ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// When.
    pub at: Moment,
    /// `verified`, or why not.
    pub outcome: Ending,
}

/// What a recovery came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The resumed session proved itself (H-33).
    Verified,
    /// It was not brought back, and nothing was touched.
    Closed {
        /// Why, in words.
        why: String,
    },
    /// An attempt failed.
    Failed {
        /// Why, in words.
        why: String,
    },
    /// It would have been brought back; in this mode nothing is done.
    Observed,
}

impl Ending {
    /// Its word.
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
    /// Its word in `inspect`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Signature => "crash_signature",
            Self::Death => "crashed",
            Self::Interrupted => "interrupted",
            Self::Operator => "operator",
        }
    }
}

/// A recovery that is owed.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Why.
    pub cause: Cause,
    /// The harness that it is about.
    pub harness: ProcessRef,
    /// The id that the last proof was made for (H-36).
    pub session_id: String,
    /// Since when.
    pub detected_at: Moment,
    /// When its harness died; none while it lives.
    pub died_at: Option<Moment>,
    /// A person asked for it.
    pub by_hand: bool,
    /// That person lets it wait until the living harness is idle (H-53).
    #[serde(default)]
    pub when_idle: bool,
    /// A turn was open when it crashed: its work was cut off.
    pub was_working: bool,
    /// Its living harness was sent a signal for it: SIGTERM at rest, or proved hung.
    pub ended_by_us: bool,
    /// Attempts so far.
    pub attempts: u32,
    /// When the latest step of this attempt that touches the world began. The machine's limits count the attempt by
    /// it (H-11); the session's budget was charged at the first step.
    #[serde(default)]
    pub begun: Option<Awake>,
    /// Acts in a row that were not carried out because something had changed.
    pub changes: u32,
    /// What it waits for; none while a step is under way.
    #[serde(default)]
    pub obstacle: Option<Obstacle>,
    /// The same in words.
    pub waits_for: String,
    /// Since when it waits for that.
    pub waits_since: Moment,
    /// Its person was told that it waits (H-35).
    pub is_told: bool,
    /// Its person was told and had the time to cancel it (H-06).
    pub is_graced: bool,
    /// When that time began (H-54).
    #[serde(default)]
    pub graced_at: Option<Moment>,
    /// When the prompt was entered that arrived after the end of its harness was decided, milliseconds
    /// since 1970 (H-53).
    #[serde(default)]
    pub prompt_ms: Option<u64>,
    /// Its living harness does nothing in the midst of a turn (H-07).
    #[serde(default)]
    pub still: Option<Still>,
    /// The first prompt that its shell showed after the death (H-18).
    pub prompt: Option<Prompt>,
    /// The nonce that was typed last (H-34).
    pub typed: Option<String>,
    /// The process that claimed a resume last, whatever became of it (G6).
    #[serde(default)]
    pub claimed: Option<ProcessRef>,
    /// An unproved SessionStart named that process: it counts once the client's registry confirms who it is (H-44).
    #[serde(default)]
    pub is_start_heard: bool,
    /// What is under way.
    pub stage: Stage,
}

/// What is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Nothing: it is tried (again) then, or when something happens.
    Waiting {
        /// When.
        until: Awake,
    },
    /// Its person is told and can cancel it with any key.
    Grace {
        /// Until when.
        until: Awake,
    },
    /// A look was asked for.
    Proving {
        /// For which step.
        number: u64,
        /// When.
        since: Awake,
        /// At a living harness: its answer says nothing of a dead one.
        #[serde(default)]
        lives: bool,
    },
    /// Its living harness is sent a signal, and waited for.
    Ending {
        /// Which step.
        number: u64,
        /// When.
        since: Awake,
        /// Which.
        signal: Signal,
    },
    /// The line that resumes it is put somewhere; nobody has claimed it yet.
    Placing {
        /// Which step.
        number: u64,
        /// When.
        since: Awake,
        /// Good once, for this step.
        nonce: String,
        /// Where.
        way: Way,
    },
    /// A process claimed the nonce and becomes the client.
    Claimed {
        /// Which.
        process: ProcessRef,
        /// When.
        since: Awake,
        /// It takes longer than expected: the look that tells why (H-43).
        asked: Option<u64>,
    },
    /// The client reported its start.
    Started {
        /// Which.
        process: ProcessRef,
        /// When.
        since: Awake,
        /// The look for another owner (H-13).
        asked: Option<u64>,
        /// There is none.
        is_sole: bool,
    },
}

/// Where the line is put (S0-25e).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Typed into its shell.
    Shell,
    /// Run in its kept pane.
    Pane,
    /// Run in a new window.
    Window,
}

impl Way {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Shell => "resume typed into its shell",
            Self::Pane => "resume run in its kept pane",
            Self::Window => "resume run in a new window",
        }
    }
}

impl Pending {
    /// Whether an end of its harness was asked for. Its SessionEnd may come before the answer of the act.
    pub(crate) fn is_ended_by_us(&self) -> bool {
        self.ended_by_us || matches!(self.stage, Stage::Ending { .. })
    }

    /// Whether something is done to the session, or was and has not come to its end.
    pub fn is_under_way(&self) -> bool {
        match self.stage {
            Stage::Waiting { .. } | Stage::Grace { .. } | Stage::Proving { .. } => false,
            Stage::Ending { .. }
            | Stage::Placing { .. }
            | Stage::Claimed { .. }
            | Stage::Started { .. } => true,
        }
    }

    /// When it is tried next, where only time decides that.
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

/// A client that showed no sign of life between looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Still {
    /// What its main thread has run in all, nanoseconds.
    pub ran_ns: u64,
    /// Since the look that found this first.
    pub since: Awake,
    /// When it was found not to have ended on SIGTERM. Any sign of life after that withdraws it.
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
    obstacle, waits_for, waits_since, is_told, is_graced, graced_at, prompt_ms, still, prompt, typed, claimed, is_start_heard,
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
