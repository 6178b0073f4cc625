//! What the program of the status line tells the coordinator, and what people see of it (N-08, Q-01, Q-02).

use super::harness::Harness;
use coord_tests::coord::{Coordinator, coord, events, programs, session};
use coord_tests::home::Home;
use coord_wire::inspect::SubagentState;
use serde_json::{Value, json};
use std::fs;

impl Harness {
    /// Draws its status line, as the client does; what that prints.
    fn draws(&mut self, home: &Home, id: &str, numbers: &Value, command: &str) -> String {
        let mut payload = json!({"session_id": id, "cwd": "/", "version": "2.1.330"});
        payload.as_object_mut().unwrap().extend(numbers.as_object().unwrap().clone());
        let (file, out) = (home.tmp().join("numbers"), home.tmp().join("line"));
        fs::write(&file, payload.to_string()).unwrap();
        let program = programs().join("coord-hook-statusline");
        let line = format!(
            "'{}' --root '{}' {command} <'{}' >'{}'",
            program.display(),
            home.root().display(),
            file.display(),
            out.display()
        );
        assert_eq!(self.run(&line), 0);
        fs::read_to_string(out).unwrap()
    }
}

/// The numbers of a subscription, as the client writes them.
fn numbers() -> Value {
    json!({
        "model": {"id": "claude-opus-5-5", "display_name": "Opus 5.5"},
        "cost": {"total_cost_usd": 2.41},
        "context_window": {"context_window_size": 1_000_000, "used_percentage": 61},
        "rate_limits": {
            "five_hour": {"used_percentage": 42, "resets_at": 4_102_444_800_u64},
            "seven_day": {"used_percentage": 17.5, "resets_at": 4_102_531_200_u64},
        },
    })
}

// N-08: from the client's own numbers to what people and programs see.
#[test]
fn q_01_what_the_status_line_is_told_is_shown() {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    let mut client = Harness::at_terminal(&home, "aaaa1111");
    client.begin_turn();
    let unknown = coord(&home, &["inspect", "aaaa"]).expect_success().stdout;
    assert!(unknown.contains("context    not known (no status line)"), "{unknown}");
    assert_eq!(client.draws(&home, "aaaa1111", &numbers(), "-- echo mine"), "mine\n");
    let shown = coord(&home, &["inspect", "aaaa"]).expect_success().stdout;
    for part in [
        "model      Opus 5.5 · status line, ",
        "context    61% of 1,000,000 tokens · status line, ",
        "limits     5-hour 42%, resets Jan 1 ",
        "cost       $2.41 since its start or /clear · status line, ",
    ] {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    let quota = coord(&home, &["quota"]).expect_success().stdout;
    assert!(quota.contains("5-hour  58%") && quota.contains("7-day   82%"), "{quota}");
    let json = coord(&home, &["quota", "--json"]).expect_success().stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["accounts"][0]["limits"][1]["percent"], 17.5, "{json}");
    assert_eq!(json["accounts"][0]["limits"][0]["resets_at"], "2100-01-01T00:00:00.000Z");
    // The same numbers are no news, and the files say what the coordinator said.
    client.draws(&home, "aaaa1111", &numbers(), "-- true");
    let lines = events(&home, Some("aaaa")).into_iter();
    assert_eq!(lines.filter(|line| line["name"] == "StatusLine").count(), 1);
    drop(coordinator);
    let usage = session(&home, "aaaa1111").unwrap().usage.unwrap();
    assert_eq!(usage.limits.len(), 2);
    assert_eq!(usage.context.unwrap().percent.whole(), 61);
}

// N-08: where the user has no line, coord has one, and it is empty while nobody else needs anybody.
#[test]
fn n_08_coords_own_line_tells_of_other_sessions_that_need_you() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let mut client = Harness::at_terminal(&home, "aaaa1111");
    client.begin_turn();
    assert_eq!(client.draws(&home, "aaaa1111", &numbers(), ""), "");
    let mut other = Harness::at_terminal(&home, "bbbb2222");
    other.begin_turn();
    assert_eq!(other.report("StopFailure", &json!({"error": "authentication_failed"})), 0);
    coord_tests::coord::session_when(&home, "bbbb2222", "it needs its user", |one| {
        one.need.is_some()
    });
    assert_eq!(client.draws(&home, "aaaa1111", &numbers(), ""), "1 other session needs you\n");
    assert_eq!(other.draws(&home, "bbbb2222", &numbers(), ""), "");
}

