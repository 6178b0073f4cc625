//! A loop over a pool of agents: each iteration one run, then what it came to decides who goes on (S2).
//!
//! `coord_core::Rotation` decides. Here its decisions are carried out, and stand in the task's directory before
//! each run and after it, so that a loop that was ended goes on where it stopped.

mod files;
mod handoff;
mod history;
mod left_run;
mod outside;
mod prompt;
mod survivors;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use coord_config::AgentConfig;
use coord_core::{
    ExitReason, Hold, IterationEnd, LoopEnd, Next, Rotation, RotationLimits, RunOutcome, StatusWord,
};
use coord_model::Moment;
use coord_model::stamp::rfc3339;
use serde::{Deserialize, Serialize};

use coord_run::runs;
use coord_run::spec::{RunEnd, RunSpec, output_of};
pub use files::{DIR, Files, HANDOFF, HISTORY, STATE, STATUS, look, task_dir};
use handoff::{Entry, plain};
pub use history::Line;
pub use outside::{LoopNote, Machine, Outside};
use prompt::{Told, is_session_id};

/// The variable by which the processes of a run are found when its loop is gone.
pub const RUN_VARIABLE: &str = "COORD_LOOP_RUN";

const SCHEMA: u32 = 1;
/// A wait is cut into pieces, so that a sleep of the machine or a clock step is noticed.
const WAIT_MS_MAX: u64 = 30_000;

/// What a loop is to be.
#[derive(Debug, Clone)]
pub struct LoopSpec {
    /// The directory of the task, as [`task_dir`] gives it.
    pub dir: PathBuf,
    /// What the agents are to do.
    pub prompt: String,
    /// The pool, in its order.
    pub agents: Vec<AgentConfig>,
    /// What it may do.
    pub limits: RotationLimits,
    /// What all its runs have in common.
    pub run: RunSpec,
    /// Counts anew, whatever there was.
    pub is_fresh: bool,
}

impl LoopSpec {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.agents.iter().map(|agent| agent.name.as_str())
    }

    /// What it would do first, with nothing made or changed.
    ///
    /// # Errors
    /// Its state cannot be read.
    pub fn first(&self, now: Moment) -> anyhow::Result<Next> {
        let state = if self.is_fresh { None } else { look(&self.dir)? };
        let state = state.map(|bytes| State::read(&bytes)).transpose()?;
        Ok(self.begin(state, now).next(self.limits, now))
    }

    fn begin(&self, state: Option<State>, now: Moment) -> Rotation {
        match state.filter(|_| !self.is_fresh) {
            Some(mut state) => {
                state.rotation.restart(self.names(), now);
                state.rotation
            }
            None => Rotation::new(self.names(), now),
        }
    }
}

/// What a loop goes on from.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    schema: u32,
    /// The run that is under way, which also marks its processes.
    run: Option<String>,
    rotation: Rotation,
}

impl State {
    fn read(bytes: &[u8]) -> anyhow::Result<Self> {
        let state: Self = serde_json::from_slice(bytes).with_context(|| {
            format!("{DIR}/{STATE} is damaged; run `coord loop --fresh` to start over")
        })?;
        if state.schema != SCHEMA {
            bail!(
                "{DIR}/{STATE} was written by another version; run `coord loop --fresh` to start over"
            );
        }
        Ok(state)
    }
}

/// Runs a loop to its end: how it ended, and why.
///
/// # Errors
/// Another loop runs here, or its files cannot be read or written.
pub fn run_loop<O: Outside>(spec: &LoopSpec, outside: &mut O) -> anyhow::Result<(LoopEnd, String)> {
    let files = Files::open(&spec.dir)?;
    let mut going = Going::begin(spec, files, outside)?;
    loop {
        let now = outside.now();
        match going.rotation.next(spec.limits, now) {
            Next::End { end, because } => {
                going.save()?;
                return Ok((end, because));
            }
            Next::Wait(hold) => going.wait(&hold, now, outside),
            Next::Run { agent, iteration, resume } => {
                going.files.ensure()?;
                if let Some(want) = outside.want() {
                    going.rotation.wanting(&want, now);
                    continue;
                }
                going.iterate(&agent, iteration, resume.as_deref(), outside)?;
            }
        }
    }
}

/// A loop that goes on.
struct Going<'a> {
    spec: &'a LoopSpec,
    files: Files,
    rotation: Rotation,
    run: Option<String>,
}

