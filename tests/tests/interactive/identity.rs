//! Which record a session is: ids, processes, panes, and what is no session at all. Holds,
//! H-14, H-16, H-42.

use crate::case::{Case, Config, Event, Sources};
use coord_model::SessionState;
use coord_tests::coord::{events, inspect, install, install_in};
use coord_tests::fake_api::Turn;
use coord_tests::home::Home;
use coord_tests::timeline::Seen;
use rustix::process::Signal;

pub(crate) fn clear(config: Config) {
    // the record follows the id within one process.
    let turns = [Turn::text("One.").behind("one"), Turn::text("Two.").behind("two")];
    let mut case = Case::start(config, turns, &[]);
    case.prompt("First prompt");
    case.step("answered", SessionState::Idle, |case| case.api.open("one"));
    let first = case.id.clone();
    let followed = case.clear();
    assert_eq!(followed.ids[1..], [first], "it remembers its old id");
    case.prompt("Second prompt");
    case.step_killed("answered again", &[], SessionState::Idle, |case| case.api.open("two"));
    case.finish();
}

pub(crate) fn a_resume_in_a_new_process(config: Config) {
    // H-42: the record goes on with its new owner, after an exit and after a death.
    let turns = [Turn::text("One.").behind("one"), Turn::text("Two.").behind("two")];
    let mut case = Case::start(config, turns, &[]);
    case.prompt("First prompt");
    case.step("answered", SessionState::Idle, |case| case.api.open("one"));
    case.exit();
    case.resume();
    case.prompt("Second prompt");
    case.step("answered again", SessionState::Idle, |case| case.api.open("two"));
    let dead = case.known(Event::DeathAtRest);
    case.step_killed("SIGKILL at the prompt", &[SessionState::Unknown], dead, |case| {
        case.signal(Signal::KILL);
    });
    case.resume();
    case.finish();
}

pub(crate) fn a_fork_is_another_session(config: Config) {
    // H-42: the session that was forked stays as its user left it.
    let turns = [Turn::text("One.").behind("one"), Turn::text("Two.").behind("two")];
    let mut case = Case::start(config, turns, &[]);
    case.prompt("First prompt");
    case.step("answered", SessionState::Idle, |case| case.api.open("one"));
    case.step_killed("/exit", &[], SessionState::Stopped, |case| {
        case.pane.type_line("/exit");
        case.pane.wait_screen("dev$");
    });
    case.step("forked", SessionState::Stopped, |case| {
        let pid = case.pane.start(&["--resume", &case.id, "--fork-session"]);
        let fork = case.timeline.wait_owner(pid, |seen| seen.state == SessionState::Idle);
        assert!(!fork.ids.contains(&case.id), "{fork:#?}");
        case.pane.type_line("Second prompt");
        case.api.wait_for("Second prompt");
        case.timeline.wait_owner(pid, |seen| seen.state == SessionState::Running);
        case.api.open("two");
        case.timeline.wait_owner(pid, |seen| seen.state == SessionState::Idle);
    });
    let sessions = inspect(&case.home).sessions;
    let forks = sessions.iter().filter(|one| one.forked_from.as_ref() == Some(&case.id));
    assert!(sessions.len() == 2 && forks.count() == 1, "{sessions:#?}");
    case.finish();
}

pub(crate) fn one_session_resumed_twice(config: Config) {
    // the client does not guard a session; both are unknown while both are there.
    let mut case = Case::start(config, [Turn::text("One.").behind("one")], &[]);
    case.prompt("First prompt");
    case.step_killed("answered", &[], SessionState::Idle, |case| case.api.open("one"));
    // What its screen says has settled.
    case.timeline.reach(100);
    let second = case.terminal.pane();
    case.step("resumed beside it", SessionState::Unknown, |case| {
        let pid = second.start(&["--resume", &case.id]);
        let seen = case.timeline.wait_owner(pid, |seen| seen.state == SessionState::Unknown);
        assert!(seen.because.starts_with("two_owners"), "{seen:#?}");
    });
    // The second client's own word says since when.
    case.timeline.wait_done();
    let sessions = case.timeline.sessions();
    assert_eq!(sessions.len(), 2, "{sessions:#?}");
    assert!(sessions.iter().all(|seen| seen.state == SessionState::Unknown), "{sessions:#?}");
    case.finish();
}

