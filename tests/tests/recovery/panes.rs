//! Where the resume is put (S0-25e), and what keeps it from being typed (H-16 to H-18).

use coord_model::SessionState;
use coord_tests::coord::{Coordinator, programs};
use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place, signal_process, words_of};
use coord_tests::terminal::Pane;
use coord_tests::wait::wait_until;
use rustix::fs::{FileType, Mode};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

fn answers() -> [Turn; 1] {
    [Turn::text("One.").lasting()]
}

/// A session at rest that nobody watches.
#[track_caller]
fn at_rest() -> Place {
    let place = Place::unattended(answers(), &MANUAL);
    place.a_turn();
    place
}

/// The same, dead and held back; what is done to its pane comes before any look.
#[track_caller]
fn held() -> Place {
    let mut place = at_rest();
    let id = place.id.clone();
    place.order(&["hold", &id]);
    place.signal(Signal::KILL);
    place.when("its recovery is held", |session| session.pending_recovery.is_some());
    place.pane.wait_screen("Killed");
    place
}

#[track_caller]
fn release(place: &mut Place) {
    let id = place.id.clone();
    place.order(&["release", &id]);
}

/// Its client is a child of its old pane's shell.
#[track_caller]
fn assert_in(place: &Place, pane: &Pane) {
    let tty = |pid: u32| fs::read_link(format!("/proc/{pid}/fd/0")).ok();
    assert_eq!(tty(place.pid), tty(pane.pane_pid()), "it is in that pane");
}

/// It is the first process of a pane that was not there before.
#[track_caller]
fn assert_in_a_new_window(place: &Place) {
    let panes = place.terminal.panes();
    let first: Vec<u32> = panes.iter().map(Pane::pane_pid).collect();
    assert!(first.contains(&place.pid), "{first:?}");
}

// H-17
pub(crate) fn synchronized_panes() {
    let mut place = at_rest();
    place.terminal.tell(&["split-window", "-d", "-t", place.pane.id(), "cat"]);
    let sibling = place.terminal.panes().pop().expect("there are panes");
    place.terminal.tell(&["set-option", "-w", "-t", place.pane.id(), "synchronize-panes", "on"]);
    place.signal(Signal::KILL);
    place.when_held("the pane is synchronized: other panes get the same input");
    place.assert_untouched();
    place.terminal.tell(&["set-option", "-w", "-t", place.pane.id(), "synchronize-panes", "off"]);
    place.when_back();
    place.assert_back_by(1);
    assert_in(&place, &place.pane);
    assert_eq!(sibling.screen().trim(), "", "nothing came to the other pane");
}

// H-16
pub(crate) fn copy_mode() {
    let mut place = at_rest();
    place.terminal.tell(&["copy-mode", "-t", place.pane.id()]);
    place.signal(Signal::KILL);
    place.when_held("the pane is in a tmux mode");
    place.assert_untouched();
    assert_eq!(place.pane.format("#{pane_in_mode}"), "1", "it is left there");
    place.terminal.tell(&["send-keys", "-t", place.pane.id(), "-X", "cancel"]);
    place.when_back();
    place.assert_back_by(1);
    assert_in(&place, &place.pane);
}

// H-16, F17: an inherited TMUX_PANE names the operator's pane; the session is in another one.
pub(crate) fn a_stale_pane_variable() {
    let mut place = Place::open("", answers());
    let other = place.terminal.pane();
    place.pid = place.pane.start_with(&format!("TMUX_PANE={}", other.id()), &MANUAL);
    place.learn_id();
    place.attend();
    place.a_turn();
    place.signal(Signal::KILL);
    place.when_back();
    place.assert_back_by(1);
    assert_in(&place, &place.pane);
    assert_eq!(other.screen().trim(), "dev$", "nothing came to the other pane");
}

// R-10, H-01: a client that its user has put aside is not touched, even if its operator asks for it;
// once it is in front again, it is ended at rest, by SIGTERM, and comes back (G6, S0-25).
pub(crate) fn a_suspended_client() {
    let mut place = at_rest();
    place.pane.keys(&["C-z"]);
    place.when("it is suspended", |session| session.state == SessionState::Suspended);
    let id = place.id.clone();
    place.order(&["recover", &id, "--restart", "--when-idle"]);
    place.when_held("it is stopped by Ctrl-Z");
    place.assert_untouched();
    place.when_clients(&[place.pid]);
    place.pane.type_line("fg");
    place.when_back();
    place.assert_back_by(2);
    assert!(!place.details("SessionEnd").is_empty(), "it could clean up behind itself");
    assert_in(&place, &place.pane);
}

// S0-25e
pub(crate) fn a_pane_closed_after_the_death() {
    let mut place = held();
    place.pane.close();
    release(&mut place);
    place.when_back();
    place.assert_back_by(1);
    assert_in_a_new_window(&place);
}

