//! Open dialogs: permissions, questions, plans. Holds S0-17, S0-18, R-01, R-05, R-06.

use crate::case::{Case, Config, Event, MANUAL};
use coord_model::SessionState;
use coord_tests::fake_api::Turn;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn permission_prompts(config: Config) {
    // S0-18, R-01
    let turns = [
        Turn::bash("touch one").behind("ask one"),
        Turn::text("Made it.").behind("made"),
        Turn::bash("touch two").behind("ask two"),
        Turn::bash("touch three").behind("ask three"),
    ];
    let mut case = Case::start(config, turns, &MANUAL);
    case.prompt("Make one");
    case.step("permission asked", SessionState::AwaitingPermission, |case| {
        case.api.open("ask one");
        case.pane.wait_screen("1. Yes");
    });
    // Past the registry's time to follow.
    case.timeline.reach(150);
    case.step("approved", SessionState::Running, |case| case.pane.keys(&["Enter"]));
    case.step("answered", SessionState::Idle, |case| case.api.open("made"));
    case.prompt("Make two");
    case.step_killed("permission asked again", &[], SessionState::AwaitingPermission, |case| {
        case.api.open("ask two");
        case.pane.wait_screen("1. Yes");
    });
    let refused = case.known(Event::Interrupt { before: SessionState::AwaitingPermission });
    case.step("refused by No", refused, |case| {
        let screen = case.pane.screen();
        let no = screen.lines().find_map(|line| line.trim().split_once(". No")).expect("a No");
        case.pane.keys(&[no.0.trim_start_matches(['❯', ' '])]);
        case.pane.wait_screen("Interrupted");
    });
    case.prompt("Make three");
    case.step("permission asked for three", SessionState::AwaitingPermission, |case| {
        case.api.open("ask three");
        case.pane.wait_screen("1. Yes");
    });
    case.step("refused by Esc", refused, |case| case.pane.keys(&["Escape"]));
    case.timeline.reach(120);
    case.finish();
}

/// S0-17, S0-18, R-05: nothing but its answer ends a prompt, not the late notification of a
/// permission (6 s) and not the time of an idle one (60 s).
pub(crate) fn a_prompt_left_open(config: Config) {
    let turns = [Turn::bash("touch one").behind("ask"), Turn::text("Made it.").behind("made")];
    let mut case = Case::start(config, turns, &MANUAL);
    case.prompt("Make one");
    case.step_killed("permission asked", &[], SessionState::AwaitingPermission, |case| {
        case.api.open("ask");
        case.pane.wait_screen("1. Yes");
    });
    case.timeline.stay(Duration::from_secs(66));
    case.step("approved", SessionState::Running, |case| case.pane.keys(&["Enter"]));
    case.step("answered", SessionState::Idle, |case| case.api.open("made"));
    case.finish();
}

pub(crate) fn two_prompts_of_one_answer(config: Config) {
    // S0-18: the client shows them one after the other.
    let touch = |file: &str| json!({"command": format!("touch {file}"), "description": "Make it"});
    let both = Turn::tool("Bash", touch("first")).and_tool("Bash", touch("second")).behind("ask");
    let mut case = Case::start(config, [both, Turn::text("Made.").behind("made")], &MANUAL);
    case.prompt("Make both");
    case.step("first asked", SessionState::AwaitingPermission, |case| {
        case.api.open("ask");
        let screen = case.pane.wait_screen("1. Yes");
        assert_eq!(screen.matches("1. Yes").count(), 1, "one at a time:\n{screen}");
    });
    let through = [SessionState::Running];
    case.step_through("first approved", &through, SessionState::AwaitingPermission, |case| {
        case.pane.keys(&["Enter"]);
        case.pane.wait_screen("touch second");
        case.pane.wait_screen("1. Yes");
    });
    case.timeline.reach(150);
    let through = [SessionState::AwaitingPermission];
    case.step_killed("second approved", &through, SessionState::Running, |case| {
        case.pane.keys(&["Enter"]);
        case.api.wait_for_nth("", 2);
    });
    case.step("answered", SessionState::Idle, |case| case.api.open("made"));
    case.finish();
}

