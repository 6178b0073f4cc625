//! A run with its supervisor, its tree and its disk, on a clock that the test moves.

use std::collections::VecDeque;

use coord_core::{
    ErrorText, ExitReason, ExitStatus, ResultSeen, Run, RunAct, RunEvent, RunLimits, RunNote,
    RunState, RunTasks, StreamFact, TreeSeen,
};
use coord_model::{Awake, Moment, Signal};

/// What becomes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    Takes,
    Refuses,
    /// It does not answer yet.
    Hangs,
}

/// A run that is watched.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) run: Run,
    /// Milliseconds since the machine's start; the run began at `BEGUN_MS`.
    ms: u64,
    pub(crate) acts: Vec<(u64, RunAct)>,
    pub(crate) tree: TreeSeen,
    /// Thousandths of a core that its tree uses, and its client beside.
    pub(crate) cpu_permille: u64,
    pub(crate) client_permille: u64,
    is_cpu_readable: bool,
    pub(crate) disk: Disk,
    is_recorded: bool,
}

const BEGUN_MS: u64 = 5_000_000;
const WALL_MS: u64 = 1_800_000_000_000;

/// A result line of a turn that went well.
pub(crate) fn result() -> StreamFact {
    StreamFact::Result(ResultSeen {
        subtype: "success".into(),
        terminal_reason: "completed".into(),
        turns: 1,
        ..ResultSeen::default()
    })
}

/// The client's first line.
pub(crate) fn init() -> StreamFact {
    StreamFact::Init { session_id: "s1".into() }
}

/// One background shell.
pub(crate) fn a_shell() -> StreamFact {
    StreamFact::Tasks(RunTasks { shells: 1, ..RunTasks::default() })
}

impl Watched {
    /// A run with the default limits, begun now, alone in its tree and idle.
    pub(crate) fn new() -> Self {
        Self::with(RunLimits::default())
    }

    pub(crate) fn with(limits: RunLimits) -> Self {
        let (run, acts) = Run::begin(limits, moment(BEGUN_MS));
        Self {
            run,
            ms: BEGUN_MS,
            acts: acts.into_iter().map(|act| (0, act)).collect(),
            tree: TreeSeen {
                members: 1,
                cpu_ms: Some(0),
                client_cpu_ms: Some(0),
                who: 1,
                tools: 0,
            },
            cpu_permille: 0,
            client_permille: 0,
            is_cpu_readable: true,
            disk: Disk::Takes,
            is_recorded: false,
        }
    }

    /// One that gave its result at once.
    pub(crate) fn with_result() -> Self {
        let mut run = Self::new();
        run.says(init());
        run.says(result());
        run
    }

    /// One whose output is at its end, too.
    pub(crate) fn at_eof() -> Self {
        let mut run = Self::with_result();
        run.take(RunEvent::Eof);
        run
    }

    /// Seconds since it began.
    pub(crate) fn seconds(&self) -> u64 {
        (self.ms - BEGUN_MS) / 1_000
    }

    pub(crate) fn now(&self) -> Moment {
        moment(self.ms)
    }

    pub(crate) fn says(&mut self, fact: StreamFact) {
        self.take(RunEvent::Stream(fact));
    }

    pub(crate) fn stderr_says(&mut self, text: ErrorText) {
        self.take(RunEvent::ErrorText(text));
    }

    pub(crate) fn exits(&mut self, code: i32) {
        self.take(RunEvent::Exited(ExitStatus::Code(code)));
    }

    /// From now on nothing of its processor time can be read.
    pub(crate) fn hide_cpu(&mut self) {
        self.is_cpu_readable = false;
    }

    /// So many tools run in its tree.
    pub(crate) fn tools_in_tree(&mut self, tools: u32) {
        self.tree = TreeSeen { members: 1 + tools, tools, who: u64::from(tools) + 1, ..self.tree };
    }

