//! What ends the wait of a hook beside a prompt of the real client, and what becomes of the prompt (A-01, A-07, A-09, H-23).

use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place, signal_process};
use coord_tests::wait::wait_until;
use coord_tests::{home::Home, settings::Capture};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::request_place::{
    answerable_requests, asking, asks_for, asks_to_read, dismiss, fates, its_fate, outside,
    read_all, takes_keys, transcript, when_no_hook,
};
use crate::requests::{DIALOG, answer_at_the_terminal, hooks, request};

/// Prompts that are open while the coordinator is killed.
const WAITING: usize = 5;

/// A reply to a request that is over is refused, and nothing is sent.
#[track_caller]
fn is_over(place: &mut Place, id: &str) {
    for reply in ["approve", "deny"] {
        let said = place.runs("coordctl", &[reply, id, "--yes"]);
        assert!(said.contains("No open request") && said.contains("code 3"), "{said}");
    }
}

// every dialog is as it was, and no hook is left.
pub(crate) fn a_request_of_five_whose_coordinator_is_killed() {
    let names = ["1.txt", "2.txt", "3.txt", "4.txt", "5.txt"];
    let mut place = asks_to_read(&names);
    answerable_requests(&mut place, WAITING);
    assert_eq!(hooks(&place), WAITING);
    drop(place.coordinator.take());
    when_no_hook(&place);
    wait_until("each dialog is answered", || {
        let screen = place.pane.screen();
        if screen.contains("Read them.") {
            return Ok(());
        }
        if screen.contains(DIALOG) {
            place.pane.keys(&["Enter"]);
        }
        Err(screen)
    });
    for name in names {
        let fate = its_fate(&place, &outside(&place.home, name));
        assert!(fate.by_hook.is_none() && !fate.is_error, "{name}: {fate:?}");
    }
}

// A-01, H-23: the hook ends with its client, however that ends, and nothing can be decided any more.
pub(crate) fn a_request_whose_client_ends() {
    for signal in [Signal::KILL, Signal::TERM] {
        let mut place = asking([Turn::bash("touch never-made"), Turn::text("Made it.").lasting()]);
        let id = asks_for(&mut place, "touch never-made");
        place.signal(signal);
        when_no_hook(&place);
        place.when("its client is gone", |session| {
            session.owner.as_ref().is_none_or(|owner| owner.alive == Some(false))
        });
        is_over(&mut place, &id);
        assert!(!place.home.project().join("never-made").exists());
    }
}

// without its hook a prompt is answered at its terminal only, and the verb says so.
pub(crate) fn a_request_whose_hook_is_killed() {
    let mut place = asking([Turn::bash("touch made-there"), Turn::text("Made it.").lasting()]);
    let request = request(&mut place);
    let id = request["id"].as_str().expect("its id").to_owned();
    let pid = request["hook"]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    signal_process(pid.expect("its pid"), Signal::KILL);
    when_no_hook(&place);
    wait_until("it cannot be answered from elsewhere", || {
        let listed = place.runs("coordctl", &["requests"]);
        let why = "At its terminal only: coord's hook does not wait for it.";
        if listed.contains(why) { Ok(()) } else { Err(listed) }
    });
    for reply in ["approve", "deny"] {
        let said = place.runs("coordctl", &[reply, &id, "--yes"]);
        let why = "Not answerable here: coord's hook does not wait for it.";
        assert!(said.contains(why) && said.contains("code 1"), "{said}");
    }
    place.pane.wait_screen(DIALOG);
    answer_at_the_terminal(&place);
    place.when_at_rest();
    assert!(place.home.project().join("made-there").exists());
    let fate = its_fate(&place, "touch made-there");
    assert!(fate.by_hook.is_none(), "{fate:?}");
}

// A-07, H-23: an old id is for no later prompt: not after `/clear`, and not after a resume that asks for the same again.
pub(crate) fn a_request_of_a_session_that_was_left() {
    let turns = ["touch made-once"; 2].map(Turn::bash);
    let mut place = asking(turns.into_iter().chain([Turn::text("Made it.").lasting()]));
    let first = place.id.clone();
    let old = asks_for(&mut place, "touch made-once");
    dismiss(&place);
    when_no_hook(&place);
    place.pane.type_line("/clear");
    wait_until("its session has another id", || {
        let id = place.id_of(place.pid);
        if id == first { Err(id) } else { Ok(()) }
    });
    is_over(&mut place, &old);
    place.pane.type_line("/exit");
    place.when_clients(&[]);
    is_over(&mut place, &old);
    place.pid = place.pane.start(&[&MANUAL[..], &["--resume", &first]].concat());
    place.learn_id();
    assert_eq!(place.id, first, "the same conversation");
    place.prompt("Make it again.");
    let new = asks_for(&mut place, "touch made-once");
    assert_ne!(old, new);
    is_over(&mut place, &old);
    place.pane.wait_screen(DIALOG);
    assert!(!place.home.project().join("made-once").exists());
    let said = place.runs("coordctl", &["approve", &new, "--yes"]);
    assert!(said.contains("Taken: the client allowed Bash.\ncode 0"), "{said}");
}

/// A command that is asked for again and again.
const SAME: &str = "echo same >> ran";

/// The prompt for it after this one.
fn next(place: &mut Place, before: &str) -> String {
    wait_until("the next prompt", || {
        let id = asks_for(place, SAME);
        if id == before { Err(id) } else { Ok(id) }
    })
}

