//! What stands still where nobody watches (S1-02 to S1-06, S1-14): shown, and never acted on.

use crate::place::Place;
use coord_tests::fake_api::Turn;
use coord_wire::inspect::State;

/// A turn without a tool has stalled after five heartbeats.
const CLOCKS: &str = "[stall]\nheartbeat = '1s'\nthinking_after = '5s'";
const WITH_BASH: [&str; 4] = ["--permission-mode", "manual", "--allowedTools", "Bash"];

// S1-04, S1-05, S1-06, S1-14: its clock and its spinner go on all the time.
pub(crate) fn an_api_that_hangs() {
    let turns = [Turn::text("At last.").behind("late").lasting()];
    let mut place = Place::start(CLOCKS, turns, &WITH_BASH);
    place.attend();
    place.prompt("First prompt");
    let session = place.when("it has stalled", |session| session.state == State::Stalled);
    assert!(3 <= session.stall_count, "{session:#?}");
    assert!(session.because.contains("it waits for the model"), "{}", session.because);
    place.when_entry("Decision", "a stall is suspected");
    place.api.open("late");
    place.when("the turn ends", |session| session.state == State::Idle);
    place.assert_untouched();
    place.when_clients(&[place.pid]);
}

// S1-06: a tool may take its time, however still its screen is.
pub(crate) fn a_long_tool() {
    let turns = [Turn::bash("mkfifo gate && cat gate"), Turn::text("Done.").lasting()];
    let mut place = Place::start(CLOCKS, turns, &WITH_BASH);
    place.attend();
    place.prompt("First prompt");
    let session = place.when("nothing has changed for long", |session| 8 <= session.stall_count);
    assert_eq!(session.state, State::Running, "{session:#?}");
    std::fs::write(place.home.project().join("gate"), "through\n").expect("let the tool end");
    place.when("the turn ends", |session| session.state == State::Idle);
    place.assert_untouched();
}

// S1-02: where somebody watches, nothing is counted.
pub(crate) fn an_attended_turn() {
    let turns = [Turn::text("At last.").behind("late").lasting()];
    let mut place = Place::start(CLOCKS, turns, &WITH_BASH);
    place.prompt("First prompt");
    let session = place.when("its screen was seen", |session| {
        session.evidence.iter().any(|one| one.fact.contains("shows a running turn"))
    });
    assert_eq!((session.state, session.stall_count), (State::Running, 0));
    place.attend();
    place.when("it has stalled", |session| session.state == State::Stalled);
    place.order(&["attend", &place.id.clone(), "--attended"]);
    place.when("somebody watches", |session| session.state == State::Running);
}
