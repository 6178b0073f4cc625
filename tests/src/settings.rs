//! Claude Code's `settings.json` for a test: hooks that write down what the client sent. coord's own
//! come by `coord install`.

use crate::home::Home;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The events that coord registers: hooks.json has the one list.
pub fn events() -> Vec<String> {
    let file: Value =
        serde_json::from_str(include_str!("../../hooks.json")).expect("hooks.json is JSON");
    let hooks = file["hooks"].as_object().expect("hooks.json has hooks");
    hooks.keys().cloned().collect()
}

/// Seconds a hook may take before the client ends it.
const TIMEOUT_S: u32 = 60;

/// The hooks of one `settings.json`.
#[derive(Debug, Default)]
pub struct Settings {
    hooks: Map<String, Value>,
}

impl Settings {
    /// No hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one hook entry to an event.
    #[must_use]
    pub fn hook(mut self, event: &str, entry: &Value) -> Self {
        let groups = self.hooks.entry(event).or_insert_with(|| json!([]));
        groups.as_array_mut().expect("made as an array").push(json!({"hooks": [entry]}));
        self
    }

    /// Adds a hook to every event that appends the client's payload to `capture`.
    #[must_use]
    pub fn capture(self, capture: &Capture) -> Self {
        // One line, one write, in append mode: concurrent hooks do not mix.
        let entry = shell(&format!("exec cat >> '{}'", capture.file.display()));
        events().iter().fold(self, |settings, event| settings.hook(event, &entry))
    }

    /// Writes the file.
    #[track_caller]
    pub fn write(self, home: &Home) {
        let text = json!({"hooks": self.hooks}).to_string();
        std::fs::write(home.config_dir().join("settings.json"), text).expect("write settings.json");
    }
}

fn shell(command: &str) -> Value {
    json!({"type": "command", "command": command, "timeout": TIMEOUT_S})
}

/// What the client sent to its hooks, in the order in which they ran.
#[derive(Debug)]
pub struct Capture {
    file: PathBuf,
}

impl Capture {
    /// An empty one.
    pub fn new(home: &Home) -> Self {
        Self { file: home.dir().join("capture.jsonl") }
    }

    /// Where a hook appends what it is given.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The payloads.
    #[track_caller]
    pub fn payloads(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        // A hook may be at its write right now; what has no line end yet has not arrived.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| serde_json::from_str(line).expect("a payload is JSON")).collect()
    }

    /// The events' names.
    #[track_caller]
    pub fn events(&self) -> Vec<String> {
        let name = |payload: Value| payload["hook_event_name"].as_str().unwrap_or("?").to_owned();
        self.payloads().into_iter().map(name).collect()
    }

    /// The payload of the first event of that name.
    #[track_caller]
    pub fn first(&self, event: &str) -> Value {
        let mut payloads = self.payloads().into_iter();
        let found = payloads.find(|payload| payload["hook_event_name"] == event);
        found.unwrap_or_else(|| panic!("no {event} among {:?}", self.events()))
    }
}
