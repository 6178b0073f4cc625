//! What the cases about answered prompts share: a client that asks while coord's hook waits, and what its transcript
//! says of a call.

use coord_model::SessionState;
use coord_tests::fake_api::Turn;
use coord_tests::home::Home;
use coord_tests::place::{MANUAL, Place};
use coord_tests::wait::wait_until;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::requests::{DIALOG, hooks};

/// The client ignores keys for a moment after a dialog appears; a key that is ignored is pressed again after this.
const IGNORED: Duration = Duration::from_millis(500);

/// A place where prompts can be answered from elsewhere, with no client yet.
pub(crate) fn answerable(turns: impl IntoIterator<Item = Turn>) -> Place {
    let mut place = Place::open("", turns);
    let config = std::fs::read_to_string(place.home.paths().config_file()).expect("its config");
    place.home.write_config(&format!("{config}[approvals]\nremote = true\n"));
    place.unlock();
    place
}

/// The same with a client whose first dialog is open.
pub(crate) fn asking(turns: impl IntoIterator<Item = Turn>) -> Place {
    let mut place = answerable(turns);
    start(&mut place);
    place
}

/// Starts a client and waits for its first dialog.
fn start(place: &mut Place) {
    place.pid = place.pane.start(&MANUAL);
    place.learn_id();
    place.prompt("Make it.");
    place.pane.wait_screen(DIALOG);
}

/// A file outside of the project.
pub(crate) fn outside(home: &Home, name: &str) -> String {
    home.home().join(name).to_string_lossy().into_owned()
}

/// A client that asks to read these files at once, which lie outside of its project. Each holds its own name.
pub(crate) fn asks_to_read(names: &[&str]) -> Place {
    let mut place = answerable([]);
    let mut calls = names.iter().map(|name| {
        let file = outside(&place.home, name);
        std::fs::write(&file, format!("this is {name}\n")).expect("write a file");
        json!({ "file_path": file })
    });
    let first = Turn::tool("Read", calls.next().expect("a file"));
    place.api.push(calls.fold(first, |turn, call| turn.and_tool("Read", call)));
    place.api.push(Turn::text("Read them.").lasting());
    start(&mut place);
    place
}

/// The names of the files whose text the model was given.
pub(crate) fn read_all(place: &Place) -> Vec<String> {
    let all = place.api.requests();
    let last = all.iter().rfind(|one| !one.is_background).expect("a request");
    let parts = last.last_user_text.split("this is ").skip(1);
    let mut names: Vec<String> = parts.map(|part| part.chars().take(5).collect()).collect();
    names.sort();
    names
}

/// Waits until no hook waits beside the client any more.
#[track_caller]
pub(crate) fn when_no_hook(place: &Place) {
    wait_until("no hook waits", || match hooks(place) {
        0 => Ok(()),
        n => Err(n),
    });
}

/// The transcript of the client's session.
pub(crate) fn transcript(place: &Place) -> PathBuf {
    place.when("it is known", |_| true).transcript_path.into()
}

/// All open requests, as the verb lists them.
pub(crate) fn listed(place: &mut Place) -> Vec<Value> {
    let text = place.runs("coordctl", &["requests", "--json"]);
    let json = text.lines().next().unwrap_or_default();
    let mut all: Value = serde_json::from_str(json).unwrap_or_else(|_| panic!("{text}"));
    all["requests"].as_array_mut().map(std::mem::take).unwrap_or_default()
}

/// The open requests, once so many can be answered.
pub(crate) fn answerable_requests(place: &mut Place, n: usize) -> Vec<Value> {
    wait_until("requests that can be answered", || {
        let all = listed(place);
        let can_be = |one: &&Value| one["hook"].is_object() && one["why_not"].is_null();
        if all.iter().filter(can_be).count() == n && all.len() == n { Ok(all) } else { Err(all) }
    })
}

/// The id of the request for a command, once it can be answered and is the only one.
pub(crate) fn asks_for(place: &mut Place, command: &str) -> String {
    wait_until(&format!("it asks for {command:?}"), || {
        let all = listed(place);
        match all.as_slice() {
            [one] if one["input"]["command"] == command && one["why_not"].is_null() => {
                Ok(one["id"].as_str().expect("its id").to_owned())
            }
            _ => Err((all, place.pane.screen())),
        }
    })
}

