//! A client that is killed comes back, where it may (H-06), in its shell, with its conversation, its
//! flags and its directory; and what it left behind is left alone (H-33).

use coord_model::SessionState;
use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place, is_alive, words_of};
use coord_tests::wait::wait_until;
use rustix::process::Signal;
use serde_json::json;

const WITH_BASH: [&str; 4] = ["--permission-mode", "manual", "--allowedTools", "Bash"];

// S0-25a, S0-25b, S0-25d, S0-25e, S0-28a, S0-32, S0-35, H-33
pub(crate) fn sigkill_in_a_turn() {
    let turns = [
        Turn::text("One.").behind("one"),
        Turn::hang().once(),
        Turn::text("Back again.").lasting(),
    ];
    let arguments = ["--permission-mode", "manual", "--model", "claude-opus-5-5"];
    let mut place = Place::unattended(turns, &arguments);
    place.prompt("First prompt");
    place.api.open("one");
    place.when_at_rest();
    place.prompt("Second prompt");
    place.signal(Signal::KILL);
    let session = place.when_back();
    let words = words_of(place.pid).join(" ");
    assert!(words.ends_with(&format!("--resume {}", place.id)), "{words}");
    assert!(words.contains("--model claude-opus-5-5"), "{words}");
    assert!(words.contains("--permission-mode"), "{words}");
    assert_eq!(session.recovery.total, 1);
    // It knows what was said, and goes on by itself, told once (H-33, S0-35).
    place.pane.wait_screen("First prompt");
    place.api.wait_for("[coord]");
    place.pane.wait_screen("Back again.");
    place.when("that turn ends", |session| session.state == SessionState::Idle);
    assert_eq!(place.n_continued(), 1);
    place.assert_back_by(2);
}

// H-06, S0-25g: somebody watches it.
pub(crate) fn sigkill_where_somebody_watches() {
    let place = Place::start("", [Turn::text("One."), Turn::hang()], &MANUAL);
    place.a_turn();
    place.prompt("Second prompt");
    place.signal(Signal::KILL);
    place.when_left();
    place.assert_untouched();
    place.when_clients(&[]);
    let explained = place.decisions();
    assert!(explained.contains("H-06"), "{explained}");
    assert!(explained.contains(&format!("claude --resume {}", place.id)), "{explained}");
}

// S0-28a, S1-12: a shell is in front of a client that is gone. Between two turns nothing was cut off, so
// nobody is told to go on (H-33).
pub(crate) fn sigkill_at_rest() {
    let mut place = Place::unattended([Turn::text("One.")], &MANUAL);
    place.a_turn();
    place.signal(Signal::KILL);
    place.when_back();
    place.assert_back_by(1);
    assert_eq!(place.n_continued(), 0);
}

// S0-28a, S0-05: what the dialog asked for is not done. Its directory says that nobody watches it.
pub(crate) fn sigkill_at_a_permission_prompt() {
    let turns = [Turn::bash("touch made"), Turn::text("Went on.").lasting()];
    let mut place = Place::start("", turns, &MANUAL);
    place.nobody_watches();
    place.prompt("Make it");
    place.pane.wait_screen("1. Yes");
    place.when("it asks", |session| session.state == SessionState::AwaitingPermission);
    place.when_written("tool_use");
    place.signal(Signal::KILL);
    place.when_back();
    place.api.wait_for("[coord]");
    place.when("that turn ends", |session| session.state == SessionState::Idle);
    place.assert_back_by(2);
    assert!(!place.home.project().join("made").exists());
}

// H-33, F22: a tool of the dead client goes on; nothing happens before it is through.
pub(crate) fn a_tool_that_lives_on() {
    let command = "echo $$ > pid; mkfifo gate; read -r line < gate; echo $line > through";
    let turns = [Turn::bash(command), Turn::text("Went on.").lasting()];
    let mut place = Place::unattended(turns, &WITH_BASH);
    place.prompt("Run it");
    let tool = tool(&place);
    place.signal(Signal::KILL);
    survives(&mut place, tool);
    place.api.wait_for("[coord]");
    place.when("that turn ends", |session| session.state == SessionState::Idle);
    assert_eq!(place.n_continued(), 1);
    place.assert_back_by(2);
}