// A-07, H-23: a decision for a prompt that was just answered is not one for the same call right after.
pub(crate) fn a_request_like_the_one_before() {
    let turns = [SAME; 4].map(Turn::bash);
    let mut place = asking(turns.into_iter().chain([Turn::text("Ran it.").lasting()]));
    let first = asks_for(&mut place, SAME);
    takes_keys(&place);
    place.pane.keys(&["Enter"]);
    // On its way: whether it finds the prompt open is chance, which of both was first too, and the second is never meant.
    let said = place.runs("coordctl", &["deny", &first, "--yes"]);
    let is_denied = said.contains("Taken: the client denied Bash.\ncode 0");
    let is_late = ["code 7", "code 3", "code 1"].iter().any(|code| said.contains(code));
    assert!(is_denied || is_late, "{said}");
    let n_first = usize::from(is_late);
    let second = next(&mut place, &first);
    let ran = place.home.project().join("ran");
    let n_ran = || std::fs::read_to_string(&ran).unwrap_or_default().lines().count();
    is_over(&mut place, &first);
    place.pane.wait_screen(DIALOG);
    assert_eq!((n_ran(), hooks(&place)), (n_first, 1));
    let mut last = second;
    for (reply, did, n) in [("deny", "denied", n_first), ("approve", "allowed", n_first + 1)] {
        let said = place.runs("coordctl", &[reply, &last, "--yes", "--wait"]);
        assert!(said.contains(&format!("Taken: the client {did} Bash.\ncode 0")), "{said}");
        assert_eq!(n_ran(), n);
        last = next(&mut place, &last);
    }
    answer_at_the_terminal(&place);
    place.when_at_rest();
    // The client writes its transcript after the fact.
    place.when_written("Ran it.");
    let by: Vec<_> = fates(&transcript(&place), SAME).into_iter().map(|one| one.by_hook).collect();
    let first = is_denied.then(|| "deny".to_owned());
    assert_eq!(by, [first, Some("deny".to_owned()), Some("allow".to_owned()), None]);
    assert_eq!(n_ran(), n_first + 2);
}

// each of several prompts of one answer is decided by itself, in whatever order.
pub(crate) fn a_request_of_three_in_another_order() {
    let names = ["1.txt", "2.txt", "3.txt"];
    let mut place = asks_to_read(&names);
    let all = answerable_requests(&mut place, names.len());
    assert_eq!(hooks(&place), names.len());
    let id_of = |name: &str| {
        let file = outside(&place.home, name);
        let of = all.iter().find(|one| one["input"]["file_path"] == file.as_str());
        of.and_then(|one| one["id"].as_str()).unwrap_or_else(|| panic!("{all:#?}")).to_owned()
    };
    let orders = [("3.txt", "approve"), ("1.txt", "deny"), ("2.txt", "approve")];
    let ids = orders.map(|(name, _)| id_of(name));
    for (n_done, ((_, reply), id)) in orders.iter().zip(&ids).enumerate() {
        place.pane.wait_screen(DIALOG);
        let said = place.runs("coordctl", &[reply, id, "--yes", "--wait"]);
        assert!(said.contains("Taken: the client") && said.contains("code 0"), "{said}");
        is_over(&mut place, id);
        let left = answerable_requests(&mut place, names.len() - n_done - 1);
        assert!(left.iter().all(|one| one["id"] != id.as_str()), "{left:#?}");
    }
    place.pane.wait_screen("Read them.");
    for (name, wanted, is_error) in
        [("1.txt", "deny", true), ("2.txt", "allow", false), ("3.txt", "allow", false)]
    {
        let fate = its_fate(&place, &outside(&place.home, name));
        assert_eq!((fate.by_hook.as_deref(), fate.is_error), (Some(wanted), is_error), "{name}");
    }
    assert_eq!(read_all(&place), ["2.txt", "3.txt"], "what the model was given");
}

// the client takes up other hooks while one waits.
pub(crate) fn a_request_while_the_settings_change() {
    let mut place = asking([Turn::bash("touch made-from-afar"), Turn::text("Made it.").lasting()]);
    let id = asks_for(&mut place, "touch made-from-afar");
    let capture = also_captures(&place.home, "Notification");
    // The client notifies six seconds after the dialog (measured), by the hooks of then.
    wait_until("the client has the new hooks", || {
        let events = capture.events();
        if events.is_empty() { Err(place.pane.screen()) } else { Ok(()) }
    });
    place.pane.wait_screen(DIALOG);
    assert_eq!(hooks(&place), 1);
    let said = place.runs("coordctl", &["approve", &id, "--yes"]);
    assert!(said.contains("Taken: the client allowed Bash.\ncode 0"), "{said}");
    place.when_at_rest();
    assert!(place.home.project().join("made-from-afar").exists());
}

/// Adds a hook beside those that are registered.
pub(crate) fn also_captures(home: &Home, event: &str) -> Capture {
    let capture = Capture::new(home);
    let file = home.config_dir().join("settings.json");
    let text = std::fs::read_to_string(&file).expect("coord is installed");
    let mut settings: Value = serde_json::from_str(&text).expect("settings are JSON");
    let command = format!("exec cat >> '{}'", capture.file().display());
    let entry = json!({"hooks": [{"type": "command", "command": command}]});
    settings["hooks"][event].as_array_mut().expect("a list").push(entry);
    std::fs::write(&file, settings.to_string()).expect("write settings.json");
    capture
}