/// Has the lines that this place's coordinator runs say their words, and wait until somebody writes to a
/// FIFO. Both lie in the directory.
#[track_caller]
fn lines_wait(place: &mut Place) -> PathBuf {
    let dir = place.home.dir().join("installed");
    fs::create_dir(&dir).expect("create a directory");
    symlink(programs().join("coord"), dir.join("coord")).expect("link a program");
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, dir.join("go"), FileType::Fifo, mode, 0).expect("a FIFO");
    let (at, real) = (dir.display(), programs().join("coordctl"));
    let script = format!(
        "#!/bin/sh\necho \"$@\" >'{at}/new'; mv '{at}/new' '{at}/line'; read go <'{at}/go'\n\
         exec '{}' \"$@\"\n",
        real.display()
    );
    fs::write(dir.join("coordctl"), script).expect("write a script");
    fs::set_permissions(dir.join("coordctl"), Permissions::from_mode(0o700)).expect("chmod");
    let record = place.home.paths().install_record();
    let text = fs::read(&record).expect("it was installed");
    let mut record_json: Value = serde_json::from_slice(&text).expect("JSON");
    record_json["coord"] = dir.join("coord").display().to_string().into();
    fs::write(&record, record_json.to_string()).expect("write the record");
    place.coordinator.take().expect("it runs").kill();
    place.coordinator = Some(Coordinator::start_again(&place.home));
    dir
}

// H-50: the nonce of a line is good in its own window, and for no other process of the user that reads it.
pub(crate) fn a_line_taken_elsewhere() {
    let mut place = held();
    let dir = lines_wait(&mut place);
    place.pane.close();
    release(&mut place);
    let line = wait_until("the window's line runs", || fs::read_to_string(dir.join("line")));
    let nonce = line.trim_end().rsplit(' ').next().expect("its last word").to_owned();
    let said = place.order(&["resume-exec", &nonce]);
    assert!(said.contains("works only where coord typed it"), "{said}");
    fs::write(dir.join("go"), "go\n").expect("the line goes on");
    place.when_back();
    assert_in_a_new_window(&place);
}

// S0-25e: the client was its pane's first process, and the pane is kept.
pub(crate) fn a_dead_pane_that_is_kept() {
    let mut place = Place::open("", answers());
    place.terminal.tell(&["set-option", "-g", "remain-on-exit", "on"]);
    let before = place.terminal.panes().len();
    place.pane = place.terminal.pane_of(&["claude", "--permission-mode", "manual"]);
    place.pid = place.pane.pane_pid();
    place.pane.wait_screen("❯\u{a0}");
    place.learn_id();
    place.attend();
    place.a_turn();
    place.signal(Signal::KILL);
    place.when_back();
    place.assert_back_by(1);
    let panes = place.terminal.panes();
    assert_eq!(panes.len(), before + 1, "{panes:#?}");
    let own = panes.iter().find(|pane| pane.id() == place.pane.id()).expect("its pane is there");
    assert_eq!(own.pane_pid(), place.pid);
    assert!(words_of(place.pid).join(" ").ends_with(&format!("--resume {}", place.id)));
}

// H-18: other shells and prompts are typed into as well.
pub(crate) fn other_shells() {
    let mut place = Place::open("", answers());
    place.nobody_watches();
    for (words, prompt) in [
        (&["env", "PS1=$ ", "sh"][..], "$"),
        (&["env", "PS1=dev ~> ", "bash", "--norc", "--noprofile"], "dev ~>"),
    ] {
        let pane = place.terminal.pane_of(words);
        pane.wait_screen(prompt);
        let pid = pane.start(&MANUAL);
        place.look_at(pane, pid);
        place.signal(Signal::KILL);
        place.when_back();
        place.assert_done_only(1);
        assert_in(&place, &place.pane);
        let pid = place.pid;
        signal_process(pid, Signal::TERM);
        place.when_clients(&[]);
    }
}

// H-18: what stands in the shell's line is never completed and never erased.
pub(crate) fn a_half_typed_line() {
    let mut place = held();
    place.pane.type_text("touch half");
    place.pane.wait_screen("touch half");
    release(&mut place);
    the_line_stays(&mut place);
}

// H-18, F11: the same by the keys of one who watches, gone by now.
pub(crate) fn a_half_typed_line_of_a_person() {
    let mut place = held();
    let viewer = place.terminal.pane();
    viewer.attach_to(&place.pane);
    viewer.type_text("touch half");
    place.pane.wait_screen("touch half");
    release(&mut place);
    the_line_stays(&mut place);
}

// H-18: the line is empty again, but its user was there since the death.
pub(crate) fn a_key_after_the_death() {
    let mut place = held();
    let viewer = place.terminal.pane();
    viewer.attach_to(&place.pane);
    viewer.keys(&["x"]);
    place.pane.wait_screen("dev$ x");
    viewer.keys(&["BSpace"]);
    wait_until("the line is empty", || {
        let screen = place.pane.screen();
        if screen.contains("dev$ x") { Err(screen) } else { Ok(()) }
    });
    release(&mut place);
    place.when_back();
    place.assert_back_by(1);
    assert_in_a_new_window(&place);
    let screen = place.pane.screen();
    assert!(!screen.contains("resume-exec"), "{screen}");
}

#[track_caller]
fn the_line_stays(place: &mut Place) {
    place.when_back();
    place.assert_back_by(1);
    assert_in_a_new_window(place);
    let screen = place.pane.screen();
    assert!(screen.contains("dev$ touch half"), "{screen}");
    assert!(!screen.contains("resume-exec"), "{screen}");
    assert!(!place.home.project().join("half").exists(), "it was not sent");
    // It is its user's to send.
    place.pane.keys(&["Enter"]);
    wait_until("its user sends it", || {
        if place.home.project().join("half").exists() { Ok(()) } else { Err(place.pane.screen()) }
    });
}
