//! Which clients may read the entries, what keeps hooks from running, and who still calls them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use coord_host::process;
use coord_tests::coord::{coord, install, programs};
use coord_tests::home::Home;
use coord_tests::process::copy_program;

use super::scratch::Scratch;

// an older client runs the line in a shell without its arguments, or drops the whole file.
#[test]
fn a_client_that_would_misread_the_entries_is_refused_r_17() {
    let scratch = Scratch::new();
    scratch.write("{}");
    scratch.claude_says("[ \"$1\" = --version ] && echo '2.1.138 (Claude Code)'");
    for args in [&["install"][..], &["install", "--dry-run"]] {
        let error = scratch.refused(args);
        assert!(error.contains("is Claude Code 2.1.138"), "{error}");
        assert!(error.contains("update it to 2.1.139 or later"), "{error}");
        assert_eq!(scratch.read(), "{}");
    }
    assert!(!scratch.path("home/.local").exists());
    // What is registered can be removed whatever the client is.
    scratch.said(&["uninstall"]);
    scratch.claude_says("echo '2.1.139 (Claude Code)'");
    assert!(scratch.said(&["install"]).starts_with("registered 13 events"));
}

#[test]
fn a_client_that_cannot_tell_its_version_is_taken_for_a_current_one() {
    for script in
        ["exit 1", "echo claude 0.1", "exec >&-; exit 0", "echo; echo 1.0.0 '(Claude Code)'"]
    {
        let scratch = Scratch::new();
        scratch.claude_says(script);
        assert!(scratch.said(&["install"]).starts_with("registered 13 events"), "{script}");
    }
}

// A running client reads its settings anew at once: for it the install is now.
#[test]
fn a_running_client_that_is_too_old_is_named_r_17() {
    let scratch = Scratch::new();
    scratch.write("{}");
    let mut client = std::process::Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = client.id();
    let start_time = process::stat(pid).unwrap().start_time.to_string();
    let entry = serde_json::json!({"pid": pid, "procStart": start_time, "version": "2.0.76"});
    fs::create_dir(scratch.path("home/.claude/sessions")).unwrap();
    let file = scratch.path(&format!("home/.claude/sessions/{pid}.json"));
    fs::write(file, entry.to_string()).unwrap();
    let error = scratch.refused(&["install"]);
    assert!(error.contains(&format!("Claude Code 2.0.76 (pid {pid}, ~/.claude)")), "{error}");
    assert_eq!(scratch.read(), "{}");
    drop(client.stdin.take());
    client.wait().unwrap();
    scratch.said(&["install"]);
}

#[test]
fn what_silences_or_doubles_the_hooks_is_warned_about() {
    let scratch = Scratch::new();
    scratch.write("{\"enabledPlugins\": {\"coord@hub\": true}}");
    let output = scratch.coord(&["install"]);
    assert_eq!(output.status.code(), Some(0));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("enables the plugin coord@hub: each event will be"), "{error}");
    // The other files that the same session reads count as well.
    scratch.write("{\"disableAllHooks\": true}");
    let project = scratch.path("project");
    fs::create_dir_all(project.join(".claude")).unwrap();
    fs::write(project.join(".claude/settings.json"), "{\"disableAllHooks\": true}").unwrap();
    let args = ["install", "--scope", "local", "--project", project.to_str().unwrap(), "--json"];
    let output = scratch.coord(&args);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let warnings: Vec<&str> =
        report["warnings"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("~/.claude/settings.json sets disableAllHooks"));
    assert!(warnings[1].contains("project/.claude/settings.json sets disableAllHooks"));
}

// H-39: who may still call the hooks is told, so that the programs are not taken away under it.
#[test]
fn uninstall_names_the_sessions_that_still_run_h_39() {
    let home = Home::new();
    install(&home);
    let payload = home.tmp().join("payload");
    let event = serde_json::json!({
        "session_id": "5e55-0001", "hook_event_name": "SessionStart", "source": "startup",
        "cwd": "/", "transcript_path": "/t.jsonl",
    });
    fs::write(&payload, event.to_string()).unwrap();
    let client = home.dir().join("claude");
    copy_program("/bin/sh".as_ref(), &client);
    let mut harness = home.command(client);
    harness.args([
        "-c",
        "export CLAUDE_PID=$$; \"$1\" --root \"$2\" <\"$3\"; echo $?; read -r end",
        "sh",
    ]);
    harness.arg(programs().join("coord-hook-session-start")).arg(home.root()).arg(payload);
    harness.env("CLAUDE_CONFIG_DIR", home.config_dir()).env("CLAUDECODE", "1");
    let mut harness = harness.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut code = String::new();
    BufReader::new(harness.stdout.take().unwrap()).read_line(&mut code).unwrap();
    assert_eq!(code, "0\n");

    let (config_dir, other) = (home.config_dir(), home.home().join("other"));
    let uninstall = |dir: &std::path::Path| {
        let args = ["uninstall", "--dry-run", "--config-dir", dir.to_str().unwrap()];
        coord(&home, &args).expect_success().stdout
    };
    let told =
        format!("session 5e55-0001 (pid {}) runs and may still call the hooks", harness.id());
    assert!(uninstall(&config_dir).contains(&told));
    // It reads no settings of another directory.
    fs::create_dir(&other).unwrap();
    fs::copy(config_dir.join("settings.json"), other.join("settings.json")).unwrap();
    assert!(!uninstall(&other).contains("5e55-0001"));
    drop(harness.stdin.take());
    harness.wait().unwrap();
    assert!(!uninstall(&config_dir).contains("5e55-0001"));
}
