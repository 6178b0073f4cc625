//! A session that its user takes back while its recovery waits is its user's: there are never two
//! owners (H-13, H-42). What something else restarts is not coord's to restart (H-13), and what runs
//! elsewhere is out of its reach (H-15).

use coord_model::SessionState;
use coord_tests::coord::inspect;
use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place, signal_process};
use coord_tests::process::write_program;
use coord_tests::wait::wait_until;
use rustix::process::Signal;

fn answers() -> [Turn; 1] {
    [Turn::text("One.").lasting()]
}

/// A dead session whose recovery is held back.
#[track_caller]
fn held() -> Place {
    let mut place = Place::unattended(answers(), &MANUAL);
    place.a_turn();
    let id = place.id.clone();
    place.order(&["hold", &id]);
    place.signal(Signal::KILL);
    place.when("its recovery is held", |session| {
        session.pending_recovery.is_some() && session.hold.is_some()
    });
    place
}

/// What holds it back ends, and its user has it all the same.
#[track_caller]
fn stays_with(place: &mut Place, pid: u32) {
    place.pid = pid;
    place.when("it is its user's", |session| {
        let is_owner = session.owner.as_ref().is_some_and(|owner| owner.pid == pid);
        is_owner && session.pending_recovery.is_none() && session.state == SessionState::Idle
    });
    place.when_entry("Decision", "a person resumed it");
    let id = place.id.clone();
    place.order(&["release", &id]);
    place.when("nothing holds it", |session| session.hold.is_none());
    place.prompt("Go on");
    place.when("that turn ends", |session| session.state == SessionState::Idle);
    place.assert_untouched();
    place.when_clients(&[pid]);
    assert_eq!(place.n_continued(), 0);
}

// H-42
pub(crate) fn resumed_in_its_own_shell() {
    let mut place = held();
    let pid = place.pane.start(&["--resume", &place.id]);
    stays_with(&mut place, pid);
}

// H-42, F14
pub(crate) fn continued_in_another_pane() {
    let mut place = held();
    let pane = place.terminal.pane();
    let pid = pane.start(&["--continue"]);
    place.pane = pane;
    stays_with(&mut place, pid);
}

// H-13: its user is faster than the grace.
pub(crate) fn resumed_elsewhere_in_the_grace() {
    let mut place = Place::start("grace = '8s'", answers(), &MANUAL);
    place.a_turn();
    let id = place.id.clone();
    place.order(&["attend", &id, "--recover"]);
    let pane = place.terminal.pane();
    place.signal(Signal::KILL);
    place.when_entry("Decision", "coord recovers it in 8 s unless a key is pressed");
    let pid = pane.start(&["--resume", &place.id]);
    place.pane = pane;
    stays_with(&mut place, pid);
}

// H-13: a loop starts its client again by itself; nobody else does.
pub(crate) fn a_loop_in_a_shell() {
    let mut place = Place::open("", answers());
    place.nobody_watches();
    write_loop(&place);
    place.pane.command("./loop");
    stays_with_its_loop(&mut place);
}

// H-13: the same as its pane's first process.
pub(crate) fn a_loop_as_a_pane() {
    let mut place = Place::open("", answers());
    place.nobody_watches();
    write_loop(&place);
    place.pane = place.terminal.pane_of(&["./loop"]);
    stays_with_its_loop(&mut place);
}

#[track_caller]
fn write_loop(place: &Place) {
    let file = place.home.project().join("loop");
    let text = "#!/bin/bash\nwhile true; do claude --permission-mode manual; done\n";
    write_program(&file, text);
}

#[track_caller]
fn stays_with_its_loop(place: &mut Place) {
    place.pid = one_client(place, 0);
    place.pane.wait_screen("❯\u{a0}");
    place.learn_id();
    place.a_turn();
    place.signal(Signal::KILL);
    place.when_left();
    place.assert_untouched();
    let explained = place.decisions();
    assert!(explained.contains("decides about restarts"), "{explained}");
    let again = one_client(place, place.pid);
    let id = place.id_of(again);
    assert_ne!(id, place.id, "the loop began anew");
    // Its operator cannot have it restarted either.
    let first = place.id.clone();
    let told = place.order(&["recover", &first, "--json"]);
    assert!(told.contains(r#""rule":"H-13""#), "{told}");
    place.assert_untouched();
    place.when_clients(&[again]);
}

#[track_caller]
fn one_client(place: &Place, before: u32) -> u32 {
    wait_until("another client runs", || match place.clients().as_slice() {
        [pid] if *pid != before => Ok(*pid),
        other => Err(other.to_vec()),
    })
}

// H-15, F16: a pid of another namespace means something else here.
pub(crate) fn a_client_in_a_container() {
    let mut place = Place::open("", answers());
    place.nobody_watches();
    place.pane.command("unshare -pf --mount-proc --kill-child claude --permission-mode manual");
    place.pane.wait_screen("❯\u{a0}");
    place.pid = one_client(&place, 0);
    place.id = wait_until("its session is listed", || {
        let all = inspect(&place.home).sessions;
        let found = all.iter().find(|one| one.state == SessionState::Elsewhere);
        found.map(|one| one.session_id.clone()).ok_or_else(|| format!("{all:#?}"))
    });
    place.prompt("First prompt");
    place.pane.wait_screen("One.");
    let id = place.id.clone();
    let told = place.order(&["recover", &id, "--json"]);
    assert!(told.contains(r#""rule":"H-15""#), "{told}");
    signal_process(place.pid, Signal::KILL);
    place.when_clients(&[]);
    place.pane.wait_screen("dev$");
    // Another session shows that coord was at work.
    let (container, pane) = (place.id.clone(), place.terminal.pane());
    let pid = pane.start(&MANUAL);
    place.look_at(pane, pid);
    place.signal(Signal::KILL);
    place.when_back();
    place.assert_back_by(1);
    place.id = container;
    let session = place.when("it is elsewhere", |session| session.state == SessionState::Elsewhere);
    assert!(session.pending_recovery.is_none(), "{session:#?}");
    place.assert_untouched();
}
