//! One run from its start to its end: everything that happens comes in here as one message, goes
//! through `coord_core::Run`, and what that asks for is done here.

mod child;
mod finish;
mod streams;

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use child::Started;
use coord_core::{ErrorText, ExitReason, ExitStatus, Run, RunAct, RunEvent, RunRoot, StreamFact};
use coord_host::process;
use coord_model::stamp::rfc3339;
use coord_model::{Awake, Moment, ProcessRef};
use coord_wire::run::{RUN_VERSION, RunBackground, RunBegin, RunHold, RunLine, RunShown};
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
    /// Lines of the stream said this.
    Said(Vec<StreamFact>),
    /// Output that says nothing known.
    Output,
    /// The standard output ended.
    OutputEnded {
        /// How.
        end: Pumped,
        /// All of it was the client's line for a used-up limit.
        is_limit_line: bool,
    },
    /// A known error text on standard error.
    ErrorText(ErrorText),
    /// The standard error ended.
    ErrorsEnded(StderrSeen),
    /// A signal reached the supervisor.
    Signal(i32),
}

/// Starts a run, and returns when it is over and its tree with it.
///
/// Adopts what loses its parent below it, so nothing else in this process may have children meanwhile.
///
/// # Errors
/// Signals cannot be taken, or there are no pipes. A program that cannot be started is no error but an
/// end.
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
    // 0 if it was begun outside this pid namespace: what runs in here with 0 came from there too, and
    // below the supervisor that is the run alone.
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
    /// Whom the first signal of a forced end went to: they belong to the run whatever becomes of their parents.
    proved: Vec<ProcessRef>,
    /// The run was given the terminal.
    has_terminal: bool,
    /// The cap of its hold, as it was shown last.
    hold_until_ms: u64,
    /// The last time that a reader was seen not to take what was read.
    waited: Awake,
    /// Somebody wants an end of it, its process being gone already.
    is_hurried: bool,
    /// Its process ended; told to the core when its output was read to the end.
    exited: Option<(ExitStatus, Moment)>,
    output_end: Option<Pumped>,
    /// Its whole output is the client's line for a used-up limit.
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
            // A reader that came back is seen to have before patience is over.
            Some((_, at)) => {
                let soon = now.plus_ms(self.spec.limits.kill_grace_ms / 4);
                Some(self.patience(at.awake, now).min(soon))
            }
            None => self.run.next_deadline(),
        };
        self.wait(due, now)
    }

    fn wait(&self, due: Option<Awake>, now: Awake) -> Option<Message> {
        // Never less than a millisecond: deadlines are not met early.
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

    /// A natural exit is noticed at once (S3-04); what it said last may still be in the pipe.
    fn tell_exit(&mut self, now: Moment) {
        let Some((status, at)) = self.exited else { return };
        let is_late = self.patience(at.awake, now.awake) <= now.awake;
        if self.output_end.is_some() || is_late || self.is_hurried {
            self.step(&RunEvent::Exited(status), now);
        }
    }

    /// How long the end of a stream is waited for: others may hold it for ever, but what a slow reader
    /// has not taken yet is not thrown away.
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
                    // Before each signal once more: who started since belongs to it too.
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
                // Whoever sleeps while it looks or writes has seen nothing since (H-32).
                if self.clock.take_gap() {
                    acts.extend(self.run.step(&RunEvent::Gap, now));
                }
                acts.extend(self.run.step(&answer, now));
            }
        }
    }

    /// What it says and nobody takes is said all the same: a slow reader makes no silent run.
    fn hear_what_waits(&mut self) -> Vec<RunAct> {
        if !self.waits.iter().any(|waits| waits.load(Ordering::Relaxed)) {
            return Vec::new();
        }
        let now = self.clock.read();
        self.run.step(&RunEvent::Output, now)
    }

    /// The record stands before the signal (S3-23). No answer if it ended by itself meanwhile.
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
                // What it said meanwhile counts (G4).
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
                // Behind its end there is nothing left to end but the wait for its streams.
                self.is_hurried |= signals::is_end(signal) && self.exited.is_some();
                if signals::is_end(signal) && self.exited.is_none() {
                    self.step(&RunEvent::Forwarded { signal }, now);
                }
            }
        }
    }

    /// Takes in what became of children, the adopted ones included.
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

    /// The run was stopped: by its terminal, because it wants to read from it, or by Ctrl-Z.
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
            // Two clocks are read, each to the millisecond: less than a second is no change.
            if UNTIL_JITTER_MS < until_ms.abs_diff(self.hold_until_ms) {
                self.hold_until_ms = until_ms;
            }
            RunHold {
                reason: hold.reason.clone(),
                since: rfc3339(hold.since.wall_ms),
                until: rfc3339(self.hold_until_ms),
            }
        });
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
        };
        self.record.show(shown, now.awake);
    }
}

/// A shown cap moves only by more than this.
const UNTIL_JITTER_MS: u64 = 1_000;

fn ended(status: WaitStatus) -> Option<ExitStatus> {
    let code = status.exit_status().map(ExitStatus::Code);
    code.or_else(|| status.terminating_signal().map(ExitStatus::Signal))
}
