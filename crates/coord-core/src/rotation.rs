//! Decides which agent of a pool runs next, when, and when the loop ends (S2-07 to S2-09, S2-15 to S2-20).
//!
//! A crash rotates: the next agent goes on, and the crashed one stays in the pool. An agent at its limit is
//! out until the reset, one whose login or account is refused until the loop is started again. Only limits
//! end the loop, and they say so.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use coord_model::{Awake, Delay, Moment};

use crate::records::{Budget, BudgetDecision, Hold, Limits};
use crate::run::RunOutcome;

/// No limit of an account lasts longer than a week; what says so is not believed.
const RESET_MAX_MS: u64 = 8 * 86_400_000;

/// What a loop may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationLimits {
    /// Iterations in all.
    pub max_iterations: u32,
    /// Crashes that are gone on from, in a row and in all, and the wait behind each (G5).
    pub crashes: Limits,
    /// An agent whose reset nobody names is tried again after this (S2-17).
    pub exhausted: Delay,
    /// Ends instead of waiting where all agents are at their limit.
    pub never_waits: bool,
}

impl Default for RotationLimits {
    fn default() -> Self {
        Self {
            max_iterations: 100,
            crashes: Limits {
                per_turn: 3,
                total: 10,
                delay: Delay { first_ms: 5_000, max_ms: 600_000 },
            },
            exhausted: Delay { first_ms: 900_000, max_ms: 7_200_000 },
            never_waits: false,
        }
    }
}

/// What an agent says of its task, in the status file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWord {
    /// The same agent goes on.
    Continue,
    /// The next agent goes on.
    Rotate,
    /// The task is done.
    Done,
    /// Nobody gets any further.
    Stuck,
}

impl StatusWord {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Continue, Self::Rotate, Self::Done, Self::Stuck];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Rotate => "rotate",
            Self::Done => "done",
            Self::Stuck => "stuck",
        }
    }

    /// The word that stands alone in `text`, in any case; anything else says nothing (S2-14).
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::ALL.into_iter().find(|status| status.word().eq_ignore_ascii_case(text))
    }
}

/// How a loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopEnd {
    /// Its task is done.
    Done,
    /// Wrong arguments, no agent left, or too many crashes.
    Error,
    /// An agent says that nobody gets any further.
    Stuck,
    /// Its iterations are used up.
    MaxIterations,
    /// All agents are at their limit, and it was not to wait.
    AllExhausted,
    /// Its user ended it.
    Interrupted,
}

impl LoopEnd {
    /// The exit code (S2-20).
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Error => 1,
            Self::Stuck => 2,
            Self::MaxIterations => 3,
            Self::AllExhausted => 4,
            Self::Interrupted => 130,
        }
    }
}

/// What is next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// This agent runs.
    Run {
        /// Its name.
        agent: String,
        /// The iteration, from 1.
        iteration: u32,
        /// The conversation it left by a crash, if it is the one to go on.
        resume: Option<String>,
    },
    /// Nothing before the end of this.
    Wait(Hold),
    /// Nothing any more.
    End {
        /// How.
        end: LoopEnd,
        /// Why, and how to go on.
        because: String,
    },
}

/// How the rotation before this one went wrong (S2-11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    /// Who.
    pub agent: String,
    /// What it came to, in one word.
    pub outcome: String,
    /// In words.
    pub summary: String,
    /// What it printed first on standard error: foreign text.
    pub error_line: Option<String>,
}

/// What came of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IterationEnd<'a> {
    /// What it came to.
    pub outcome: RunOutcome,
    /// coord's own signals ended it, which is no crash (S3-24).
    pub is_ours: bool,
    /// When its used-up limit ends, milliseconds since 1970.
    pub resets_ms: Option<u64>,
    /// What its agent says of the task.
    pub status: Option<StatusWord>,
    /// The conversation that it left.
    pub session: Option<&'a str>,
    /// In words.
    pub summary: &'a str,
    /// The first line on standard error that is not empty.
    pub error_line: Option<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Agent {
    name: String,
    /// At its limit: since when, and until when, milliseconds since 1970.
    exhausted: Option<(u64, u64)>,
    exhaustions: u32,
    blocked: Option<String>,
    /// What its crash left and has not been gone on with.
    session: Option<String>,
}

