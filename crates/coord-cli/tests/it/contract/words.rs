//! People read plain words: no ids of rules, no names of internal parts, no paths into the source tree (U-12).

use super::harness::{Harness, Tmux};
use super::wire::{client_event, post, with};
use coord_model::SessionState;
use coord_tests::coord::{Coordinator, coord, coordctl, events, install, programs, session_when};
use coord_tests::home::Home;
use coord_tests::process::Finished;
use coord_tests::wait::wait_until;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The list of the guarantees, which has every id.
const GUARANTEES: &str = include_str!("../../../../../docs/guarantees.md");
/// Names that only the source has.
const INTERNAL: [&str; 16] = [
    "docs/",
    "crates/",
    ".rs:",
    "ProcessSeen",
    "ProcessExited",
    "RegistryRead",
    "PaneSeen",
    "TranscriptRead",
    "ResumeClaimed",
    "CoordinatorStarted",
    "ConfigDirLock",
    "harness",
    "watchdog",
    "limbo_detected",
    "subcountdown",
    "subprocess.state",
];

/// Ids of rules in a text.
fn rule_ids(text: &str) -> BTreeSet<&str> {
    let rows = GUARANTEES.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let ids: BTreeSet<&str> = rows.filter(|id| id.contains(|one: char| one.is_numeric())).collect();
    assert!(ids.contains("H-05") && ids.contains("G12"), "{ids:?}");
    let words = text.split(|one: char| !one.is_ascii_alphanumeric() && one != '-');
    words.filter(|word| ids.contains(word)).collect()
}

/// Fails if a person could not read what a command printed.
#[track_caller]
fn assert_plain(what: &str, finished: &Finished) {
    let text = format!("{}{}", finished.stdout, finished.stderr);
    assert!(!text.is_empty(), "{what} prints nothing");
    assert_eq!(rule_ids(&text), BTreeSet::new(), "{what}: {text}");
    // The stand-in for a client has a directory of this name.
    let text = text.replace("harness-", "");
    for name in INTERNAL {
        assert!(!text.contains(name), "{what} contains {name:?}: {text}");
    }
}

/// `coord ARGUMENTS`, as words.
#[track_caller]
fn assert_plain_verb(home: &Home, arguments: &str) {
    let words: Vec<&str> = arguments.split(' ').collect();
    assert_plain(&format!("coord {arguments}"), &coord(home, &words));
}

