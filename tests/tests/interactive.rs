//! The real client at a terminal: what `coord inspect` says of it from moment to moment, with the
//! client's registry to read and without. Holds, S0-18,
//! S0-25f, S0-28a, H-05, H-10, H-42.

use coord_tests::coord::{Coordinator, install};
use coord_tests::fake_api::{FakeApi, Turn};
use coord_tests::home::Home;
use coord_tests::netns;
use coord_tests::terminal::{Pane, Terminal};
use coord_tests::timeline::{Seen, Timeline};
use coord_wire::inspect::State;
use libtest_mimic::Trial;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;
use std::process::ExitCode;
use std::sync::Mutex;

/// A case, with the client's registry to read or without.
type Body = fn(bool);

/// Delays of all marks, milliseconds.
static DELAYS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

const MANUAL: [&str; 2] = ["--permission-mode", "manual"];
const WITH_BASH: [&str; 4] = ["--permission-mode", "manual", "--allowedTools", "Bash"];

fn main() -> ExitCode {
    let cases: [(&str, Body); 17] = [
        ("a_text_turn", a_text_turn),
        ("permission_prompts", permission_prompts),
        ("two_prompts_of_one_answer", two_prompts_of_one_answer),
        ("a_question_and_a_plan", a_question_and_a_plan),
        ("escape", escape),
        ("a_queued_message", a_queued_message),
        ("ctrl_z", ctrl_z),
        ("sigkill", sigkill),
        ("clear", clear),
        ("sigterm", sigterm),
        ("a_closed_pane", a_closed_pane),
        ("a_killed_tmux_server", a_killed_tmux_server),
        ("api_errors", api_errors),
        ("a_resume_in_a_new_process", a_resume_in_a_new_process),
        ("a_fork_is_another_session", a_fork_is_another_session),
        ("one_session_resumed_twice", one_session_resumed_twice),
        ("a_background_shell", a_background_shell),
    ];
    let trials = cases.into_iter().flat_map(|(name, body)| {
        [("", true), ("_without_registry", false)].map(|(suffix, has_registry)| {
            Trial::test(format!("{name}{suffix}"), move || {
                body(has_registry);
                Ok(())
            })
        })
    });
    let code = netns::run(trials.collect());
    report_delays();
    code
}

#[expect(clippy::print_stderr, reason = "this is the test program's own report")]
fn report_delays() {
    let mut delays = DELAYS.lock().map(|delays| delays.clone()).unwrap_or_default();
    delays.sort_unstable();
    let at = |percent: usize| delays.get(delays.len() * percent / 100).copied().unwrap_or(0);
    if let Some(longest) = delays.last() {
        let [median, p99] = [at(50), at(99)];
        let n = delays.len();
        eprintln!("{n} states, delay median {median} ms, p99 {p99} ms, longest {longest} ms");
    }
}

/// A client in a pane, a coordinator that watches it, and what it said meanwhile. Fields go in this
/// order.
struct Case {
    timeline: Timeline,
    pane: Pane,
    terminal: Terminal,
    _coordinator: Coordinator,
    api: FakeApi,
    /// Whether the client's registry may be read.
    has_registry: bool,
    /// The session's id.
    id: String,
    /// The client's pid.
    pid: u32,
    _home: Home,
}

impl Case {
    /// A client at its prompt.
    #[track_caller]
    fn start(
        has_registry: bool,
        turns: impl IntoIterator<Item = Turn>,
        arguments: &[&str],
    ) -> Self {
        let home = Home::new();
        if has_registry {
            let config_dir = home.config_dir();
            home.write_config(&format!("[tracking]\nconfig_dirs = ['{}']\n", config_dir.display()));
        }
        install(&home);
        let coordinator = Coordinator::start(&home);
        let api = FakeApi::start(turns);
        let terminal = Terminal::start(&home, &api);
        let pane = terminal.pane();
        let mut timeline = Timeline::start(&home);
        timeline.mark("start", "", State::Idle, &[]);
        let pid = pane.start(arguments);
        let id = timeline.wait_owner(pid, |seen| seen.state == State::Idle).ids.swap_remove(0);
        timeline.name(&id);
        timeline.reach(10);
        Self {
            timeline,
            pane,
            terminal,
            _coordinator: coordinator,
            api,
            has_registry,
            id,
            pid,
            _home: home,
        }
    }

