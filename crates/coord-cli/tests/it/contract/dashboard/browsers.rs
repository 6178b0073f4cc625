//! The page in real browsers, Debian's Chromium and Firefox, with the cases of tests/browser (W-02 to W-04).

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use coord_model::SessionState;
use coord_tests::coord::{Coordinator, session_when};
use coord_tests::home::Home;
use coord_tests::wait::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::harness::{Harness, Tmux, by_person};
use super::super::wire::{client_event, post, with};
use super::live::{asking, asking_in};
use super::{Page, answerable, started};

const CHROMIUM: &str = "chromium";
const FIREFOX: &str = "firefox";
const FIREFOX_DARK: &str = "firefox-dark";

fn tests() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests"))
}

/// The directory of the packages that the cases use, as `tests/install-browsers` says.
fn packages() -> &'static str {
    static PACKAGES: OnceLock<String> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        let install = Command::new(tests().join("install-browsers")).output().unwrap();
        let [out, err] =
            [install.stdout, install.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(install.status.success(), "tests/install-browsers: {err}");
        out.lines().last().unwrap().to_owned()
    })
}

/// A case in a browser, under way.
struct Case {
    process: Child,
    /// None once it is told to go on no more.
    go: Option<ChildStdin>,
    says: BufReader<ChildStdout>,
    errors: PathBuf,
}

impl Case {
    #[track_caller]
    fn start(home: &Home, name: &str, browser: &str, url: &str) -> Self {
        let errors = home.tmp().join("case-errors");
        let mut command = home.command("node");
        command.arg(tests().join("browser/case.js")).args([name, browser, url]);
        command.env("COORD_TEST_BROWSER", packages()).env("LANG", "C.UTF-8");
        if let Some(into) = std::env::var_os("COORD_TEST_PICTURES").filter(|_| browser == CHROMIUM)
        {
            command.env("COORD_TEST_PICTURES", into);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(fs::File::create(&errors).unwrap());
        let mut process = command.spawn().expect("node; Debian: nodejs");
        let go = process.stdin.take();
        let says = BufReader::new(process.stdout.take().unwrap());
        Self { process, go, says, errors }
    }

    /// Waits until the case has come to this step.
    #[track_caller]
    fn reaches(&mut self, step: &str) {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), step, "{}", fs::read_to_string(&self.errors).unwrap());
    }

    /// Lets it go on from there.
    fn goes_on(&mut self) {
        writeln!(self.go.as_mut().unwrap(), "go").unwrap();
    }

    #[track_caller]
    fn holds(mut self) {
        self.go = None;
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{}", fs::read_to_string(&self.errors).unwrap());
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        // It ends its browser when there is nobody to go on with.
        self.go = None;
        drop(self.process.wait());
    }
}

fn shows(browser: &str) {
    let home = Home::new();
    let (tmux, _coordinator) = answerable(&home);
    let mut harness = Harness::in_tmux(&tmux, "session-one");
    harness.register();
    harness.begin_turn();
    let command = "echo '<script>alert(1)</script>' \u{202e} \u{1b}[2J";
    asking(&home, &mut harness, "Bash", &json!({"command": command}));
    let hostile = json!({"cwd": "/srv/<img src=x onerror=alert(1)>\u{202e}"});
    post(&home, &with(client_event("aaaa2222", "UserPromptSubmit", 1), hostile));
    let page = Page::acts(&home, &tmux);
    Case::start(&home, "shows", browser, &page.url()).holds();
}

/// The client goes on once its hook has printed a decision.
fn goes_on(harness: &mut Harness, tool: &str) -> Value {
    let printed = wait_until("the hook has printed", || {
        let text = harness.background();
        serde_json::from_str(&text).map_err(|_| text)
    });
    harness.register();
    let done = json!({"tool_name": tool, "tool_use_id": "toolu_1", "tool_response": {}});
    assert_eq!(harness.report("PostToolUse", &done), 0);
    printed
}

