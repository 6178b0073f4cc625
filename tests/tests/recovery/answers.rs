//! What a session is told that came to rest where nobody watches (S1-07 to S1-16, S1-23, H-40), and how
//! its task directory stops that (S1-15, S1-16, S1-24, S1-26).

use coord_model::SessionState;
use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place};
use coord_tests::wait::wait_until;
use std::path::PathBuf;

const ANSWERS: &str =
    "[stall]\nheartbeat = '1s'\nanswers = 'unattended'\n[notice]\ndelays = { permission = '3s' }";
const ASKS: &str = "The first half is done. Type 'continue' to go on.";

fn answering(turns: impl IntoIterator<Item = Turn>) -> Place {
    let mut place = Place::start(ANSWERS, turns, &MANUAL);
    place.attend();
    place
}

/// The directory of its task, and an order that makes it that.
fn with_task(place: &mut Place) -> PathBuf {
    let dir = place.home.tmp().join("task");
    std::fs::create_dir(&dir).expect("make the task directory");
    let (id, path) = (place.id.clone(), dir.to_string_lossy().into_owned());
    let said = place.order(&["attend", &id, "--task-dir", &path]);
    assert!(said.ends_with("code 0\n"), "{said}");
    dir
}

// S1-09, H-02, H-40
pub(crate) fn a_prompt_to_continue() {
    let place = answering([Turn::text(ASKS), Turn::text("All of it is done.").lasting()]);
    place.prompt("First prompt");
    place.api.wait_for("the answer is: continue");
    place.pane.wait_screen("All of it is done.");
    place.when_entry("Decision", "S1-09");
    let session = place.when("it is at rest again", |session| session.state == SessionState::Idle);
    let answers = session.answers.expect("it was answered");
    assert_eq!((answers.this_iteration, answers.total, answers.questions), (1, 1, false));
    place.when_entry("Decision", "S1-14");
    assert_eq!(place.n_continued(), 1);
    place.assert_done_only(1);
    place.when_clients(&[place.pid]);
}

// S1-10, H-40: only where the operator named the session.
pub(crate) fn a_question() {
    let question = "Everything is ready. Delete the backups? (y/n)";
    let mut place = answering([
        Turn::text(question),
        Turn::text(question),
        Turn::text("They are gone.").lasting(),
    ]);
    place.prompt("First prompt");
    place.when_entry("Decision", "H-40");
    assert_eq!(place.n_continued(), 0);
    let id = place.id.clone();
    place.order(&["attend", &id, "--answers"]);
    place.prompt("Second prompt");
    place.api.wait_for("the answer is: y.");
    place.pane.wait_screen("They are gone.");
    place.assert_done_only(1);
}

// S0-15, H-40: words of a prompt stand in a permission dialog too; it is never answered.
pub(crate) fn a_permission_dialog() {
    let place = answering([Turn::bash("echo y > answered"), Turn::text("Done.").lasting()]);
    place.prompt("First prompt");
    place.pane.wait_screen("Do you want to proceed?");
    place.when_entry("Decision", "send a notice through tmux");
    let session =
        place.when("it waits", |session| session.state == SessionState::AwaitingPermission);
    assert!(session.answers.is_some_and(|answers| answers.total == 0));
    place.assert_untouched();
    assert!(place.pane.screen().contains("Do you want to proceed?"));
    assert!(!place.home.project().join("answered").exists());
}

// H-40: whoever types is there.
pub(crate) fn a_draft() {
    let place = answering([Turn::text(ASKS).lasting()]);
    place.prompt("First prompt");
    place.pane.wait_screen("to go on.");
    place.pane.type_text("half a tho");
    place.when_entry("Decision", "S1-07");
    place.assert_untouched();
    assert!(place.pane.screen().contains("half a tho"));
}

// S1-15, S1-17: three, then a person and the task are told.
pub(crate) fn the_limit_of_answers() {
    let mut place = answering([Turn::text(ASKS).lasting()]);
    let dir = with_task(&mut place);
    place.prompt("First prompt");
    let session = place.when_needed("answered 3 times in this iteration");
    assert!(session.task.is_some_and(|task| task.dir == dir.to_string_lossy()));
    let text = wait_until("the stop file is written", || {
        std::fs::read_to_string(dir.join(".auto-stop")).map_err(|error| error.to_string())
    });
    let said: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!((&said["by"], &said["reason"]), (&"coord".into(), &"stall_limit".into()));
    assert_eq!(said["session_id"], place.id.as_str());
    place.when_held(".auto-stop (stall_limit)");
    let id = place.id.clone();
    place.order(&["reset-failed", &id]);
    place.when("a person's word lifts that", |session| session.needs_operator.is_none());
    place.when_entry("Decision", "S1-24");
    assert!(dir.join(".auto-stop").exists(), "a person takes it away");
    assert_eq!(place.n_continued(), 3);
    place.assert_done_only(3);
}

// S1-15, S1-16: a stop file of a person holds everything, and a signal begins a new iteration.
pub(crate) fn a_task_directory() {
    let turns = [Turn::text(ASKS), Turn::text("All of it is done.").lasting()];
    let mut place = answering(turns);
    let dir = with_task(&mut place);
    std::fs::write(dir.join(".auto-stop"), "").expect("stop the task");
    place.when_held("the task directory has an .auto-stop");
    place.prompt("First prompt");
    place.when("it stands still", |session| 5 <= session.stall_count);
    place.assert_untouched();
    std::fs::remove_file(dir.join(".auto-stop")).expect("let the task go on");
    place.api.wait_for("the answer is: continue");
    place.when("it was answered", |session| {
        session.answers.as_ref().is_some_and(|answers| answers.this_iteration == 1)
    });
    std::fs::write(dir.join(".auto-signal"), r#"{"v":1,"iteration":2}"#).expect("signal");
    let session = place.when("a new iteration began", |session| {
        session.answers.as_ref().is_some_and(|answers| answers.this_iteration == 0)
    });
    assert_eq!(session.answers.map(|answers| answers.total), Some(1));
    place.when_entry("Decision", "S1-16");
}

// S1-26: one session for each task directory.
pub(crate) fn a_task_of_another_session() {
    let mut place = answering([Turn::text("Done.").lasting()]);
    let dir = with_task(&mut place).to_string_lossy().into_owned();
    let (first, pane) = (place.id.clone(), place.terminal.pane());
    let pid = pane.start(&MANUAL);
    let second = place.id_of(pid);
    let said = place.order(&["attend", &second, "--task-dir", &dir]);
    assert!(said.contains(&first) && said.ends_with("code 1\n"), "{said}");
    let said = place.order(&["attend", &first, "--task-dir", &dir]);
    assert!(said.ends_with("code 0\n"), "{said}");
}

// S1-23
pub(crate) fn a_context_that_is_nearly_full() {
    let config = "[stall]\nheartbeat = '1s'\ncontext_tokens = 100";
    let turns = [Turn::text("One step is done."), Turn::text("Written down.").lasting()];
    let mut place = Place::start(config, turns, &MANUAL);
    place.attend();
    place.prompt("First prompt");
    place.api.wait_for("write down where this work can be resumed from");
    place.pane.wait_screen("Written down.");
    place.when("it stands still", |session| 5 <= session.stall_count);
    assert_eq!(place.n_continued(), 1, "once");
    place.assert_done_only(1);
}