    /// Takes an event in, and answers what it asks for.
    pub(crate) fn take(&mut self, event: RunEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            self.is_recorded |= event == RunEvent::Recorded;
            for act in self.run.step(&event, self.now()) {
                match &act {
                    RunAct::Look => events.push_back(RunEvent::TreeSeen(self.look())),
                    RunAct::Record { .. } => match self.disk {
                        Disk::Takes => events.push_back(RunEvent::Recorded),
                        Disk::Refuses => events.push_back(RunEvent::NotRecorded),
                        Disk::Hangs => (),
                    },
                    RunAct::End(_) => assert!(self.is_recorded, "a signal without a record"),
                    RunAct::GiveUp | RunAct::Note(_) => (),
                }
                self.acts.push((self.seconds(), act));
            }
        }
        if let Some(hold) = self.run.hold() {
            assert!(!hold.reason.is_empty() && hold.since <= self.now(), "{hold:?}");
        }
    }

    fn look(&self) -> TreeSeen {
        TreeSeen { cpu_ms: self.tree.cpu_ms.filter(|_| self.is_cpu_readable), ..self.tree }
    }

    fn advance(&mut self, ms: u64) {
        let passed = ms - self.ms;
        self.ms = ms;
        let used = |permille| passed * permille / 1_000;
        self.tree.cpu_ms = self.tree.cpu_ms.map(|cpu| cpu + used(self.cpu_permille));
        self.tree.client_cpu_ms =
            self.tree.client_cpu_ms.map(|cpu| cpu + used(self.client_permille));
    }

    /// Lets seconds pass; it is called when it wants to be, and at their end.
    pub(crate) fn pass(&mut self, seconds: u64) {
        let end = self.ms + seconds * 1_000;
        let mut wakes = 0_u64;
        while let Some(due) = self.run.next_deadline() {
            let due = (due.0.div_ceil(1_000_000)).max(self.ms);
            if end < due {
                break;
            }
            wakes += 1;
            assert!(wakes < 10 + seconds, "it wakes its supervisor over and over");
            self.advance(due);
            self.take(RunEvent::Tick);
        }
        self.advance(end);
        self.take(RunEvent::Tick);
    }

    /// So many seconds since its begin have passed.
    pub(crate) fn until(&mut self, seconds: u64) {
        self.pass(seconds - self.seconds());
    }

    /// Lets time pass until it is signalled, at most a day; when that was, in seconds since it began.
    pub(crate) fn until_signalled(&mut self) -> u64 {
        let before = self.signals().len();
        for _ in 0..86_400 {
            if before < self.signals().len() {
                return self.signals()[before].0;
            }
            self.pass(1);
        }
        panic!("nothing ends it: {:?}", self.run);
    }

    /// Signals so far.
    pub(crate) fn signals(&self) -> Vec<(u64, Signal)> {
        let signal = |(at, act): &(u64, RunAct)| match act {
            RunAct::End(signal) => Some((*at, *signal)),
            RunAct::Look | RunAct::Record { .. } | RunAct::GiveUp | RunAct::Note(_) => None,
        };
        self.acts.iter().filter_map(signal).collect()
    }

    pub(crate) fn is_untouched(&self) -> bool {
        !self.acts.iter().any(|(_, act)| matches!(act, RunAct::End(_) | RunAct::Record { .. }))
    }

    pub(crate) fn records(&self) -> Vec<(ExitReason, Option<String>)> {
        let record = |(_, act): &(u64, RunAct)| match act {
            RunAct::Record { reason, quarantine } => Some((*reason, quarantine.clone())),
            RunAct::Look | RunAct::End(_) | RunAct::GiveUp | RunAct::Note(_) => None,
        };
        self.acts.iter().filter_map(record).collect()
    }

    pub(crate) fn notes(&self) -> impl Iterator<Item = (u64, &RunNote)> {
        self.acts.iter().filter_map(|(at, act)| match act {
            RunAct::Note(note) => Some((*at, note)),
            RunAct::Look | RunAct::Record { .. } | RunAct::End(_) | RunAct::GiveUp => None,
        })
    }

    /// When a line of this name was written, and whether it was a warning.
    pub(crate) fn noted(&self, name: &str) -> Vec<(u64, bool)> {
        let named = self.notes().filter(|(_, note)| note.name == name);
        named.map(|(at, note)| (at, note.is_warning)).collect()
    }

    /// The states its log names, in order.
    pub(crate) fn states(&self) -> Vec<String> {
        let state = |(_, note): (u64, &RunNote)| {
            note.name.strip_prefix("subprocess.state.").map(str::to_owned)
        };
        self.notes().filter_map(state).collect()
    }

    pub(crate) fn state(&self) -> RunState {
        self.run.state().0
    }

    /// What holds it, and for how many seconds more.
    pub(crate) fn hold(&self) -> Option<(String, u64)> {
        let now = self.now().awake;
        self.run.hold().map(|hold| (hold.reason.clone(), hold.remaining_ms(now).div_ceil(1_000)))
    }

    pub(crate) fn exit_reason(&self) -> Option<ExitReason> {
        self.run.exit().map(|(_, reason)| reason)
    }
}

fn moment(ms: u64) -> Moment {
    Moment { awake: Awake::default().plus_ms(ms), wall_ms: WALL_MS + ms }
}