fn answers(browser: &str) {
    let home = Home::new();
    let (tmux, _coordinator) = answerable(&home);
    let mut first = Harness::in_tmux(&tmux, "session-one");
    first.register();
    first.begin_turn();
    let mut second = Harness::in_tmux(&tmux, "session-two");
    second.register();
    second.begin_turn();
    asking(&home, &mut first, "Bash", &json!({"command": "touch made"}));
    let page = Page::acts(&home, &tmux);
    let mut case = Case::start(&home, "answers", browser, &page.url());
    case.reaches("wrong");
    assert_eq!(first.background(), "", "nothing was sent");
    case.goes_on();
    case.reaches("allowed");
    let printed = goes_on(&mut first, "Bash");
    let decision = &printed["hookSpecificOutput"]["decision"];
    assert_eq!(decision["behavior"], "allow", "{printed}");
    case.goes_on();
    case.reaches("ask");
    let option = |label: &str| json!({"label": label, "description": ""});
    let questions = json!({"questions": [
        {"question": "Which region?", "header": "R", "multiSelect": false, "options": [option("eu-west"), option("us-east")]},
        {"question": "Which tests?", "header": "T", "multiSelect": true, "options": [option("unit"), option("whole")]},
    ]});
    asking(&home, &mut second, "AskUserQuestion", &questions);
    case.goes_on();
    case.reaches("chosen");
    let (code, said) = by_person(&home, &tmux, "coordctl", "attend session-two --name builder");
    assert_eq!(code, 0, "{said}");
    case.goes_on();
    case.reaches("answered");
    let printed = goes_on(&mut second, "AskUserQuestion");
    let answers = &printed["hookSpecificOutput"]["decision"]["updatedInput"]["answers"];
    assert_eq!(answers["Which region?"], "us-east", "{printed}");
    assert_eq!(answers["Which tests?"], "unit, whole", "{printed}");
    case.goes_on();
    case.holds();
}

fn restarts(browser: &str) {
    let (home, coordinator) = started();
    post(&home, &client_event("aaaa1111", "UserPromptSubmit", 1));
    let mut page = Page::looks(&home, &[]);
    let mut case = Case::start(&home, "restarts", browser, &page.url());
    case.reaches("kill");
    coordinator.kill();
    case.goes_on();
    case.reaches("start");
    let _coordinator = Coordinator::start(&home);
    post(&home, &client_event("aaaa1111", "Stop", 2));
    case.goes_on();
    case.reaches("stop");
    let process = page.process.take().unwrap();
    process.signal(Signal::STOP);
    case.goes_on();
    case.reaches("continue");
    post(&home, &client_event("aaaa1111", "UserPromptSubmit", 3));
    process.signal(Signal::CONT);
    case.goes_on();
    case.reaches("end");
    process.signal(Signal::TERM);
    case.goes_on();
    case.holds();
    process.finish().expect_success();
}

/// A session in a project of its own, with an open turn.
fn working(tmux: &Tmux<'_>, name: &str) -> (Harness, Value) {
    let harness = Harness::in_tmux(tmux, &format!("session-{name}"));
    begin_turn(harness, name)
}

fn begin_turn(mut harness: Harness, name: &str) -> (Harness, Value) {
    harness.register();
    let cwd = format!("/home/dev/{name}");
    let start = json!({"source": "startup", "cwd": cwd});
    assert_eq!(harness.report("SessionStart", &start), 0);
    assert_eq!(harness.report("UserPromptSubmit", &json!({"prompt": "x", "cwd": cwd})), 0);
    (harness, json!(cwd))
}

/// One that asks to run a command of several lines.
fn parser(home: &Home, tmux: &Tmux<'_>) -> Harness {
    let (mut harness, cwd) = working(tmux, "parser");
    let command = "rm -rf build &&\n  cargo build --release --package parser --features unicode,serde \\\n    --target-dir build";
    asking_in(home, &mut harness, "Bash", &json!({"command": command}), &cwd);
    harness
}