    /// Does something after which the session has to be `expected` and to stay so.
    #[track_caller]
    fn step(&mut self, what: &str, expected: State, act: impl FnOnce(&Self)) {
        self.step_through(what, &[], expected, act);
    }

    /// The same; on its way it may go `through` other states.
    #[track_caller]
    fn step_through(
        &mut self,
        what: &str,
        through: &[State],
        expected: State,
        act: impl FnOnce(&Self),
    ) {
        self.timeline.mark(what, &self.id, expected, through);
        act(self);
        self.timeline.reach(10);
    }

    /// What is known with the registry, and what with hooks alone.
    fn known(&self, with_registry: State, by_hooks: State) -> State {
        if self.has_registry { with_registry } else { by_hooks }
    }

    /// A prompt that starts a turn.
    #[track_caller]
    fn prompt(&mut self, text: &str) {
        self.step(text, State::Running, |case| {
            case.pane.type_line(text);
            case.api.wait_for(text);
        });
    }

    /// Types /clear and waits until the record has its next id.
    #[track_caller]
    fn clear(&mut self) -> Seen {
        let n_ids = self.timeline.wait_owner(self.pid, |_| true).ids.len();
        let (pid, mut followed) = (self.pid, None);
        // The registry may be busy with it for a moment.
        let on_the_way = [State::Running, State::Stopped];
        self.step_through("/clear", &on_the_way, State::Idle, |case| {
            case.pane.type_line("/clear");
            let has_followed = |seen: &Seen| n_ids < seen.ids.len() && seen.state == State::Idle;
            followed = Some(case.timeline.wait_owner(pid, has_followed));
        });
        followed.expect("the step waited for it")
    }

    /// Resumes the session in a new process of the same shell.
    #[track_caller]
    fn resume(&mut self) {
        self.timeline.mark("resumed", &self.id, State::Idle, &[]);
        self.pid = self.pane.start(&["--resume", &self.id]);
        self.timeline.wait_owner(self.pid, |seen| seen.state == State::Idle);
        self.timeline.reach(10);
        let sessions = self.timeline.sessions();
        assert_eq!(sessions.len(), 1, "one record goes on: {sessions:#?}");
    }

    /// Signals the client.
    #[track_caller]
    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).expect("a pid");
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("the client is there");
        pidfd_send_signal(&pidfd, signal).expect("signal the client");
    }

    /// Judges the whole line. How late its states came is printed at the end, not judged: a loaded
    /// machine is no fault of the coordinator's.
    #[track_caller]
    fn finish(self) {
        let delays = self.timeline.assert_kept();
        DELAYS.lock().expect("no thread panics while it adds delays").extend(delays);
    }
}

fn a_text_turn(has_registry: bool) {
    // R-02, S0-25f
    let mut case = Case::start(has_registry, [Turn::text("Hello there.").behind("answer")], &[]);
    case.prompt("Say hello");
    case.step("answered", State::Idle, |case| case.api.open("answer"));
    case.step("/exit", State::Stopped, |case| case.pane.type_line("/exit"));
    case.finish();
}

fn permission_prompts(has_registry: bool) {
    // S0-18, R-01
    let turns = [
        Turn::bash("touch one").behind("ask one"),
        Turn::text("Made it.").behind("made"),
        Turn::bash("touch two").behind("ask two"),
        Turn::bash("touch three").behind("ask three"),
    ];
    let mut case = Case::start(has_registry, turns, &MANUAL);
    case.prompt("Make one");
    case.step("permission asked", State::AwaitingPermission, |case| {
        case.api.open("ask one");
        case.pane.wait_screen("1. Yes");
    });
    // Past the client's own late notification, and past the registry's time to follow.
    case.timeline.reach(500);
    case.step("approved", State::Running, |case| case.pane.keys(&["Enter"]));
    case.step("answered", State::Idle, |case| case.api.open("made"));
    case.prompt("Make two");
    case.step("permission asked again", State::AwaitingPermission, |case| {
        case.api.open("ask two");
        case.pane.wait_screen("1. Yes");
    });
    // Nothing but the registry tells of a refusal; hooks alone still know of the open prompt only.
    let refused = case.known(State::Idle, State::AwaitingPermission);
    case.step("refused by No", refused, |case| {
        let screen = case.pane.screen();
        let no = screen.lines().find_map(|line| line.trim().split_once(". No")).expect("a No");
        case.pane.keys(&[no.0.trim_start_matches(['❯', ' '])]);
        case.pane.wait_screen("Interrupted");
    });
    if case.has_registry {
        case.prompt("Make three");
        case.step("permission asked for three", State::AwaitingPermission, |case| {
            case.api.open("ask three");
            case.pane.wait_screen("1. Yes");
        });
        case.step("refused by Esc", State::Idle, |case| case.pane.keys(&["Escape"]));
    }
    case.timeline.reach(120);
    case.finish();
}

