//! `coord explain`, `coord wait` and `coord events --follow` (G9): why, until when, and what next.

use super::harness::Harness;
use super::wire::{client_event, post};
use coord_tests::coord::{Coordinator, coord, programs};
use coord_tests::home::Home;
use coord_tests::process::Running;
use coord_tests::wait::wait_until;
use serde_json::{Value, json};

/// `coord ARGUMENTS` in the background.
fn start(home: &Home, arguments: &[&str]) -> Running {
    let mut command = home.command(programs().join("coord"));
    command.args(arguments).env("COORD_HOME", home.root());
    Running::start(command, &home.tmp(), arguments[0])
}

/// A client at a terminal, in a turn.
fn in_a_turn(home: &Home, id: &str) -> Harness {
    let mut client = Harness::at_terminal(home, id);
    assert_eq!(client.report("UserPromptSubmit", &json!({"prompt": "x"})), 0);
    client
}

// G9
#[test]
fn g9_explain_names_the_facts_the_rule_and_what_would_change_it() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let _client = in_a_turn(&home, "aaaa1111");
    let pid = coord_tests::coord::session(&home, "aaaa1111").unwrap().owner.unwrap().pid;
    let text = coord(&home, &["explain", "aaaa"]).expect_success().stdout;
    let head = format!("{}  running for ", name_of(&home, "aaaa1111"));
    assert!(text.starts_with(&head), "it is headed by the name: {text}");
    for part in [
        "a turn is open".to_owned(),
        format!("\n  evidence  process    {pid} is alive  "),
        "\n            hook       last event UserPromptSubmit  ".to_owned(),
        "changes   Stop".to_owned(),
    ] {
        assert!(text.contains(&part), "{part:?} in {text}");
    }
    let json = coord(&home, &["explain", "aaaa", "--json"]).expect_success().stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["schema"], &json["state"], &json["rule"]),
        (&1.into(), &"running".into(), &"R-02".into())
    );
    let facts = json["evidence"].as_array().unwrap();
    assert!(2 <= facts.len(), "{json}");
    for one in facts {
        let (source, fact) = (one["source"].as_str().unwrap(), one["fact"].as_str().unwrap());
        assert!(!fact.starts_with(source), "a fact does not repeat its source: {one}");
    }
    assert_eq!(coord(&home, &["explain", "nobody"]).code(), Some(3));
}

/// The name that a session is shown by.
fn name_of(home: &Home, id: &str) -> String {
    coord_tests::coord::session(home, id).unwrap().display_name.unwrap()
}

#[test]
fn wait_returns_when_the_state_is_reached() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    post(&home, &client_event("aaaa1111", "UserPromptSubmit", 1));
    assert_eq!(coord(&home, &["wait", "aaaa", "--until", "running"]).code(), Some(0));
    let waiting = start(&home, &["wait", "aaaa", "--until", "idle", "--until", "stopped"]);
    assert!(!waiting.has_ended());
    post(&home, &client_event("aaaa1111", "Stop", 2));
    let line = waiting.finish().expect_success().stdout;
    assert!(line.starts_with(&format!("{} idle after ", name_of(&home, "aaaa1111"))), "{line}");
}

#[test]
fn wait_gives_up_with_a_code_of_its_own() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let client = in_a_turn(&home, "aaaa1111");
    let over = coord(&home, &["wait", "aaaa", "--until", "idle", "--timeout", "50ms"]);
    let name = name_of(&home, "aaaa1111");
    let said = format!("coord: {name} is still running after 0s.\n");
    assert_eq!((over.code(), over.stderr), (Some(5), said));
    client.end("other");
    let never = coord(&home, &["wait", "aaaa", "--until", "idle"]);
    assert_eq!(never.code(), Some(6));
    assert_eq!(never.stderr, format!("coord: {name} has ended; it cannot become idle.\n"));
    let unknown = coord(&home, &["wait", "aaaa", "--until", "asleep"]);
    assert_eq!(unknown.code(), Some(2));
    let said = "coord: No state \"asleep\". → coord help states\n";
    assert_eq!(unknown.stderr, said);
    let nowhere = coord(&Home::new(), &["wait", "aaaa", "--until", "idle"]);
    assert_eq!(nowhere.code(), Some(3), "{}", nowhere.stderr);
    assert_eq!(coord(&home, &["wait", "nobody", "--until", "idle"]).code(), Some(3));
}

