//! What a loop sees and does outside of its own files: time, signals, runs, the machine.

use std::path::PathBuf;

use anyhow::Context as _;
use coord_core::Hold;
use coord_model::{Awake, Moment};
use coord_run::end_signals::EndSignals;
use coord_run::runs;
use coord_run::spec::{RunEnd, RunSpec};
use coord_store::clock::{Clock, RealClock};
use coord_wire::paths::Paths;
use coord_wire::run::Run;

use super::survivors::survivors;

/// What a loop tells whoever watches it.
#[derive(Debug, Clone, Copy)]
pub enum LoopNote<'a> {
    /// A run begins.
    Began {
        /// The iteration.
        iteration: u32,
        /// Who.
        agent: &'a str,
        /// An old conversation is gone on with.
        is_resume: bool,
    },
    /// A run is over.
    Ended {
        /// The iteration.
        iteration: u32,
        /// Who.
        agent: &'a str,
        /// What it came to.
        outcome: &'a str,
        /// From what that was judged.
        because: &'a str,
        /// The status word.
        status: Option<&'a str>,
        /// How long it took, milliseconds.
        took_ms: u64,
    },
    /// Nothing runs for a while.
    Waiting {
        /// Why.
        hold: &'a Hold,
        /// Until when, milliseconds since 1970.
        until_ms: u64,
    },
    /// Something is wrong that stops nothing.
    Warning(&'a str),
}

/// The outside of a loop.
pub trait Outside {
    /// Both clocks.
    fn now(&self) -> Moment;
    /// Lets time pass; true if its user ends the loop.
    fn wait(&mut self, ms: u64) -> bool;
    /// Runs an agent to its end.
    ///
    /// # Errors
    /// It cannot be started.
    fn run(&mut self, spec: &RunSpec) -> anyhow::Result<RunEnd>;
    /// What the machine has too little of for another start (H-11).
    fn want(&mut self) -> Option<String>;
    /// Whether a conversation was ended by force and has not proved itself since (S3-23).
    fn is_quarantined(&self, session: &str) -> bool;
    /// What the file of a run says, if there is one.
    fn run_file(&self, run_id: &str) -> Option<Run>;
    /// Processes of a run that lost its loop.
    fn survivors(&self, variable: &str, value: &str) -> Vec<u32>;
    /// Tells.
    fn note(&mut self, note: &LoopNote<'_>);
}

/// The machine.
pub struct Machine<S, Q, N> {
    supervise: S,
    is_quarantined: Q,
    note: N,
    dir: PathBuf,
    paths: Paths,
    memory_mb_min: u64,
    signals: EndSignals,
}

impl<S, Q, N> Machine<S, Q, N>
where
    S: FnMut(&RunSpec) -> anyhow::Result<RunEnd>,
    Q: Fn(&str) -> bool,
    N: FnMut(&LoopNote<'_>),
{
    /// The machine, as far as the task in `dir` goes. From here on signals end the loop, not the process.
    ///
    /// # Errors
    /// Signals cannot be taken.
    pub fn new(
        dir: PathBuf,
        paths: Paths,
        memory_mb_min: u64,
        supervise: S,
        is_quarantined: Q,
        note: N,
    ) -> anyhow::Result<Self> {
        let signals = EndSignals::take().context("signals")?;
        Ok(Self { supervise, is_quarantined, note, dir, paths, memory_mb_min, signals })
    }
}

impl<S, Q, N> Outside for Machine<S, Q, N>
where
    S: FnMut(&RunSpec) -> anyhow::Result<RunEnd>,
    Q: Fn(&str) -> bool,
    N: FnMut(&LoopNote<'_>),
{
    fn now(&self) -> Moment {
        let clock = RealClock;
        Moment { awake: Awake(clock.mono_ns()), wall_ms: clock.wall_ms() }
    }

    fn wait(&mut self, ms: u64) -> bool {
        self.signals.wait(ms)
    }

    fn run(&mut self, spec: &RunSpec) -> anyhow::Result<RunEnd> {
        (self.supervise)(spec)
    }

    fn want(&mut self) -> Option<String> {
        coord_host::room::want(&self.dir, self.memory_mb_min)
    }

    fn is_quarantined(&self, session: &str) -> bool {
        (self.is_quarantined)(session)
    }

    fn run_file(&self, run_id: &str) -> Option<Run> {
        runs::get(&self.paths, run_id)
    }

    fn survivors(&self, variable: &str, value: &str) -> Vec<u32> {
        survivors(variable, value)
    }

    fn note(&mut self, note: &LoopNote<'_>) {
        (self.note)(note);
    }
}
