//! Turns and what looks like one: interrupts, queued prompts, `!cmd`, compaction. Holds,
//!

use crate::case::{Case, Config, Event, WITH_BASH};
use coord_model::SessionState;
use coord_tests::fake_api::Turn;

pub(crate) fn a_text_turn(config: Config) {
    // R-02, S0-25f
    let mut case = Case::start(config, [Turn::text("Hello there.").behind("answer")], &[]);
    case.prompt("Say hello");
    case.step_killed("answered", &[], SessionState::Idle, |case| case.api.open("answer"));
    case.exit();
    case.finish();
}

pub(crate) fn escape(config: Config) {
    // an interrupt fires no hook.
    let turns = [
        Turn::text("Never.").behind("never"),
        Turn::cut("A long story that stops right here.").behind("never"),
        Turn::bash("tail -f /dev/null"),
        Turn::text("At last.").behind("answer"),
    ];
    let mut case = Case::start(config, turns, &WITH_BASH);
    let interrupted = case.known(Event::Interrupt { before: SessionState::Running });
    case.prompt("Hang");
    case.step("Esc while the API hangs", interrupted, |case| case.pane.keys(&["Escape"]));
    case.timeline.reach(150);
    // Before any output, the prompt goes back into the input.
    case.pane.keys(&["C-u"]);
    case.prompt("Stream");
    case.step("Esc while text streams", interrupted, |case| {
        case.pane.wait_screen("●");
        case.pane.keys(&["Escape"]);
    });
    case.prompt("Run it");
    case.pane.wait_screen("tail -f");
    case.step_killed("Esc while a tool runs", &[], interrupted, |case| {
        case.pane.keys(&["Escape"]);
    });
    case.timeline.reach(150);
    case.prompt("Answer");
    case.step("answered", SessionState::Idle, |case| case.api.open("answer"));
    case.finish();
}

pub(crate) fn a_queued_message(config: Config) {
    // its UserPromptSubmit comes in the midst of the turn, and after Stop the next turn runs.
    let turns = [Turn::text("One.").behind("one"), Turn::text("Two.").behind("two")];
    let mut case = Case::start(config, turns, &[]);
    case.prompt("First prompt");
    case.step("second typed", SessionState::Running, |case| case.pane.type_line("Second prompt"));
    // The client's own registry may say idle for a moment between the two turns.
    case.step_through("first answered", &[SessionState::Idle], SessionState::Running, |case| {
        case.api.open("one");
        case.api.wait_for("Second prompt");
    });
    case.timeline.reach(150);
    case.step_killed("second answered", &[], SessionState::Idle, |case| case.api.open("two"));
    case.timeline.reach(150);
    case.finish();
}

/// no hook tells of a user's own command, and the answer to it ends without a prompt.
pub(crate) fn bash_mode(config: Config) {
    let turns = [Turn::text("One.").behind("one"), Turn::text("I saw it.").behind("seen")];
    let mut case = Case::start(config, turns, &[]);
    case.prompt("First prompt");
    case.step("answered", SessionState::Idle, |case| case.api.open("one"));
    let at_work = case.known(Event::SilentWork);
    case.step("!cmd", at_work, |case| {
        case.pane.type_text("!echo here it is");
        case.pane.wait_screen("echo here it is");
        case.pane.keys(&["Enter"]);
        case.api.wait_for("here it is");
    });
    case.step_killed("answered again", &[], SessionState::Idle, |case| case.api.open("seen"));
    case.timeline.reach(150);
    case.finish();
}

/// a compaction keeps the id, and opens and closes no turn.
pub(crate) fn compaction(config: Config) {
    let summary = Turn::text("<summary>It said one.</summary>");
    let turns = [
        Turn::text("One.").behind("one"),
        // The client may ask for it twice.
        summary.only_after("Respond with TEXT ONLY").behind("compact").lasting(),
        Turn::text("Two.").behind("two"),
    ];
    let mut case = Case::start(config, turns, &[]);
    case.prompt("First prompt");
    case.step("answered", SessionState::Idle, |case| case.api.open("one"));
    let at_work = case.known(Event::SilentWork);
    // Its SessionStart comes at the end, and would start a coordinator of its own.
    case.step_killed("/compact", &[], at_work, |case| case.pane.type_line("/compact"));
    case.timeline.reach(100);
    case.step("compacted", SessionState::Idle, |case| case.api.open("compact"));
    case.timeline.reach(100);
    case.prompt("Second prompt");
    case.step("answered again", SessionState::Idle, |case| case.api.open("two"));
    let sessions = case.timeline.sessions();
    assert_eq!(sessions.len(), 1, "{sessions:#?}");
    assert_eq!(sessions[0].ids, [case.id.clone()], "{sessions:#?}");
    case.finish();
}