// H-33, S0-16: the same of a shell in the background.
pub(crate) fn a_background_shell_that_lives_on() {
    let command = "echo $$ > pid; mkfifo gate; read -r line < gate; echo $line > through";
    let call = json!({"command": command, "description": "A test's", "run_in_background": true});
    let turns = [Turn::tool("Bash", call), Turn::text("Runs.").lasting()];
    let mut place = Place::unattended(turns, &WITH_BASH);
    place.prompt("Run it");
    let tool = tool(&place);
    place.when("it works on", |session| session.state == SessionState::Background);
    place.signal(Signal::KILL);
    survives(&mut place, tool);
}

/// The tool's shell, once it has come to its gate and the transcript tells of it: the client writes a
/// turn a moment after it has begun the call, and a conversation without a turn cannot be resumed (H-36).
fn tool(place: &Place) -> u32 {
    let project = place.home.project();
    let pid = wait_until("the tool runs", || {
        let pid = std::fs::read_to_string(project.join("pid")).unwrap_or_default();
        let pid = pid.trim().parse().ok().filter(|_| project.join("gate").exists());
        pid.ok_or_else(|| place.pane.screen())
    });
    place.when_written("\"type\":\"assistant\"");
    pid
}

/// A tool of the dead client is let through to its end, and then the session comes back.
fn survives(place: &mut Place, tool: u32) {
    place.when_held("processes of its tools still run");
    // A look later it is still so.
    let looks = place.details("Proved").len();
    wait_until("it is looked at again", || {
        let n = place.details("Proved").len();
        if looks < n { Ok(()) } else { Err(n) }
    });
    place.assert_untouched();
    place.when_clients(&[]);
    assert!(is_alive(tool), "it is never killed");
    let project = place.home.project();
    std::fs::write(project.join("gate"), "done\n").expect("open the gate");
    place.when_back();
    let through = std::fs::read_to_string(project.join("through")).expect("it ran to its end");
    assert_eq!(through, "done\n");
}

// U-07: an order says how it goes, and returns when the session is back; one that fails says why.
pub(crate) fn an_order_that_is_waited_for() {
    let mut place = Place::start("", [Turn::text("One.").lasting()], &MANUAL);
    place.a_turn();
    let crash = |place: &mut Place| {
        place.signal(Signal::KILL);
        place.pane.wait_screen("Killed");
        place.when_left();
    };
    crash(&mut place);
    let id = place.id.clone();
    let transcript = place.when("it is shown", |_| true).transcript_path;
    let away = format!("{transcript}.away");
    std::fs::rename(&transcript, &away).expect("the transcript is there");
    let said = place.runs("coordctl", &["recover", &id]);
    assert!(said.contains(": not recovered: ") && said.ends_with("code 1\n"), "{said}");
    std::fs::rename(&away, &transcript).expect("the transcript is there");
    // Being brought back is no end.
    place.order(&["recover", &id]);
    let said = place.runs("coord", &["wait", &id, "--until", "idle"]);
    assert!(said.ends_with("code 0\n"), "{said}");
    place.when_back();
    crash(&mut place);
    let said = place.runs("coordctl", &["recover", &id]);
    assert!(said.contains(": recovered in ") && said.ends_with("code 0\n"), "{said}");
    place.when_back();
    place.when_clients(&[place.pid]);
}

// H-18, H-53: its person went on in its shell. An order by hand may use that shell at its empty prompt.
pub(crate) fn an_order_after_its_shell_was_used() {
    let mut place = Place::start("", [Turn::text("One.").lasting()], &MANUAL);
    place.a_turn();
    place.signal(Signal::KILL);
    place.pane.wait_screen("Killed");
    place.when_left();
    place.pane.command("echo it \"was typed\"");
    place.pane.wait_screen("it was typed");
    let id = place.id.clone();
    let said = place.runs("coordctl", &["recover", &id]);
    assert!(said.contains(": recovered in ") && said.ends_with("code 0\n"), "{said}");
    place.when_back();
    assert_eq!(place.pane.client_pid(), place.pid, "it is back in its own pane");
    place.when_clients(&[place.pid]);
}
