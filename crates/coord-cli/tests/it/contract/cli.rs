//! What people and scripts see of the command line (interfaces.md, CLI; H-26): tables that fit,
//! strings that cannot steer a terminal, exit codes, and one line per error.

use super::harness::Harness;
use super::wire::{ask, client_event, event, post, with};
use coord_tests::coord::{Coordinator, coord, programs};
use coord_tests::home::Home;
use coord_tests::process::{Finished, run};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// What stands on a terminal of so many columns after a command; `env` goes in front of it.
#[track_caller]
fn on_terminal(home: &Home, columns: u32, env: &str, arguments: &str) -> String {
    let mut command = home.command("script");
    let program = programs().join("coord");
    let line =
        format!("stty cols {columns} rows 20; {env} exec '{}' {arguments}", program.display());
    command.args(["-qec", &line, "/dev/null"]).env("COORD_HOME", home.root()).env("TERM", "xterm");
    run(command, &home.tmp(), "script").expect_success().stdout.replace("\r\n", "\n")
}

/// Text without its colours.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        let (code, after) = after.split_once('m').unwrap();
        assert!(code.bytes().all(|byte| byte.is_ascii_digit()), "only colours: {text:?}");
        rest = after;
    }
    out + rest
}

/// Columns of a line; what is Chinese here takes two.
fn width(line: &str) -> usize {
    line.chars().map(|c| if '\u{2e80}' <= c { 2 } else { 1 }).sum()
}

/// The first character that steers a terminal or is not seen.
fn hidden(text: &str) -> Option<char> {
    text.chars().find(|one| (one.is_control() && *one != '\n') || coord_core::is_hidden(*one))
}

#[track_caller]
fn one_line(finished: &Finished, code: i32) -> String {
    assert_eq!(finished.code(), Some(code), "{finished:?}");
    assert_eq!(finished.stdout, "", "{finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    finished.stderr.trim_end().to_owned()
}

/// Sessions of every shape.
fn populated() -> (Home, Coordinator) {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    let deep = format!("/home/dev/{}", "deep/".repeat(40));
    for (id, name, cwd) in [
        ("aaaa1111", "UserPromptSubmit", "/home/dev/project"),
        ("aaaa2222", "Stop", deep.as_str()),
        (
            "bbbb3333-0000-4000-8000-000000000000",
            "SessionStart",
            "/home/dev/漢字漢字漢字漢字漢字漢字漢字漢字漢字",
        ),
        ("cccc4444", "AnEventWithAVeryLongNameThatNobodyKnows", ""),
    ] {
        post(&home, &with(client_event(id, name, 1), json!({"cwd": cwd, "source": "startup"})));
    }
    let elsewhere = json!({"harness": {"pid": 7, "start_time": "7", "pid_ns": 7, "tty": 0}});
    post(&home, &with(event("dddd5555", "Stop", 1), elsewhere));
    (home, coordinator)
}

#[test]
fn no_line_of_a_table_is_longer_than_the_terminal() {
    let (home, _coordinator) = populated();
    for columns in [200, 120, 80, 79, 60, 50, 40, 30, 20, 10] {
        for verb in ["inspect", "events"] {
            let text = plain(&on_terminal(&home, columns, "", verb));
            assert!(6 <= text.lines().count(), "{text}");
            for line in text.lines() {
                assert!(width(line) <= columns as usize, "{columns} columns, {verb}: {line:?}");
            }
        }
    }
    let wide = plain(&on_terminal(&home, 80, "", "inspect"));
    for text in ["NAME", "STATE", "AGE", "WHERE", "WHAT", "WORKING", "WAITING", "IDLE", "host "] {
        assert!(wide.contains(text), "{text}: {wide}");
    }
    let narrow = plain(&on_terminal(&home, 30, "", "inspect"));
    assert!(narrow.contains("project") && narrow.contains("running"), "{narrow}");
    assert!(!narrow.contains("WHERE"), "{narrow}");
}

#[test]
fn colours_are_for_terminals_only() {
    let (home, _coordinator) = populated();
    for verb in ["inspect", "inspect aaaa1111", "events", "status", "config show"] {
        assert!(on_terminal(&home, 80, "", verb).contains("\u{1b}["), "{verb}");
        for env in ["NO_COLOR=1", "TERM=dumb"] {
            let text = on_terminal(&home, 80, env, verb);
            assert!(!text.contains('\u{1b}'), "{env} {verb}: {text:?}");
        }
        let words: Vec<&str> = verb.split(' ').collect();
        let piped = coord(&home, &words).expect_success().stdout;
        assert!(!piped.contains('\u{1b}'), "{verb}: {piped:?}");
    }
}

// H-26: names from elsewhere reach the terminal as text, and programs as they are.
#[test]
fn h26_hostile_strings_cannot_steer_a_terminal() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let hostile = "x\u{1b}]0;t\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\n\r\u{8}\u{feff}\u{7f}\u{85}\u{e0041}\u{ad}y";
    let id = format!("evil{hostile}");
    let fields = json!({"cwd": hostile, "transcript_path": hostile, "tool_name": hostile, "config_dir": hostile, "host": hostile, "permission_mode": hostile});
    post(&home, &with(event(&id, &format!("E{hostile}"), 1), fields.clone()));
    post(&home, &with(event(&id, "PreToolUse", 2), fields));
    for arguments in ["inspect", "inspect evil", "events", "events evil", "status"] {
        let words: Vec<&str> = arguments.split(' ').collect();
        let piped = coord(&home, &words).expect_success().stdout;
        let shown = plain(&on_terminal(&home, 120, "", arguments));
        for text in [piped, shown] {
            assert_eq!(hidden(&text), None, "{arguments}: {text:?}");
        }
    }
    let lines = coord(&home, &["inspect"]).expect_success().stdout.lines().count();
    assert_eq!(lines, 2, "a head, a session");
    let error = one_line(&coord(&home, &["inspect", &format!("none{hostile}")]), 3);
    assert!(!error.contains(|c: char| c.is_control()), "{error:?}");
    // H-51: in JSON they are whole, and nothing of them is hidden.
    let json = coord(&home, &["inspect", "evil", "--json"]).expect_success().stdout;
    for verb in ["inspect", "explain evil", "events", "status", "queue", "doctor"] {
        let words: Vec<&str> = verb.split(' ').chain(["--json"]).collect();
        let text = coord(&home, &words).stdout;
        assert!(text.starts_with('{') && hidden(&text).is_none(), "{verb}: {text:?}");
    }
    for path in ["/v1/sessions", "/v1/events", "/healthz", "/v1/sessions/none%c2%9b%e2%80%ae"] {
        let answer = ask(&home, "GET", path, "");
        assert_eq!(hidden(&answer.body), None, "{path}: {:?}", answer.body);
    }
    let doctor = coord(&home, &["doctor"]).stdout;
    assert_eq!(hidden(&doctor), None, "{doctor:?}");
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["sessions"][0]["cwd"], hostile);
    assert_eq!(value["sessions"][0]["session_id"], id.as_str());
    let events = coord(&home, &["events", "evil", "--json"]).expect_success().stdout;
    let hooks = events.lines().filter(|line| line.contains("\"source\":\"hook\"")).count();
    assert_eq!(hooks, 2, "{events:?}");
}

