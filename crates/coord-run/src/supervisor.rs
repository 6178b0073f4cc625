//! Supervises one run from start to end: everything that happens arrives as a message, goes through
//! `coord_core::Run`, and the acts that the core returns are performed here.

mod child;
mod finish;
mod streams;

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use child::Started;
use coord_core::{
    ErrorText, ExitReason, ExitStatus, ResultUsage, Run, RunAct, RunEvent, RunRoot, StreamFact,
};
use coord_host::process;
use coord_model::stamp::rfc3339;
use coord_model::{Awake, Moment, ProcessRef};
use coord_wire::run::{RUN_VERSION, RunBackground, RunBegin, RunHold, RunLine, RunShown};
use coord_wire::usage::{Cost, RESULT, Tokens};
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};
use streams::Waits;

use crate::clock::{RunClock, TURN_MS};
use crate::pump::{PumpEnd, Pumped};
use crate::record::{Record, new_id, prune};
use crate::signals::{self, Asked};
use crate::spec::{RunEnd, RunSpec, Stdin};
use crate::standard_error::StderrSeen;
use crate::tree::{Tree, signal_all};
use crate::{quarantine, spec};

/// Everything that wakes a supervisor.
#[derive(Debug)]
pub(crate) enum Message {
    /// Facts from lines of the stream.
    Said(Vec<StreamFact>),
    /// Output without any known facts.
    Output,
    /// The standard output ended.
    OutputEnded {
        /// How it ended.
        end: Pumped,
        /// Whether all of it was the client's line for a used-up limit.
        is_limit_line: bool,
    },
    /// A known error text on standard error.
    ErrorText(ErrorText),
    /// The standard error ended.
    ErrorsEnded(StderrSeen),
    /// The supervisor received a signal.
    Signal(i32),
}

/// Starts a run, and returns once the run and its process tree have ended.
///
/// This process adopts orphans below it, so nothing else in it may have children in the meantime.
///
/// # Errors
/// Signals cannot be handled, or there are no pipes. A program that cannot be started is no error, but the
/// end of the run.
pub fn supervise(spec: &RunSpec) -> anyhow::Result<RunEnd> {
    let mut clock = RunClock::start();
    let begun = clock.read();
    let id = spec.id.clone().unwrap_or_else(|| new_id(begun.wall_ms));
    prune(&spec.paths.runs(), begun.wall_ms);
    let made = Record::make(&spec.paths.runs(), &id);
    let no_record = made.as_ref().err().map(ToString::to_string);
    let mut record = made.unwrap_or_else(|_| Record::none());
    let started = child::start(spec)?;
    record.begin(first_line(spec, &id, begun, &started));
    let Started::Running(running) = started else {
        let end = finish::not_started(spec, id, &mut record, begun, started);
        return Ok(RunEnd { no_record, ..end });
    };
    let (run, acts) = Run::begin(spec.limits.clone(), begun);
    let mut supervisor = Supervisor {
        tree: Tree { root: root(spec, running.child), pipes: running.pipes.clone() },
        spec,
        id,
        clock,
        begun,
        record,
        run,
        group: running.group,
        messages: running.messages,
        waits: running.waits.clone(),
        proved: Vec::new(),
        has_terminal: false,
        hold_until_ms: 0,
        waited: begun.awake,
        is_hurried: false,
        exited: None,
        output_end: None,
        is_limit_line: false,
        errors_end: None,
    };
    supervisor.perform(acts);
    supervisor.watch();
    let end = supervisor.finish();
    signals::take_back(supervisor.group);
    running.signals.close();
    Ok(RunEnd { no_record, ..end })
}

fn root(spec: &RunSpec, child: ProcessRef) -> RunRoot {
    let supervisor = std::process::id();
    // 0 if the session was created outside this pid namespace. Processes in here with 0 come from there too,
    // and below the supervisor those are only the run's.
    let session = process::stat(supervisor).map_or(0, |stat| stat.session);
    RunRoot { supervisor, child, session, ends_daemons: spec.ends_daemons }
}

fn first_line(spec: &RunSpec, id: &str, begun: Moment, started: &Started) -> RunBegin {
    let own = std::process::id();
    let dir = spec.dir.clone().or_else(|| std::env::current_dir().ok());
    RunBegin {
        v: RUN_VERSION,
        run_id: id.to_owned(),
        at: rfc3339(begun.wall_ms),
        name: spec.name.clone(),
        program: spec::program(spec),
        provider: spec::provider_word(spec.provider).to_owned(),
        cwd: dir.map_or_else(String::new, |dir| dir.to_string_lossy().into_owned()),
        process: started.child(),
        supervisor: ProcessRef {
            pid: own,
            start_time: process::stat(own).map_or(0, |stat| stat.start_time),
        },
    }
}

