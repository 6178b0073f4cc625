//! What stands still where nobody watches (S1-02 to S1-06, S1-14): shown, and never acted on. What was
//! shown and what was so is recorded (`cargo xtask truth`); what only looks as if it stood still, and is
//! no stall, stands in `calm`.

use coord_model::SessionState;
use coord_tests::fake_api::Turn;
use coord_tests::place::Place;
use coord_tests::wait::wait_until;
use coord_wire::inspect::Session;
use serde_json::json;
use std::time::Duration;

/// What the clocks below say.
pub(crate) const CLOCK: Duration = Duration::from_secs(5);
/// A turn without a tool has stalled after five heartbeats.
pub(crate) const THINKING: &str = "[stall]\nheartbeat = '1s'\nthinking_after = '5s'";
/// A tool has stalled then.
pub(crate) const TOOL: &str = "[stall]\nheartbeat = '1s'\ntool_after = '5s'";
/// A subagent, and a turn without a tool.
pub(crate) const SUBAGENT: &str =
    "[stall]\nheartbeat = '1s'\nthinking_after = '5s'\nsubagent_after = '5s'";
pub(crate) const WITH_BASH: [&str; 4] = ["--permission-mode", "manual", "--allowedTools", "Bash"];
/// A tool that waits to be let through.
pub(crate) const GATE: &str = "mkfifo gate && cat gate";

/// A client that nobody watches, at its prompt.
#[track_caller]
pub(crate) fn alone(clocks: &str, turns: impl IntoIterator<Item = Turn>) -> Place {
    let mut place = still(clocks, turns, "", &WITH_BASH);
    place.attend();
    place
}

/// A client at its prompt whose screen changes no more: the notices of its start are gone.
#[track_caller]
pub(crate) fn still(
    clocks: &str,
    turns: impl IntoIterator<Item = Turn>,
    variables: &str,
    arguments: &[&str],
) -> Place {
    let mut place = Place::open(clocks, turns);
    // It has a notice less for each.
    for option in ["focus-events", "mouse"] {
        place.terminal.tell(&["set-option", "-g", option, "on"]);
    }
    place.pid = place.pane.start_with(variables, arguments);
    place.learn_id();
    wait_until("the notices of its start are gone", || {
        let screen = place.pane.screen();
        let is_gone = ["/effort", "focus-events"].iter().all(|notice| !screen.contains(notice));
        if is_gone { Ok(()) } else { Err(screen) }
    });
    place
}

/// Lets the tool through.
pub(crate) fn open_gate(place: &Place) {
    std::fs::write(place.home.project().join("gate"), "through\n").expect("let the tool end");
}

/// A client that nobody watches, and whose main thread waits for its subagents.
#[track_caller]
pub(crate) fn with_subagents(turns: impl IntoIterator<Item = Turn>) -> Place {
    let variables = "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1";
    let mut place = still(SUBAGENT, turns, variables, &WITH_BASH);
    place.attend();
    place
}

/// A subagent; its prompt is `SUBTASK`.
pub(crate) fn subagent() -> Turn {
    Turn::tool(
        "Agent",
        json!({
            "description": "Look", "prompt": "SUBTASK", "subagent_type": "general-purpose",
        }),
    )
}

/// It hangs from here on and is shown so, until `go_on`; how it was shown.
#[track_caller]
fn hangs(case: &str, place: &Place, go_on: impl FnOnce(&Place)) -> Session {
    let mut watch = place.watch(case);
    let mut seen = None;
    watch.hang(CLOCK, || {
        seen = Some(place.when("it is known", |_| true));
        go_on(place);
    });
    place.when("the turn ends", |session| session.state == SessionState::Idle);
    watch.finish();
    place.assert_untouched();
    place.when_clients(&[place.pid]);
    seen.expect("it was looked at")
}

#[track_caller]
fn assert_at(session: &Session, what: &str) {
    assert_eq!(session.state, SessionState::Stalled, "{session:#?}");
    assert!(session.because.contains(what), "{}", session.because);
}

// S1-04, S1-05, S1-06, S1-14: its clock and its spinner go on all the time.
pub(crate) fn an_api_that_hangs(case: &str) {
    let place = alone(THINKING, [Turn::text("At last.").behind("late").lasting()]);
    place.prompt("First prompt");
    let session = hangs(case, &place, |place| place.api.open("late"));
    assert!(3 <= session.stall_count, "{session:#?}");
    assert_at(&session, "the client waits for the model");
    place.when_entry("Decision", "a stall is suspected");
}

// S1-06: the first half of an answer stands on the screen.
pub(crate) fn a_stream_that_falls_silent(case: &str) {
    let place = alone(THINKING, [Turn::pieces(&["The first half.\n\n", "The second half."])]);
    place.prompt("First prompt");
    place.api.open("piece 1");
    place.pane.wait_screen("The first half.");
    let session = hangs(case, &place, |place| place.api.open("piece 2"));
    assert_at(&session, "the client waits for the model");
}

// S1-05, S1-06: the tool's end was change; its clock is not that of what comes behind it.
pub(crate) fn a_hang_behind_a_tool(case: &str) {
    let turns = [Turn::bash("echo made"), Turn::text("At last.").behind("late").lasting()];
    let place = alone(THINKING, turns);
    place.prompt("First prompt");
    place.api.wait_for("made");
    let session = hangs(case, &place, |place| place.api.open("late"));
    assert_at(&session, "the client waits for the model");
}

// S1-06, R-02: a prompt that was typed meanwhile waits for the turn, and is no sign of life.
pub(crate) fn a_hang_with_a_prompt_behind_it(case: &str) {
    let place = alone(THINKING, [Turn::text("At last.").behind("late").lasting()]);
    place.prompt("First prompt");
    place.pane.type_line("Second prompt");
    place.pane.wait_screen("Press up to edit queued messages");
    let session = hangs(case, &place, |place| {
        place.api.open("late");
        place.api.wait_for("Second prompt");
    });
    assert_at(&session, "the client waits for the model");
}

// S1-06: by its own clock; nothing is done to it.
pub(crate) fn a_tool_that_hangs(case: &str) {
    let place = alone(TOOL, [Turn::bash(GATE), Turn::text("Done.").lasting()]);
    place.prompt("First prompt");
    // The last that its screen says of itself.
    place.pane.wait_screen("to run in background");
    let session = hangs(case, &place, open_gate);
    assert_at(&session, "a tool runs");
}

// S1-06: by its own clock.
pub(crate) fn a_subagent_that_hangs(case: &str) {
    let turns = [
        subagent(),
        Turn::text("I looked.").only_after("SUBTASK").behind("late"),
        Turn::text("Done.").lasting(),
    ];
    let place = with_subagents(turns);
    place.prompt("First prompt");
    place.api.wait_for("SUBTASK");
    let session = hangs(case, &place, |place| place.api.open("late"));
    assert_at(&session, "a subagent works");
}
