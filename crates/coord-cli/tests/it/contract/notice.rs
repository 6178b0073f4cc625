//! Notices with the real coordinator, the real sender and a real tmux (N-01 to N-07).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use coord_tests::coord::{Coordinator, coord};
use coord_tests::home::Home;
use coord_tests::process::{Finished, write_program};
use coord_tests::wait::wait_until;
use serde_json::{Value, json};

use super::control::watched;
use super::go::attached;
use super::harness::{Harness, Tmux};

/// A program of the user's.
fn program(home: &Home, name: &str, script: &str) -> PathBuf {
    let file = home.tmp().join(name);
    write_program(&file, &format!("#!/bin/sh\n{script}\n"));
    file
}

pub(in crate::contract) fn channel(name: &str, program: &std::path::Path) -> String {
    format!("[notice.channel.{name}]\nvia = 'command'\nprogram = '{}'\n", program.display())
}

pub(in crate::contract) fn told(home: &Home) -> Vec<Value> {
    let text = fs::read_to_string(home.tmp().join("told")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A program that appends each notice to a file.
pub(in crate::contract) fn recorder(home: &Home) -> PathBuf {
    let log = home.tmp().join("told");
    program(home, "tell", &format!("exec /bin/cat >> '{}'", log.display()))
}

#[test]
fn n_06_a_test_ends_with_what_each_channel_answered() {
    let home = Home::new();
    let bad = program(&home, "bad", "echo 'the bell is broken' >&2; exit 3");
    let config = channel("good", &recorder(&home)) + &channel("bad", &bad);
    home.write_config(&config);
    let test =
        |words: &[&str]| -> Finished { coord(&home, &[&["notice", "test"], words].concat()) };
    let all = test(&[]);
    assert_eq!(all.code(), Some(1), "{all:?}");
    let lines: Vec<&str> = all.stdout.lines().collect();
    assert!(lines[0].starts_with("good  "), "{all:?}");
    assert!(lines[1].starts_with("bad   failed: "), "{all:?}");
    assert!(lines[1].contains("the bell is broken"), "{all:?}");
    assert_eq!(told(&home)[0]["event"], "test");
    assert_eq!(test(&["good"]).code(), Some(0));
    let wrong = test(&["goood"]);
    assert_eq!(
        (wrong.code(), wrong.stderr.as_str()),
        (Some(1), "coord: No channel \"goood\". Did you mean good?\n")
    );
    let json = test(&["good", "--json"]).expect_success().stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["channels"][0]["is_sent"], true);
}

#[test]
fn n_06_doctor_checks_channels_without_sending() {
    let home = Home::new();
    let token = home.tmp().join("token");
    fs::write(&token, "s3cret\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    let webhook = format!(
        "[notice.channel.phone]\nvia = 'webhook'\nurl = 'https://localhost/x'\ntoken_file = '{}'\n",
        token.display()
    );
    let gone = channel("gone", &home.tmp().join("not-there"));
    home.write_config(&(webhook + &gone + &channel("good", &recorder(&home))));
    let found = coord(&home, &["doctor", "--json"]).stdout;
    let found: Value = serde_json::from_str(&found).unwrap();
    let findings = found["findings"].as_array().unwrap();
    let of_channels: Vec<&str> = findings
        .iter()
        .filter(|one| one["check"] == "notices.channel")
        .map(|one| one["found"].as_str().unwrap())
        .collect();
    assert_eq!(of_channels.len(), 2, "{findings:?}");
    assert!(of_channels[0].contains("chmod 600"), "{of_channels:?}");
    assert!(of_channels[1].contains("not-there is no program"), "{of_channels:?}");
    assert_eq!(told(&home), Vec::<Value>::new());
    assert!(!found.to_string().contains("s3cret"));
}

// N-03: a coordinator that is killed between a notice and its result tells once more, marked; then it is taken back.
#[test]
fn n_03_killed_while_it_tells_it_may_tell_twice() {
    let home = Home::new();
    let log = home.tmp().join("told");
    // The first one is told, and its result never comes.
    let script = format!(
        "/bin/cat >> '{}'\nkill -9 $(cat '{}')",
        log.display(),
        home.tmp().join("pid").display()
    );
    let once = program(&home, "once", &script);
    home.write_config(&format!("[notice]\ndelays = {{}}\n{}", channel("log", &once)));
    let coordinator = Coordinator::start(&home);
    fs::write(home.tmp().join("pid"), coordinator.pid().to_string()).unwrap();
    let mut client = Harness::at_terminal(&home, "session-one");
    client.report("UserPromptSubmit", &json!({"prompt": "x"}));
    client.report("PermissionRequest", &json!({"tool_name": "Bash", "tool_input": {}}));
    let first = wait_until("it is told", || told(&home).first().cloned().ok_or("not yet"));
    assert_eq!((&first["event"], &first["may_be_repeated"]), (&"need".into(), &Value::Null));
    drop(coordinator);
    program(&home, "once", &format!("exec /bin/cat >> '{}'", log.display()));
    let _next = Coordinator::start_again(&home);
    let again = wait_until("it is told again", || told(&home).get(1).cloned().ok_or("not yet"));
    assert_eq!((&again["id"], &again["may_be_repeated"]), (&first["id"], &true.into()));
    client.report("PostToolUse", &json!({"tool_name": "Bash", "tool_input": {}}));
    let back = wait_until("it is taken back", || told(&home).get(2).cloned().ok_or("not yet"));
    assert_eq!((&back["event"], &back["id"]), (&"withdrawn".into(), &first["id"]));
}

// N-03: a channel that does not answer keeps neither another one nor a hook waiting.
#[test]
fn n_03_a_channel_that_hangs_holds_up_nobody() {
    let home = Home::new();
    let started = home.tmp().join("started");
    let hangs = program(&home, "hangs", &format!("touch '{}'\nexec sleep 8", started.display()));
    let channels = channel("first", &hangs) + &channel("second", &recorder(&home));
    home.write_config(&format!("[notice]\ndelays = {{}}\n{channels}"));
    let _coordinator = Coordinator::start(&home);
    let mut clients = ["session-one", "session-two"].map(|id| Harness::at_terminal(&home, id));
    for (n, client) in clients.iter_mut().enumerate() {
        client.report("UserPromptSubmit", &json!({"prompt": "x"}));
        let asked = json!({"tool_name": "Bash", "tool_input": {}});
        assert_eq!(client.report("PermissionRequest", &asked), 0);
        wait_until("the other channel tells", || {
            let told = told(&home);
            if n < told.len() { Ok(()) } else { Err(told) }
        });
    }
    assert!(started.exists());
    let health = coord_tests::coord::health(&home).unwrap();
    let first = health.notices.iter().find(|one| one.channel == "first").unwrap();
    assert_eq!((first.open, first.failing.as_deref()), (2, None), "it has not answered yet");
}

// N-02, N-07: on an attached terminal, and in the status line by options alone.
#[test]
fn n_07_tmux_shows_who_needs_a_person() {
    let (home, _coordinator) = watched();
    let config = fs::read_to_string(home.paths().config_file()).unwrap();
    home.write_config(&format!("{config}\n[notice]\ndelays = {{}}\n"));
    let tmux = Tmux::start(&home);
    let (_terminal, client) = attached(&home, &tmux);
    let snippet = home.tmp().join("snippet");
    fs::write(&snippet, coord(&home, &["tmux", "snippet"]).expect_success().stdout).unwrap();
    tmux.run(&["source-file", &snippet.display().to_string()]);
    let segment = || tmux.run(&["display-message", "-p", "-c", &client, "#{E:status-right}"]);
    wait_until("nobody renews it", || {
        let shown = segment();
        if shown.trim_end().ends_with(" coord ?") { Ok(()) } else { Err(shown) }
    });
    let mut session = Harness::in_tmux(&tmux, "session-one");
    session.report("UserPromptSubmit", &json!({"prompt": "x"}));
    session.report("PermissionRequest", &json!({"tool_name": "Bash", "tool_input": {}}));
    wait_until("the status line has it", || {
        let shown = segment();
        if shown.trim_end().ends_with(" 1 needs you") { Ok(()) } else { Err(shown) }
    });
    wait_until("the terminal was told", || {
        let messages = tmux.run(&["show-messages", "-t", &client]);
        if messages.contains("asks to run Bash") { Ok(()) } else { Err(messages) }
    });
    let options = "#{@coord_state} #{@coord_attention}";
    let all = tmux.run(&["list-panes", "-a", "-F", options]);
    assert!(all.contains("awaiting_permission permission"), "{all}");
    session.report("PostToolUse", &json!({"tool_name": "Bash", "tool_input": {}}));
    wait_until("the status line is empty again", || {
        let shown = segment();
        let is_empty = !shown.contains("needs you") && !shown.contains("coord ?");
        if is_empty { Ok(()) } else { Err(shown) }
    });
}

// N-04: who was told of a need, and that there is none of another name.
#[test]
fn n_04_explain_says_who_was_told() {
    let home = Home::new();
    home.write_config(&format!("[notice]\ndelays = {{}}\n{}", channel("log", &recorder(&home))));
    let _coordinator = Coordinator::start(&home);
    let mut client = Harness::at_terminal(&home, "session-one");
    client.report("UserPromptSubmit", &json!({"prompt": "x"}));
    client.report("PermissionRequest", &json!({"tool_name": "Bash", "tool_input": {}}));
    let first = wait_until("it is told", || told(&home).first().cloned().ok_or("not yet"));
    let id = first["id"].as_str().unwrap();
    wait_until("its result is known", || {
        let text = coord(&home, &["explain", id]).expect_success().stdout;
        let is_there =
            ["send a notice through log", ": sent: "].iter().all(|words| text.contains(words));
        if is_there { Ok(()) } else { Err(text) }
    });
    let status = coord(&home, &["status"]).expect_success().stdout;
    assert!(status.contains("notices: log ok"), "{status}");
    assert_eq!(coord(&home, &["explain", "a_99.1"]).code(), Some(3));
    let wrong = coord(&home, &["explain", "a_x"]);
    assert_eq!(wrong.code(), Some(1));
    assert!(wrong.stderr.starts_with("coord: \"a_x\" is not the id of a need"), "{wrong:?}");
}