fn two_prompts_of_one_answer(has_registry: bool) {
    // S0-18: the client shows them one after the other.
    let touch = |file: &str| json!({"command": format!("touch {file}"), "description": "Make it"});
    let both = Turn::tool("Bash", touch("first")).and_tool("Bash", touch("second")).behind("ask");
    let mut case = Case::start(has_registry, [both, Turn::text("Made.").behind("made")], &MANUAL);
    case.prompt("Make both");
    case.step("first asked", State::AwaitingPermission, |case| {
        case.api.open("ask");
        let screen = case.pane.wait_screen("1. Yes");
        assert_eq!(screen.matches("1. Yes").count(), 1, "one at a time:\n{screen}");
    });
    let through = [State::Running];
    case.step_through("first approved", &through, State::AwaitingPermission, |case| {
        case.pane.keys(&["Enter"]);
        case.pane.wait_screen("touch second");
        case.pane.wait_screen("1. Yes");
    });
    case.timeline.reach(150);
    case.step_through("second approved", &[State::AwaitingPermission], State::Running, |case| {
        case.pane.keys(&["Enter"]);
        case.api.wait_for_nth("", 2);
    });
    case.step("answered", State::Idle, |case| case.api.open("made"));
    case.finish();
}

fn a_question_and_a_plan(has_registry: bool) {
    // S0-18
    let option = |label: &str| json!({"label": label, "description": label});
    let question = json!({"questions": [{
        "question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [option("Red"), option("Blue")],
    }]});
    let turns = [
        Turn::tool("AskUserQuestion", question).behind("ask"),
        Turn::text("Red it is.").behind("answer"),
        Turn::tool("ExitPlanMode", json!({"plan": "1. Paint it red."})).behind("plan"),
        Turn::text("Painted.").behind("painted"),
    ];
    let mut case = Case::start(has_registry, turns, &["--permission-mode", "plan"]);
    case.prompt("Paint it");
    case.step("question asked", State::AwaitingInput, |case| {
        case.api.open("ask");
        case.pane.wait_screen("Which colour?");
    });
    case.timeline.reach(150);
    case.step("question answered", State::Running, |case| case.pane.keys(&["Enter"]));
    case.step("answered", State::Idle, |case| case.api.open("answer"));
    case.prompt("Plan it");
    // The registry calls a plan a permission; where it is first, its word stands until the hook's.
    case.step_through("plan shown", &[State::AwaitingPermission], State::AwaitingInput, |case| {
        case.api.open("plan");
        case.pane.wait_screen("1. Yes");
    });
    case.timeline.reach(150);
    // It follows the approval a moment after the hook.
    case.step_through("plan approved", &[State::AwaitingPermission], State::Running, |case| {
        case.pane.keys(&["Enter"]);
    });
    case.step("painted", State::Idle, |case| case.api.open("painted"));
    case.finish();
}

fn escape(has_registry: bool) {
    // an interrupt fires no hook. Hooks alone know of the open turn only.
    let turns = [
        Turn::text("Never.").behind("never"),
        Turn::cut("A long story that stops right here.").behind("never"),
        Turn::bash("tail -f /dev/null"),
        Turn::text("At last.").behind("answer"),
    ];
    let mut case = Case::start(has_registry, turns, &WITH_BASH);
    let interrupted = case.known(State::Idle, State::Running);
    case.prompt("Hang");
    case.step("Esc while the API hangs", interrupted, |case| case.pane.keys(&["Escape"]));
    case.timeline.reach(150);
    if case.has_registry {
        // Before any output, the prompt goes back into the input.
        case.pane.keys(&["C-u"]);
        case.prompt("Stream");
        case.step("Esc while text streams", State::Idle, |case| {
            case.pane.wait_screen("●");
            case.pane.keys(&["Escape"]);
        });
        case.prompt("Run it");
        case.step("Esc while a tool runs", State::Idle, |case| {
            case.pane.wait_screen("tail -f");
            case.pane.keys(&["Escape"]);
        });
        case.timeline.reach(150);
        case.prompt("Answer");
        case.step("answered", State::Idle, |case| case.api.open("answer"));
    }
    case.finish();
}