// H-44: what a program says that is no child of the client changes nothing.
#[test]
fn h_44_numbers_of_a_stranger_are_not_believed() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let mut client = Harness::at_terminal(&home, "aaaa1111");
    client.begin_turn();
    let mut stranger = Harness::at_terminal(&home, "cccc3333");
    stranger.begin_turn();
    stranger.draws(&home, "aaaa1111", &numbers(), "");
    assert!(session(&home, "aaaa1111").unwrap().usage.is_none_or(|usage| usage.context.is_none()));
    let quota = coord(&home, &["quota"]).expect_success().stdout;
    assert!(quota.contains("not known") && !quota.contains("58%"), "{quota}");
}

// who asks for one session sees the repository of its work, as it is now.
#[test]
fn q_04_the_repository_of_a_session_is_shown_on_demand() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let mut client = Harness::at_terminal(&home, "aaaa1111");
    let work = home.tmp().join("work");
    fs::create_dir(&work).unwrap();
    assert_eq!(client.report("SessionStart", &json!({"source": "startup", "cwd": work})), 0);
    let without = coord(&home, &["inspect", "aaaa"]).expect_success().stdout;
    assert!(!without.contains("  git "), "{without}");
    let mut git = home.command("git");
    git.args(["-C", work.to_str().unwrap(), "init", "-q", "-b", "main"]);
    assert!(git.status().unwrap().success());
    fs::write(work.join("new"), "x").unwrap();
    let shown = coord(&home, &["inspect", "aaaa"]).expect_success().stdout;
    assert!(shown.contains("git        main no commit yet · 1 new"), "{shown}");
    let json = session(&home, "aaaa1111").unwrap();
    assert!(json.git.is_none(), "a list looks at no repository");
    let json = coord(&home, &["inspect", "aaaa", "--json"]).expect_success().stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sessions"][0]["git"]["untracked"]["n"], 1, "{json}");
}

// a limit that has reset since is not shown as if it were used.
#[test]
fn q_02_a_limit_that_has_reset_is_not_shown() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let mut client = Harness::at_terminal(&home, "aaaa1111");
    client.begin_turn();
    let over =
        json!({"rate_limits": {"five_hour": {"used_percentage": 99, "resets_at": 1_000_000_000}}});
    client.draws(&home, "aaaa1111", &over, "");
    let quota = coord(&home, &["quota"]).expect_success().stdout;
    assert!(quota.contains("not known") && !quota.contains("5-hour"), "{quota}");
    let shown = coord(&home, &["inspect", "aaaa"]).expect_success().stdout;
    assert!(!shown.contains("limits"), "{shown}");
}

// what people see of subagents.
#[test]
fn q_03_subagents_are_shown_with_type_state_and_age() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let mut client = Harness::at_terminal(&home, "aaaa1111");
    client.begin_turn();
    let agent = |id: &str, kind: &str| json!({"agent_id": id, "agent_type": kind});
    assert_eq!(client.report("SubagentStart", &agent("a1", "Explore")), 0);
    assert_eq!(client.report("SubagentStart", &agent("a2", "reviewer")), 0);
    assert_eq!(client.report("SubagentStop", &agent("a1", "Explore")), 0);
    let shown = coord(&home, &["inspect", "aaaa"]).expect_success().stdout;
    assert!(shown.contains("subagents  Explore done · reviewer running for "), "{shown}");
    let states = |home: &Home| -> Vec<SubagentState> {
        let subagents = session(home, "aaaa1111").unwrap().subagents;
        subagents.iter().map(|one| one.state).collect()
    };
    assert_eq!(states(&home), [SubagentState::Done, SubagentState::Running]);
    // Its end is not known: the turn failed, and no hook told of it.
    assert_eq!(client.report("StopFailure", &json!({"error": "server_error"})), 0);
    assert_eq!(states(&home), [SubagentState::Done, SubagentState::Unknown]);
    // It works on in the background.
    assert_eq!(client.report("PreToolUse", &agent("a2", "reviewer")), 0);
    assert_eq!(states(&home), [SubagentState::Done, SubagentState::Running]);
    client.kill();
    coord_tests::coord::session_when(&home, "aaaa1111", "it is gone", |one| {
        one.subagents.is_empty()
    });
}