// U-03: with and without a coordinator, also where a clean end left an index of ids.
#[test]
fn u_03_a_name_stands_wherever_an_id_does() {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    let mut harness = Harness::headless(&home, "session-one");
    harness.begin_turn();
    let name = |home: &Home| {
        let names = coord(home, &["inspect", "-o", "name"]).expect_success().stdout;
        names.lines().next().unwrap().to_owned()
    };
    let called = name(&home);
    assert!(called.starts_with("harness-"), "{called}");
    for is_up in [true, false] {
        if !is_up {
            coord(&home, &["down"]).expect_success();
        }
        assert_eq!(name(&home), called, "up: {is_up}");
        for verb in ["inspect", "explain", "events"] {
            let shown = coord(&home, &[verb, &called, "--json"]).expect_success().stdout;
            assert!(shown.contains("session-one"), "up: {is_up}, {verb}: {shown}");
        }
        let mistyped = called.replacen("harness", "hrness", 1);
        let line = one_line(&coord(&home, &["inspect", &mistyped]), 3);
        assert!(line.contains(&format!("Did you mean {called}?")), "up: {is_up}: {line}");
    }
    drop(coordinator);
}

#[test]
fn ids_are_taken_by_their_unique_beginning() {
    let (home, coordinator) = populated();
    let mut coordinator = Some(coordinator);
    // First from the coordinator, then from the store.
    for from in ["coordinator", "store"] {
        for verb in ["inspect", "events"] {
            let shown = coord(&home, &[verb, "bbbb"]).expect_success().stdout;
            assert!(shown.contains("bbbb3333") && !shown.contains("aaaa"), "{from}: {shown}");
            coord(&home, &[verb, "aaaa1111"]).expect_success();
            let line = one_line(&coord(&home, &[verb, "aaaa"]), 3);
            assert!(line.contains("aaaa1111, aaaa2222"), "{from} {verb}: {line}");
            let line = one_line(&coord(&home, &[verb, "aaa"]), 3);
            assert!(line.contains("too short"), "{from} {verb}: {line}");
            for id in ["zzzz9999", "zz", "%", "../.."] {
                let line = one_line(&coord(&home, &[verb, id]), 3);
                assert!(line.contains(id), "{from} {verb}: {line}");
            }
        }
        if let Some(coordinator) = coordinator.take() {
            coordinator.kill();
        }
    }
}