/// a headless resume beside a living session makes both unknown while it runs, and leaves the
/// living one as it was.
pub(crate) fn a_headless_resume_beside_it(config: Config) {
    let turns = [
        Turn::text("One.").behind("one"),
        Turn::text("Beside.").only_after("BESIDE").behind("beside"),
        Turn::text("Two.").behind("two"),
    ];
    let mut case = Case::start(config, turns, &[]);
    case.prompt("First prompt");
    case.step("answered", SessionState::Idle, |case| case.api.open("one"));
    case.timeline.reach(100);
    let second = case.terminal.pane();
    case.step("resumed headless beside it", SessionState::Unknown, |case| {
        second.command(&format!("claude -p --resume {} 'BESIDE: say two'", case.id));
        case.api.wait_for("BESIDE");
    });
    case.timeline.wait_done();
    case.step("the headless one ends", SessionState::Idle, |case| {
        case.api.open("beside");
        second.wait_screen("Beside.");
    });
    case.prompt("Second prompt");
    case.step_killed("answered again", &[], SessionState::Idle, |case| case.api.open("two"));
    case.finish();
}

/// a trust dialog and a resume of what is not there make no session.
pub(crate) fn what_is_no_session(config: Config) {
    let home = Home::new();
    install(&home);
    let mut case = Case::open(config, home, [Turn::text("One.").behind("one")]);
    case.pane.command("claude --resume 00000000-0000-4000-8000-000000000000");
    case.pane.wait_screen("No conversation found");
    case.timeline.look_on(100);
    let sessions = case.timeline.sessions();
    assert!(sessions.is_empty(), "{sessions:#?}");
    case.pane.command("mkdir -p ../elsewhere && cd ../elsewhere && claude");
    case.pane.wait_screen("Yes, I trust");
    case.timeline.look_on(100);
    let sessions = case.timeline.sessions();
    assert!(sessions.is_empty(), "{sessions:#?}");
    case.begin(|case| {
        case.pane.keys(&["Down"]);
        case.pane.wait_screen("❯ Yes, I trust");
        case.pane.keys(&["Enter"]);
        case.pane.wait_screen("❯\u{a0}");
        case.pane.client_pid()
    });
    case.prompt("First prompt");
    case.step_killed("answered", &[], SessionState::Idle, |case| case.api.open("one"));
    case.finish();
}

/// H-14: a session from before the hooks is listed where the registry tells of it, else
/// from its first hook on.
pub(crate) fn hooks_installed_later(config: Config) {
    let mut case = Case::open(config, Home::new(), []);
    if config.sources == Sources::All {
        case.begin(|case| case.pane.start(&[]));
    } else {
        case.pid = case.pane.start(&[]);
        case.timeline.look_on(50);
        let sessions = case.timeline.sessions();
        assert!(sessions.is_empty(), "{sessions:#?}");
    }
    install(&case.home);
    // The client takes new settings in when it comes to it, and says nothing of it.
    let has_reported =
        |home: &Home| events(home, None).iter().any(|event| event["source"] == "hook");
    for n in 0.. {
        let prompt = format!("Prompt {n}");
        let answer = |case: &Case| {
            case.pane.type_line(&prompt);
            case.pane.wait_screen(&format!("answer {n}"));
        };
        case.api.push(Turn::text(&format!("This is answer {n}.")));
        if config.sources == Sources::All {
            case.step_through(&prompt, &[SessionState::Running], SessionState::Idle, answer);
        } else {
            answer(&case);
            case.timeline.look_on(20);
        }
        if has_reported(&case.home) {
            break;
        }
    }
    case.id = case
        .timeline
        .wait_owner(case.pid, |seen| seen.state == SessionState::Idle)
        .ids
        .swap_remove(0);
    case.timeline.wait_at_prompt(case.pid);
    case.api.push(Turn::text("At last.").behind("last"));
    case.prompt("Another prompt");
    case.step_killed("answered", &[], SessionState::Idle, |case| case.api.open("last"));
    let sessions = case.timeline.sessions();
    assert_eq!(sessions.len(), 1, "{sessions:#?}");
    case.finish();
}