fn a_queued_message(has_registry: bool) {
    // its UserPromptSubmit comes in the midst of the turn, and after Stop the next turn runs.
    let turns = [Turn::text("One.").behind("one"), Turn::text("Two.").behind("two")];
    let mut case = Case::start(has_registry, turns, &[]);
    case.prompt("First prompt");
    case.step("second typed", State::Running, |case| case.pane.type_line("Second prompt"));
    // The client's own registry may say idle for a moment between the two turns.
    case.step_through("first answered", &[State::Idle], State::Running, |case| {
        case.api.open("one");
        case.api.wait_for("Second prompt");
    });
    case.timeline.reach(150);
    case.step("second answered", State::Idle, |case| case.api.open("two"));
    case.timeline.reach(150);
    case.finish();
}

fn ctrl_z(has_registry: bool) {
    //
    let mut case = Case::start(has_registry, [Turn::text("Here.").behind("answer")], &[]);
    case.prompt("Say hello");
    case.step("Ctrl-Z in a turn", State::Suspended, |case| case.pane.keys(&["C-z"]));
    case.step("fg", State::Running, |case| case.pane.type_line("fg"));
    case.step("answered", State::Idle, |case| case.api.open("answer"));
    case.step("Ctrl-Z at the prompt", State::Suspended, |case| case.pane.keys(&["C-z"]));
    case.step("fg again", State::Idle, |case| case.pane.type_line("fg"));
    case.finish();
}

fn sigkill(has_registry: bool) {
    // S0-28a, H-05: without the registry nothing proves how it ended.
    let turns = [Turn::text("One.").behind("one"), Turn::text("Never.").behind("never")];
    let mut case = Case::start(has_registry, turns, &[]);
    let dead = case.known(State::Crashed, State::Unknown);
    case.prompt("First prompt");
    case.step("answered", State::Idle, |case| case.api.open("one"));
    case.prompt("Second prompt");
    case.step_through("SIGKILL in a turn", &[State::Unknown], dead, |case| {
        case.signal(Signal::KILL);
    });
    case.finish();
}

fn clear(has_registry: bool) {
    // the record follows the id within one process.
    let turns = [Turn::text("One.").behind("one"), Turn::text("Two.").behind("two")];
    let mut case = Case::start(has_registry, turns, &[]);
    case.prompt("First prompt");
    case.step("answered", State::Idle, |case| case.api.open("one"));
    let followed = case.clear();
    assert_eq!(followed.ids[1..], *std::slice::from_ref(&case.id), "it remembers its old id");
    case.prompt("Second prompt");
    case.step("answered again", State::Idle, |case| case.api.open("two"));
    case.finish();
}

fn sigterm(has_registry: bool) {
    // S0-25f: in the midst of a turn too.
    let mut case = Case::start(has_registry, [Turn::hang()], &[]);
    case.prompt("Hang");
    case.step("SIGTERM", State::Stopped, |case| case.signal(Signal::TERM));
    case.finish();
}

fn a_closed_pane(has_registry: bool) {
    // H-10: its server lives on, so its user stopped it.
    let mut case = Case::start(has_registry, [Turn::hang()], &[]);
    case.prompt("Hang");
    case.step("pane closed", State::Stopped, |case| case.pane.close());
    case.finish();
}

fn a_killed_tmux_server(has_registry: bool) {
    // H-10: SessionEnd(other) beside the death of its server is a host event.
    let mut case = Case::start(has_registry, [Turn::hang()], &[]);
    case.prompt("Hang");
    let on_the_way = [State::Stopped, State::Unknown];
    case.step_through("tmux server killed", &on_the_way, State::Interrupted, |case| {
        case.terminal.signal(Signal::KILL);
    });
    case.finish();
}

