//! Waits for the ends of recoveries by following the journal, with or without a coordinator.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use anyhow::Context as _;
use coord_core::ExitStatus;
use coord_run::EndSignals;
use coord_store::{RealDisk, StateLock};
use coord_view::steps::{Step, Steps};
use coord_wire::api::OperatorResult;
use coord_wire::exchange::{Miss, mono_ns};
use coord_wire::inspect::Session;

use super::end::{End, Outcome, called};
use super::progress::Progress;
use crate::context::Context;
use crate::follow::JournalWatch;
use crate::out::{Failure, complain, escape};
use crate::verb::inspect::look;
use crate::verb::status::not_reachable;

/// A coordinator that is restarted answers again within this.
const AWAY_NS_MAX: u64 = 10_000_000_000;
/// As a shell has it for Ctrl-C.
const INTERRUPTED: i32 = 130;

/// A session whose recovery is waited for.
#[derive(Debug)]
pub(super) struct Target {
    id: String,
    /// All ids of the session.
    ids: BTreeSet<String>,
    /// What lines begin with, and what commands call the session.
    name: String,
    /// Where the session is in tmux.
    place: Option<String>,
    progress: Progress,
    end: Option<End>,
}

impl Target {
    /// The session of an accepted order.
    pub(super) fn of(result: &OperatorResult, context: &Context) -> Result<Self, Failure> {
        let id = result.session_id.clone().unwrap_or_default();
        let sessions = look(Some(&id), context)?.answer.sessions;
        let session = sessions.iter().find(|session| is_of(session, &id));
        let ids = session.map(|one| one.previous_ids.iter().chain([&one.session_id]).cloned());
        let ids = ids.into_iter().flatten().chain([id.clone()]).collect();
        let place = session.and_then(|session| session.place.as_ref());
        let place = place.filter(|place| place.kind == "tmux").map(|place| place.text.clone());
        let name = session.map_or(&*id, called).to_owned();
        Ok(Self { id, ids, name, place, progress: Progress::default(), end: None })
    }

    fn says(&self, line: &str) -> Result<(), Failure> {
        let line = format!("{}: {line}", self.name);
        Ok(writeln!(std::io::stdout(), "{}", escape(&line))?)
    }
}

fn is_of(session: &Session, id: &str) -> bool {
    session.session_id == id || session.previous_ids.iter().any(|one| one == id)
}

/// How the ends of recoveries are waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    /// When the orders were given, CLOCK_MONOTONIC in nanoseconds.
    pub(super) began_ns: u64,
    /// The newest record of the journal from before the orders.
    pub(super) after_seq: u64,
    /// Whether the orders wait until their sessions are idle.
    pub(super) is_patient: bool,
    /// Whether no progress is printed.
    pub(super) is_quiet: bool,
}

/// A wait for the ends of some recoveries.
#[derive(Debug)]
pub(super) struct Follow<'a> {
    targets: Vec<Target>,
    wait: Wait,
    steps: Steps,
    journal: JournalWatch,
    signals: EndSignals,
    /// When the coordinator was first missed; none while it answers.
    away_since_ns: Option<u64>,
    context: &'a Context,
}

impl<'a> Follow<'a> {
    /// Begins to follow the journal.
    ///
    /// # Errors
    /// The journal cannot be watched, or signals cannot be handled.
    pub(super) fn new(
        targets: Vec<Target>,
        wait: Wait,
        context: &'a Context,
    ) -> Result<Self, Failure> {
        let ids = targets.iter().flat_map(|target| target.ids.iter().cloned()).collect();
        Ok(Self {
            targets,
            wait,
            steps: Steps::after(wait.after_seq, ids),
            journal: JournalWatch::new(context)?,
            signals: EndSignals::take().context("signals")?,
            away_since_ns: None,
            context,
        })
    }

    /// The end of the recovery of the session with this id.
    pub(super) fn end_of(&self, id: &str) -> Option<&End> {
        self.targets.iter().find(|target| target.id == id)?.end.as_ref()
    }

    /// How many sessions are back.
    pub(super) fn recovered(&self) -> usize {
        let ends = self.targets.iter().filter_map(|target| target.end.as_ref());
        ends.filter(|end| end.outcome == Outcome::Recovered).count()
    }

