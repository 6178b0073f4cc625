//! An installation under another HOME, other XDG directories and another prefix, with blanks, quotes
//! and letters beyond ASCII in every path: the entries are run as the client runs them, and the event
//! arrives (R-17, H-24).

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coord_tests::coord::{HOOKS, programs};
use coord_tests::process::copy_program;
use serde_json::{Value, json};

/// Where everything is, below one directory.
struct Place {
    directory: tempfile::TempDir,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Place {
    fn new(names: &[(&'static str, &str)]) -> Self {
        let directory = tempfile::Builder::new().prefix("Büro \"1\" ").tempdir().unwrap();
        let below = |name: &str| directory.path().join(name);
        let variables = names.iter().map(|(variable, name)| (*variable, below(name))).collect();
        let place = Self { directory, variables };
        for (_, path) in &place.variables {
            fs::create_dir_all(path).unwrap();
        }
        let hooks = place.prefix().join("lib/coord");
        fs::create_dir_all(&hooks).unwrap();
        fs::create_dir_all(place.prefix().join("bin")).unwrap();
        copy_program(&programs().join("coord"), &place.prefix().join("bin/coord"));
        for name in HOOKS {
            copy_program(&programs().join(name), &hooks.join(name));
        }
        place
    }

    fn prefix(&self) -> PathBuf {
        self.directory.path().join("Präfix $HOME 'x'")
    }

    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).current_dir("/");
        command.envs(self.variables.iter().map(|(name, path)| (name, path)));
        command
    }

    #[track_caller]
    fn coord(&self, args: &[&str]) -> String {
        let program = self.prefix().join("bin/coord");
        let output = self.command(program).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the entry of an event as the client does: the program itself, its arguments as they are.
    #[track_caller]
    fn run_entry(&self, settings: &Path, event: &str, session: &str) {
        let settings: Value = serde_json::from_slice(&fs::read(settings).unwrap()).unwrap();
        let entry = &settings["hooks"][event][0]["hooks"][0];
        let args = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        let mut child = self
            .command(entry["command"].as_str().unwrap())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let payload = json!({
            "session_id": session, "hook_event_name": event, "cwd": "/", "source": "startup",
            "transcript_path": "/t.jsonl",
        });
        child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!((output.stdout, output.stderr), (Vec::new(), Vec::new()));
    }

    #[track_caller]
    fn proves_itself(&self, settings: &Path, install: &[&str]) {
        self.coord(&[&["install"][..], install].concat());
        for event in ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"] {
            self.run_entry(settings, event, "5e55-0001");
        }
        let inspect: Value = serde_json::from_str(&self.coord(&["inspect", "--json"])).unwrap();
        assert_eq!(inspect["coordinator"]["spool_pending"], 4, "{inspect}");
        assert_eq!(inspect["sessions"][0]["session_id"], "5e55-0001");
        assert_eq!(inspect["sessions"][0]["last_event"]["name"], "Stop");
        self.coord(&[&["uninstall"][..], install].concat());
        assert!(!settings.exists(), "it held nothing else");
    }
}

#[test]
fn another_home_and_prefix_with_strange_names_h_24() {
    let place = Place::new(&[("HOME", "Zuhause ü")]);
    let settings = place.directory.path().join("Zuhause ü/.claude/settings.json");
    place.proves_itself(&settings, &[]);
    assert!(place.directory.path().join("Zuhause ü/.local/state/coord").is_dir());
}

#[test]
fn other_xdg_directories_with_strange_names_h_24() {
    let place = Place::new(&[
        ("HOME", "home"),
        ("XDG_STATE_HOME", "Zustand ❯"),
        ("XDG_CONFIG_HOME", "Einstellungen"),
        ("XDG_RUNTIME_DIR", "Laufzeit\tx"),
        ("CLAUDE_CONFIG_DIR", "claude dir"),
    ]);
    let settings = place.directory.path().join("claude dir/settings.json");
    place.proves_itself(&settings, &[]);
    assert!(place.directory.path().join("Zustand ❯/coord").is_dir());
    assert!(!place.directory.path().join("home/.local").exists());
    assert!(!place.directory.path().join("home/.claude").exists());
}

/// The root reaches the hooks by their arguments alone: nothing in their environment says it.
#[test]
fn a_root_with_a_strange_name_h_24() {
    let place = Place::new(&[("HOME", "home")]);
    let root = place.directory.path().join("Wurzel 根");
    let settings = place.directory.path().join("home/.claude/settings.json");
    let root_args = ["--root", root.to_str().unwrap()];
    place.coord(&[&["install"][..], &root_args].concat());
    place.run_entry(&settings, "SessionStart", "5e55-0002");
    let inspect = place.coord(&[&["inspect", "--json"][..], &root_args].concat());
    assert!(inspect.contains("5e55-0002"), "{inspect}");
    place.coord(&[&["uninstall", "--purge"][..], &root_args].concat());
    assert!(!settings.exists() && !root.join("state").exists());
}