fn api_errors(has_registry: bool) {
    //
    let error = |status, kind: &str, message: &str, tag: &str| {
        Turn::error(status, kind, message)
            .header("x-should-retry", "false")
            .only_for(tag)
            .behind(tag)
    };
    let turns = [
        error(529, "overloaded_error", "Overloaded", "TAG-OVERLOADED"),
        error(400, "invalid_request_error", "Your credit balance is too low", "TAG-CREDIT"),
        error(401, "authentication_error", "invalid x-api-key", "TAG-KEY"),
        error(429, "rate_limit_error", "This request would exceed your limit", "TAG-LIMIT"),
    ];
    let mut case = Case::start(has_registry, turns, &[]);
    for (tag, state) in [
        ("TAG-LIMIT", State::QuotaWait),
        ("TAG-KEY", State::BlockedAuth),
        ("TAG-CREDIT", State::BlockedBilling),
        ("TAG-OVERLOADED", State::Idle),
    ] {
        case.prompt(tag);
        // The registry may be back at its prompt before StopFailure has told why.
        case.step_through("refused", &[State::Idle], state, |case| case.api.open(tag));
        case.clear();
    }
    case.finish();
}

fn a_resume_in_a_new_process(has_registry: bool) {
    // H-42: the record goes on with its new owner, after an exit and after a death.
    let turns = [Turn::text("One.").behind("one"), Turn::text("Two.").behind("two")];
    let mut case = Case::start(has_registry, turns, &[]);
    case.prompt("First prompt");
    case.step("answered", State::Idle, |case| case.api.open("one"));
    case.step("/exit", State::Stopped, |case| {
        case.pane.type_line("/exit");
        case.pane.wait_screen("dev$");
    });
    case.resume();
    case.prompt("Second prompt");
    case.step("answered again", State::Idle, |case| case.api.open("two"));
    let dead = case.known(State::Crashed, State::Unknown);
    case.step_through("SIGKILL at the prompt", &[State::Unknown], dead, |case| {
        case.signal(Signal::KILL);
    });
    case.resume();
    case.finish();
}

fn a_fork_is_another_session(has_registry: bool) {
    // H-42: the session that was forked stays as its user left it.
    let turns = [Turn::text("One.").behind("one"), Turn::text("Two.").behind("two")];
    let mut case = Case::start(has_registry, turns, &[]);
    case.prompt("First prompt");
    case.step("answered", State::Idle, |case| case.api.open("one"));
    case.step("/exit", State::Stopped, |case| {
        case.pane.type_line("/exit");
        case.pane.wait_screen("dev$");
    });
    case.step("forked", State::Stopped, |case| {
        let pid = case.pane.start(&["--resume", &case.id, "--fork-session"]);
        let fork = case.timeline.wait_owner(pid, |seen| seen.state == State::Idle);
        assert!(!fork.ids.contains(&case.id), "{fork:#?}");
        case.pane.type_line("Second prompt");
        case.api.wait_for("Second prompt");
        case.timeline.wait_owner(pid, |seen| seen.state == State::Running);
        case.api.open("two");
        case.timeline.wait_owner(pid, |seen| seen.state == State::Idle);
    });
    let sessions = case.timeline.sessions();
    assert_eq!(sessions.len(), 2, "{sessions:#?}");
    case.finish();
}

fn one_session_resumed_twice(has_registry: bool) {
    // the client does not guard a session; both are unknown while both are there.
    let mut case = Case::start(has_registry, [Turn::text("One.").behind("one")], &[]);
    case.prompt("First prompt");
    case.step("answered", State::Idle, |case| case.api.open("one"));
    let second = case.terminal.pane();
    case.step("resumed beside it", State::Unknown, |case| {
        let pid = second.start(&["--resume", &case.id]);
        let seen = case.timeline.wait_owner(pid, |seen| seen.state == State::Unknown);
        assert!(seen.because.starts_with("two_owners"), "{seen:#?}");
    });
    let sessions = case.timeline.sessions();
    assert_eq!(sessions.len(), 2, "{sessions:#?}");
    assert!(sessions.iter().all(|seen| seen.state == State::Unknown), "{sessions:#?}");
    case.finish();
}

fn a_background_shell(has_registry: bool) {
    // the turn ended, the work goes on.
    let command = json!({
        "command": "tail -f /dev/null", "description": "Serve", "run_in_background": true,
    });
    let turns = [Turn::tool("Bash", command), Turn::text("It serves.").behind("served")];
    let mut case = Case::start(has_registry, turns, &WITH_BASH);
    case.prompt("Serve it");
    case.step("answered", State::Background, |case| case.api.open("served"));
    case.timeline.reach(150);
    case.finish();
}