#[track_caller]
fn json_of(home: &Home, arguments: &[&str]) -> Value {
    let done = coord(home, &[arguments, &["--json"]].concat()).expect_success();
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// What a store with much history is about: two messages and a run.
struct History {
    delivered: String,
    failed: String,
    run: String,
}

/// Makes sessions that crashed, ended, ask and wait, orders, messages that were handed out and failed, and runs.
fn rich_history(home: &Home) -> History {
    let mut crashed = Harness::at_terminal(home, "crashed-one");
    crashed.register();
    crashed.begin_turn();
    crashed.kill();
    session_when(home, "crashed-one", "crashed", |one| one.state == SessionState::Crashed);
    let mut ended = Harness::headless(home, "ended-one");
    ended.begin_turn();
    ended.end("other");
    for (n, name) in (1..).zip(["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"]) {
        post(home, &with(client_event("asks-one", name, n), json!({"tool_name": "Bash"})));
    }
    post(
        home,
        &with(client_event("asks-one", "PermissionRequest", 5), json!({"tool_name": "Edit"})),
    );
    post(home, &client_event("waits-one", "UserPromptSubmit", 1));
    post(home, &with(client_event("waits-one", "StopFailure", 2), json!({"error": "rate_limit"})));
    let tmux = Tmux::start(home);
    let (root, program) = (home.root(), programs().join("coordctl"));
    let order = format!("COORD_HOME='{}' '{}' hold asks-one", root.display(), program.display());
    tmux.run(&["new-window", "-d", &order]);
    wait_until("the order is recorded", || {
        let all = events(home, None);
        if all.iter().any(|line| line["name"] == "Operator") { Ok(()) } else { Err(all) }
    });
    let id = |sent: &Value| sent["id"].as_str().unwrap().to_owned();
    let delivered = id(&json_of(home, &["send", "asks-one", "look at this"]));
    let failed = id(&json_of(home, &["queue", "send", "builds", "build main"]));
    let claimed = json_of(home, &["queue", "claim", "builds"]);
    let fence = claimed["fence"].to_string();
    coord(home, &["queue", "fail", &failed, &fence, "--why", "no disk"]).expect_success();
    assert_eq!(coord(home, &["run", "--", "/bin/sh", "-c", "exit 3"]).code(), Some(3));
    coord(home, &["run", "--name", "nightly", "--", "/bin/echo", "well"]).expect_success();
    let run = json_of(home, &["inspect", "--all"])["runs"][0]["run_id"].clone();
    History { delivered, failed, run: run.as_str().unwrap().to_owned() }
}

const SESSIONS: [&str; 4] = ["crashed-one", "ended-one", "asks-one", "waits-one"];

#[test]
fn u_12_no_rule_and_no_internal_part_reaches_a_person() {
    let home = Home::new();
    home.write_config(&format!("[tracking]\nconfig_dirs = ['{}']\n", home.config_dir().display()));
    install(&home);
    let coordinator = Coordinator::start(&home);
    let History { delivered, failed, run } = rich_history(&home);
    let mut all: Vec<String> = SESSIONS
        .iter()
        .flat_map(|id| ["inspect", "explain", "events"].map(|verb| format!("{verb} {id}")))
        .collect();
    for id in [&delivered, &failed] {
        all.extend([format!("explain {id}"), format!("queue show {id}")]);
    }
    all.extend(["inspect", "explain", "events"].map(|verb| format!("{verb} {run}")));
    let lists = [
        "inspect",
        "inspect --all",
        "inspect -o wide",
        "events",
        "events --all",
        "status",
        "doctor",
    ];
    all.extend(lists.map(ToOwned::to_owned));
    let others = ["queue", "queue --failed", "config show", "explain nightly", "--help"];
    all.extend(others.map(ToOwned::to_owned));
    let errors = [
        "inspect nobody",
        "explain nobody",
        "explain m_zzzz",
        "events nobody",
        "send nobody text",
        "send crashed-one text",
        "queue retry m_zzzz",
        "queue done m_zzzz 1",
        "wait crashed-one --until idle",
    ];
    all.extend(errors.map(ToOwned::to_owned));
    for arguments in &all {
        assert_plain_verb(&home, arguments);
    }
    // Whoever asks for the ids gets them, and so do programs.
    for arguments in [&["explain", "crashed-one", "--verbose"][..], &["events", "--verbose"][..]] {
        let text = coord(&home, arguments).expect_success().stdout;
        assert!(rule_ids(&text).contains("H-05"), "{arguments:?}: {text}");
    }
    let explained = json_of(&home, &["explain", "crashed-one"]);
    assert_eq!(explained["rule"], "H-05", "{explained:#}");
    assert!(!rule_ids(explained["because"].as_str().unwrap()).contains("H-05"));
    let decisions = explained["decisions"].as_array().unwrap();
    assert!(decisions.iter().any(|line| line["rule"] == "H-05"), "{explained:#}");
    let recorded = events(&home, Some("crashed-one"));
    assert!(recorded.iter().any(|line| line["rule"] == "H-05"), "{recorded:#?}");
    // Without a coordinator the same is read from the files.
    coordinator.kill();
    for arguments in &all {
        assert_plain_verb(&home, arguments);
    }
}

#[test]
fn u_12_the_help_of_every_verb_is_plain() {
    let home = Home::new();
    for (program, run) in
        [("coord", coord as fn(&Home, &[&str]) -> Finished), ("coordctl", coordctl)]
    {
        let pages = home.tmp().join(program);
        run(&home, &["man", "--dir", pages.to_str().unwrap()]).expect_success();
        let mut n = 0;
        for page in std::fs::read_dir(&pages).unwrap() {
            let page = page.unwrap().path();
            let stdout = std::fs::read_to_string(&page).unwrap();
            let said = Finished { stdout, ..run(&home, &["--help"]) };
            assert_plain(&page.display().to_string(), &said);
            n += 1;
        }
        assert!(6 < n, "{program} has {n} pages");
    }
}