    /// Waits until each recovery has ended, and prints what happens meanwhile.
    ///
    /// # Errors
    /// A signal ended the wait, the coordinator stays away, or nobody reads the output.
    pub(super) fn wait_for_ends(&mut self) -> Result<(), Failure> {
        loop {
            if self.signals.wait(0) {
                self.leave()?;
                return Err(Failure::Exit(ExitStatus::Code(INTERRUPTED)));
            }
            // Looked at before the journal is read, so that an end comes after its steps.
            let found = self.look_at_all()?;
            self.report_steps()?;
            for (index, session) in found {
                self.report(index, &session)?;
            }
            if self.targets.iter().all(|target| target.end.is_some()) {
                return Ok(());
            }
            self.journal.pause_beside(&self.signals, Duration::MAX)?;
        }
    }

    /// Looks at each session that has no end yet, by its index.
    fn look_at_all(&mut self) -> Result<Vec<(usize, Session)>, Failure> {
        let context = self.context.at_present();
        let mut found = Vec::new();
        let mut missed = None;
        for (index, target) in self.targets.iter().enumerate() {
            if target.end.is_some() {
                continue;
            }
            let looked = look(Some(&target.id), &context)?;
            missed = missed.or(looked.miss);
            let mut sessions = looked.answer.sessions.into_iter();
            found.extend(sessions.find(|one| is_of(one, &target.id)).map(|one| (index, one)));
        }
        self.note_miss(missed)?;
        Ok(found)
    }

    /// A coordinator that is restarted continues the recovery. One that stays away does not.
    fn note_miss(&mut self, missed: Option<Miss>) -> Result<(), Failure> {
        let Some(miss) = missed else {
            self.away_since_ns = None;
            return Ok(());
        };
        let now_ns = mono_ns();
        let is_new = self.away_since_ns.is_none();
        let since_ns = *self.away_since_ns.get_or_insert(now_ns);
        if is_new && !self.wait.is_quiet {
            let line = "the coordinator does not answer; the recovery goes on when it runs again";
            writeln!(std::io::stdout(), "{line}")?;
        }
        if now_ns.saturating_sub(since_ns) < AWAY_NS_MAX {
            return Ok(());
        }
        self.leave()?;
        Err(Failure::NotReachable(not_reachable(miss, self.context)))
    }

    /// Prints the steps that the journal has since the last time.
    fn report_steps(&mut self) -> Result<(), Failure> {
        while let Some(steps) = self.next_steps()? {
            for (id, step) in steps {
                self.report_step(&id, step)?;
            }
        }
        Ok(())
    }

    /// Reads the next piece. The lock is given back before anything is printed.
    fn next_steps(&mut self) -> Result<Option<Vec<(String, Step)>>, Failure> {
        let paths = &self.context.paths;
        let _lock = StateLock::shared(&paths.state_lock()).map_err(anyhow::Error::from)?;
        let piece = self.steps.next_piece(&RealDisk, &paths.journal());
        Ok(piece.map_err(anyhow::Error::from)?)
    }

    fn report_step(&mut self, id: &str, step: Step) -> Result<(), Failure> {
        let Some(target) = self.targets.iter_mut().find(|target| target.ids.contains(id)) else {
            return Ok(());
        };
        let lines = target.progress.on_step(step, target.place.as_deref());
        if target.end.is_some() || self.wait.is_quiet {
            return Ok(());
        }
        lines.iter().try_for_each(|line| target.says(line))
    }

    /// Prints what a recovery waits for, or how it ended.
    fn report(&mut self, index: usize, session: &Session) -> Result<(), Failure> {
        let after_ms = self.after_ms();
        let Some(target) = self.targets.get_mut(index) else { return Ok(()) };
        let line = match End::of(session, self.wait.is_patient, after_ms) {
            Some(end) => Some(target.end.insert(end).line()),
            None => target.progress.on_wait(session),
        };
        match line.filter(|_| !self.wait.is_quiet) {
            Some(line) => target.says(&line),
            None => Ok(()),
        }
    }

    /// Says that the recoveries that have no end yet go on.
    fn leave(&mut self) -> Result<(), Failure> {
        let after_ms = self.after_ms();
        for target in self.targets.iter_mut().filter(|target| target.end.is_none()) {
            let line = target.end.insert(End::pending(&target.name, after_ms)).line();
            if self.wait.is_quiet {
                complain("coordctl", &format!("{}: {line}", target.name));
            } else {
                target.says(&line)?;
            }
        }
        Ok(())
    }

    /// The time since the orders, in milliseconds.
    fn after_ms(&self) -> u64 {
        mono_ns().saturating_sub(self.wait.began_ns) / 1_000_000
    }
}
