//! `coord install --statusline` (N-08): only the token of the command changes, the former one comes back byte for byte, and
//! the client's shell runs it as before.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use coord_tests::coord::programs;
use coord_tests::process::copy_program;
use serde_json::Value;

use super::scratch::Scratch;

/// Settings with a status line, each written in another way.
const WITH: [(&str, &str); 12] = [
    (
        "plain",
        "{\n  \"statusLine\": {\n    \"type\": \"command\",\n    \"command\": \"my-line\"\n  }\n}\n",
    ),
    (
        "padding and interval",
        "{\"statusLine\": {\"type\": \"command\", \"command\": \"a b\", \"padding\": 0, \"refreshInterval\": 5}}",
    ),
    (
        "command first",
        "{\"statusLine\":{\"command\":\"x\",\"type\":\"command\"},\"model\":\"opus\"}",
    ),
    (
        "carriage returns",
        "{\r\n\t\"statusLine\": {\r\n\t\t\"type\": \"command\",\r\n\t\t\"command\" : \"x\"\r\n\t}\r\n}",
    ),
    (
        "escapes",
        r#"{"statusLine":{"type":"command","command":"printf '\u00e9 \/ \u0041 \ud83d\ude00'"}}"#,
    ),
    (
        "letters beyond ASCII",
        "{\"statusLine\":{\"type\":\"command\",\"command\":\"printf 'é 😀'\"}}",
    ),
    (
        "quotes",
        r#"{"statusLine":{"type":"command","command":"printf '%s' \"it's\" '\\' $HOME `id`"}}"#,
    ),
    (
        "lines",
        r#"{"statusLine":{"type":"command","command":"read -r x\nprintf '%s\\n' \"$x\"\r\n\texit 3"}}"#,
    ),
    ("empty", r#"{"statusLine":{"type":"command","command":""}}"#),
    (
        "beside hooks",
        r#"{"hooks":{"Stop":[]},"statusLine":{"type":"command","command":"x"},"env":{}}"#,
    ),
    (
        "a command that names coord",
        r#"{"statusLine":{"type":"command","command":"coord statusline -- x"}}"#,
    ),
    (
        "escaped names",
        r#"{"statusLine":{"type":"command","c\u006fmmand":"x","a":{"command":"y"}}}"#,
    ),
];

/// Settings without one.
const WITHOUT: [&str; 7] = [
    "{}",
    "{\n}\n",
    "{\"model\": \"opus\"}",
    "{\r\n  \"model\": \"opus\"\r\n}\r\n",
    "{\n\t\"hooks\": {\n\t\t\"Stop\": []\n\t}\n}",
    "\u{feff}{ \"a\": {\"statusLine\": 7} }",
    "{\"z\":1,\n \"y\":[]}",
];

fn command(text: &str) -> Option<String> {
    let settings: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap();
    settings["statusLine"]["command"].as_str().map(str::to_owned)
}

/// Install three times, of which one without the option, and uninstall once.
#[track_caller]
fn goes_there_and_back(scratch: &Scratch, name: &str, before: &str) -> String {
    scratch.write(before);
    let said = scratch.said(&["install", "--statusline"]);
    assert!(said.starts_with("registered 13 events and the status line in "), "{name}: {said}");
    let registered = scratch.read();
    for again in [&["install"][..], &["install", "--statusline"]] {
        let said = scratch.said(again);
        assert!(said.contains("nothing changed"), "{name}: {said}");
        assert_eq!(scratch.read(), registered, "{name}");
    }
    let said = scratch.said(&["uninstall"]);
    assert!(said.starts_with("removed 13 events and the status line from "), "{name}: {said}");
    assert_eq!(scratch.read(), before, "{name}");
    registered
}

// N-08, G8
#[test]
fn n_08_the_former_entry_comes_back_byte_for_byte() {
    let scratch = Scratch::new();
    for (name, before) in WITH {
        let registered = goes_there_and_back(&scratch, name, before);
        let ours = command(&registered).unwrap();
        let program = scratch.path("pre fix/lib/coord/coord-hook-statusline");
        assert!(ours.starts_with(&format!("exec '{}' --config ", program.display())), "{ours}");
        assert!(ours.contains(" -- /bin/sh -c "), "{ours}");
        let rest = |text: &str| {
            let mut settings: Value = serde_json::from_str(text).unwrap();
            settings["statusLine"]["command"].take();
            settings["statusLine"].take()
        };
        assert_eq!(rest(&registered), rest(before), "{name}");
    }
    assert_eq!(scratch.n_config_files(), 1, "the settings alone");
}

// N-08, G8
#[test]
fn n_08_an_entry_that_was_added_leaves_again() {
    let scratch = Scratch::new();
    for before in WITHOUT {
        let registered = goes_there_and_back(&scratch, before, before);
        assert!(!command(&registered).unwrap().contains("--former"), "{registered}");
        assert!(!command(&registered).unwrap().contains(" -- "), "{registered}");
    }
    fs::remove_file(scratch.settings()).unwrap();
    let said = scratch.said(&["install", "--statusline"]);
    assert!(said.ends_with("(new file)\n"), "{said}");
    assert!(command(&scratch.read()).is_some());
    scratch.said(&["uninstall"]);
    assert!(!scratch.settings().exists(), "it held nothing else");
}

// N-08, G8: a link stays one.
#[test]
fn n_08_the_settings_may_be_a_link() {
    let scratch = Scratch::new();
    let target = scratch.path("home/dotfiles.json");
    fs::write(&target, WITH[0].1).unwrap();
    symlink(&target, scratch.settings()).unwrap();
    scratch.said(&["install", "--statusline"]);
    assert!(fs::read_to_string(&target).unwrap().contains("coord-hook-statusline"));
    scratch.said(&["uninstall"]);
    assert!(scratch.settings().is_symlink());
    assert_eq!(fs::read_to_string(&target).unwrap(), WITH[0].1);
}

// N-08: without the option, the status line stays as it is; what is registered follows a moved prefix.
#[test]
fn n_08_a_plain_install_registers_nothing_and_updates_paths() {
    let scratch = Scratch::new();
    let before = WITH[4].1;
    scratch.write(before);
    scratch.said(&["install"]);
    assert_eq!(command(&scratch.read()), command(before));
    scratch.said(&["install", "--statusline"]);
    let moved = scratch.read().replace("pre fix/lib", "elsewhere/lib");
    scratch.write(&moved);
    scratch.said(&["install"]);
    assert!(!scratch.read().contains("elsewhere/lib"), "{}", scratch.read());
    scratch.said(&["uninstall"]);
    assert_eq!(scratch.read(), before);
    // The client writes the whole file anew when a setting is changed in it.
    scratch.said(&["install", "--statusline"]);
    let settings: Value = serde_json::from_str(&scratch.read()).unwrap();
    scratch.write(&serde_json::to_string_pretty(&settings).unwrap());
    scratch.said(&["uninstall"]);
    assert!(
        scratch.read().contains(r#""printf '\u00e9 \/ \u0041 \ud83d\ude00'""#),
        "{}",
        scratch.read()
    );
}

// N-08: what cannot be kept as it is, is refused, and nothing changes.
#[test]
fn n_08_what_is_no_command_is_refused() {
    let scratch = Scratch::new();
    for before in [
        r#"{"statusLine": null}"#,
        r#"{"statusLine": "my-line"}"#,
        r#"{"statusLine": {"type": "static", "command": "x"}}"#,
        r#"{"statusLine": {"type": "command"}}"#,
        r#"{"statusLine": {"type": "command", "command": ["x"]}}"#,
        r#"{"statusLine": {"type": "command", "command": "x", "command": "y"}}"#,
        r#"{"statusLine": {"type": "command", "command": "x\u0000y"}}"#,
        r#"{"statusLine": {"type": "command", "command": "exec /x/coord-hook-statusline | tee y"}}"#,
        "{\n  // mine\n  \"statusLine\": {\"type\": \"command\", \"command\": \"x\"}\n}",
    ] {
        scratch.write(before);
        let line = scratch.refused(&["install", "--statusline"]);
        assert!(line.contains("settings.json:") && line.contains("nothing was changed"), "{line}");
        assert_eq!(scratch.read(), before);
    }
    assert!(!scratch.path("home/.local/state").exists());
}

// N-08: the client shows one status line only, so that of a project would hide that of its user.
#[test]
fn n_08_a_status_line_of_another_file_is_not_hidden() {
    let scratch = Scratch::new();
    scratch.write(WITH[0].1);
    fs::create_dir_all(scratch.path("home/project/.claude")).unwrap();
    let project = scratch.path("home/project");
    let local =
        ["install", "--statusline", "--scope", "local", "--project", project.to_str().unwrap()];
    let line = scratch.refused(&local);
    assert!(line.contains("would hide the one in ~/.claude/settings.json"), "{line}");
    let own = project.join(".claude/settings.local.json");
    fs::write(&own, WITH[2].1).unwrap();
    scratch.said(&local);
    assert!(fs::read_to_string(&own).unwrap().contains("coord-hook-statusline"));
    assert_eq!(scratch.read(), WITH[0].1);
}

/// What the client's shell makes of a command.
fn run(scratch: &Scratch, command: &str, input: &str) -> (Option<i32>, Vec<u8>, Vec<u8>) {
    let mut child = Command::new("/bin/sh");
    child.args(["-c", command]).env_clear().current_dir("/");
    child.env("PATH", "/usr/bin:/bin").env("HOME", scratch.path("home"));
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    // It may end without having read it.
    let _ended_early = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), output.stdout, output.stderr)
}

// N-08: the registered command does what the former one did, in the real program.
#[test]
fn n_08_the_registered_command_does_what_the_former_one_did() {
    let scratch = Scratch::new();
    let program = "coord-hook-statusline";
    copy_program(&programs().join(program), &scratch.path("pre fix/lib/coord").join(program));
    let input = "{\"session_id\":\"s\",\"model\":{\"id\":\"m\"}}\r\n";
    for (name, before) in WITH {
        scratch.write(before);
        scratch.said(&["install", "--statusline"]);
        let Some(own) = command(before) else { continue };
        let ours = command(&scratch.read()).unwrap();
        assert_eq!(run(&scratch, &ours, input), run(&scratch, &own, input), "{name}: {ours}");
        scratch.said(&["uninstall"]);
    }
    scratch.write("{}");
    scratch.said(&["install", "--statusline"]);
    let alone = command(&scratch.read()).unwrap();
    assert_eq!(run(&scratch, &alone, input), (Some(0), Vec::new(), Vec::new()));
}