impl<'a> Going<'a> {
    fn begin<O: Outside>(
        spec: &'a LoopSpec,
        files: Files,
        outside: &mut O,
    ) -> anyhow::Result<Self> {
        let now = outside.now();
        let state = files.state()?.map(|bytes| State::read(&bytes)).transpose();
        let mut state = if spec.is_fresh { state.unwrap_or(None) } else { state? };
        let run = state.as_ref().and_then(|state| state.run.as_deref());
        let left = run.map_or_else(Vec::new, |run| outside.survivors(RUN_VARIABLE, run));
        if !left.is_empty() {
            let pids: Vec<_> = left.iter().map(u32::to_string).collect();
            let pids = pids.join(" ");
            bail!(
                "the agent of an interrupted loop still works here (pid {pids}); wait for its end, or end it with `kill {pids}`"
            );
        }
        let run = run.and_then(|run| outside.run_file(run));
        let before = state.as_ref().and_then(|state| state.rotation.running());
        let before = before.map(|(agent, iteration)| (agent.to_owned(), iteration));
        let status = files.status();
        let end = run.as_ref().and_then(|run| left_run::end_of(run, status));
        let is_over = match (&mut state, &end) {
            (Some(state), Some(end)) => {
                state.rotation.ended(end, spec.limits, now);
                let next = state.rotation.next(spec.limits, now);
                matches!(next, Next::End { end: LoopEnd::Done | LoopEnd::Stuck, .. })
            }
            (_, _) => false,
        };
        let rotation = match state {
            // What the run before came to is still to be said.
            Some(state) if is_over && !spec.is_fresh => state.rotation,
            state => spec.begin(state, now),
        };
        let going = Self { spec, files, rotation, run: None };
        if let Some((agent, iteration)) = before {
            let line = left_run::line_of(iteration, &agent, run.as_ref());
            let is_crash = end.as_ref().is_none_or(|end| is_crash(end.outcome));
            let status = end.as_ref().and_then(|end| end.status).map(StatusWord::word);
            let line = Line { status: status.map(str::to_owned), ..line };
            going.tell_left(&line, is_crash, now.wall_ms)?;
        }
        going.save()?;
        Ok(going)
    }

    /// Tells of the run that an ended loop left.
    fn tell_left(&self, line: &Line, is_crash: bool, wall_ms: u64) -> anyhow::Result<()> {
        if is_crash {
            self.hand_off(&Entry {
                iteration: line.iteration,
                agent: &line.agent,
                at_ms: wall_ms,
                summary: line.because.clone(),
                exit: line.exit.clone(),
                error_line: None,
                bytes: None,
                left: &[],
            })?;
        }
        self.log(line)
    }

    fn save(&self) -> anyhow::Result<()> {
        let (run, rotation) = (self.run.clone(), self.rotation.clone());
        let state = State { schema: SCHEMA, run, rotation };
        self.files.replace(STATE, &serde_json::to_vec(&state)?)
    }

    fn wait<O: Outside>(&mut self, hold: &Hold, now: Moment, outside: &mut O) {
        let left_ms = hold.remaining_ms(now.awake);
        let until_ms = now.wall_ms.saturating_add(left_ms);
        outside.note(&LoopNote::Waiting { hold, until_ms });
        if outside.wait(left_ms.clamp(1, WAIT_MS_MAX)) {
            self.rotation.stop("stopped by a person; run `coord loop` again to continue");
        }
    }

    /// One run, from the state before it to the state behind it.
    fn iterate<O: Outside>(
        &mut self,
        name: &str,
        iteration: u32,
        resume: Option<&str>,
        outside: &mut O,
    ) -> anyhow::Result<()> {
        let spec = self.spec;
        let agent = spec.agents.iter().find(|agent| agent.name == name);
        let agent = agent.with_context(|| format!("no agent is called {name:?}"))?;
        let resume = resume.filter(|session| {
            agent.resume.is_some() && is_session_id(session) && !outside.is_quarantined(session)
        });
        let (status, handoff) = (self.files.path(STATUS), self.files.path(HANDOFF));
        let told = Told {
            dir: &spec.dir,
            status: &status,
            handoff: &handoff,
            agent: name,
            iteration,
            crash: self.rotation.crash(),
        };
        let text = prompt::prompt(&told, &spec.prompt);
        let (command, stdin) = prompt::command(agent, resume, &told, &text)?;
        let now = outside.now();
        let id = runs::new_id(now.wall_ms);
        let run = RunSpec {
            id: Some(id.clone()),
            output: output_of(&command),
            command,
            stdin,
            env: vec![(RUN_VARIABLE.into(), id.clone().into())],
            prompt: Some(text),
            name: Some(format!("{name}, iteration {iteration}")),
            ..prompt::spec(agent, &spec.run)
        };
        self.files.replace(STATUS, b"")?;
        self.rotation.began(name, resume.is_some(), now);
        self.run = Some(id);
        self.save()?;
        outside.note(&LoopNote::Began { iteration, agent: name, is_resume: resume.is_some() });
        let end = outside.run(&run);
        self.files.ensure()?;
        match end {
            Ok(end) => self.judge(name, iteration, &end, now, outside)?,
            Err(error) => self.not_started(name, iteration, &error, outside)?,
        }
        if outside.wait(0) {
            self.rotation.stop("stopped by a person; run `coord loop` again to continue");
        }
        self.run = None;
        self.save()
    }

