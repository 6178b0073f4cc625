//! What was ended on purpose stays ended (G6, S0-25f, H-05, H-10, H-36), though nobody watches it.
//! That coord was at work all the time is shown by a session that comes back last.

use coord_model::SessionState;
use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place};
use coord_tests::wait::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

/// A session that is killed comes back; nothing was done to the others, and nobody is with them.
#[track_caller]
fn only_the_killed_one_comes_back(place: &mut Place, ended: &[String]) {
    let pane = place.terminal.pane();
    let pid = pane.start(&MANUAL);
    place.look_at(pane, pid);
    place.signal(Signal::KILL);
    place.when_back();
    place.assert_back_by(1);
    let back = place.id.clone();
    for id in ended {
        place.id.clone_from(id);
        place.assert_untouched();
        let session = place.when("it is over", |session| session.pending_recovery.is_none());
        let is_over = matches!(session.state, SessionState::Stopped | SessionState::Interrupted);
        assert!(is_over, "{session:#?}");
    }
    place.id = back;
}

fn answers() -> [Turn; 1] {
    [Turn::text("One.").lasting()]
}

// G6, S0-25f
pub(crate) fn ended_by_its_user() {
    let mut place = Place::start("", answers(), &MANUAL);
    place.nobody_watches();
    place.a_turn();
    let mut ended = vec![place.id.clone()];
    place.pane.type_line("/exit");
    place.when_clients(&[]);

    place.pid = place.pane.start(&MANUAL);
    place.learn_id();
    place.a_turn();
    ended.push(place.id.clone());
    place.pane.keys(&["C-d"]);
    place.pane.wait_screen("again to exit");
    place.pane.keys(&["C-d"]);
    place.pane.wait_screen("Resume this session with:");
    place.when_clients(&[]);
    only_the_killed_one_comes_back(&mut place, &ended);
}

// S0-25f
pub(crate) fn ended_by_a_signal() {
    let mut place = Place::start("", answers(), &MANUAL);
    place.nobody_watches();
    place.a_turn();
    let mut ended = vec![place.id.clone()];
    place.signal(Signal::TERM);
    place.when_clients(&[]);

    place.pid = place.pane.start(&MANUAL);
    place.learn_id();
    place.a_turn();
    ended.push(place.id.clone());
    place.signal(Signal::HUP);
    place.when_clients(&[]);
    only_the_killed_one_comes_back(&mut place, &ended);
}

// H-10: a closed pane whose server lives on.
pub(crate) fn a_closed_pane() {
    let mut place = Place::start("", answers(), &MANUAL);
    place.nobody_watches();
    place.a_turn();
    let ended = vec![place.id.clone()];
    place.pane.close();
    place.when_clients(&[]);
    only_the_killed_one_comes_back(&mut place, &ended);
}

// H-36: what was cleared away is not brought back, and neither is a conversation in which only `/clear` stands.
pub(crate) fn cleared_and_killed() {
    let mut place = Place::start("", answers(), &MANUAL);
    place.nobody_watches();
    place.a_turn();
    let before = place.id.clone();
    place.pane.type_line("/clear");
    place.id = wait_until("its session has another id", || {
        let id = place.id_of(place.pid);
        if id == before { Err(id) } else { Ok(id) }
    });
    place.when_written("/clear");
    place.signal(Signal::KILL);
    place.when_entry("Decision", "nothing to resume: its transcript has no turn");
}

// H-05, F7: the client leaves before its SessionEnd hooks are through; that of coord never runs.
pub(crate) fn a_cancelled_session_end() {
    let mut place = Place::open("", answers());
    let file = place.home.config_dir().join("settings.json");
    let text = std::fs::read_to_string(&file).expect("coord is installed");
    let mut settings: Value = serde_json::from_str(&text).expect("settings are JSON");
    let slow = json!([{"hooks": [{"type": "command", "command": "sleep 30"}]}]);
    settings["hooks"]["SessionEnd"] = slow;
    std::fs::write(&file, settings.to_string()).expect("write settings.json");
    place.pid = place.pane.start(&MANUAL);
    place.learn_id();
    place.nobody_watches();
    place.a_turn();
    let ended = vec![place.id.clone()];
    place.pane.type_line("/exit");
    place.pane.wait_screen("Resume this session with:");
    place.when("it is over", |session| session.state == SessionState::Stopped);
    assert!(place.details("SessionEnd").is_empty(), "nobody told of its end");
    only_the_killed_one_comes_back(&mut place, &ended);
}
