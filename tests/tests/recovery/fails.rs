//! A resume that cannot be, or is not taken: it is said why, nothing is tried blindly, and what its
//! user can mend comes back (S0-21 to S0-23, S0-25b, H-18, H-36, H-43, G5).

use coord_model::SessionState;
use coord_tests::client::program;
use coord_tests::fake_api::Turn;
use coord_tests::home::API_KEY;
use coord_tests::place::{MANUAL, Place};
use coord_tests::process::copy_program;
use coord_tests::wait::wait_until;
use rustix::process::Signal;
use serde_json::Value;

fn answers() -> [Turn; 1] {
    [Turn::text("One.").lasting()]
}

/// A dead session that nobody watches, held back.
#[track_caller]
fn held(recovery: &str) -> Place {
    let mut place = Place::start(recovery, answers(), &MANUAL);
    place.attend();
    place.a_turn();
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

/// Its operator has it tried once more.
#[track_caller]
fn once_more(place: &mut Place) {
    let id = place.id.clone();
    place.order(&["reset-failed", "--all"]);
    place.order(&["recover", &id]);
    place.when_back();
    place.when_clients(&[place.pid]);
}

// H-36: nothing was said yet.
pub(crate) fn before_its_first_prompt() {
    let place = Place::unattended(answers(), &MANUAL);
    place.signal(Signal::KILL);
    place.when_left();
    place.when_entry("Decision", "nothing to resume");
    place.assert_untouched();
    place.when_clients(&[]);
}

// H-36
pub(crate) fn its_transcript_is_gone() {
    let mut place = held("");
    let session =
        place.when("it is dead", |session| session.state == SessionState::RecoveryPending);
    std::fs::remove_file(&session.transcript_path).expect("remove the transcript");
    release(&mut place);
    place.when_left();
    place.when_entry("Decision", "nothing to resume: it has no transcript");
    place.assert_untouched();
    place.when_clients(&[]);
}

// H-18: another directory of that name will not do either.
pub(crate) fn its_directory_was_moved() {
    let mut place = held("");
    let (project, moved) = (place.home.project(), place.home.dir().join("moved"));
    std::fs::rename(&project, &moved).expect("move the project");
    std::fs::create_dir(&project).expect("make another one");
    release(&mut place);
    place.when_needed("its directory is gone or was replaced");
    place.assert_untouched();
    place.when_clients(&[]);
    std::fs::remove_dir(&project).expect("remove the other one");
    std::fs::rename(&moved, &project).expect("move the project back");
    once_more(&mut place);
    place.assert_done_only(1);
}

// H-18
pub(crate) fn its_program_is_gone() {
    let mut place = Place::open("", answers());
    let copy = place.home.dir().join("claude-copy");
    if std::fs::hard_link(program(), &copy).is_err() {
        copy_program(program().as_ref(), &copy);
    }
    place.pane.command(&format!("{} --permission-mode manual", copy.display()));
    place.pane.wait_screen("❯\u{a0}");
    place.pid = wait_until("it runs", || {
        let shell = place.pane.pane_pid();
        let children = format!("/proc/{shell}/task/{shell}/children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        children.trim().parse::<u32>().map_err(|_| children.clone())
    });
    place.learn_id();
    place.attend();
    place.a_turn();
    let id = place.id.clone();
    place.order(&["hold", &id]);
    place.signal(Signal::KILL);
    place.when("its recovery is held", |session| session.pending_recovery.is_some());
    std::fs::remove_file(&copy).expect("remove the program");
    release(&mut place);
    place.when_needed("its program is gone");
    place.assert_untouched();
    place.when_clients(&[]);
}

// H-18, G5: in a new window the account would be another one.
pub(crate) fn its_account_is_not_there() {
    let mut place = held("");
    place.pane.close();
    place.terminal.tell(&["set-environment", "-g", "-u", "ANTHROPIC_API_KEY"]);
    let before = place.terminal.panes().len();
    release(&mut place);
    place.when_entry("ResumeFailed", "the session was started with ANTHROPIC_API_KEY");
    // Its limit of attempts, not one more.
    place.when_needed("3 recoveries in this turn");
    assert_eq!(place.details("ResumeFailed").len(), 3);
    place.assert_done_only(3);
    place.when_clients(&[]);
    wait_until("no window stays", || {
        let n = place.terminal.panes().len();
        if n == before { Ok(()) } else { Err(n) }
    });
    place.terminal.tell(&["set-environment", "-g", "ANTHROPIC_API_KEY", API_KEY]);
    once_more(&mut place);
    place.assert_done_only(4);
}

// H-43: a dialog stands before the resumed session; it is its user's to answer.
pub(crate) fn a_trust_dialog() {
    let mut place = held("resume_proof = '6s'");
    trust(&place, false);
    release(&mut place);
    place.pane.wait_screen("Yes, I trust");
    let pid = place.pane.client_pid();
    place.when_held("a dialog is open in the resumed client");
    // As long again, and nothing else is tried.
    let entries = place.details("Decision").len();
    place.when("it waits on", |session| {
        let since = session.hold.as_ref().map(|hold| hold.since.clone()).unwrap_or_default();
        let since = coord_model::stamp::parse_rfc3339(&since).unwrap_or(u64::MAX);
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_millis());
        since.saturating_add(7_000) < u64::try_from(now).unwrap_or(0)
    });
    assert_eq!(place.details("Decision").len(), entries, "{}", place.decisions());
    place.assert_done_only(1);
    place.when_clients(&[pid]);
    place.pane.keys(&["Down"]);
    place.pane.wait_screen("❯ Yes, I trust");
    place.pane.keys(&["Enter"]);
    place.when_back();
    assert_eq!(place.pid, pid);
    place.assert_back_by(1);
}

/// Whether the client's user trusts the project.
fn trust(place: &Place, is_trusted: bool) {
    let file = place.home.config_dir().join(".claude.json");
    let text = std::fs::read_to_string(&file).expect("the client has its state");
    let mut state: Value = serde_json::from_str(&text).expect("it is JSON");
    let project = place.home.project().to_string_lossy().into_owned();
    state["projects"][project]["hasTrustDialogAccepted"] = is_trusted.into();
    std::fs::write(file, state.to_string()).expect("write the client's state");
}