    fn judge<O: Outside>(
        &mut self,
        agent: &str,
        iteration: u32,
        end: &RunEnd,
        began: Moment,
        outside: &mut O,
    ) -> anyhow::Result<()> {
        let now = outside.now();
        let status = self.files.status();
        let word = status.map(StatusWord::word);
        let judged = &end.judged;
        let outcome = judged.outcome.word();
        self.rotation.ended(
            &IterationEnd {
                outcome: judged.outcome,
                is_ours: end.reason.is_forced(),
                resets_ms: judged.resets_ms,
                status,
                session: end.session_id.as_deref().filter(|session| is_session_id(session)),
                summary: &plain(&judged.because),
                error_line: end.first_error_line.as_deref().map(plain).as_deref(),
            },
            self.spec.limits,
            now,
        );
        if is_crash(judged.outcome) {
            self.hand_off(&Entry {
                iteration,
                agent,
                at_ms: now.wall_ms,
                summary: format!("{outcome}: {}", judged.because),
                exit: end.status.words(),
                error_line: end.first_error_line.as_deref(),
                bytes: Some((end.stdout_bytes, end.stderr_bytes)),
                left: &end.left,
            })?;
        }
        self.log(&Line {
            run_id: Some(end.id.clone()),
            started: Some(rfc3339(began.wall_ms)),
            took_ms: Some(end.took_ms),
            outcome: outcome.to_owned(),
            exit: end.status.words(),
            exit_reason: end.reason.word().to_owned(),
            because: judged.because.clone(),
            status: word.map(str::to_owned),
            resets_at: judged.resets_ms.map(rfc3339),
            session_id: end.session_id.clone(),
            ..Line::of(iteration, agent)
        })?;
        if let Some(error) = &end.no_record {
            let text = format!("no file of this run, so it would not have been ended: {error}");
            outside.note(&LoopNote::Warning(&text));
        }
        outside.note(&LoopNote::Ended {
            iteration,
            agent,
            outcome,
            because: &judged.because,
            status: word,
            took_ms: end.took_ms,
        });
        Ok(())
    }

    /// What cannot be started was called wrongly: no other agent is tried (S2-01).
    fn not_started<O: Outside>(
        &mut self,
        agent: &str,
        iteration: u32,
        error: &anyhow::Error,
        outside: &mut O,
    ) -> anyhow::Result<()> {
        let because = plain(&format!("{error:#}"));
        let end = IterationEnd {
            outcome: RunOutcome::Usage,
            is_ours: false,
            resets_ms: None,
            status: None,
            session: None,
            summary: &because,
            error_line: None,
        };
        self.rotation.ended(&end, self.spec.limits, outside.now());
        let outcome = end.outcome.word();
        self.log(&Line {
            outcome: outcome.to_owned(),
            exit_reason: ExitReason::NotStarted.word().to_owned(),
            because: because.clone(),
            ..Line::of(iteration, agent)
        })?;
        let (status, took_ms, because) = (None, 0, because.as_str());
        outside.note(&LoopNote::Ended { iteration, agent, outcome, because, status, took_ms });
        Ok(())
    }

    fn hand_off(&self, entry: &Entry<'_>) -> anyhow::Result<()> {
        let before = self.files.read_end(HANDOFF, handoff::READ_BYTES_MAX);
        // What is no file of text is replaced: a crash is told in any case.
        let before = before.ok().flatten().unwrap_or_default();
        let text = handoff::with(&String::from_utf8_lossy(&before), &entry.text());
        self.files.replace(HANDOFF, text.as_bytes())
    }

    fn log(&self, line: &Line) -> anyhow::Result<()> {
        self.files.append_line(HISTORY, &serde_json::to_string(line)?)
    }
}

fn is_crash(outcome: RunOutcome) -> bool {
    match outcome {
        RunOutcome::Crash | RunOutcome::NoResult | RunOutcome::PoisonedResume => true,
        RunOutcome::Done
        | RunOutcome::Exhausted
        | RunOutcome::Authentication
        | RunOutcome::Billing
        | RunOutcome::Cancelled
        | RunOutcome::Usage => false,
    }
}