/// Moves the dialog's selection away from Yes and back, which shows that the dialog takes keys.
pub(crate) fn takes_keys(place: &Place) {
    selects(place, 2);
    selects(place, 1);
}

/// Presses Escape once the dialog takes keys: a second one would clear what is typed next.
#[track_caller]
pub(crate) fn dismiss(place: &Place) {
    takes_keys(place);
    place.pane.keys(&["Escape"]);
    place.pane.wait_screen("Interrupted");
    place.when("the turn is over", |session| session.state == SessionState::Idle);
}

/// Moves the dialog's selection to an option. A client that is late may take a key twice, so the way back is known.
pub(crate) fn selects(place: &Place, option: u32) {
    let mut pressed: Option<Instant> = None;
    wait_until(&format!("option {option} is selected"), || {
        let screen = place.pane.screen();
        let number: Option<u32> =
            screen.split("❯ ").skip(1).find_map(|rest| rest.split('.').next()?.parse().ok());
        let Some(selected) = number else { return Err(screen) };
        if selected == option {
            return Ok(());
        }
        if pressed.is_none_or(|at| IGNORED <= at.elapsed()) {
            place.pane.keys(&[if selected < option { "Down" } else { "Up" }]);
            pressed = Some(Instant::now());
        }
        Err(screen)
    });
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Fate {
    /// The decision of a hook that the client noted; none if its terminal decided.
    pub(crate) by_hook: Option<String>,
    /// Whether the result is an error.
    pub(crate) is_error: bool,
}

/// How the call whose input has these words ended, by the client's own transcript; none while it has not.
pub(crate) fn fate(transcript: &Path, words: &str) -> Option<Fate> {
    fates(transcript, words).pop()
}

/// The same, once it has: the client writes the result a moment after its screen shows it.
#[track_caller]
pub(crate) fn its_fate(place: &Place, words: &str) -> Fate {
    let path = transcript(place);
    wait_until(&format!("the call with {words:?} ends"), || {
        fate(&path, words).ok_or_else(|| std::fs::read_to_string(&path))
    })
}

/// The same of each call that has ended, in the order of the results.
pub(crate) fn fates(transcript: &Path, words: &str) -> Vec<Fate> {
    let text = std::fs::read_to_string(transcript).unwrap_or_default();
    let lines: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    // The client keeps copies of what it sent to its model in lines of another type (measured, 2.1.328).
    let blocks = |who: &'static str, kind: &'static str| {
        let of = lines.iter().enumerate().filter(move |(_, line)| line["type"] == who);
        let all = of.flat_map(|(at, line)| {
            let blocks = line["message"]["content"].as_array().into_iter().flatten();
            blocks.map(move |block| (at, block))
        });
        all.filter(move |(_, block)| block["type"] == kind)
    };
    let results = || blocks("user", "tool_result");
    let calls = blocks("assistant", "tool_use")
        .filter(|(_, call)| call["input"].to_string().contains(words));
    let ids: Vec<&Value> = calls.map(|(_, call)| &call["id"]).collect();
    let mut fates = Vec::new();
    for (at, result) in results().filter(|(_, one)| ids.contains(&&one["tool_use_id"])) {
        let id = &result["tool_use_id"];
        let notes = lines.iter().enumerate().filter(|(_, line)| {
            line["attachment"]["type"] == "hook_permission_decision"
                && line["attachment"]["toolUseID"] == *id
        });
        let notes: Vec<_> = notes.collect();
        let n = results().filter(|(_, one)| one["tool_use_id"] == *id).count();
        assert!(n == 1 && notes.len() <= 1, "{n} results of {id}: {notes:#?}");
        assert!(notes.iter().all(|(note, _)| *note < at), "the note comes before the result");
        let by_hook = notes.first().map(|(_, note)| {
            note["attachment"]["decision"].as_str().unwrap_or_default().to_owned()
        });
        fates.push(Fate { by_hook, is_error: result["is_error"] == true });
    }
    fates
}
