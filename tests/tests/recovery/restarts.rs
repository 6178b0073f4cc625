//! A coordinator that is killed at any step of a recovery, and started again: the session ends up with
//! exactly one client (G1, G10, H-34, H-43).

use coord_tests::coord::Coordinator;
use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place};
use rustix::process::Signal;

/// What was asked for and not seen to happen is looked at again after this.
const QUICK: &str = "resume_proof = '6s'\nend_within = '4s'";

/// A session at rest that nobody watches.
#[track_caller]
fn at_rest() -> Place {
    let place = Place::start(QUICK, [Turn::text("One.").lasting()], &MANUAL);
    let mut place = place;
    place.attend();
    place.a_turn();
    place
}

/// The coordinator dies as soon as the journal has that, and the next one brings it to its end.
#[track_caller]
fn killed_at(place: &mut Place, name: &str, words: &str) {
    place.when_entry(name, words);
    place.coordinator.take().expect("it runs").kill();
    place.coordinator = Some(Coordinator::start_again(&place.home));
    place.when_back();
    place.when_clients(&[place.pid]);
    let acts = place.acts();
    assert!(acts.iter().all(|act| act == "done"), "{acts:?}");
    let starts: Vec<String> = place.details("SessionStart");
    assert_eq!(starts.iter().filter(|start| *start == "resume").count(), 1, "{starts:?}");
    // It is at its prompt, and nothing stands there that was typed.
    place.pane.wait_screen("❯\u{a0}");
    place.prompt("Go on");
    assert_eq!(place.n_continued(), 0);
}

pub(crate) fn in_the_grace() {
    let mut place = Place::start(QUICK, [Turn::text("One.").lasting()], &MANUAL);
    place.a_turn();
    let id = place.id.clone();
    place.order(&["attend", &id, "--recover"]);
    place.signal(Signal::KILL);
    killed_at(&mut place, "Decision", "unless a key is pressed");
}

pub(crate) fn after_the_death() {
    let mut place = at_rest();
    place.signal(Signal::KILL);
    killed_at(&mut place, "Decision", "a recovery is pending");
}

pub(crate) fn after_the_act_was_decided() {
    let mut place = at_rest();
    place.signal(Signal::KILL);
    killed_at(&mut place, "Decision", "resume line typed into the shell");
}

pub(crate) fn after_the_line_was_typed() {
    let mut place = at_rest();
    place.signal(Signal::KILL);
    killed_at(&mut place, "Acted", "done");
}

pub(crate) fn after_the_claim() {
    let mut place = at_rest();
    place.signal(Signal::KILL);
    killed_at(&mut place, "ResumeClaimed", "becomes the client");
}

pub(crate) fn before_it_is_verified() {
    let mut place = at_rest();
    place.signal(Signal::KILL);
    killed_at(&mut place, "SessionStart", "resume");
}

// S0-25, S0-26: a living client is ended for its operator, who asked.
pub(crate) fn after_the_end_was_decided() {
    let mut place = at_rest();
    let id = place.id.clone();
    place.order(&["recover", &id, "--restart", "--when-idle"]);
    killed_at(&mut place, "Decision", "SIGTERM to the client");
}
