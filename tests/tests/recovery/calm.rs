//! What looks as if it stood still where nobody watches, and is no stall (S1-02 to S1-06, S1-13, S1-18,
//! each for longer than the clock of what stalls. What was shown is recorded
//! (`cargo xtask truth`).

use crate::stalls::{GATE, SUBAGENT, THINKING, TOOL, WITH_BASH};
use crate::stalls::{alone, open_gate, still, subagent, with_subagents};
use coord_model::SessionState;
use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place};
use coord_tests::stalls::Watch;
use coord_tests::wait::wait_until;
use serde_json::json;
use std::io::Write as _;
use std::time::Duration;

/// As long as a hang takes that is shown.
const LONG: Duration = Duration::from_secs(10);
/// Between two signs of life.
const STEP: Duration = Duration::from_secs(2);
const STEPS: usize = 6;

/// Nothing was shown, and nothing was done.
#[track_caller]
fn finish(place: &Place, watch: Watch) {
    watch.finish();
    place.assert_untouched();
    place.when_clients(&[place.pid]);
}

#[track_caller]
fn finish_at_rest(place: &Place, watch: Watch) {
    place.when("the turn ends", |session| session.state == SessionState::Idle);
    finish(place, watch);
}

/// It is in that state for long.
#[track_caller]
fn stay(place: &Place, watch: &Watch, state: SessionState) {
    place.when("it is seen as what it is", |session| session.state == state);
    watch.stay(LONG);
    let session = place.when("it is known", |_| true);
    assert_eq!(session.state, state, "{session:#?}");
}

// S1-06: a tool may take its time, however still its screen is.
pub(crate) fn a_long_tool(case: &str) {
    let place = alone(THINKING, [Turn::bash(GATE), Turn::text("Done.").lasting()]);
    let watch = place.watch(case);
    place.prompt("First prompt");
    let session = place.when("nothing has changed for long", |session| 8 <= session.stall_count);
    assert_eq!(session.state, SessionState::Running, "{session:#?}");
    open_gate(&place);
    finish_at_rest(&place, watch);
}

// S1-02: where somebody watches, nothing is counted.
pub(crate) fn an_attended_turn(case: &str) {
    let turns = [Turn::text("At last.").behind("late").lasting()];
    let mut place = still(THINKING, turns, "", &WITH_BASH);
    let watch = place.watch(case);
    place.prompt("First prompt");
    let session = place.when("its screen was seen", |session| {
        session.evidence.iter().any(|one| one.fact.contains("shows a running turn"))
    });
    assert_eq!((session.state, session.stall_count), (SessionState::Running, 0));
    stay(&place, &watch, SessionState::Running);
    finish(&place, watch);
    place.attend();
    place.when("it has stalled", |session| session.state == SessionState::Stalled);
    place.order(&["attend", &place.id.clone(), "--attended"]);
    place.when("somebody watches", |session| session.state == SessionState::Running);
}

// while the client waits to try again.
pub(crate) fn a_request_that_is_tried_again(case: &str) {
    let overloaded = Turn::error(529, "overloaded_error", "Overloaded").header("retry-after", "12");
    let turns = [overloaded.once(), Turn::text("Done.").lasting()];
    let mut place = still(THINKING, turns, "CLAUDE_CODE_MAX_RETRIES=3", &MANUAL);
    place.attend();
    let watch = place.watch(case);
    place.prompt("First prompt");
    place.pane.wait_screen("attempt 1/3");
    place.api.wait_for_nth("First prompt", 2);
    finish_at_rest(&place, watch);
}

// S1-18, R-11
pub(crate) fn a_wait_for_its_quota(case: &str) {
    let limit = Turn::error(429, "rate_limit_error", "This request would exceed your limit");
    let turns = [Turn::text("One."), limit.header("x-should-retry", "false")];
    let place = alone(&format!("[quota]\nprobe_after = '1h'\n{THINKING}"), turns);
    let watch = place.watch(case);
    place.a_turn();
    place.prompt("Second prompt");
    stay(&place, &watch, SessionState::QuotaWait);
    finish(&place, watch);
}

// S1-13, R-11: only its user can sign in again.
pub(crate) fn a_turn_that_failed(case: &str) {
    let refused = Turn::error(401, "authentication_error", "invalid x-api-key");
    let place = alone(THINKING, [Turn::text("One."), refused]);
    let watch = place.watch(case);
    place.a_turn();
    place.prompt("Second prompt");
    stay(&place, &watch, SessionState::BlockedAuth);
    finish(&place, watch);
}

// S1-06: long after a turn.
pub(crate) fn a_session_at_rest(case: &str) {
    let place = alone(THINKING, [Turn::text("Done.").lasting()]);
    let watch = place.watch(case);
    place.a_turn();
    stay(&place, &watch, SessionState::Idle);
    finish(&place, watch);
}

