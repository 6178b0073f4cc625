//! Permission prompts of the real client for which it shows no dialog while a hook waits: those of headless runs and of
//! background subagents (A-03, H-38).

use coord_model::SessionState;
use coord_tests::client::headless;
use coord_tests::coord::inspect;
use coord_tests::fake_api::Turn;
use coord_tests::place::MANUAL;
use coord_tests::wait::wait_until;
use serde_json::json;

use crate::request_place::when_no_hook;
use crate::requests::{prepared, request, started};

// a headless run asks, is answered, and goes on; what nobody answers is denied at the bound.
pub(crate) fn a_request_of_a_headless_run() {
    let turns = || [Turn::bash("touch made-headless"), Turn::text("Made it.").lasting()];
    let mut place = prepared("headless = true", turns());
    let run = headless(&place.home, &place.api, "Make it.", &MANUAL);
    let asked = request(&mut place);
    assert_eq!(asked["input"]["command"], "touch made-headless");
    let id = asked["id"].as_str().expect("its id").to_owned();
    let said = place.runs("coordctl", &["approve", &id, "--yes"]);
    assert!(said.contains("Taken: the client allowed Bash.\ncode 0"), "{said}");
    run.finish().expect_success();
    assert!(place.home.project().join("made-headless").exists());

    let mut place = prepared("headless = true\nheadless_bound = '2s'", turns());
    let run = headless(&place.home, &place.api, "Make it.", &MANUAL);
    run.finish().expect_success();
    assert!(!place.home.project().join("made-headless").exists(), "it was denied");
    let explained = place.runs("coord", &["explain", "project"]);
    assert!(explained.contains("coord's hook does not wait any longer"), "{explained}");
}

// H-38: only where its person allowed that by name.
pub(crate) fn a_request_of_a_subagent() {
    let agent = json!({
        "description": "Make it", "prompt": "SUBTASK: make one", "subagent_type": "general-purpose",
    });
    let turns = [
        Turn::tool("Agent", agent),
        Turn::bash("touch made-by-agent").only_after("SUBTASK"),
        Turn::text("Made it.").lasting(),
    ];
    let mut place = started(&MANUAL, turns);
    let id = place.id.clone();
    place.order(&["attend", &id, "--unattended", "--ask-for-agents"]);
    place.prompt("Have it made.");
    let asked = request(&mut place);
    let id = asked["id"].as_str().expect("its id").to_owned();
    let said = place.runs("coordctl", &["approve", &id, "--yes"]);
    assert!(said.contains("Sent; the prompt is over.") && said.contains("code 0"), "{said}");
    place.when_at_rest();
    assert!(place.home.project().join("made-by-agent").exists());
}

// a session of the client's own supervisor needs its person, who answers from elsewhere only where that is
// switched on. Nothing else is done to it.
pub(crate) fn a_request_of_a_background_session() {
    let turns = [Turn::bash("touch made-behind"), Turn::text("Made it.").lasting()];
    let mut place = prepared("", turns);
    place.pane.command("claude --bg --permission-mode manual 'Make it.'");
    place.pane.wait_screen("backgrounded");
    let need = wait_until("it needs its person", || {
        let all = inspect(&place.home);
        let need = all.sessions.iter().find_map(|one| Some((one.state, one.needs.first()?)));
        need.map(|(state, need)| (state, need.clone())).ok_or_else(|| format!("{all:#?}"))
    });
    assert_eq!(need.0, SessionState::Foreign);
    assert_eq!(need.1.command.as_deref(), Some("claude agents"));
    when_no_hook(&place);
    let listed = place.runs("coordctl", &["requests"]);
    assert!(listed.contains("answering background sessions is off"), "{listed}");
    let id = inspect(&place.home).sessions[0].session_id.clone();
    let told = place.runs("coord", &["go", &id]);
    assert!(told.contains("→ claude agents") && told.contains("code 1"), "{told}");
    place.stop_background();

    let turns = [Turn::bash("touch made-behind"), Turn::text("Made it.").lasting()];
    let mut place = prepared("background = true", turns);
    place.pane.command("claude --bg --permission-mode manual 'Make it.'");
    let asked = request(&mut place);
    let id = asked["id"].as_str().expect("its id").to_owned();
    let said = place.runs("coordctl", &["approve", &id, "--yes"]);
    assert!(said.contains("Taken: the client allowed Bash.\ncode 0"), "{said}");
    assert!(place.home.project().join("made-behind").exists());
    place.stop_background();
    asked["session_id"].as_str().expect("whose it is").clone_into(&mut place.id);
    assert_eq!(place.acts(), Vec::<String>::new());
}
