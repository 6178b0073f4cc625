//! Decisions on prompts of the real client that are for no waiting hook (H-23), prompts that coord leaves to their
//! terminal (H-38), and where the words of prompts and denials may not be (A-04, G11).

use coord_tests::coord::{Coordinator, events, programs};
use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place};
use coord_tests::wait::wait_until;
use serde_json::{Value, json};

use crate::request_place::{
    answerable, asking, asks_for, its_fate, listed, selects, takes_keys, when_no_hook,
};
use crate::requests::{DIALOG, answer_at_the_terminal, hooks, is_stored, request};
use crate::stalls::subagent;

/// Words of an input, and of a denial.
const CANARY: &str = "canary_in_an_input";
const MESSAGE: &str = "canary_in_a_denial";

/// Sends a decision for a need from the terminal that is unlocked, past the verbs. The answer and its status.
fn posts(place: &mut Place, need: &str, body: &Value) -> String {
    let file = place.home.tmp().join("decision.json");
    std::fs::write(&file, body.to_string()).expect("write the body");
    let (socket, file) = (place.home.paths().socket(), file.display());
    let order = place.begins_line(&format!(
        "curl -sS --max-time 60 --unix-socket '{}' -w ' status %{{http_code}}\\n' -d '@{file}' \
         http://coord/v1/needs/{need}/decision",
        socket.display()
    ));
    place.ends(&order)
}

fn n_decided(place: &Place) -> usize {
    let all = events(&place.home, Some(&place.id));
    all.iter().filter(|event| event["source"] == "operator").count()
}

// H-23: another process than the one that waits, and the same decision once more.
pub(crate) fn a_request_with_a_forged_decision() {
    let mut place = asking([Turn::bash("echo once >> ran"), Turn::text("Ran it.").lasting()]);
    let request = request(&mut place);
    let need = request["need"].as_str().expect("its need").to_owned();
    let hook = &request["hook"];
    let pid = hook["pid"].as_u64().expect("a pid");
    let start_time = hook["start_time"].as_str().expect("a start time").to_owned();
    let start: u64 = start_time.parse().expect("ticks");
    let before = n_decided(&place);
    for (what, forged) in [
        ("another process", json!({"pid": pid + 1, "start_time": start_time})),
        ("the client", json!({"pid": place.pid, "start_time": start_time})),
        (
            "an earlier process of that pid",
            json!({"pid": pid, "start_time": (start - 1).to_string()}),
        ),
        ("a later process of that pid", json!({"pid": pid, "start_time": (start + 1).to_string()})),
    ] {
        for reply in ["allow", "deny"] {
            let said = posts(&mut place, &need, &json!({"hook": forged, "reply": reply}));
            let why = "the hook that was shown does not wait any more";
            assert!(said.contains(why) && said.contains("status 409"), "{what}: {said}");
        }
    }
    let right = json!({"hook": hook, "reply": "allow"});
    let said = posts(&mut place, &format!("{need}9"), &right);
    assert!(said.contains("the prompt is over") && said.contains("status 409"), "{said}");
    assert_eq!((n_decided(&place), hooks(&place)), (before, 1), "nothing was decided");
    place.pane.wait_screen(DIALOG);

    let said = posts(&mut place, &need, &right);
    assert!(said.contains("status 204"), "{said}");
    place.when_at_rest();
    for reply in ["allow", "deny"] {
        let said = posts(&mut place, &need, &json!({"hook": hook, "reply": reply}));
        assert!(said.contains("\"over\"") && said.contains("status 409"), "{said}");
    }
    assert_eq!(n_decided(&place), before + 1);
    let ran = std::fs::read_to_string(place.home.project().join("ran"));
    assert_eq!(ran.unwrap_or_default(), "once\n");
    let fate = its_fate(&place, "echo once");
    assert_eq!(fate.by_hook.as_deref(), Some("allow"));
}