impl Agent {
    fn back_ms(&self, wall_ms: u64) -> u64 {
        // A clock that was set back says nothing of how long is left.
        let lasting = self.exhausted.filter(|(since, _)| *since <= wall_ms);
        lasting.map_or(0, |(since, until)| until.min(since.saturating_add(RESET_MAX_MS)))
    }

    fn is_free(&self, wall_ms: u64) -> bool {
        self.blocked.is_none() && self.back_ms(wall_ms) <= wall_ms
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Running {
    agent: String,
    is_resume: bool,
}

/// A loop over a pool of agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotation {
    agents: Vec<Agent>,
    /// Whose turn it is, if it is free.
    current: usize,
    /// Iterations that are over.
    iteration: u32,
    crashes: Budget,
    /// The next run goes on from a crash, and is charged.
    owes: bool,
    room: Budget,
    want: Option<String>,
    running: Option<Running>,
    crash: Option<Crash>,
    end: Option<(LoopEnd, String)>,
    /// The last thing that happened.
    at: Moment,
}

impl Rotation {
    /// A loop that begins.
    pub fn new<'a>(agents: impl IntoIterator<Item = &'a str>, now: Moment) -> Self {
        let agents = agents.into_iter();
        Self {
            agents: agents.map(|name| Agent { name: name.into(), ..Agent::default() }).collect(),
            current: 0,
            iteration: 0,
            crashes: Budget::default(),
            owes: false,
            room: Budget::default(),
            want: None,
            running: None,
            crash: None,
            end: None,
            at: now,
        }
    }