// S1-18: it waits for a person.
pub(crate) fn an_open_permission_dialog(case: &str) {
    let turns = [Turn::bash("echo y > answered"), Turn::text("Done.").lasting()];
    let mut place = still(SUBAGENT, turns, "", &MANUAL);
    place.attend();
    let watch = place.watch(case);
    place.prompt("First prompt");
    place.pane.wait_screen("Do you want to proceed?");
    stay(&place, &watch, SessionState::AwaitingPermission);
    place.pane.keys(&["Enter"]);
    finish_at_rest(&place, watch);
}

// S1-05: each piece is change.
pub(crate) fn an_answer_in_pieces(case: &str) {
    let pieces: Vec<String> = (1..=STEPS).map(|step| format!("This is part {step}.\n\n")).collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    let place = alone(THINKING, [Turn::pieces(&pieces)]);
    let watch = place.watch(case);
    place.prompt("First prompt");
    for step in 1..=STEPS {
        watch.stay(STEP);
        place.api.open(&format!("piece {step}"));
        place.pane.wait_screen(&format!("This is part {step}."));
    }
    finish_at_rest(&place, watch);
}

// S1-06: the model may think for less than its clock.
pub(crate) fn a_long_thought(case: &str) {
    let clocks = "[stall]\nheartbeat = '1s'\nthinking_after = '20s'";
    let place = alone(clocks, [Turn::text("At last.").behind("late").lasting()]);
    let watch = place.watch(case);
    place.prompt("First prompt");
    stay(&place, &watch, SessionState::Running);
    let session = place.when("it stands still", |session| 3 <= session.stall_count);
    assert_eq!(session.state, SessionState::Running, "{session:#?}");
    place.api.open("late");
    finish_at_rest(&place, watch);
}

// S1-05: what a tool prints is change; the client shows how many lines.
pub(crate) fn a_tool_that_prints(case: &str) {
    let place = alone(TOOL, [Turn::bash(GATE), Turn::text("Done.").lasting()]);
    let watch = place.watch(case);
    place.prompt("First prompt");
    let gate = place.home.project().join("gate");
    wait_until("the tool runs", || gate.exists().then_some(()).ok_or("no gate"));
    // Opening it waits for the tool.
    let mut gate = std::fs::OpenOptions::new().write(true).open(gate).expect("open the gate");
    for step in 1..=STEPS {
        watch.stay(STEP);
        writeln!(gate, "line {step} of it").expect("the tool reads");
    }
    drop(gate);
    finish_at_rest(&place, watch);
}

// S1-05: its tools are signs of life of the session's.
pub(crate) fn a_subagent_that_works(case: &str) {
    let step = |step: usize| {
        let gate = format!("step {step}");
        Turn::bash(&format!("echo made {step}")).only_for("SUBTASK").behind(&gate)
    };
    let answer = Turn::text("I looked.").only_for("SUBTASK").behind("answer");
    let steps = (1..=STEPS).map(step).chain([answer]);
    let last = Turn::text("Done.").lasting();
    let place = with_subagents([subagent()].into_iter().chain(steps).chain([last]));
    let watch = place.watch(case);
    place.prompt("First prompt");
    place.api.wait_for("SUBTASK");
    for step in 1..=STEPS {
        watch.stay(STEP);
        place.api.open(&format!("step {step}"));
        place.api.wait_for(&format!("made {step}"));
    }
    place.api.open("answer");
    finish_at_rest(&place, watch);
}

// S1-06: the main thread is at rest, and work in the background has no clock.
pub(crate) fn a_subagent_in_the_background(case: &str) {
    let turns = [
        subagent(),
        Turn::text("I looked.").only_after("SUBTASK").behind("late"),
        Turn::text("Somebody looks.").lasting(),
    ];
    let place = alone(SUBAGENT, turns);
    let watch = place.watch(case);
    place.prompt("First prompt");
    stay(&place, &watch, SessionState::Background);
    place.api.open("late");
    finish_at_rest(&place, watch);
}

// S1-05: each step's tool is a sign of life.
pub(crate) fn a_turn_of_many_steps(case: &str) {
    let turn =
        |step: usize| Turn::bash(&format!("echo made {step}")).behind(&format!("step {step}"));
    let turns = (1..=STEPS).map(turn).chain([Turn::text("Done.").lasting()]);
    let place = alone(SUBAGENT, turns);
    let watch = place.watch(case);
    place.prompt("First prompt");
    for step in 1..=STEPS {
        watch.stay(STEP);
        place.api.open(&format!("step {step}"));
        place.api.wait_for(&format!("made {step}"));
    }
    finish_at_rest(&place, watch);
}

// S1-06: work in the background has no clock.
pub(crate) fn a_background_shell(case: &str) {
    let call = json!({"command": GATE, "description": "A test's", "run_in_background": true});
    let turns = [Turn::tool("Bash", call), Turn::text("It runs.").lasting()];
    let place = alone(&format!("{TOOL}\nthinking_after = '5s'"), turns);
    let watch = place.watch(case);
    place.prompt("First prompt");
    stay(&place, &watch, SessionState::Background);
    open_gate(&place);
    finish_at_rest(&place, watch);
}