// after /clear the record has another id, and both name it and its whole history.
#[test]
fn a_previous_id_means_todays_record() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let mut harness = Harness::headless(&home, "before-the-clear");
    for (id, name, fields) in [
        ("before-the-clear", "UserPromptSubmit", json!({})),
        ("before-the-clear", "SessionEnd", json!({"reason": "clear"})),
        ("after-the-clear", "SessionStart", json!({"source": "clear"})),
    ] {
        assert_eq!(harness.report(name, &with(json!({"session_id": id}), fields)), 0);
    }
    for id in ["before-the-clear", "after-the-clear"] {
        let shown = coord(&home, &["inspect", id]).expect_success().stdout;
        assert!(shown.contains("  id         after-the-clear\n"), "{shown}");
        let events = coord(&home, &["events", id]).expect_success().stdout;
        for name in ["prompt", "ended", "started"] {
            assert!(events.contains(name), "{id}: {events}");
        }
    }
}

// A reader that has seen enough is no failure.
#[test]
fn a_reader_that_leaves_is_no_failure() {
    let home = Home::new();
    let coordinator = Coordinator::start(&home);
    for chunk in 0..10 {
        let many: Vec<Value> =
            (0..300).map(|n| event(&format!("session-{chunk}-{n}"), "Stop", 1)).collect();
        post(&home, &json!(many));
    }
    coordinator.kill();
    for arguments in [
        "inspect",
        "inspect --json",
        "events",
        "events --json",
        "completions bash",
        "config show",
        "--help",
    ] {
        let mut command = home.command("/bin/sh");
        let line = format!(
            "{{ '{}' {arguments} 2>&1 >&3 | cat >errors; }} 3>&1 | head -c 1; exit 0",
            programs().join("coord").display()
        );
        command.args(["-c", &line]).env("COORD_HOME", home.root()).current_dir(home.tmp());
        run(command, &home.tmp(), "sh").expect_success();
        let mut command = home.command("/bin/sh");
        let line = format!(
            "{{ '{}' {arguments}; echo $? >code; }} | :",
            programs().join("coord").display()
        );
        command.args(["-c", &line]).env("COORD_HOME", home.root()).current_dir(home.tmp());
        let finished = run(command, &home.tmp(), "sh");
        assert_eq!(finished.stderr, "", "{arguments}");
        let code = coord_tests::wait::wait_until("the exit code", || {
            let text = fs::read_to_string(home.tmp().join("code")).unwrap_or_default();
            if text.ends_with('\n') { Ok(text) } else { Err(text) }
        });
        assert_eq!(code, "0\n", "{arguments}");
        fs::remove_file(home.tmp().join("code")).unwrap();
        assert_eq!(fs::read_to_string(home.tmp().join("errors")).unwrap(), "", "{arguments}");
    }
}

#[test]
fn events_are_text_or_json_and_can_be_limited_in_time() {
    let home = Home::new();
    let _coordinator = Coordinator::start(&home);
    let long_ago = coord_store::now().wall_ms - 2 * 3_600_000;
    let old = json!({"emitted_at": coord_model::stamp::rfc3339(long_ago)});
    post(&home, &with(client_event("session-one", "UserPromptSubmit", 1), old));
    post(&home, &with(client_event("session-one", "PreToolUse", 2), json!({"tool_name": "Bash"})));
    let text = coord(&home, &["events", "session-one"]).expect_success().stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].contains("session-  prompt"), "{text}");
    assert!(lines[1].contains("tool started") && lines[1].contains("Bash"), "{text}");
    let json = coord(&home, &["events", "session-one", "--json"]).expect_success().stdout;
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["name"], "UserPromptSubmit");
    assert!(lines[0]["seq"].as_u64() < lines[1]["seq"].as_u64());
    for line in &lines {
        let at = line["at"].as_str().unwrap();
        assert!(coord_model::stamp::parse_rfc3339(at).is_some() && at.len() == 24, "{at}");
    }
    let recent = coord(&home, &["events", "session-one", "--since", "1h"]).expect_success().stdout;
    assert!(!recent.contains("prompt") && recent.contains("tool started"), "{recent}");
    let all = coord(&home, &["events", "session-one", "--since", "1d"]).expect_success().stdout;
    assert!(all.contains("prompt"), "{all}");
}

