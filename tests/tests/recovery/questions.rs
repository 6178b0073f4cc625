//! Questions and plans of the real client that are answered from elsewhere than their terminal (A-02, A-06, A-07).

use std::collections::BTreeMap;

use coord_tests::fake_api::Turn;
use coord_tests::place::{MANUAL, Place};
use coord_tests::settings::Capture;
use coord_tests::wait::wait_until;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::request_ends::also_captures;
use crate::requests::{prepared, request, started};

/// The open request's id, once it can be answered.
fn id_of_request(place: &mut Place) -> String {
    request(place)["id"].as_str().expect("its id").to_owned()
}

fn questions() -> Turn {
    let option = |label: &str| json!({"label": label, "description": format!("means {label}")});
    let question = |text: &str, header: &str, several: bool| {
        json!({
            "question": text, "header": header, "multiSelect": several,
            "options": [option("Red"), option("Blue")],
        })
    };
    let all = [question("Which colour?", "Colour", false), question("Which walls?", "Walls", true)];
    Turn::tool("AskUserQuestion", json!({"questions": all}))
}

// A-02, A-06: options, several of them, a note, and own words arrive as if they had been given at the terminal.
pub(crate) fn questions_are_answered_from_elsewhere() {
    let turns = [
        questions(),
        Turn::text("Painted."),
        questions(),
        Turn::text("Painted again."),
        questions(),
        Turn::text("Not painted."),
    ];
    let mut place = started(&MANUAL, turns);
    place.prompt("Paint it.");
    place.pane.wait_screen("Which colour?");
    let id = id_of_request(&mut place);
    let listed = place.runs("coordctl", &["requests"]);
    assert!(listed.contains("        Which colour?  1 Red  2 Blue\n"), "{listed}");
    assert!(listed.contains(&format!("→ coordctl answer {id} --option N --option N")), "{listed}");
    // A-02: a bare "allow" answers nothing.
    let wrong = place.runs("coordctl", &["approve", &id, "--yes"]);
    let hint = format!("{id} is a question. → coordctl answer {id} --option N");
    assert!(wrong.contains(&hint) && wrong.contains("code 1"), "{wrong}");
    let few = place.runs("coordctl", &["answer", &id, "--option", "1", "--yes"]);
    assert!(
        few.contains("has 2 questions, not 1: give one --option or --text")
            && few.contains("code 1"),
        "{few}"
    );
    let none = place.runs("coordctl", &["answer", &id, "--option", "3", "--option", "1", "--yes"]);
    assert!(none.contains("has no option 3") && none.contains("code 1"), "{none}");
    let words = ["--option", "2", "--note", "'a dark one'", "--option", "1,2", "--yes"];
    let said = place.runs("coordctl", &[&["answer", &id], &words[..]].concat());
    assert!(said.contains("Taken: the client took your answer.\ncode 0"), "{said}");
    place.when_at_rest();
    for expected in
        [r#"\"Which colour?\"=\"Blue\""#, "a dark one", r#"\"Which walls?\"=\"Red, Blue\""#]
    {
        place.when_written(expected);
    }

    place.prompt("Paint it again.");
    let id = id_of_request(&mut place);
    let words = ["--text", "'ask Anna'", "--option", "1", "--yes"];
    let said = place.runs("coordctl", &[&["answer", &id], &words[..]].concat());
    assert!(said.contains("Taken: the client took your answer.\ncode 0"), "{said}");
    place.pane.wait_screen("Painted again.");
    place.when_written("ask Anna");

    place.when_at_rest();
    place.prompt("Paint it once more.");
    let id = id_of_request(&mut place);
    let said = place.runs("coordctl", &["deny", &id, "--message", "'no paint left'", "--yes"]);
    let denied = "Taken: the client denied the question and passed on your message.\ncode 0";
    assert!(said.contains(denied), "{said}");
    place.pane.wait_screen("Not painted.");
    place.when_written("no paint left");
}

/// One question with two options.
fn question(text: &str) -> Value {
    let option = |label: &str| json!({"label": label, "description": format!("means {label}")});
    json!({"questions": [{
        "question": text, "header": "Colour", "multiSelect": false,
        "options": [option("Red"), option("Blue")],
    }]})
}

// A-01, A-07: the client reports both questions of one message at once and shows one after the other, mostly the first
// first (measured). An answer from elsewhere reaches the one that it is for, whichever is on the screen.
pub(crate) fn a_request_beside_another_question() {
    let mut place = prepared("", two_questions());
    let events = ["PermissionRequest", "PostToolUse"];
    let [capture, _same] = events.map(|event| also_captures(&place.home, event));
    place.pid = place.pane.start(&MANUAL);
    place.learn_id();
    answers_the_second(&mut place, "Taken: the client took your answer.\ncode 0");
    // The digests of the hooks rest on this.
    let [asked, answered] = events.map(|event| inputs(&capture, event));
    assert_eq!((asked.len(), answered.len()), (2, 2), "{asked:?} {answered:?}");
    for input in &answered {
        let is_of =
            |asked: &String| input.starts_with(&format!("{},", asked.trim_end_matches('}')));
        assert!(asked.iter().any(is_of), "{input} begins as none of {asked:?}");
    }
}

/// The inputs of these events, as the client wrote them.
fn inputs(capture: &Capture, event: &str) -> Vec<String> {
    let text = std::fs::read_to_string(capture.file()).expect("what was captured");
    let all =
        serde_json::Deserializer::from_str(&text).into_iter::<BTreeMap<String, Box<RawValue>>>();
    let all = all.map(|one| one.expect("a payload"));
    let its = all.filter(|one| one["hook_event_name"].get().trim_matches('"') == event);
    its.map(|one| one["tool_input"].get().to_owned()).collect()
}

// A-01: the same where no hook tells which call a request is about. The text tells which question was answered.
pub(crate) fn a_request_whose_call_is_not_reported() {
    let mut place = prepared("", two_questions());
    let file = place.home.config_dir().join("settings.json");
    let text = std::fs::read_to_string(&file).expect("coord is installed");
    let mut settings: Value = serde_json::from_str(&text).expect("settings are JSON");
    let hooks = settings["hooks"].as_object_mut().expect("its hooks");
    hooks.remove("PreToolUse").expect("the hook that reports calls");
    std::fs::write(&file, settings.to_string()).expect("write settings.json");
    place.pid = place.pane.start(&MANUAL);
    place.learn_id();
    answers_the_second(&mut place, "It is not known which call it was about");
}

fn two_questions() -> [Turn; 2] {
    let turn = Turn::tool("AskUserQuestion", question("Which walls?"))
        .and_tool("AskUserQuestion", question("Which doors?"));
    [turn, Turn::text("Painted.").lasting()]
}

/// Two questions are asked: the second is answered from elsewhere, and then the first at the terminal.
fn answers_the_second(place: &mut Place, expected: &str) {
    place.prompt("Paint it.");
    let [walls, doors] = wait_until("both questions can be answered", || {
        let listed = place.runs("coordctl", &["requests", "--json"]);
        let id_of = |text: &str| {
            let all: Value = serde_json::from_str(listed.lines().next()?).ok()?;
            let is_it = |one: &&Value| one["input"].to_string().contains(text);
            let found = all["requests"].as_array()?.iter().find(is_it)?;
            let can_be_answered = found["hook"].is_object() && found["why_not"].is_null();
            can_be_answered.then(|| found["id"].as_str().map(ToOwned::to_owned))?
        };
        let ids = [id_of("Which walls?"), id_of("Which doors?")];
        if let [Some(walls), Some(doors)] = ids { Ok([walls, doors]) } else { Err(listed) }
    });
    let said = place.runs("coordctl", &["answer", &doors, "--option", "2", "--yes"]);

    assert!(said.contains(expected), "{said}");
    place.pane.wait_screen("Which doors? → Blue");
    let left = place.runs("coordctl", &["requests"]);
    assert!(left.contains(&walls) && !left.contains(&doors), "{left}");
    wait_until("the other question is answered at the terminal", || {
        let screen = place.pane.screen();
        if screen.contains("Which walls? → Red") {
            return Ok(());
        }
        if screen.contains("Enter to select") {
            place.pane.keys(&["Enter"]);
        }
        Err(screen)
    });
    place.when_at_rest();
    for expected in [r#"\"Which walls?\"=\"Red\""#, r#"\"Which doors?\"=\"Blue\""#] {
        place.when_written(expected);
    }
    let left = place.runs("coordctl", &["requests"]);
    assert!(!left.contains(&walls), "{left}");
}

/// Lets the client ask for the approval of a plan. It takes the plan from a file that its prompt names.
fn plans(place: &mut Place, prompt: &str, gate: &str) -> Value {
    place.prompt(prompt);
    let asked = place.api.wait_for(prompt).whole;
    let mut words = asked.split([' ', '`', '"', '\\']);
    let named = words.find(|word| word.contains("/plans/") && word.contains(".md"));
    let file = named.and_then(|word| Some(&word[..word.find(".md")? + ".md".len()]));
    let file = file.unwrap_or_else(|| panic!("no plan file is named in {asked}"));
    let dir = std::path::Path::new(file).parent().expect("a directory");
    assert!(dir.starts_with(place.home.config_dir()), "{file}");
    std::fs::create_dir_all(dir).expect("the directory of plans");
    std::fs::write(file, "# Paint\n1. Take the red one.\n").expect("the plan");
    place.api.open(gate);
    request(place)
}

// A-02, A-06: a plan is shown whole, and the session goes on in the mode that was named, whatever it was in before.
pub(crate) fn a_plan_is_approved_with_its_mode() {
    let plan = |gate: &str| Turn::tool("ExitPlanMode", json!({})).behind(gate);
    let turns = [
        plan("first"),
        Turn::text("I change it."),
        plan("second"),
        Turn::text("Painting."),
        plan("third"),
        Turn::text("Painting carefully."),
    ];
    let mut place = started(&["--permission-mode", "plan"], turns);
    let asked = plans(&mut place, "Plan it.", "first");
    let id = asked["id"].as_str().expect("its id").to_owned();
    let listed = place.runs("coordctl", &["requests"]);
    assert!(listed.contains("        # Paint\n        1. Take the red one.\n"), "{listed}");
    let said = place.runs("coordctl", &["deny", &id, "--message", "'the blue one'", "--yes"]);
    assert!(said.contains("denied the plan and passed on your message.\ncode 0"), "{said}");
    place.pane.wait_screen("I change it.");
    place.when_written("the blue one");
    place.when_at_rest();

    let asked = plans(&mut place, "Plan it again.", "second");
    let id = asked["id"].as_str().expect("its id").to_owned();
    let said = place.runs("coordctl", &["approve", &id, "--mode", "acceptEdits", "--yes"]);
    assert!(said.contains("Taken: the client took the plan as approved.\ncode 0"), "{said}");
    place.pane.wait_screen("Painting.");
    place.pane.wait_screen("accept edits on");
    place.when_at_rest();

    place.pane.keys(&["BTab"]);
    place.pane.wait_screen("plan mode on");
    let asked = plans(&mut place, "Plan it carefully.", "third");
    let id = asked["id"].as_str().expect("its id").to_owned();
    let said = place.runs("coordctl", &["approve", &id, "--yes"]);
    assert!(said.contains("Taken: the client took the plan as approved.\ncode 0"), "{said}");
    place.pane.wait_screen("Painting carefully.");
    place.when_at_rest();
    let screen = place.pane.screen();
    assert!(!screen.contains("accept edits on") && !screen.contains("plan mode on"), "{screen}");
}