/// The processes of coord's programs that belong to this place, with their command lines and environments. What a
/// person types into `coordctl` is that person's own.
fn n_processes_with(place: &Place, words: &str) -> (usize, usize) {
    let (programs, root) = (programs(), place.home.root());
    let (mut n, mut with) = (0, 0);
    for entry in std::fs::read_dir("/proc").expect("the process table").flatten() {
        let program = std::fs::read_link(entry.path().join("exe")).unwrap_or_default();
        let read = |name: &str| {
            let bytes = std::fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (line, environment) = (read("cmdline"), read("environ"));
        let is_own = program.starts_with(&programs) && !program.ends_with("coordctl");
        if is_own && line.contains(&*root.to_string_lossy()) {
            n += 1;
            with += usize::from(line.contains(words) || environment.contains(words));
        }
    }
    (n, with)
}

// the input is in the memory of hook and coordinator, and a message on its way to the client; neither is anywhere
// else, whether the coordinator is there or not.
pub(crate) fn a_request_leaves_no_words() {
    let commands = [format!("touch {CANARY}"), format!("touch again-{CANARY}")];
    let mut place = asking(
        commands
            .iter()
            .map(|command| Turn::bash(command))
            .chain([Turn::text("Then not.").lasting()]),
    );
    let id = asks_for(&mut place, &commands[0]);
    let (n, with) = n_processes_with(&place, CANARY);
    assert!(2 <= n && with == 0, "{with} of {n} processes");
    assert!(!is_stored(&place, CANARY));
    let said = place.runs("coordctl", &["deny", &id, "--message", MESSAGE, "--yes"]);
    assert!(
        said.contains("Taken: the client denied Bash and passed on your message.\ncode 0"),
        "{said}"
    );
    let id = asks_for(&mut place, &commands[1]);
    place.when_written(MESSAGE);
    // The hooks find no coordinator: events go to the spool.
    drop(place.coordinator.take());
    when_no_hook(&place);
    answer_at_the_terminal(&place);
    place.pane.wait_screen("Then not.");
    for words in [CANARY, MESSAGE] {
        assert!(!is_stored(&place, words), "{words}");
        let printed =
            std::fs::read_dir(place.home.tmp()).expect("read it").flatten().filter(|file| {
                let is_serve = file.file_name().to_string_lossy().starts_with("serve-");
                is_serve && std::fs::read_to_string(file.path()).unwrap_or_default().contains(words)
            });
        assert_eq!(printed.count(), 0, "{words}");
    }
    place.coordinator = Some(Coordinator::start_again(&place.home));
    place.when("the spool is taken", |session| {
        session.last_event.as_ref().is_some_and(|last| last.name == "Stop")
    });
    let said = place.runs("coordctl", &["approve", &id, "--yes"]);
    assert!(said.contains("No open request") && said.contains("code 3"), "{said}");
    for words in [CANARY, MESSAGE] {
        assert!(!is_stored(&place, words), "{words}");
        assert_eq!(n_processes_with(&place, words).1, 0, "{words}");
    }
}

// H-38: coord's hook never waits for a background subagent, whose dialog would not be shown, and the main thread's
// prompt beside it can be answered.
pub(crate) fn a_request_of_a_background_subagent() {
    let mut place = answerable([
        subagent(),
        Turn::bash("touch made-by-an-agent").only_after("SUBTASK").behind("agent"),
        Turn::bash("touch made-by-itself").behind("main"),
        Turn::text("Done.").lasting(),
    ]);
    place.pid = place.pane.start(&MANUAL);
    place.learn_id();
    place.prompt("Have a look.");
    place.api.wait_for("SUBTASK");
    place.api.open("agent");
    wait_until("its hook reports", || {
        let all = events(&place.home, Some(&place.id));
        let of = all.iter().find(|event| event["name"] == "PermissionRequest");
        of.cloned().ok_or(place.pane.screen())
    });
    place.pane.wait_screen(DIALOG);
    assert_eq!(hooks(&place), 0, "nothing waits");
    let all = listed(&mut place);
    assert!(all.len() == 1 && all[0]["hook"].is_null() && all[0]["input"].is_null(), "{all:#?}");
    let id = all[0]["id"].as_str().expect("its id").to_owned();
    let said = place.runs("coordctl", &["approve", &id, "--yes"]);
    assert!(said.contains("a subagent asks") && said.contains("code 1"), "{said}");

    place.api.open("main");
    let of_main = wait_until("the main thread asks", || {
        let all = listed(&mut place);
        let is_it = |one: &&Value| one["input"]["command"] == "touch made-by-itself";
        let found = all.iter().find(is_it).and_then(|one| one["id"].as_str());
        found.map(ToOwned::to_owned).ok_or((all.clone(), place.pane.screen()))
    });
    let said = place.runs("coordctl", &["approve", &of_main, "--yes", "--wait"]);
    assert!(said.contains("Taken: the client allowed Bash.\ncode 0"), "{said}");
    assert!(place.home.project().join("made-by-itself").exists());
    assert!(!place.home.project().join("made-by-an-agent").exists());
    place.pane.wait_screen(DIALOG);
    answer_at_the_terminal(&place);
    let made = place.home.project().join("made-by-an-agent");
    wait_until("the agent's call runs", || made.exists().then_some(()).ok_or(place.pane.screen()));
}

// a No with feedback ends no turn, and nothing tells the hook.
pub(crate) fn a_request_that_is_refused_with_feedback() {
    let mut place = asking([Turn::bash("touch never-made"), Turn::text("Then not.").lasting()]);
    let id = asks_for(&mut place, "touch never-made");
    takes_keys(&place);
    selects(&place, 4);
    place.pane.keys(&["Tab"]);
    place.pane.wait_screen("No, ");
    place.pane.type_text("use the staging database");
    place.pane.wait_screen("use the staging database");
    place.pane.keys(&["Enter"]);
    when_no_hook(&place);
    for reply in ["approve", "deny"] {
        let said = place.runs("coordctl", &[reply, &id, "--yes"]);
        assert!(said.contains("No open request") && said.contains("code 3"), "{said}");
    }
    place.api.wait_for("use the staging database");
    place.when_at_rest();
    let fate = its_fate(&place, "touch never-made");
    assert!(fate.by_hook.is_none() && fate.is_error, "{fate:?}");
    assert!(!place.home.project().join("never-made").exists());
}
