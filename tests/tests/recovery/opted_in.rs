//! A session that somebody watches comes back only where its user said so, after a time in which any
//! key stops it (H-06); and what dies again at once is left (G5).

use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place};
use coord_tests::wait::wait_until;
use rustix::process::Signal;

/// What a decision says of the grace.
const GRACE: &str = "coord recovers it in 2 s unless a key is pressed";

// H-06
pub(crate) fn its_user_opted_in() {
    let mut place = Place::start("", [Turn::text("One.")], &MANUAL);
    place.a_turn();
    let id = place.id.clone();
    place.order(&["attend", &id, "--recover"]);
    place.signal(Signal::KILL);
    place.when_entry("Decision", GRACE);
    place.assert_untouched();
    place.when_back();
    place.assert_back_by(1);
    assert_eq!(place.n_continued(), 0, "its user goes on");
}

// H-06, S0-25g
pub(crate) fn mode_act() {
    let mut place = Place::start("mode = 'act'", [Turn::text("One.")], &MANUAL);
    place.a_turn();
    place.signal(Signal::KILL);
    place.when_entry("Decision", GRACE);
    place.when_back();
    place.assert_back_by(1);
}

// S0-25g: everything is decided, nothing is done.
pub(crate) fn mode_observe() {
    let mut place = Place::start("mode = 'observe'", [Turn::text("One.")], &MANUAL);
    place.a_turn();
    place.attend();
    place.signal(Signal::KILL);
    let session = place.when("it was only observed", |session| {
        session.recovery.last_outcome.as_deref() == Some("observed")
    });
    assert!(session.pending_recovery.is_none(), "{session:#?}");
    place.when_entry("Decision", "S0-25e");
    assert_eq!(place.acts(), ["not done: coord only observes"]);
    place.when_clients(&[]);
    assert!(!place.pane.screen().contains("resume-exec"), "{}", place.pane.screen());
}

// H-06, H-35: the one who watches is told, and any key stops it.
pub(crate) fn a_key_in_the_grace() {
    let mut place = Place::start("grace = '5s'", [Turn::text("One.")], &MANUAL);
    place.a_turn();
    let id = place.id.clone();
    place.order(&["attend", &id, "--recover"]);
    let viewer = place.terminal.pane();
    viewer.attach_to(&place.pane);
    // tmux tells of keys by the second: the ones that attached it are from before the death.
    wait_until("a second later", || {
        let activity = place.pane.format("#{session_activity}").parse().unwrap_or(u64::MAX);
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_secs());
        if activity < now { Ok(()) } else { Err((activity, now)) }
    });
    place.signal(Signal::KILL);
    viewer.wait_screen(
        "coord: this session crashed and will be recovered in 5 s; press any key to cancel",
    );
    place.assert_untouched();
    // The line is as it was.
    viewer.keys(&["x", "BSpace"]);
    place.when_needed("a key was pressed after it died");
    place.assert_untouched();
    place.when_clients(&[]);
    let screen = place.pane.screen();
    assert!(!screen.contains("resume-exec"), "{screen}");
}

// H-06, G5, H-43: what dies again soon is left until its operator lets it go on.
pub(crate) fn killed_again() {
    let mut place = Place::unattended([Turn::text("One.")], &MANUAL);
    place.a_turn();
    place.signal(Signal::KILL);
    place.when_back();
    place.signal(Signal::KILL);
    place.when_needed("it died again soon after its recovery");
    place.assert_done_only(1);
    place.when_clients(&[]);
    let id = place.id.clone();
    let told = place.order(&["reset-failed", &id]);
    assert!(told.contains("code 0"), "{told}");
    place.when("nobody is needed", |session| session.needs_operator.is_none());
    let told = place.order(&["recover", &id]);
    assert!(told.contains("code 0"), "{told}");
    place.when_back();
    place.assert_back_by(2);
}