struct Supervisor<'a> {
    spec: &'a RunSpec,
    id: String,
    clock: RunClock,
    begun: Moment,
    record: Record,
    run: Run,
    tree: Tree,
    group: Pid,
    messages: Receiver<Message>,
    waits: Vec<Waits>,
    /// Processes that got the first signal of a forced end: they belong to the run, whatever happens to their
    /// parents.
    proved: Vec<ProcessRef>,
    /// Whether the run was given the terminal.
    has_terminal: bool,
    /// The cap of the run's hold as last shown, in milliseconds since 1970.
    hold_until_ms: u64,
    /// When a reader was last seen not to accept output.
    waited: Awake,
    /// Whether somebody asked for the end of the run after its process had exited.
    is_hurried: bool,
    /// How and when the process exited. The core is told once the output was read to the end.
    exited: Option<(ExitStatus, Moment)>,
    output_end: Option<Pumped>,
    /// Whether the whole output is the client's line for a used-up limit.
    is_limit_line: bool,
    errors_end: Option<StderrSeen>,
}

impl Supervisor<'_> {
    fn watch(&mut self) {
        while self.run.exit().is_none() {
            let message = self.next_message();
            let now = self.now();
            match message {
                Some(message) => self.take(message, now),
                None if self.exited.is_none() => self.step(&RunEvent::Tick, now),
                None => (),
            }
            self.tell_exit(now);
            self.show();
        }
    }

    /// The next message, or none when something is due.
    fn next_message(&mut self) -> Option<Message> {
        let now = self.now().awake;
        let due = match self.exited {
            // Checked often enough to notice, before patience ends, that a reader has come back.
            Some((_, at)) => {
                let soon = now.plus_ms(self.spec.limits.kill_grace_ms / 4);
                Some(self.patience(at.awake, now).min(soon))
            }
            None => self.run.next_deadline(),
        };
        self.wait(due, now)
    }

    fn wait(&self, due: Option<Awake>, now: Awake) -> Option<Message> {
        // At least a millisecond, so that deadlines are not met early.
        let ms = due.map_or(TURN_MS, |due| due.ms_since(now).saturating_add(1)).min(TURN_MS);
        self.messages.recv_timeout(Duration::from_millis(ms)).ok()
    }

    fn now(&mut self) -> Moment {
        let now = self.clock.read();
        if self.clock.take_gap() {
            self.step(&RunEvent::Gap, now);
        }
        now
    }

    fn take(&mut self, message: Message, now: Moment) {
        match message {
            Message::Said(facts) => {
                for fact in facts {
                    self.step(&RunEvent::Stream(fact), now);
                }
            }
            Message::Output => self.step(&RunEvent::Output, now),
            Message::OutputEnded { end, is_limit_line } => {
                self.is_limit_line = is_limit_line;
                if end.end == PumpEnd::Eof {
                    self.step(&RunEvent::Eof, now);
                }
                self.output_end = Some(end);
            }
            Message::ErrorText(text) => self.step(&RunEvent::ErrorText(text), now),
            Message::ErrorsEnded(seen) => self.errors_end = Some(seen),
            Message::Signal(signal) => self.signalled(signal, now),
        }
    }

    /// Reports the exit to the core. A natural exit is noticed at once (S3-04), but the last output may still
    /// be in the pipe.
    fn tell_exit(&mut self, now: Moment) {
        let Some((status, at)) = self.exited else { return };
        let is_late = self.patience(at.awake, now.awake) <= now.awake;
        if self.output_end.is_some() || is_late || self.is_hurried {
            self.step(&RunEvent::Exited(status), now);
        }
    }

    /// Until when to wait for the end of a stream. Other processes may hold it open for ever, but output that
    /// a slow reader has not accepted yet is not thrown away.
    fn patience(&mut self, since: Awake, now: Awake) -> Awake {
        if self.waits.iter().any(|waits| waits.load(Ordering::Relaxed)) {
            self.waited = now;
        }
        since.max(self.waited).plus_ms(self.spec.limits.kill_grace_ms)
    }

    fn step(&mut self, event: &RunEvent, now: Moment) {
        let acts = self.run.step(event, now);
        self.perform(acts);
    }

    fn perform(&mut self, acts: Vec<RunAct>) {
        let mut acts: VecDeque<RunAct> = acts.into();
        while let Some(act) = acts.pop_front() {
            let answer = match act {
                RunAct::Look => {
                    acts.extend(self.hear_what_waits());
                    Some(RunEvent::TreeSeen(self.tree.look()))
                }
                RunAct::Record { reason, quarantine } => {
                    self.write_down(reason, quarantine.as_deref())
                }
                RunAct::End(signal) => {
                    // The tree is read again before each signal: processes started since then belong to it
                    // too.
                    self.proved = self.tree.kill_set(&self.proved).ends;
                    signal_all(&self.proved, signal);
                    None
                }
                RunAct::Note(note) => {
                    let now = self.clock.read();
                    self.record.note(&note, now.wall_ms);
                    None
                }
                RunAct::GiveUp => None,
            };
            if let Some(answer) = answer {
                let now = self.clock.read();
                // If the machine slept during a look or a write, nothing was observed since (H-32).
                if self.clock.take_gap() {
                    acts.extend(self.run.step(&RunEvent::Gap, now));
                }
                acts.extend(self.run.step(&answer, now));
            }
        }
    }

    /// Reports output that no reader accepts as output: a slow reader does not make a run silent.
    fn hear_what_waits(&mut self) -> Vec<RunAct> {
        if !self.waits.iter().any(|waits| waits.load(Ordering::Relaxed)) {
            return Vec::new();
        }
        let now = self.clock.read();
        self.run.step(&RunEvent::Output, now)
    }

    /// Writes the record before the signal (S3-23). Returns none if the run ended by itself in the meantime.
    fn write_down(&mut self, reason: ExitReason, conversation: Option<&str>) -> Option<RunEvent> {
        let now = self.clock.read();
        let put = |id| quarantine::put(&self.spec.paths, id, &self.id);
        let line = RunLine::Forced {
            at: rfc3339(now.wall_ms),
            reason: reason.word().to_owned(),
            quarantine: conversation.map(ToOwned::to_owned),
        };
        let written = conversation.map_or(Ok(()), put);
        match written.and_then(|()| self.record.forced(&line)) {
            Ok(()) => {
                // G4: output that arrived in the meantime counts.
                while let Ok(message) = self.messages.try_recv() {
                    self.take(message, now);
                }
                self.exited.is_none().then_some(RunEvent::Recorded)
            }
            Err(error) => {
                tracing::warn!(%error, "a forced end cannot be written down");
                Some(RunEvent::NotRecorded)
            }
        }
    }

    fn signalled(&mut self, signal: i32, now: Moment) {
        match signals::asked(signal) {
            Asked::Reap => self.reap(now),
            Asked::Continue => self.go_on(),
            Asked::PassOn(signal) => {
                signals::pass_on(self.group, signal);
                // After the exit, only the wait for the streams is left to end.
                self.is_hurried |= signals::is_end(signal) && self.exited.is_some();
                if signals::is_end(signal) && self.exited.is_none() {
                    self.step(&RunEvent::Forwarded { signal }, now);
                }
            }
        }
    }

    /// Reaps children, adopted ones included.
    fn reap(&mut self, now: Moment) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if pid != self.group {
                continue;
            }
            if let Some(signal) = status.stopping_signal() {
                self.stopped(signal);
            } else if let Some(status) = ended(status) {
                self.exited = Some((status, now));
            }
        }
    }

    /// Handles a stop of the run: by its terminal, because the run wants to read from it, or by Ctrl-Z.
    fn stopped(&mut self, signal: i32) {
        let wants_terminal = matches!(signal, libc::SIGTTIN | libc::SIGTTOU);
        let may_have_it = self.spec.stdin == Stdin::Inherited && !self.has_terminal;
        if wants_terminal && may_have_it && signals::hand_over(self.group) {
            self.has_terminal = true;
            signals::pass_on(self.group, libc::SIGCONT);
        } else if signal != libc::SIGSTOP
            && let Err(error) = signals::stop_too()
        {
            tracing::debug!(%error, "not stopped with the run");
        }
    }

    fn go_on(&mut self) {
        if self.has_terminal {
            signals::hand_over(self.group);
        }
        signals::pass_on(self.group, libc::SIGCONT);
    }

    fn show(&mut self) {
        let now = self.clock.read();
        let (state, since) = self.run.state();
        let tasks = self.run.tasks();
        let hold = self.run.hold().map(|hold| {
            let until_ms = now.wall_ms.saturating_add(hold.remaining_ms(now.awake));
            // Two clocks are read, each to the millisecond, so a difference below a second is no change.
            if UNTIL_JITTER_MS < until_ms.abs_diff(self.hold_until_ms) {
                self.hold_until_ms = until_ms;
            }
            RunHold {
                reason: hold.reason.clone(),
                since: rfc3339(hold.since.wall_ms),
                until: rfc3339(self.hold_until_ms),
            }
        });
        let (cost, tokens) = self.run.used().map(used).unwrap_or_default();
        let shown = RunShown {
            state: state.word().to_owned(),
            since: rfc3339(since.wall_ms),
            session_id: self.run.session_id().map(ToOwned::to_owned),
            results: self.run.results(),
            hold,
            background: RunBackground {
                tasks: tasks.shells.saturating_add(tasks.others),
                subagents: tasks.subagents,
            },
            cost,
            tokens,
        };
        self.record.show(shown, now.awake);
    }
}

/// Difference in milliseconds up to which a shown cap does not change.
const UNTIL_JITTER_MS: u64 = 1_000;

/// What a run has used, with its source and its time.
fn used((at, used): &(Moment, ResultUsage)) -> (Option<Cost>, Option<Tokens>) {
    let (source, at) = (RESULT.to_owned(), rfc3339(at.wall_ms));
    let cost = used.cost_usd.map(|usd| Cost { usd, source: source.clone(), at: at.clone() });
    (cost, used.tokens.clone().map(|counts| Tokens { counts, source, at }))
}

fn ended(status: WaitStatus) -> Option<ExitStatus> {
    let code = status.exit_status().map(ExitStatus::Code);
    code.or_else(|| status.terminating_signal().map(ExitStatus::Signal))
}