// U-07: several sessions, all of them or any, by id or by name.
#[test]
fn wait_takes_several_sessions() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let [mut one, mut two] = ["aaaa1111", "bbbb2222"].map(|id| in_a_turn(&home, id));
    let stop = json!({"stop_hook_active": false});
    let all = start(&home, &["wait", "aaaa", "bbbb2222", "aaaa", "--until", "idle"]);
    let any = start(&home, &["wait", "aaaa", "bbbb", "--any", "--until", "idle"]);
    assert_eq!(two.report("Stop", &stop), 0);
    let line = any.finish().expect_success().stdout;
    let [name_one, name_two] = ["aaaa1111", "bbbb2222"].map(|id| name_of(&home, id));
    let is_two = line.starts_with(&format!("{name_two} idle after "));
    assert!(is_two && line.lines().count() == 1, "{line}");
    assert!(!all.has_ended(), "{:?}", all.output());
    assert_eq!(one.report("Stop", &stop), 0);
    let lines = all.finish().expect_success().stdout;
    let names: Vec<&str> = lines.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, [name_two.as_str(), &name_one]);
    // One that has ended ends the wait for all, and not the wait for any.
    one.end("other");
    let over = coord(&home, &["wait", "aaaa", "bbbb", "--until", "running"]);
    assert_eq!(over.code(), Some(6));
    assert_eq!(over.stderr, format!("coord: {name_one} has ended; it cannot become running.\n"));
    let late =
        coord(&home, &["wait", "aaaa", "bbbb", "--any", "--until", "running", "--timeout", "50ms"]);
    assert_eq!(late.code(), Some(5));
    assert!(
        late.stderr.contains(&format!("{name_two} is still idle after 0s.")),
        "{}",
        late.stderr
    );
}

// U-07: one field says that a person has to act, and a script can wait for it.
#[test]
fn an_open_dialog_needs_a_person() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let mut client = in_a_turn(&home, "aaaa1111");
    let shown = || coord_tests::coord::session(&home, "aaaa1111").unwrap();
    assert_eq!(shown().need, None);
    let waiting = start(&home, &["wait", "aaaa", "--until", "needs_me"]);
    let idle = start(&home, &["wait", "aaaa", "--until", "idle"]);
    assert_eq!(client.report("PermissionRequest", &json!({"tool_name": "Bash"})), 0);
    let line = waiting.finish().expect_success().stdout;
    let name = name_of(&home, "aaaa1111");
    let [begin, end] = [format!("{name} needs you after "), "s: asks to run Bash\n".to_owned()];
    assert!(line.starts_with(&begin) && line.ends_with(&end), "{line}");
    // Whoever waits for something else is told once.
    wait_until("it is told", || {
        let [_, said] = idle.output();
        if said == format!("{name} needs you: asks to run Bash.\n") { Ok(()) } else { Err(said) }
    });
    let session = shown();
    let need = session.need.expect("a dialog is open");
    assert_eq!((need.kind.as_str(), need.command), ("permission", None));
    assert!(!need.text.is_empty() && !need.since.is_empty());
    assert!(session.needs_operator.is_none(), "that is another reason");
    assert_eq!(session.status, coord_model::Status::Running);
}

// A crashed run is listed like a crashed session, however many came after it.
#[test]
fn crashed_runs_are_listed() {
    let home = Home::new();
    let run = |script: &str| coord(&home, &["run", "--", "/bin/sh", "-c", script]);
    for _ in 0..7 {
        assert_eq!(run("exit 3").code(), Some(3));
    }
    for _ in 0..6 {
        run("echo well").expect_success();
    }
    let outcomes = |arguments: &[&str]| -> Vec<String> {
        let runs = coord(&home, arguments).expect_success().stdout;
        let runs: Value = serde_json::from_str(&runs).unwrap();
        let runs = runs["runs"].as_array().unwrap().iter();
        runs.map(|run| run["exit"]["outcome"].as_str().unwrap().to_owned()).collect()
    };
    let count = |all: &[String], word: &str| all.iter().filter(|one| *one == word).count();
    let listed = outcomes(&["inspect", "--json"]);
    assert_eq!((count(&listed, "crash"), count(&listed, "done")), (7, 5), "{listed:?}");
    let all = outcomes(&["inspect", "--all", "--json"]);
    assert_eq!((count(&all, "crash"), count(&all, "done")), (7, 6), "{all:?}");
}

#[test]
fn inspect_watch_shows_what_changed() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    post(&home, &client_event("aaaa1111", "UserPromptSubmit", 1));
    let watching = start(&home, &["inspect", "--watch"]);
    let wait_for = |state: &str| {
        wait_until(&format!("the newest screen shows {state}"), || {
            let [text, _] = watching.output();
            let screen = text.rsplit("\u{1b}[H\u{1b}[J").next().unwrap_or_default().to_owned();
            if screen.contains(state) { Ok(()) } else { Err(text) }
        });
    };
    wait_for("running");
    post(&home, &client_event("aaaa1111", "Stop", 2));
    wait_for("idle");
}

#[test]
fn events_follow_what_happens_next() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    post(&home, &client_event("aaaa1111", "UserPromptSubmit", 1));
    let following = start(&home, &["events", "aaaa", "--follow", "--json"]);
    let names = || -> Vec<String> {
        let [text, _] = following.output();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.map(|line| line["name"].as_str().unwrap_or("?").to_owned()).collect()
    };
    let wait_for = |wanted: &[&str]| {
        wait_until(
            "the events are there",
            || if names() == wanted { Ok(()) } else { Err(names()) },
        );
    };
    wait_for(&["UserPromptSubmit"]);
    post(&home, &client_event("aaaa1111", "Stop", 2));
    post(&home, &client_event("bbbb2222", "Stop", 3));
    post(&home, &client_event("aaaa1111", "SessionEnd", 4));
    wait_for(&["UserPromptSubmit", "Stop", "SessionEnd"]);
}
