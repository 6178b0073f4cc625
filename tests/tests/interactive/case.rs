//! One case: a client in a pane, a coordinator that watches it, a script, and the line of what was
//! said meanwhile. Decides what can be known with which sources ([`Case::known`]) and where a
//! coordinator that is to be killed dies ([`Case::step_killed`]).

use coord_model::SessionState;
use coord_tests::coord::{Coordinator, coord, install};
use coord_tests::fake_api::{FakeApi, Turn};
use coord_tests::home::Home;
use coord_tests::terminal::{Pane, Terminal};
use coord_tests::timeline::{Expected, Seen, Timeline};
use coord_tests::truth;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;
use std::sync::Mutex;

/// Delays of all marks, milliseconds.
pub(crate) static DELAYS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

pub(crate) const MANUAL: [&str; 2] = ["--permission-mode", "manual"];
pub(crate) const WITH_BASH: [&str; 4] = ["--permission-mode", "manual", "--allowedTools", "Bash"];

/// What the coordinator may read beside the hooks' reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sources {
    /// All there is.
    All,
    /// Not the client's registry.
    NoRegistry,
    /// Nothing.
    HooksOnly,
}

/// How a case runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    pub(crate) case: &'static str,
    pub(crate) sources: Sources,
    /// Whether the coordinator is killed in the midst of it.
    pub(crate) is_killed: bool,
}

impl Config {
    /// The test's name.
    pub(crate) fn name(self) -> String {
        let sources = match self.sources {
            Sources::All => "",
            Sources::NoRegistry => "_without_registry",
            Sources::HooksOnly => "_by_hooks_alone",
        };
        let killed = if self.is_killed { "_killed" } else { "" };
        format!("{}{sources}{killed}", self.case)
    }

    /// For the measured truth.
    fn run(self) -> serde_json::Value {
        let sources = match self.sources {
            Sources::All => "all sources",
            Sources::NoRegistry => "no registry",
            Sources::HooksOnly => "hooks only",
        };
        json!({"case": self.case, "sources": sources, "killed": self.is_killed})
    }
}

/// What a client does and not every source tells.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// A turn that its user ended: no hook tells, and hooks know only what was before.
    Interrupt { before: SessionState },
    /// Its death without a word, in a turn or a prompt.
    Death,
    /// The same between two turns.
    DeathAtRest,
    /// Work without a hook: a command of its user's, a compaction.
    SilentWork,
}

/// Fields go in this order.
pub(crate) struct Case {
    pub(crate) timeline: Timeline,
    pub(crate) pane: Pane,
    pub(crate) terminal: Terminal,
    coordinator: Option<Coordinator>,
    pub(crate) api: FakeApi,
    pub(crate) config: Config,
    /// The session's id.
    pub(crate) id: String,
    /// The client's pid.
    pub(crate) pid: u32,
    was_killed: bool,
    pub(crate) home: Home,
}

impl Case {
    /// A client at its prompt.
    #[track_caller]
    pub(crate) fn start(
        config: Config,
        turns: impl IntoIterator<Item = Turn>,
        arguments: &[&str],
    ) -> Self {
        Self::start_with(config, turns, "", arguments)
    }

    /// The same, with `variables` in the client's environment.
    #[track_caller]
    pub(crate) fn start_with(
        config: Config,
        turns: impl IntoIterator<Item = Turn>,
        variables: &str,
        arguments: &[&str],
    ) -> Self {
        let home = Home::new();
        install(&home);
        let mut case = Self::open(config, home, turns);
        case.begin(|case| case.pane.start_with(variables, arguments));
        case
    }

    /// A pane with a shell, and a coordinator that sees nothing yet.
    #[track_caller]
    pub(crate) fn open(config: Config, home: Home, turns: impl IntoIterator<Item = Turn>) -> Self {
        let (config_dir, socket) = (home.config_dir(), Terminal::socket(&home));
        let config_dirs = format!("config_dirs = ['{}']", config_dir.display());
        let sockets = format!("tmux_sockets = ['{}']", socket.display());
        if config.sources != Sources::HooksOnly {
            home.write_config(&format!("[tracking]\n{config_dirs}\n{sockets}\n"));
        }
        if config.sources == Sources::NoRegistry {
            home.hide_registry();
        }
        let coordinator = Some(Coordinator::start(&home));
        let api = FakeApi::start(turns);
        let terminal = Terminal::start(&home, &api);
        let pane = terminal.pane();
        let timeline = Timeline::start(&home);
        let (id, pid, was_killed) = (String::new(), 0, false);
        Self { timeline, pane, terminal, coordinator, api, config, id, pid, was_killed, home }
    }

    /// The client that `start` starts, at its prompt.
    #[track_caller]
    pub(crate) fn begin(&mut self, start: impl FnOnce(&Self) -> u32) {
        self.timeline.mark("start", ("", 0), SessionState::Idle, &[]);
        self.pid = start(self);
        let seen = self.timeline.wait_owner(self.pid, |seen| seen.state == SessionState::Idle);
        self.id.clone_from(&seen.ids[0]);
        self.timeline.name(&self.id, self.pid);
        self.timeline.reach(10);
        self.timeline.wait_done();
    }

    /// Does something after which the session has to be `expected` and to stay so.
    #[track_caller]
    pub(crate) fn step(
        &mut self,
        what: &str,
        expected: impl Into<Expected>,
        act: impl FnOnce(&Self),
    ) {
        self.step_through(what, &[], expected, act);
    }