fn groups(browser: &str) {
    let home = Home::new();
    let (tmux, _coordinator) = answerable(&home);
    // A crashed session leaves its group before a slow browser is up. tmux continues a process that it started itself.
    let (site, _) = begin_turn(Harness::in_shell(&tmux, "session-site").0, "site");
    site.stop();
    session_when(&home, "session-site", "it is suspended", |session| {
        session.state == SessionState::Suspended
    });
    let (mut docs, cwd) = working(&tmux, "docs");
    let option = |label: &str, meaning: &str| json!({"label": label, "description": meaning});
    let questions = json!({"questions": [{
        "question": "Which example comes first?", "header": "Example", "multiSelect": false,
        "options": [option("A crash", "It shows what coord is for"), option("A prompt", "It is shorter")],
    }]});
    asking_in(&home, &mut docs, "AskUserQuestion", &questions, &cwd);
    let _parser = parser(&home, &tmux);
    for (name, event) in [
        ("tests", "PostToolUse"),
        ("billing-api", "PostToolUse"),
        ("release-notes-for-the-next-version", "PostToolUse"),
        ("notes", "Stop"),
        ("nightly", "SessionEnd"),
    ] {
        let cwd = json!({"cwd": format!("/home/dev/{name}")});
        for (n, event) in (1..).zip(["SessionStart", "UserPromptSubmit", event]) {
            post(&home, &with(client_event(name, event, n), cwd.clone()));
        }
    }
    let page = Page::acts(&home, &tmux);
    Case::start(&home, "groups", browser, &page.url()).holds();
    site.kill();
}

fn many(browser: &str) {
    let home = Home::new();
    let (tmux, _coordinator) = answerable(&home);
    for n in 1..500 {
        let cwd = json!({"cwd": format!("/home/dev/project-{n}")});
        post(&home, &with(client_event(&format!("{n:08x}"), "UserPromptSubmit", 1), cwd));
    }
    let _parser = parser(&home, &tmux);
    let page = Page::acts(&home, &tmux);
    let mut case = Case::start(&home, "many", browser, &page.url());
    case.reaches("change");
    post(&home, &client_event("00000007", "Stop", 2));
    case.goes_on();
    case.holds();
}

fn enters(browser: &str) {
    let (home, _coordinator) = started();
    let page = Page::looks(&home, &[]);
    Case::start(&home, "enters", browser, &page.url()).holds();
}

#[test]
fn w_04_chromium_shows_the_list_a_session_and_its_request() {
    shows(CHROMIUM);
}

#[test]
fn w_04_firefox_shows_the_list_a_session_and_its_request() {
    shows(FIREFOX);
}

#[test]
fn w_03_requests_are_answered_by_keyboard_in_chromium() {
    answers(CHROMIUM);
}

#[test]
fn w_03_requests_are_answered_by_keyboard_in_firefox() {
    answers(FIREFOX);
}

#[test]
fn w_04_chromium_goes_on_after_a_restart() {
    restarts(CHROMIUM);
}

#[test]
fn w_04_firefox_goes_on_after_a_restart() {
    restarts(FIREFOX);
}

#[test]
fn w_02_chromium_shows_every_group() {
    groups(CHROMIUM);
}

#[test]
fn w_02_firefox_shows_every_group() {
    groups(FIREFOX);
}

#[test]
fn w_02_firefox_shows_every_group_in_the_dark() {
    groups(FIREFOX_DARK);
}

#[test]
fn w_04_chromium_shows_500_sessions() {
    many(CHROMIUM);
}

#[test]
fn w_04_firefox_shows_500_sessions() {
    many(FIREFOX);
}

#[test]
fn h_28_a_code_is_entered_once_in_chromium() {
    enters(CHROMIUM);
}

#[test]
fn h_28_a_code_is_entered_once_in_firefox() {
    enters(FIREFOX);
}
