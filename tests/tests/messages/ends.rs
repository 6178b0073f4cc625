//! Sessions that die: what waits for them, and who is told (S0-33, S0-34, S4-27).

use crate::case::{WITH_BASH, messages_for, requests_with, send, when_delivered};
use coord_model::SessionState;
use coord_tests::coord::{programs, session_when};
use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place, signal_process};
use coord_tests::wait::wait_until;
use rustix::process::Signal;

// S0-33, S4-24: nothing is typed into its shell; it reads it once it is back.
pub(crate) fn a_crashed_session() {
    let turns = [
        Turn::text("First.").only_after("First prompt"),
        Turn::hang().once().only_after("Second prompt"),
        Turn::text("Back again.").lasting(),
    ];
    // Time enough to send while it is dead.
    let mut place = Place::start("grace = '20s'\n[queue]\nwake = 'auto'", turns, &MANUAL);
    place.a_turn();
    let id = place.id.clone();
    place.order(&["attend", &id, "--recover"]);
    place.prompt("Second prompt");
    place.signal(Signal::KILL);
    place.when("it is to come back", |session| session.state == SessionState::RecoveryPending);
    let sent = send(&mut place, &["'read me when you are back'"]);
    assert!(sent.because.is_some_and(|why| why.contains("crashed")));
    place.when_back();
    place.when("it rests", |session| session.state == SessionState::Idle);
    assert!(!place.pane.screen().contains("read me when"), "{}", place.pane.screen());
    if place.n_continued() == 0 {
        place.prompt("Third prompt");
    }
    when_delivered(&place, &sent.id);
    assert_eq!(requests_with(&place, "read me when you are back").len(), 1);
}

// S4-27, S0-34
pub(crate) fn a_killed_child() {
    let turns =
        [Turn::text("First."), Turn::text("I know about my child.").only_after("child session")];
    let mut place = Place::unattended(turns, &MANUAL);
    place.a_turn();
    let (parent, pane) = (place.id.clone(), place.terminal.pane());
    let pid = pane.start(&MANUAL);
    let child = place.id_of(pid);
    place.runs("coordctl", &["attend", &child, "--parent", &parent, "--name", "tests"]);
    signal_process(pid, Signal::KILL);
    let told = place.api.wait_for("Your child session");
    let words = &told.last_user_text;
    assert!(words.contains(&format!("> Your child session {child} (tests) crashed")), "{words}");
    assert!(words.contains("It approves nothing"), "{words}");
    place.pane.wait_screen("I know about my child.");
    let [message] = messages_for(&place, &parent).try_into().expect("it is told once");
    assert_eq!(message.from, "coord");
    when_delivered(&place, &message.id);
    // A coordinator that starts anew tells nobody again.
    place.coordinator.take().expect("one runs").kill();
    place.coordinator = Some(coord_tests::coord::Coordinator::start(&place.home));
    session_when(&place.home, &child, "it is known", |one| one.state == SessionState::Crashed);
    assert_eq!(messages_for(&place, &parent).len(), 1);
}

// S4-25: the agent that waits for an answer hears that none will come.
pub(crate) fn a_receiver_that_died() {
    let place = Place::unattended([Turn::text("First.").only_after("First prompt")], &WITH_BASH);
    place.a_turn();
    let (sender, pane) = (place.id.clone(), place.terminal.pane());
    let pid = pane.start(&MANUAL);
    let receiver = place.id_of(pid);
    let (coord, root) = (programs().join("coord"), place.home.root());
    let command =
        format!("{} --root {} send {receiver} 'are you there?'", coord.display(), root.display());
    place.api.push(Turn::bash(&command).only_after("Ask the other"));
    place.api.push(Turn::text("It is gone.").only_after("has not read"));
    place.prompt("Ask the other");
    wait_until("it waits", || match messages_for(&place, &receiver).as_slice() {
        [one] if one.state == "pending" => Ok(()),
        other => Err(other.to_vec()),
    });
    signal_process(pid, Signal::KILL);
    let told = place.api.wait_for("has not read");
    assert!(told.last_user_text.contains(&format!("> Session {receiver} crashed")), "{told:#?}");
    place.pane.wait_screen("It is gone.");
    assert!(messages_for(&place, &sender).iter().all(|one| one.from == "coord"));
}
