//! Work that goes on without a turn, and work of another session inside one. Holds.

use crate::case::{Case, Config, Sources, WITH_BASH};
use coord_model::Kind;
use coord_model::SessionState;
use coord_tests::fake_api::Turn;
use coord_tests::timeline::Expected;
use serde_json::json;

pub(crate) fn a_background_shell(config: Config) {
    // the turn ended, the work goes on.
    let command = json!({
        "command": "tail -f /dev/null", "description": "Serve", "run_in_background": true,
    });
    let turns = [Turn::tool("Bash", command), Turn::text("It serves.").behind("served")];
    let mut case = Case::start(config, turns, &WITH_BASH);
    case.prompt("Serve it");
    case.step_killed("answered", &[], SessionState::Background, |case| case.api.open("served"));
    case.timeline.reach(150);
    case.finish();
}

fn delegates() -> Turn {
    let agent = json!({
        "description": "Look", "prompt": "SUBTASK: look", "subagent_type": "general-purpose",
    });
    Turn::tool("Agent", agent).behind("delegate")
}

/// The turn ends, and its subagent has begun.
fn delegate(case: &mut Case) {
    case.prompt("Have a look");
    case.step("delegated", SessionState::Running, |case| {
        case.api.open("delegate");
        case.api.wait_for("SUBTASK");
    });
    case.step("answered", SessionState::Background, |case| case.api.open("delegated"));
}

/// a subagent works on after the turn; its end opens another one.
pub(crate) fn a_background_subagent(config: Config) {
    let turns = [
        delegates(),
        Turn::text("I looked.").only_after("SUBTASK").behind("looked"),
        Turn::text("Somebody looks.").behind("delegated"),
        Turn::text("It is looked at.").behind("all done"),
    ];
    let mut case = Case::start(config, turns, &WITH_BASH);
    delegate(&mut case);
    case.timeline.reach(150);
    case.step_through("subagent done", &[SessionState::Idle], SessionState::Running, |case| {
        case.api.open("looked");
        case.api.wait_for("task-notification");
    });
    case.step_killed("answered again", &[], SessionState::Idle, |case| case.api.open("all done"));
    case.finish();
}

/// an interrupt of the turn ends no subagent in the background. The registry stays busy for it; where there is none,
/// its next hook tells.
pub(crate) fn an_interrupt_beside_a_background_subagent(config: Config) {
    let turns = [
        delegates(),
        Turn::bash("echo looked-at-it").only_after("SUBTASK").behind("looks"),
        Turn::text("Somebody looks.").behind("delegated"),
        Turn::bash("tail -f /dev/null"),
        Turn::text("I looked.").behind("looked"),
        Turn::text("It is looked at.").behind("all done"),
    ];
    let mut case = Case::start(config, turns, &WITH_BASH);
    delegate(&mut case);
    case.prompt("Follow it");
    let known = |without_registry| Expected {
        truth: SessionState::Background,
        shown: match config.sources {
            Sources::NoRegistry => without_registry,
            Sources::All | Sources::HooksOnly => SessionState::Running,
        },
    };
    case.step("Esc", known(SessionState::Idle), |case| {
        case.pane.wait_screen("tail -f");
        case.pane.keys(&["Escape"]);
        case.pane.wait_screen("Interrupted");
    });
    case.step("the subagent works on", known(SessionState::Background), |case| {
        case.api.open("looks");
        case.api.wait_for("looked-at-it");
    });
    case.step_through("subagent done", &[SessionState::Idle], SessionState::Running, |case| {
        case.api.open("looked");
        case.api.wait_for("task-notification");
    });
    case.step_killed("answered again", &[], SessionState::Idle, |case| case.api.open("all done"));
    case.finish();
}

/// what a tool of a session runs is a session of its own, and never that session's state.
pub(crate) fn a_nested_headless_run(config: Config) {
    let turns = [
        Turn::bash("claude -p 'NESTED: say hello'").behind("nest"),
        Turn::text("Hello from inside.").only_after("NESTED").behind("inside"),
        Turn::text("It said hello.").behind("answer"),
    ];
    let mut case = Case::start(config, turns, &WITH_BASH);
    case.prompt("Nest one");
    let id = case.id.clone();
    let is_nested = |state: SessionState| {
        let id = &id;
        move |seen: &coord_tests::timeline::Seen| !seen.ids.contains(id) && seen.state == state
    };
    case.step("a nested run", SessionState::Running, |case| {
        case.api.open("nest");
        case.api.wait_for("NESTED");
        let nested = case.timeline.wait("the nested run", is_nested(SessionState::Running));
        assert_eq!(nested.kind, Some(Kind::Headless), "{nested:#?}");
    });
    case.step("the nested run ends", SessionState::Running, |case| {
        case.api.open("inside");
        case.api.wait_for("Hello from inside");
        case.timeline.wait("the nested run's end", is_nested(SessionState::Stopped));
    });
    case.step_killed("answered", &[], SessionState::Idle, |case| case.api.open("answer"));
    let sessions = case.timeline.sessions();
    assert_eq!(sessions.len(), 2, "{sessions:#?}");
    case.finish();
}
