//! Decides which agent of a pool runs next, when, and when the loop ends (S2-07 to S2-09, S2-15 to S2-20).
//!
//! After a crash the next agent continues, and the crashed one stays in the pool. An agent at its limit is out
//! until the reset. An agent whose login or account is refused is out until the loop is started again. Only limits
//! end the loop, and the end names them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use coord_model::{Awake, Delay, Moment};

use crate::records::{Budget, BudgetDecision, Hold, Limits};
use crate::run::RunOutcome;

/// The longest reset that is believed, in milliseconds: no limit of an account lasts longer than a week.
const RESET_MAX_MS: u64 = 8 * 86_400_000;

/// The limits of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationLimits {
    /// Iterations in total.
    pub max_iterations: u32,
    /// Crashes after which the loop continues, in a row and in total, and the delay after each (G5).
    pub crashes: Limits,
    /// Delay after which an agent without a known reset is tried again (S2-17).
    pub exhausted: Delay,
    /// Whether the loop ends, instead of waiting, when all agents are at their limit.
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

/// What an agent reports about its task, in the status file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWord {
    /// The same agent continues.
    Continue,
    /// The next agent continues.
    Rotate,
    /// The task is done.
    Done,
    /// No agent makes progress.
    Stuck,
}

impl StatusWord {
    /// All status words.
    pub const ALL: [Self; 4] = [Self::Continue, Self::Rotate, Self::Done, Self::Stuck];

    /// The status word itself.
    pub fn word(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Rotate => "rotate",
            Self::Done => "done",
            Self::Stuck => "stuck",
        }
    }

    /// The status word that is all of `text`, in upper or lower case; none for anything else (S2-14).
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
    /// An agent reported that no agent makes progress.
    Stuck,
    /// Its iterations are used up.
    MaxIterations,
    /// All agents are at their limit, and the loop may not wait.
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

/// What the loop does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// This agent runs.
    Run {
        /// Its name.
        agent: String,
        /// The iteration, from 1.
        iteration: u32,
        /// The conversation that its crash left, if that one is continued.
        resume: Option<String>,
    },
    /// Nothing, until the end of this hold.
    Wait(Hold),
    /// Nothing more.
    End {
        /// How the loop ended.
        end: LoopEnd,
        /// Why, and how to continue.
        because: String,
    },
}

/// How the previous rotation failed (S2-11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    /// The agent that crashed.
    pub agent: String,
    /// The outcome, in one word.
    pub outcome: String,
    /// The outcome, in words.
    pub summary: String,
    /// The first line on its standard error: foreign text.
    pub error_line: Option<String>,
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IterationEnd<'a> {
    /// The outcome.
    pub outcome: RunOutcome,
    /// Whether coord's own signals ended it, which is no crash (S3-24).
    pub is_ours: bool,
    /// When its usage limit ends, milliseconds since 1970.
    pub resets_ms: Option<u64>,
    /// What its agent reports about the task.
    pub status: Option<StatusWord>,
    /// The conversation that it left.
    pub session: Option<&'a str>,
    /// The outcome, in words.
    pub summary: &'a str,
    /// The first line on standard error that is not empty.
    pub error_line: Option<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Agent {
    name: String,
    /// At its usage limit: since when and until when, milliseconds since 1970.
    exhausted: Option<(u64, u64)>,
    exhaustions: u32,
    blocked: Option<String>,
    /// The conversation that its crash left, and that was not continued yet.
    session: Option<String>,
}

impl Agent {
    fn back_ms(&self, wall_ms: u64) -> u64 {
        // If the clock was set back, nothing is known of the remaining time.
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
    /// The agent whose turn it is, if it is free.
    current: usize,
    /// Iterations that ended.
    iteration: u32,
    crashes: Budget,
    /// Whether the next run continues after a crash, and is charged for it.
    #[serde(rename = "owes")]
    is_charge_pending: bool,
    room: Budget,
    want: Option<String>,
    running: Option<Running>,
    crash: Option<Crash>,
    end: Option<(LoopEnd, String)>,
    /// Time of the last event.
    at: Moment,
}

impl Rotation {
    /// A loop that begins now.
    pub fn new<'a>(agents: impl IntoIterator<Item = &'a str>, now: Moment) -> Self {
        let agents = agents.into_iter();
        Self {
            agents: agents.map(|name| Agent { name: name.into(), ..Agent::default() }).collect(),
            current: 0,
            iteration: 0,
            crashes: Budget::default(),
            is_charge_pending: false,
            room: Budget::default(),
            want: None,
            running: None,
            crash: None,
            end: None,
            at: now,
        }
    }