#[test]
fn status_tells_whether_a_coordinator_answers() {
    let home = Home::new();
    for arguments in [&["status"][..], &["status", "--json"]] {
        let line = one_line(&coord(&home, arguments), 4);
        assert!(line.contains("coord up"), "{line}");
    }
    let coordinator = Coordinator::start(&home);
    let text = coord(&home, &["status"]).expect_success().stdout;
    assert!(text.starts_with(&format!("coordinator well (pid {}, ", coordinator.pid())), "{text}");
    let json: Value =
        serde_json::from_str(&coord(&home, &["status", "--json"]).expect_success().stdout).unwrap();
    assert_eq!((&json["status"], &json["pid"]), (&json!("ok"), &json!(coordinator.pid())));
    assert_eq!(json["problems"], json!([]));
}

#[test]
fn the_empty_beginning_says_what_to_do() {
    let home = Home::new();
    let inspect = coord(&home, &["inspect"]).expect_success().stdout;
    assert!(inspect.contains("are not installed. → coord install"), "{inspect}");
    assert!(inspect.contains("coord up"), "{inspect}");
    let json: Value =
        serde_json::from_str(&coord(&home, &["inspect", "--json"]).expect_success().stdout)
            .unwrap();
    assert_eq!(json["sessions"], json!([]));
    assert_eq!(json["coordinator"]["running"], false);
    assert!(one_line(&coord(&home, &["events"]), 1).contains("coord install"));
    assert_eq!(coord(&home, &["events", "--json"]).expect_success().stdout, "");
    assert!(!home.paths().state.exists(), "looking makes nothing");
}

#[test]
fn every_wrong_configuration_is_named_with_its_line() {
    let home = Home::new();
    let file = home.paths().config_file();
    for (text, wanted) in [
        ("[tracking]\nsettle = 5\n", "line 2: tracking.settle takes"),
        ("[tracking]\nsettle = \"5 parsecs\"\n", "line 2: tracking.settle takes"),
        (
            "[tracking]\nsetle = \"5s\"\n",
            "line 2: unknown key \"tracking.setle\"; the nearest known one is \"tracking.settle\"",
        ),
        ("[trackin]\nsettle = \"5s\"\n", "line 1: unknown key \"trackin\""),
        ("settle = \"5s\"\n", "line 1: unknown key \"settle\""),
        ("[recovery]\nmode = \"always\"\n", "line 2: recovery.mode takes"),
        ("[store]\n\ntool_events_per_minute = 0\n", "line 3: store.tool_events_per_minute takes"),
        ("[store]\ntool_events_per_minute = -1\n", "line 2: store.tool_events_per_minute takes"),
        ("[tracking]\nconfig_dirs = [\"relative\"]\n", "line 2: tracking.config_dirs takes"),
        ("[tracking]\nconfig_dirs = \"/x\"\n", "line 2: tracking.config_dirs takes"),
        ("[log]\nlevel = \"loud\"\n", "line 2: log.level takes"),
        ("[log\n", "line 1: not TOML"),
        ("[log]\nlevel = \"info\"\nlevel = \"warn\"\n", "line 3: not TOML"),
    ] {
        home.write_config(text);
        let path = file.to_str().unwrap();
        for arguments in
            [&["config", "check"][..], &["config", "check", path], &["config", "show"], &["serve"]]
        {
            let line = one_line(&coord(&home, arguments), 1);
            assert!(line.contains(path) && line.contains(wanted), "{text:?} {arguments:?}: {line}");
        }
        // Looking at sessions goes on, and says so.
        if text.contains("parsecs") {
            fs::create_dir_all(home.paths().state).unwrap();
            let inspect = coord(&home, &["inspect"]).expect_success().stdout;
            assert!(inspect.contains(wanted), "{inspect}");
        }
    }
    fs::write(&file, b"\xff\xfe").unwrap();
    one_line(&coord(&home, &["config", "check"]), 1);
    fs::remove_file(&file).unwrap();
    assert!(one_line(&coord(&home, &["config", "check"]), 1).contains("no such file"));
    home.write_config("[tracking]\nsettle = \"7s\"\n");
    assert!(coord(&home, &["config", "check"]).expect_success().stdout.ends_with(": ok\n"));
    let shown = coord(&home, &["config", "show"]).expect_success().stdout;
    assert!(shown.contains("settle = \"7s\"  # line 2: "), "{shown}");
    assert!(shown.contains("# default: "), "{shown}");
    let json: Value =
        serde_json::from_str(&coord(&home, &["config", "show", "--json"]).expect_success().stdout)
            .unwrap();
    assert_eq!(json["tracking.settle"]["origin"], format!("{}:2", file.display()));
    assert_eq!(json["log.level"]["origin"], "default");
    // What is shown can be written back.
    fs::write(&file, shown).unwrap();
    coord(&home, &["config", "check"]).expect_success();
}