fn question() -> Value {
    let option = |label: &str| json!({"label": label, "description": label});
    json!({"questions": [{
        "question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [option("Red"), option("Blue")],
    }]})
}

pub(crate) fn a_question_and_a_plan(config: Config) {
    // S0-18, R-01
    let plan = || Turn::tool("ExitPlanMode", json!({"plan": "1. Paint it red."}));
    let turns = [
        Turn::tool("AskUserQuestion", question()).behind("ask"),
        Turn::text("Red it is.").behind("answer"),
        Turn::tool("AskUserQuestion", question()).behind("ask again"),
        plan().behind("plan"),
        plan().behind("plan again"),
        Turn::text("Painted.").behind("painted"),
    ];
    let mut case = Case::start(config, turns, &["--permission-mode", "plan"]);
    let escaped = case.known(Event::Interrupt { before: SessionState::AwaitingInput });
    // The registry calls a plan a permission; where it is first, its word stands until the hook's,
    // and it follows the answer a moment after the hook.
    let by_registry = [SessionState::AwaitingPermission];
    case.prompt("Paint it");
    case.step_killed("question asked", &[], SessionState::AwaitingInput, |case| {
        case.api.open("ask");
        case.pane.wait_screen("Which colour?");
    });
    case.timeline.reach(150);
    case.step("question answered", SessionState::Running, |case| case.pane.keys(&["Enter"]));
    case.step("answered", SessionState::Idle, |case| case.api.open("answer"));
    case.prompt("Ask it");
    case.step("question asked again", SessionState::AwaitingInput, |case| {
        case.api.open("ask again");
        case.pane.wait_screen("Enter to select");
    });
    case.step("Esc at the question", escaped, |case| case.pane.keys(&["Escape"]));
    case.prompt("Plan it");
    case.step_through("plan shown", &by_registry, SessionState::AwaitingInput, |case| {
        case.api.open("plan");
        case.pane.wait_screen("1. Yes");
    });
    case.timeline.reach(150);
    case.step_through("Esc at the plan", &by_registry, escaped, |case| {
        case.pane.keys(&["Escape"]);
    });
    case.prompt("Now plan it");
    case.step_through("plan shown again", &by_registry, SessionState::AwaitingInput, |case| {
        case.api.open("plan again");
        case.pane.wait_screen("1. Yes");
    });
    case.timeline.reach(150);
    case.step_through("plan approved", &by_registry, SessionState::Running, |case| {
        case.pane.keys(&["Enter"]);
    });
    case.step("painted", SessionState::Idle, |case| case.api.open("painted"));
    case.finish();
}

/// a subagent's prompt is its session's, and its work is the session's background.
pub(crate) fn a_subagent_that_needs_permission(config: Config) {
    let agent = json!({
        "description": "Make it", "prompt": "SUBTASK: make one", "subagent_type": "general-purpose",
    });
    let turns = [
        Turn::tool("Agent", agent).behind("delegate"),
        Turn::bash("touch one").only_after("SUBTASK").behind("ask"),
        Turn::text("I sent somebody."),
        Turn::text("It is made.").behind("made"),
        Turn::text("All done.").behind("all done"),
    ];
    let mut case = Case::start(config, turns, &MANUAL);
    case.prompt("Make one");
    case.step("answered", SessionState::Background, |case| case.api.open("delegate"));
    case.step_killed("permission asked", &[], SessionState::AwaitingPermission, |case| {
        case.api.open("ask");
        case.pane.wait_screen("1. Yes");
    });
    case.timeline.reach(150);
    case.step_through("approved", &[SessionState::Running], SessionState::Background, |case| {
        case.pane.keys(&["Enter"]);
    });
    case.timeline.reach(150);
    case.step_through("subagent done", &[SessionState::Idle], SessionState::Running, |case| {
        case.api.open("made");
        case.api.wait_for("task-notification");
    });
    case.step("answered again", SessionState::Idle, |case| case.api.open("all done"));
    case.finish();
}