    /// Continues a loop that is started again with this pool (G10). A run that was in progress is judged as
    /// interrupted, and blocked agents are tried again. Crashes in a row are counted from zero; the total stays.
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
            (self.is_charge_pending, self.crash) = (false, None);
        }
        self.end = None;
        self.crashes.next_turn();
        self.crashes.rebase(now.awake);
        (self.room, self.want) = (Budget::default(), None);
        self.at = now;
    }

    /// Iterations that ended.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// How the previous rotation failed, if it did (S2-11).
    pub fn crash(&self) -> Option<&Crash> {
        self.crash.as_ref()
    }

    /// The agent that runs, and the iteration.
    pub fn running(&self) -> Option<(&str, u32)> {
        self.running
            .as_ref()
            .map(|running| (running.agent.as_str(), self.iteration.saturating_add(1)))
    }

    /// What the loop does next, while nothing runs.
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
            (self.crashes, "an agent crashed; the next one starts after a delay"),
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

    /// Notes that the agent named by [`Rotation::next`] begins.
    pub fn began(&mut self, agent: &str, is_resume: bool, now: Moment) {
        let Some(place) = self.agents.iter().position(|one| one.name == agent) else { return };
        self.current = place;
        let Some(agent) = self.agents.get_mut(place) else { return };
        agent.exhausted = None;
        agent.session = None;
        self.running = Some(Running { agent: agent.name.clone(), is_resume });
        if self.is_charge_pending {
            self.crashes.charge(now.awake);
            self.is_charge_pending = false;
        }
        (self.room, self.want) = (Budget::default(), None);
        self.at = now;
    }

    /// Notes that the machine has no room for another start (H-11). The loop waits, longer each time.
    pub fn wanting(&mut self, want: &str, now: Moment) {
        self.want = Some(want.into());
        self.room.failed(now.awake);
        self.at = now;
    }

    /// Notes that a run ended.
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
                // A conversation is continued once. If that run ends it again, the next run begins a new one.
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

    /// Ends the loop on its user's order, whatever the result of the run.
    pub fn stop(&mut self, because: &str) {
        if self.end.is_none() {
            self.end = Some((LoopEnd::Interrupted, because.into()));
        }
    }

    /// Handles a run that was in progress when the loop ended: its end is not known.
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
                self.end = Some((LoopEnd::Stuck, "an agent reports that it is stuck".into()));
            }
            Some(StatusWord::Rotate) => self.rotate(),
            Some(StatusWord::Continue) | None => (),
        }
    }

    /// S2-07, S2-08, S2-16: the next agent continues, and this one stays in the pool.
    fn crashed(&mut self, crash: Crash, session: Option<&str>, is_ours: bool, now: Moment) {
        self.iteration = self.iteration.saturating_add(1);
        self.crash = Some(crash);
        self.crashes.failed(now.awake);
        self.is_charge_pending |= !is_ours;
        self.of_current(|agent| {
            agent.session = session.map(String::from);
            agent.exhaustions = 0;
        });
        self.rotate();
    }

    /// S2-17: takes an agent out until its reset. The iteration is not over: another agent continues it.
    fn exhaust(&mut self, resets_ms: Option<u64>, limits: RotationLimits, now: Moment) {
        let wall_ms = now.wall_ms;
        let latest_ms = wall_ms.saturating_add(RESET_MAX_MS);
        let reset = resets_ms.filter(|reset| wall_ms < *reset && *reset <= latest_ms);
        // If a reset proves wrong again and again, it is retried ever more rarely.
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

    /// The first free agent, beginning with the one whose turn it is.
    fn free(&self, wall_ms: u64) -> Option<&Agent> {
        let (before, rest) = self.agents.split_at_checked(self.current)?;
        rest.iter().chain(before).find(|agent| agent.is_free(wall_ms))
    }

    /// The limits that end a loop (S2-09, S2-20).
    fn spent(&self, limits: RotationLimits, now: Awake) -> Option<(LoopEnd, String)> {
        if limits.max_iterations <= self.iteration {
            let because = format!(
                "{} iterations are done; use a larger `--max-iterations` to continue",
                self.iteration
            );
            return Some((LoopEnd::MaxIterations, because));
        }
        let crash = self.crash.as_ref().filter(|_| self.is_charge_pending)?;
        let last = format!("{}: {}, {}", crash.agent, crash.outcome, crash.summary);
        let because = match self.crashes.decide(limits.crashes, now) {
            BudgetDecision::Allowed | BudgetDecision::Later(_) => return None,
            BudgetDecision::SpentThisTurn => format!(
                "the loop continued after {} crashes in a row, and another followed ({last}); run `coord loop` again to continue",
                limits.crashes.per_turn
            ),
            BudgetDecision::Spent => format!(
                "the loop continued after {} crashes in all, and another followed ({last}); run `coord loop --fresh` to start over",
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
                "no agent is left: {}; run `coord loop` again to retry them",
                blocked.collect::<Vec<_>>().join(", ")
            );
            return Next::End { end: LoopEnd::Error, because };
        };
        let reason = format!("all agents are at their usage limit; {} resets first", first.name);
        if limits.never_waits {
            return Next::End { end: LoopEnd::AllExhausted, because: reason };
        }
        let left_ms = first.back_ms(now.wall_ms).saturating_sub(now.wall_ms);
        Next::Wait(Hold { reason, since: self.at, until: now.awake.plus_ms(left_ms) })
    }
}