    /// The loop is started again, with this pool (G10). A run that was under way is judged as interrupted; what
    /// was blocked is tried again; crashes in a row are counted anew, those in all are not.
    pub fn restart<'a>(&mut self, agents: impl IntoIterator<Item = &'a str>, now: Moment) {
        self.interrupted(now);
        let turn = self.agents.get(self.current).map(|agent| agent.name.clone());
        let before = core::mem::take(&mut self.agents);
        let known = |name: &str| before.iter().find(|agent| agent.name == name).cloned();
        let fresh = |name: &str| Agent { name: name.into(), ..Agent::default() };
        self.agents =
            agents.into_iter().map(|name| known(name).unwrap_or_else(|| fresh(name))).collect();
        for agent in &mut self.agents {
            agent.blocked = None;
        }
        let place = self.agents.iter().position(|agent| Some(&agent.name) == turn.as_ref());
        self.current = place.unwrap_or(0);
        if let Some((LoopEnd::Done | LoopEnd::Stuck, _)) = self.end {
            self.iteration = 0;
            self.crashes.reset();
            (self.owes, self.crash) = (false, None);
        }
        self.end = None;
        self.crashes.next_turn();
        self.crashes.rebase(now.awake);
        (self.room, self.want) = (Budget::default(), None);
        self.at = now;
    }

    /// Iterations that are over.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// How the rotation before this one went wrong, if it did (S2-11).
    pub fn crash(&self) -> Option<&Crash> {
        self.crash.as_ref()
    }

    /// Who runs, and the iteration.
    pub fn running(&self) -> Option<(&str, u32)> {
        self.running
            .as_ref()
            .map(|running| (running.agent.as_str(), self.iteration.saturating_add(1)))
    }

    /// What is next, while nothing runs.
    pub fn next(&self, limits: RotationLimits, now: Moment) -> Next {
        let ended = self.end.clone().or_else(|| self.spent(limits, now.awake));
        if let Some((end, because)) = ended {
            return Next::End { end, because };
        }
        let Some(agent) = self.free(now.wall_ms) else {
            return self.without_agent(limits, now);
        };
        let delay = Limits { per_turn: u32::MAX, total: u32::MAX, ..limits.crashes };
        let held = [
            (self.crashes, "an agent crashed; a while before the next"),
            (self.room, self.want.as_deref().unwrap_or("too little memory or disk")),
        ];
        for (budget, reason) in held {
            if let BudgetDecision::Later(until) = budget.decide(delay, now.awake) {
                return Next::Wait(Hold { reason: reason.into(), since: self.at, until });
            }
        }
        let is_same = self.crash.as_ref().is_some_and(|crash| crash.agent == agent.name);
        Next::Run {
            agent: agent.name.clone(),
            iteration: self.iteration.saturating_add(1),
            resume: agent.session.clone().filter(|_| is_same),
        }
    }

    /// The agent that [`Rotation::next`] named begins.
    pub fn began(&mut self, agent: &str, is_resume: bool, now: Moment) {
        let Some(place) = self.agents.iter().position(|one| one.name == agent) else { return };
        self.current = place;
        let Some(agent) = self.agents.get_mut(place) else { return };
        agent.exhausted = None;
        agent.session = None;
        self.running = Some(Running { agent: agent.name.clone(), is_resume });
        if self.owes {
            self.crashes.charge(now.awake);
            self.owes = false;
        }
        (self.room, self.want) = (Budget::default(), None);
        self.at = now;
    }

    /// The machine has too little for another start (H-11): a while, and a longer one each time.
    pub fn wanting(&mut self, want: &str, now: Moment) {
        self.want = Some(want.into());
        self.room.failed(now.awake);
        self.at = now;
    }

    /// The run is over.
    pub fn ended(&mut self, end: &IterationEnd<'_>, limits: RotationLimits, now: Moment) {
        let Some(running) = self.running.take() else { return };
        self.at = now;
        match end.outcome {
            RunOutcome::Done => self.did(end),
            RunOutcome::Crash | RunOutcome::NoResult | RunOutcome::PoisonedResume => {
                let crash = Crash {
                    agent: running.agent.clone(),
                    outcome: end.outcome.word().into(),
                    summary: end.summary.into(),
                    error_line: end.error_line.map(String::from),
                };
                // A conversation is gone on with once: what ends it again begins anew.
                let is_over = running.is_resume || end.outcome == RunOutcome::PoisonedResume;
                let session = end.session.filter(|_| !is_over);
                self.crashed(crash, session, end.is_ours, now);
            }
            RunOutcome::Exhausted => self.exhaust(end.resets_ms, limits, now),
            RunOutcome::Authentication | RunOutcome::Billing => {
                let because = format!("{}: {}", end.outcome.word(), end.summary);
                self.of_current(|agent| agent.blocked = Some(because));
                self.rotate();
            }
            RunOutcome::Usage => {
                let because = format!("{} was called wrongly: {}", running.agent, end.summary);
                self.end = Some((LoopEnd::Error, because));
            }
            RunOutcome::Cancelled => {
                self.iteration = self.iteration.saturating_add(1);
                let because = format!("{} was interrupted: {}", running.agent, end.summary);
                self.end = Some((LoopEnd::Interrupted, because));
            }
        }
    }

    /// The loop's user ends it, whatever the run came to.
    pub fn stop(&mut self, because: &str) {
        if self.end.is_none() {
            self.end = Some((LoopEnd::Interrupted, because.into()));
        }
    }

    /// A loop that ended in mid-run does not know how its run went on.
    fn interrupted(&mut self, now: Moment) {
        let Some(running) = self.running.take() else { return };
        let crash = Crash {
            agent: running.agent,
            outcome: "unknown".into(),
            summary: "the loop itself was interrupted".into(),
            error_line: None,
        };
        self.crashed(crash, None, false, now);
    }

    fn did(&mut self, end: &IterationEnd<'_>) {
        self.iteration = self.iteration.saturating_add(1);
        self.crashes.succeeded();
        self.crashes.next_turn();
        self.crash = None;
        self.of_current(|agent| agent.exhaustions = 0);
        match end.status {
            Some(StatusWord::Done) => {
                self.end = Some((LoopEnd::Done, "the task is done".into()));
            }
            Some(StatusWord::Stuck) => {
                self.end = Some((LoopEnd::Stuck, "an agent says that it is stuck".into()));
            }
            Some(StatusWord::Rotate) => self.rotate(),
            Some(StatusWord::Continue) | None => (),
        }
    }

    /// S2-07, S2-08, S2-16: the next one goes on, and this one stays in the pool.
    fn crashed(&mut self, crash: Crash, session: Option<&str>, is_ours: bool, now: Moment) {
        self.iteration = self.iteration.saturating_add(1);
        self.crash = Some(crash);
        self.crashes.failed(now.awake);
        self.owes |= !is_ours;
        self.of_current(|agent| {
            agent.session = session.map(String::from);
            agent.exhaustions = 0;
        });
        self.rotate();
    }

    /// S2-17: it leaves until its reset. The iteration is not over: another agent goes on with it.
    fn exhaust(&mut self, resets_ms: Option<u64>, limits: RotationLimits, now: Moment) {
        let wall_ms = now.wall_ms;
        let latest_ms = wall_ms.saturating_add(RESET_MAX_MS);
        let reset = resets_ms.filter(|reset| wall_ms < *reset && *reset <= latest_ms);
        // A reset that proves wrong again and again is asked after more and more seldom.
        let least = Delay { max_ms: limits.exhausted.max_ms, ..limits.crashes.delay };
        self.of_current(|agent| {
            agent.exhaustions = agent.exhaustions.saturating_add(1);
            let least_ms = wall_ms.saturating_add(least.after_ms(agent.exhaustions));
            let guess_ms = wall_ms.saturating_add(limits.exhausted.after_ms(agent.exhaustions));
            let until = reset.map_or(guess_ms, |reset| reset.max(least_ms));
            agent.exhausted = Some((wall_ms, until));
        });
        self.rotate();
    }

    fn of_current(&mut self, change: impl FnOnce(&mut Agent)) {
        if let Some(agent) = self.agents.get_mut(self.current) {
            change(agent);
        }
    }

    fn rotate(&mut self) {
        let next = self.current.saturating_add(1);
        self.current = if next < self.agents.len() { next } else { 0 };
    }

    /// The first that is free, from the one whose turn it is on.
    fn free(&self, wall_ms: u64) -> Option<&Agent> {
        let (before, rest) = self.agents.split_at_checked(self.current)?;
        rest.iter().chain(before).find(|agent| agent.is_free(wall_ms))
    }

    /// The limits that end a loop (S2-09, S2-20).
    fn spent(&self, limits: RotationLimits, now: Awake) -> Option<(LoopEnd, String)> {
        if limits.max_iterations <= self.iteration {
            let because = format!(
                "{} iterations are over; a larger `--max-iterations` goes on",
                self.iteration
            );
            return Some((LoopEnd::MaxIterations, because));
        }
        let crash = self.crash.as_ref().filter(|_| self.owes)?;
        let last = format!("{}: {}, {}", crash.agent, crash.outcome, crash.summary);
        let because = match self.crashes.decide(limits.crashes, now) {
            BudgetDecision::Allowed | BudgetDecision::Later(_) => return None,
            BudgetDecision::SpentThisTurn => format!(
                "{} crashes in a row were gone on from, and the next came ({last}); `coord loop` again goes on",
                limits.crashes.per_turn
            ),
            BudgetDecision::Spent => format!(
                "{} crashes in all were gone on from, and the next came ({last}); `coord loop --fresh` begins anew",
                limits.crashes.total
            ),
        };
        Some((LoopEnd::Error, because))
    }

    fn without_agent(&self, limits: RotationLimits, now: Moment) -> Next {
        let waiting = self.agents.iter().filter(|agent| agent.blocked.is_none());
        let Some(first) = waiting.min_by_key(|agent| agent.back_ms(now.wall_ms)) else {
            let blocked = self
                .agents
                .iter()
                .filter_map(|agent| Some(format!("{} ({})", agent.name, agent.blocked.as_ref()?)));
            let because = format!(
                "no agent is left: {}; `coord loop` again tries them anew",
                blocked.collect::<Vec<_>>().join(", ")
            );
            return Next::End { end: LoopEnd::Error, because };
        };
        let reason = format!("all agents are at their limit; {} is back first", first.name);
        if limits.never_waits {
            return Next::End { end: LoopEnd::AllExhausted, because: reason };
        }
        let left_ms = first.back_ms(now.wall_ms).saturating_sub(now.wall_ms);
        Next::Wait(Hold { reason, since: self.at, until: now.awake.plus_ms(left_ms) })
    }
}
