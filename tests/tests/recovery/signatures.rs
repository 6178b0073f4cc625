//! The words of a crash on the screen of a living client (S0-01, S0-07 to S0-29, H-07, H-08): evidence,
//! and a reason to act only where nobody watches, at rest, with nothing of its user's at stake.

use coord_model::SessionState;
use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place};
use coord_wire::inspect::Session;
use std::io::Write;

const SIGNATURE: &str = "RangeError: Maximum call stack size exceeded";
const WITH_BASH: [&str; 4] = ["--permission-mode", "manual", "--allowedTools", "Bash"];

/// Paints the words on the client's screen, where it has nothing, as a library of its own would.
#[track_caller]
fn paint(place: &Place) {
    place.when("its screen was seen", |session| has_fact(session, "shows a running turn"));
    paint_now(place);
}

#[track_caller]
fn paint_now(place: &Place) {
    let tty = place.pane.format("#{pane_tty}");
    let mut tty = std::fs::OpenOptions::new().append(true).open(tty).expect("open its terminal");
    write!(tty, "\u{1b}7\u{1b}[16;3H{SIGNATURE}\u{1b}8").expect("write to its terminal");
}

fn has_fact(session: &Session, words: &str) -> bool {
    session.evidence.iter().any(|one| one.fact.contains(words))
}

/// A recovery is owed, and waits for that.
#[track_caller]
fn owed(place: &Place, why: &str) {
    let session = place.when_held(why);
    let pending = session.pending_recovery.expect("it is owed");
    assert_eq!(pending.cause, "crash_signature");
    place.assert_untouched();
    place.when_clients(&[place.pid]);
}

/// It was ended at rest and brought back; nobody is told to go on, nothing was cut off.
#[track_caller]
fn restarted(place: &mut Place) {
    place.when_back();
    place.assert_back_by(2);
    assert_eq!(place.details("SessionEnd"), ["other"]);
    assert_eq!(place.n_continued(), 0);
}

// S0-08, S0-16, S0-25, S0-26
pub(crate) fn on_the_screen_only() {
    let mut place = Place::unattended([Turn::text("One.").behind("one")], &MANUAL);
    place.prompt("First prompt");
    paint(&place);
    owed(&place, "a turn is open");
    place.api.open("one");
    restarted(&mut place);
}

// S0-25c, H-08
pub(crate) fn with_a_draft() {
    let mut place = Place::unattended([Turn::text("One.").behind("one")], &MANUAL);
    place.prompt("First prompt");
    paint(&place);
    owed(&place, "a turn is open");
    place.pane.type_text("my draft");
    place.pane.wait_screen("❯\u{a0}my draft");
    place.api.open("one");
    owed(&place, "the input line holds a draft");
    place.pane.wait_screen("❯\u{a0}my draft");
    place.pane.keys(&["C-u"]);
    restarted(&mut place);
}

// S0-05, S0-15, H-01
pub(crate) fn with_a_permission_dialog() {
    let turns = [Turn::bash("touch made").behind("ask"), Turn::text("One.")];
    let mut place = Place::unattended(turns, &MANUAL);
    place.prompt("First prompt");
    paint(&place);
    owed(&place, "a turn is open");
    place.api.open("ask");
    place.pane.wait_screen("1. Yes");
    owed(&place, "a dialog waits for an answer");
    place.pane.wait_screen("1. Yes");
    assert!(!place.home.project().join("made").exists());
    place.pane.keys(&["Enter"]);
    restarted(&mut place);
    assert!(place.home.project().join("made").exists(), "its user said yes");
}

// H-06, H-07: where somebody watches it is evidence.
pub(crate) fn where_somebody_watches() {
    let turns = [Turn::text("One.").behind("one"), Turn::text("Two.")];
    let place = Place::start("", turns, &MANUAL);
    place.prompt("First prompt");
    paint(&place);
    place.when_entry("Decision", "kept as evidence");
    place.api.open("one");
    goes_on(&place);
}

// S0-29, H-07: what a tool printed is content.
pub(crate) fn printed_by_a_tool() {
    let printed = Turn::bash(&format!("echo '{SIGNATURE}'"));
    // The client folds a tool's output away when the turn is over.
    let turns = [printed, Turn::text("One.").behind("one"), Turn::text("Two.")];
    let place = Place::unattended(turns, &WITH_BASH);
    place.prompt("First prompt");
    place.when("its words are content", |session| {
        has_fact(session, "the text of the signature is part of the conversation")
    });
    place.api.open("one");
    goes_on(&place);
}

/// It goes on in the same process, turn after turn.
#[track_caller]
fn goes_on(place: &Place) {
    place.when_at_rest();
    place.prompt("Second prompt");
    place.pane.wait_screen("Two.");
    let session = place.when("the second turn ends", |session| session.state == SessionState::Idle);
    assert!(session.pending_recovery.is_none(), "{session:#?}");
    place.assert_untouched();
    place.when_clients(&[place.pid]);
}