    /// The same; on its way it may go `through` other states.
    #[track_caller]
    pub(crate) fn step_through(
        &mut self,
        what: &str,
        through: &[SessionState],
        expected: impl Into<Expected>,
        act: impl FnOnce(&Self),
    ) {
        let expected = expected.into();
        self.mark(what, through, expected);
        act(self);
        self.timeline.reach(10);
        // Under load the client may still be at its hooks: what it does next would be judged wrongly.
        self.timeline.settle();
        if self.config.sources == Sources::NoRegistry && expected.truth == SessionState::Idle {
            self.pane.wait_gone("esc to interrupt");
            // What was captured before may be told a moment later.
            self.timeline.reach(10);
            self.timeline.allow_running_until_now();
            self.timeline.reach(1);
        }
    }

    /// Without the registry, sources that contradict each other are `unknown` for a moment.
    fn mark(&mut self, what: &str, through: &[SessionState], expected: impl Into<Expected>) {
        let mut through = through.to_vec();
        if self.config.sources == Sources::NoRegistry {
            through.push(SessionState::Unknown);
        }
        self.timeline.mark(what, (&self.id, self.pid), expected, &through);
    }

    /// The same again; where the coordinator is to be killed, it dies before the act, and is started
    /// again when the client itself has done it.
    #[track_caller]
    pub(crate) fn step_killed(
        &mut self,
        what: &str,
        through: &[SessionState],
        expected: impl Into<Expected>,
        act: impl FnOnce(&Self),
    ) {
        if !self.config.is_killed {
            return self.step_through(what, through, expected, act);
        }
        self.mark(what, through, expected);
        self.timeline.allow_gap();
        self.coordinator.take().expect("it runs between two steps").kill();
        act(self);
        self.timeline.wait_done();
        self.coordinator = Some(Coordinator::start_again(&self.home));
        self.was_killed = true;
        self.timeline.reach(10);
    }

    /// What is true after `event`, and what can be known of it with the sources there are.
    pub(crate) fn known(&self, event: Event) -> Expected {
        let truth = match event {
            Event::Interrupt { .. } => SessionState::Idle,
            Event::Death | Event::DeathAtRest => SessionState::Crashed,
            Event::SilentWork => SessionState::Running,
        };
        let shown = match (self.config.sources, event) {
            // Nobody watched when it died, and its pane may have been painted on since (H-05).
            (Sources::NoRegistry, Event::Death) if self.config.is_killed => SessionState::Unknown,
            (Sources::All, _)
            | (Sources::NoRegistry, Event::Interrupt { .. } | Event::Death | Event::SilentWork) => {
                truth
            }
            (Sources::NoRegistry | Sources::HooksOnly, Event::DeathAtRest)
            | (Sources::HooksOnly, Event::Death) => SessionState::Unknown,
            (Sources::HooksOnly, Event::Interrupt { before }) => before,
            (Sources::HooksOnly, Event::SilentWork) => SessionState::Idle,
        };
        Expected { truth, shown }
    }

    /// A prompt that starts a turn.
    #[track_caller]
    pub(crate) fn prompt(&mut self, text: &str) {
        self.step(text, SessionState::Running, |case| {
            case.pane.type_line(text);
            case.api.wait_for(text);
        });
    }

    /// Types /clear and waits until the record has its next id.
    #[track_caller]
    pub(crate) fn clear(&mut self) -> Seen {
        let n_ids = self.timeline.wait_owner(self.pid, |_| true).ids.len();
        let (pid, mut followed) = (self.pid, None);
        // The registry may be busy with it for a moment.
        let on_the_way = [SessionState::Running, SessionState::Stopped];
        self.step_through("/clear", &on_the_way, SessionState::Idle, |case| {
            case.pane.type_line("/clear");
            let has_followed =
                |seen: &Seen| n_ids < seen.ids.len() && seen.state == SessionState::Idle;
            followed = Some(case.timeline.wait_owner(pid, has_followed));
        });
        let followed = followed.expect("the step waited for it");
        self.id.clone_from(&followed.ids[0]);
        followed
    }

    /// Resumes the session in a new process of the same shell.
    #[track_caller]
    pub(crate) fn resume(&mut self) {
        self.timeline.mark("resumed", (&self.id, 0), SessionState::Idle, &[]);
        self.pid = self.pane.start(&["--resume", &self.id]);
        self.timeline.name(&self.id, self.pid);
        self.timeline.wait_owner(self.pid, |seen| seen.state == SessionState::Idle);
        self.timeline.reach(10);
        let sessions = self.timeline.sessions();
        assert_eq!(sessions.len(), 1, "one record goes on: {sessions:#?}");
    }

    /// Types /exit and waits for the shell.
    #[track_caller]
    pub(crate) fn exit(&mut self) {
        // The shell's prompt may be seen before the hook of the end has reported.
        self.step_through("/exit", &[SessionState::Unknown], SessionState::Stopped, |case| {
            case.pane.type_line("/exit");
            case.pane.wait_screen("dev$");
        });
    }

    /// Signals the client.
    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).expect("a pid");
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("the client is there");
        pidfd_send_signal(&pidfd, signal).expect("signal the client");
    }

    /// Judges the whole line. How true it was and how late its states came is measured, not judged:
    /// a loaded machine is no fault of the coordinator's.
    #[track_caller]
    pub(crate) fn finish(self) {
        assert_eq!(self.was_killed, self.config.is_killed, "each case names where its kill is");
        let measured = self.timeline.measure();
        let delays = measured.iter().filter_map(truth::Measured::delay_ms);
        DELAYS.lock().expect("no thread panics while it adds delays").extend(delays);
        truth::record(&self.config.run(), &measured);
        self.timeline.assert_kept();
    }
}

impl Drop for Case {
    /// A failed case leaves what the coordinator recorded.
    #[expect(clippy::print_stderr, reason = "this is a failed test's own report")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let recorded = coord(&self.home, &["events", "--json"]);
            eprintln!("{}: the journal\n{}", self.config.name(), recorded.stdout);
        }
    }
}
