//! One run's place, and what stands in its file.

use coord_model::stamp::parse_rfc3339;
use coord_tests::coord::programs;
use coord_tests::home::Home;
use coord_tests::process::{Finished, Running};
use coord_tests::wait::{PATIENCE, readable, wait_until};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// The conversation that the fake agent says it is.
pub(crate) const SESSION: &str = "5f0c54e5-7f0b-4d3a-9c37-3f0c1e9c8d11";

/// How long something that is not to happen is waited for.
pub(crate) const A_WHILE: Duration = Duration::from_millis(1_500);

/// A home, and in it one run.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) home: Home,
}

impl Case {
    /// All clocks as they are by default, but for these.
    #[track_caller]
    pub(crate) fn new(clocks: &[(&str, &str)]) -> Self {
        let home = Home::new();
        let mut config = "[run]\n".to_owned();
        for (key, value) in clocks {
            writeln!(config, "{key} = \"{value}\"").expect("a string takes everything");
        }
        home.write_config(&config);
        Self { home }
    }

    /// A file of the test's own.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.home.tmp().join(name)
    }

    /// `coord run OPTIONS -- COMMAND`.
    pub(crate) fn run(&self, options: &[&str], command: &[&str]) -> Command {
        let mut run = self.home.command(programs().join("coord"));
        run.arg("run").args(options).arg("--").args(command);
        run.env("COORD_HOME", self.home.root()).stdin(Stdio::null());
        run
    }

    /// `coord run OPTIONS -- fake-agent STEPS`; a step `@NAME` is a file of the test's own.
    pub(crate) fn agent(&self, options: &[&str], steps: &[&str]) -> Command {
        let steps: Vec<String> = steps.iter().map(|step| self.word(step)).collect();
        let words: Vec<&str> =
            [AGENT, "stream-json"].into_iter().chain(steps.iter().map(String::as_str)).collect();
        self.run(options, &words)
    }

    fn word(&self, step: &str) -> String {
        let file = |name| self.file(name).to_string_lossy().into_owned();
        step.strip_prefix('@').map_or_else(|| step.to_owned(), file)
    }

    /// Starts it.
    #[track_caller]
    pub(crate) fn start(&self, command: Command) -> Running {
        Running::start(command, &self.home.tmp(), "run")
    }

    /// Starts the agent, as its user would.
    #[track_caller]
    pub(crate) fn start_agent(&self, options: &[&str], steps: &[&str]) -> Running {
        self.start(self.agent(options, steps))
    }

    /// Starts it and waits for its end.
    #[track_caller]
    pub(crate) fn finish(&self, options: &[&str], steps: &[&str]) -> Finished {
        self.start_agent(options, steps).finish()
    }

    /// Waits until the agent made a file.
    #[track_caller]
    pub(crate) fn wait_file(&self, name: &str) -> String {
        wait_until(&format!("the agent made {name}"), || {
            std::fs::read_to_string(self.file(name)).map_err(|error| (error, self.notes()))
        })
    }

    /// Lets the agent go on.
    #[track_caller]
    pub(crate) fn make_file(&self, name: &str) {
        std::fs::write(self.file(name), "go on").expect("write a file");
    }

    /// The process whose pid the agent wrote.
    #[track_caller]
    pub(crate) fn process(&self, name: &str) -> Other {
        let pid = self.wait_file(name).trim().parse().expect("a pid is a number");
        Other::of(pid)
    }

    /// The run's file: nothing while there is none.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        let files = self.files();
        assert!(files.len() < 2, "{files:?}");
        let Some(file) = files.first() else { return Vec::new() };
        let text = std::fs::read_to_string(file).expect("read the run's file");
        // Its supervisor may be at its write right now.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| serde_json::from_str(line).expect("JSON lines")).collect()
    }

    /// The runs' files.
    #[track_caller]
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.runs_dir()) else { return Vec::new() };
        let files = entries.map(|entry| entry.expect("read a directory").path());
        files.filter(|file| file.extension().is_some_and(|end| end == "jsonl")).collect()
    }

    /// Where they lie.
    pub(crate) fn runs_dir(&self) -> PathBuf {
        self.home.paths().state.join("runs")
    }

    /// Names of its notes.
    pub(crate) fn notes(&self) -> Vec<String> {
        let lines = self.lines();
        let notes = lines.iter().filter(|line| line["kind"] == "note");
        notes.map(|note| note["name"].as_str().unwrap_or("?").to_owned()).collect()
    }

    /// Why a note was made.
    #[track_caller]
    pub(crate) fn because(&self, name: &str) -> String {
        let lines = self.lines();
        let note = lines.iter().find(|line| line["kind"] == "note" && line["name"] == name);
        let note = note.unwrap_or_else(|| panic!("no {name} in {lines:#?}"));
        note["because"].as_str().expect("a note says why").to_owned()
    }

    /// Whether somebody is to read that note.
    #[track_caller]
    pub(crate) fn is_warning(&self, name: &str) -> bool {
        let lines = self.lines();
        let note = lines.iter().find(|line| line["kind"] == "note" && line["name"] == name);
        let note = note.unwrap_or_else(|| panic!("no {name} in {lines:#?}"));
        note["warning"].as_bool().expect("a note is a warning or none")
    }

    /// What was shown of it last.
    #[track_caller]
    pub(crate) fn run_shown(&self) -> Value {
        let lines = self.lines();
        let shown = lines.iter().rfind(|line| line["kind"] == "state");
        shown.unwrap_or_else(|| panic!("nothing shown in {lines:#?}")).clone()
    }

    /// Waits until it was shown as held by this.
    #[track_caller]
    pub(crate) fn wait_hold(&self, reason: &str) {
        wait_until(&format!("the run is held by {reason}"), || {
            let lines = self.lines();
            let is_held = lines.iter().any(|line| line["hold"]["reason"] == reason);
            if is_held { Ok(()) } else { Err(lines) }
        });
    }

    /// How long it took.
    #[track_caller]
    pub(crate) fn took_ms(&self) -> u64 {
        self.ended()["took_ms"].as_u64().expect("it says how long it took")
    }

    /// What it left behind.
    #[track_caller]
    pub(crate) fn left(&self) -> Vec<String> {
        let ended = self.ended();
        let left = ended["left"].as_array().expect("it says what it left").iter();
        left.map(|left| left.as_str().expect("pid and program").to_owned()).collect()
    }

    /// When it noted that first, milliseconds since 1970.
    #[track_caller]
    pub(crate) fn noted_ms(&self, name: &str) -> u64 {
        let lines = self.lines();
        let note = lines.iter().find(|line| line["kind"] == "note" && line["name"] == name);
        let at = note.and_then(|note| note["at"].as_str()).and_then(parse_rfc3339);
        at.unwrap_or_else(|| panic!("no {name} with its time in {lines:#?}"))
    }

    /// When a file of the test's own was made, milliseconds since 1970.
    #[track_caller]
    pub(crate) fn made_ms(&self, name: &str) -> u64 {
        let made = std::fs::metadata(self.file(name)).and_then(|file| file.modified());
        let since = made.expect("the file is there").duration_since(SystemTime::UNIX_EPOCH);
        u64::try_from(since.expect("after 1970").as_millis()).expect("it fits")
    }

    /// How often it noted that.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.notes().iter().filter(|note| *note == name).count()
    }

    /// Waits until it noted that.
    #[track_caller]
    pub(crate) fn wait_note(&self, name: &str) {
        self.wait_count(name, 1);
    }

    /// Waits until it noted that so often.
    #[track_caller]
    pub(crate) fn wait_count(&self, name: &str, count: usize) {
        wait_until(&format!("the run noted {name} {count} times"), || {
            if count <= self.count(name) { Ok(()) } else { Err(self.notes()) }
        });
    }

    /// The last line of its file: how it ended.
    #[track_caller]
    pub(crate) fn ended(&self) -> Value {
        let lines = self.lines();
        let ended = lines.iter().rfind(|line| line["kind"] == "ended");
        ended.unwrap_or_else(|| panic!("no end in {lines:#?}")).clone()
    }

    /// It ended for this reason and came to this.
    #[track_caller]
    pub(crate) fn assert_ended(&self, reason: &str, outcome: &str) {
        let ended = self.ended();
        assert_eq!(
            (&ended["reason"], &ended["outcome"]),
            (&reason.into(), &outcome.into()),
            "{:#?}",
            self.lines()
        );
    }

    /// Nobody decided to end it.
    #[track_caller]
    pub(crate) fn assert_not_forced(&self) {
        for name in ["end_decided", "sigterm_after_timeout", "sigkill_after_grace"] {
            assert_eq!(self.count(name), 0, "{:#?}", self.lines());
        }
    }

    /// These notes in this order, whatever is in between.
    #[track_caller]
    pub(crate) fn assert_order(&self, names: &[&str]) {
        let notes = self.notes();
        let mut left = notes.iter();
        for name in names {
            assert!(left.any(|note| note == name), "{name} is not where it belongs: {notes:#?}");
        }
    }
}

/// A process that is not the test's child.
#[derive(Debug)]
pub(crate) struct Other {
    pub(crate) pid: i32,
    /// None if it was gone when it was looked for.
    pidfd: Option<OwnedFd>,
}

impl Other {
    /// The one with this pid.
    #[track_caller]
    pub(crate) fn of(pid: i32) -> Self {
        let known = Pid::from_raw(pid).expect("a pid is not 0");
        Self { pid, pidfd: pidfd_open(known, PidfdFlags::empty()).ok() }
    }

    fn is_gone_within(&self, limit: Duration) -> bool {
        self.pidfd.as_ref().is_none_or(|pidfd| readable(pidfd, limit))
    }

    /// Whether it is gone already.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone_within(Duration::ZERO)
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait(&self) {
        assert!(self.is_gone_within(PATIENCE), "{} lives on", self.pid);
    }

    /// It lives on for a while.
    #[track_caller]
    pub(crate) fn assert_lives(&self) {
        assert!(!self.is_gone_within(Duration::from_millis(300)), "{} is gone", self.pid);
    }
}

/// The agent.
pub(crate) const AGENT: &str = env!("CARGO_BIN_EXE_fake-agent");