/// R-09, H-16: an inherited TMUX_PANE names a pane that is not the session's.
pub(crate) fn a_stale_pane_variable(config: Config) {
    let turns = [Turn::text("One.").behind("one"), Turn::text("Never.").behind("never")];
    let mut case = Case::start_with(config, turns, "TMUX_PANE=%99", &[]);
    case.prompt("First prompt");
    case.step("answered", SessionState::Idle, |case| case.api.open("one"));
    case.prompt("Second prompt");
    case.step_killed("/exit in a turn", &[], SessionState::Stopped, |case| {
        case.pane.type_line("/exit");
    });
    case.finish();
}

/// H-15: a client in a container that shares the configuration is shown, and never judged by a pid
/// that means something else here.
pub(crate) fn another_pid_namespace(config: Config) {
    let home = Home::new();
    install(&home);
    let mut case = Case::open(config, home, [Turn::text("One.").behind("one")]);
    case.pane.command("unshare -pf --mount-proc --kill-child claude -p 'Say hello'");
    case.api.wait_for("Say hello");
    let seen =
        case.timeline.wait("a session elsewhere", |seen| seen.state == SessionState::Elsewhere);
    case.id.clone_from(&seen.ids[0]);
    case.pid = seen.pid.expect("its entry or its hook names its process");
    case.step("it works", SessionState::Elsewhere, |case| case.timeline.look_on(50));
    case.step("it ends", SessionState::Stopped, |case| {
        case.api.open("one");
        case.pane.wait_screen("One.");
    });
    let sessions = case.timeline.sessions();
    assert_eq!(sessions.len(), 1, "{sessions:#?}");
    case.finish();
}

/// R-09, H-16: a new tmux server gives the same pane ids again, and they are others.
pub(crate) fn a_new_tmux_server(config: Config) {
    let mut case = Case::start(config, [Turn::hang(), Turn::text("Two.").behind("two")], &[]);
    case.prompt("Hang");
    let on_the_way = [SessionState::Stopped, SessionState::Unknown];
    case.step_through("tmux server killed", &on_the_way, SessionState::Interrupted, |case| {
        case.terminal.signal(Signal::KILL);
    });
    let interrupted = case.id.clone();
    case.terminal.restart(&case.home, &case.api);
    case.pane = case.terminal.pane();
    case.begin(|case| case.pane.start(&[]));
    case.prompt("Second prompt");
    case.step_killed("answered", &[], SessionState::Idle, |case| case.api.open("two"));
    let sessions = case.timeline.sessions();
    let is_interrupted =
        |seen: &Seen| seen.ids.contains(&interrupted) && seen.state == SessionState::Interrupted;
    assert!(sessions.len() == 2 && sessions.iter().any(is_interrupted), "{sessions:#?}");
    case.finish();
}

/// H-14: sessions of two configuration directories of one user do not touch each other.
pub(crate) fn two_config_directories(config: Config) {
    let home = Home::new();
    let other = home.other_config_dir();
    install(&home);
    install_in(&home, &other);
    let turns = [Turn::text("Two.").behind("two"), Turn::text("One.").behind("one")];
    let mut case = Case::open(config, home, turns);
    case.begin(|case| case.pane.start(&[]));
    let second = case.terminal.pane();
    case.step("a session of another directory", SessionState::Idle, |case| {
        let variables = format!("CLAUDE_CONFIG_DIR='{}'", other.display());
        let pid = second.start_with(&variables, &[]);
        case.timeline.wait_owner(pid, |seen| seen.state == SessionState::Idle);
        second.type_line("Second prompt");
        case.api.wait_for("Second prompt");
        case.timeline.wait_owner(pid, |seen| seen.state == SessionState::Running);
        case.api.open("two");
        case.timeline.wait_owner(pid, |seen| seen.state == SessionState::Idle);
    });
    case.prompt("First prompt");
    case.step_killed("answered", &[], SessionState::Idle, |case| case.api.open("one"));
    let mut dirs: Vec<String> =
        inspect(&case.home).sessions.into_iter().map(|session| session.config_dir).collect();
    dirs.sort();
    let both = [case.home.config_dir(), other].map(|dir| dir.to_string_lossy().into_owned());
    assert_eq!(dirs, both);
    case.finish();
}