#[test]
fn completions_are_for_every_shell() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = coord(&home, &["completions", shell]).expect_success().stdout;
        assert!(script.contains("coord") && script.contains("COORD_COMPLETE"), "{shell}: {script}");
    }
    let bash = coord(&home, &["completions", "bash"]).expect_success().stdout;
    let file = home.tmp().join("coord.bash");
    fs::write(&file, bash).unwrap();
    let mut check = home.command("bash");
    check.arg("-n").arg(&file);
    assert_eq!(run(check, &home.tmp(), "bash").expect_success().stderr, "");
    assert_eq!(coord(&home, &["completions", "cmd"]).code(), Some(2));
}

#[test]
fn every_verb_has_help_with_an_example() {
    let home = Home::new();
    let verbs = super::usage::verbs(&home);
    assert!(verbs.iter().any(|verb| verb == "inspect"), "{verbs:?}");
    for verb in &verbs {
        let help = coord(&home, &[verb, "--help"]).expect_success().stdout;
        assert!(help.contains("Example"), "{verb}: {help}");
        assert!(help.contains(&format!("coord {verb}")), "{verb}: {help}");
        for hidden in ["--from-hook", "--detached"] {
            assert!(!help.contains(hidden), "{verb}: {help}");
        }
    }
    assert!(!home.paths().state.exists(), "asking for help makes nothing");
}

// Verbs whose exit code is that of what they run say so with a code of their own.
#[test]
fn wrong_usage_of_run_and_loop_is_exit_64() {
    let home = Home::new();
    let root = home.root();
    let root = root.to_str().unwrap();
    let equal = format!("--root={root}");
    for verb in ["run", "loop"] {
        for before in [&[][..], &["--root", root], &[&equal]] {
            let arguments = [before, &[verb, "--bad"]].concat();
            let finished = coord(&home, &arguments);
            assert_eq!(finished.code(), Some(64), "{arguments:?}: {finished:?}");
        }
    }
    // What is named like a verb and is none does not count.
    assert_eq!(coord(&home, &["--root", "run", "inspect", "--bad"]).code(), Some(2));
}

#[test]
fn arguments_that_are_no_text_are_wrong_usage() {
    let home = Home::new();
    for program in ["coord", "coordctl"] {
        let mut command = home.command(programs().join(program));
        command.arg(std::ffi::OsStr::from_bytes(b"\xff"));
        let finished = run(command, &home.tmp(), program);
        assert_eq!(finished.code(), Some(2), "{finished:?}");
        assert!(finished.stderr.contains("--help"), "{finished:?}");
    }
}

#[test]
fn status_with_a_broken_configuration_says_what_to_correct() {
    let home = Home::new();
    let config = home.paths().config_file();
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "[log]\nlevel = 7\n").unwrap();
    let line = one_line(&coord(&home, &["status"]), 4);
    assert!(line.contains("config.toml") && line.contains("Correct the file."), "{line}");
    fs::write(&config, "").unwrap();
    let line = one_line(&coord(&home, &["status"]), 4);
    assert!(line.ends_with("Coordinator not running. → coord up"), "{line}");
}

#[test]
fn wrong_usage_is_exit_2() {
    let home = Home::new();
    for arguments in [
        &["inspct"][..],
        &["inspect", "a", "b"],
        &["inspect", "--nothing"],
        &["events", "--since"],
        &["events", "--since", "soon"],
        &["events", "--since", "-1h"],
        &["config"],
        &["config", "check", "a", "b"],
        &["completions"],
        &["status", "extra"],
        &["--root"],
        &["--root", "", "status"],
        &["inspect", ""],
        &["events", ""],
    ] {
        let finished = coord(&home, arguments);
        assert_eq!(finished.code(), Some(2), "{arguments:?}: {finished:?}");
        assert_eq!(finished.stdout, "", "{arguments:?}");
        assert!(
            ["Usage", "--help", "Did you mean", "Examples: "]
                .iter()
                .any(|one| finished.stderr.contains(one)),
            "{finished:?}"
        );
    }
}
