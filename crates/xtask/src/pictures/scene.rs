//! The scene of the pictures: real clients in the panes of a tmux server of its own, whose model is a fake one, and a
//! real coordinator beside them. All of it is in a temporary home, and ends with the scene.

use anyhow::{Context, bail};
use coord_model::SessionState;
use coord_tests::client::VERSION;
use coord_tests::fake_api::{FakeApi, Turn};
use coord_tests::home::Home;
use coord_tests::process::{Running, run};
use coord_tests::terminal::{Pane, Terminal};
use coord_tests::wait::wait_until;
use coord_wire::inspect::{Inspect, Session};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Each client asks before it does something, but not for what its project allows.
const ASKS: [&str; 2] = ["--permission-mode", "manual"];
const MAY_RUN: [&str; 4] = ["--permission-mode", "manual", "--allowedTools", "Bash"];
/// The sessions, and the tmux sessions in which each has a window.
const SESSIONS: [(&str, &str); 6] = [
    ("work", "notes"),
    ("work", "docs"),
    ("work", "nightly"),
    ("web", "site"),
    ("work", "tests"),
    ("work", "parser"),
];
/// The viewer's pane, as large as the pictures need.
const VIEWER: [&str; 8] = ["new-session", "-d", "-s", "viewer", "-x", "80", "-y", "30"];
const PASSPHRASE: &str = "correct horse battery";
/// What shows that a question is open, and that a permission dialog is.
const QUESTION: &str = "Enter to select";
const DIALOG: &str = "Do you want to proceed?";

/// Fields go in this order.
#[derive(Debug)]
pub(super) struct Scene {
    serve: Running,
    terminal: Terminal,
    api: FakeApi,
    programs: PathBuf,
    /// Between two steps.
    pause: Duration,
    pub(super) home: Home,
}

impl Scene {
    /// Registers the hooks, and starts a coordinator and a terminal. Programs are in that directory.
    pub(super) fn open(programs: &Path, pause: Duration) -> anyhow::Result<Self> {
        let home = Home::new();
        make_projects(&home)?;
        let mut install = home.command(programs.join("coord"));
        install.env("COORD_HOME", home.root()).arg("install");
        install.arg("--hooks-dir").arg(programs).arg("--config-dir").arg(home.config_dir());
        run(install, &home.tmp(), "install").expect_success();
        home.write_config(&format!(
            "[tracking]\nconfig_dirs = ['{}']\ntmux_sockets = ['{}']\n[approvals]\nremote = true\n",
            home.config_dir().display(),
            Terminal::socket(&home).display()
        ));
        let mut serve = home.command(programs.join("coord"));
        serve.arg("serve").arg("--root").arg(home.root()).current_dir("/").stdin(Stdio::null());
        let serve = Running::start(serve, &home.tmp(), "serve");
        let api = FakeApi::start(turns());
        let terminal = Terminal::start(&home, &api);
        Ok(Self { serve, terminal, api, programs: programs.to_owned(), pause, home })
    }

    /// Brings each session into its state, the first one earliest.
    pub(super) fn play(&self) -> anyhow::Result<()> {
        let notes = self.starts("notes", &ASKS)?;
        self.prompts(&notes, "Sum up the meeting");
        self.passes("notes", SessionState::Idle, has_answered)?;
        let docs = self.starts("docs", &ASKS)?;
        self.prompts(&docs, "Write the guide");
        docs.wait_screen(QUESTION);
        self.passes("docs", SessionState::AwaitingInput, |_| true)?;
        let nightly = self.starts("nightly", &MAY_RUN)?;
        self.prompts(&nightly, "Serve the report");
        self.passes("nightly", SessionState::Background, |_| true)?;
        self.crashes("site")?;
        let tests = self.starts("tests", &MAY_RUN)?;
        self.prompts(&tests, "Find the flaky tests");
        self.api.wait_for_nth("SUBTASK", 3);
        self.passes("tests", SessionState::Running, |_| true)?;
        let parser = self.starts("parser", &ASKS)?;
        self.prompts(&parser, "Build it anew");
        parser.wait_screen(DIALOG);
        self.passes("parser", SessionState::AwaitingPermission, |_| true)
    }

    /// Kills a client in a turn. A person watches the session, so it is theirs to bring back.
    fn crashes(&self, name: &str) -> anyhow::Result<()> {
        let pane = self.starts(name, &ASKS)?;
        let pid = pane.client_pid();
        self.prompts(&pane, "Rebuild the site");
        self.when_so(name, SessionState::Idle, has_answered)?;
        self.prompts(&pane, "Publish it");
        self.when(name, SessionState::Running)?;
        let pid = Pid::from_raw(i32::try_from(pid)?).context("a pid")?;
        kill_process(pid, Signal::KILL)?;
        self.passes(name, SessionState::Crashed, |session| session.need.is_some())
    }

    /// Opens the pane in which the pictures are taken, where coord's programs are found and prompts can be answered.
    pub(super) fn viewer(&self) -> Pane {
        let home = self.home.home();
        let home = home.to_string_lossy();
        let pane = self.pane(&VIEWER, &home);
        let line = format!(
            "export COORD_HOME='{}' PATH='{}':\"$PATH\" PS1='$ ' HISTFILE=",
            self.home.root().display(),
            self.programs.display()
        );
        pane.command(&line);
        for (line, asked, done) in [
            ("coordctl passphrase", &["New passphrase:", "Repeat the new"][..], "Passphrase set"),
            ("coordctl passphrase --unlock", &["Passphrase:"], "unlocked for 8 hours"),
        ] {
            pane.command(line);
            for prompt in asked {
                pane.wait_screen(prompt);
                pane.type_text(PASSPHRASE);
                pane.keys(&["Enter"]);
            }
            pane.wait_screen(done);
        }
        pane
    }

    /// Changes the viewer's size.
    pub(super) fn resize(&self, columns: usize, rows: usize) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.terminal.tell(&["resize-window", "-t", "viewer", "-x", &columns, "-y", &rows]);
    }

    /// What a pane shows, with its colours.
    pub(super) fn capture(&self, pane: &Pane) -> String {
        self.terminal.tell(&["capture-pane", "-e", "-p", "-t", pane.id()])
    }

    /// Starts a session's client in a window of its own.
    fn starts(&self, name: &str, arguments: &[&str]) -> anyhow::Result<Pane> {
        let known = SESSIONS.iter().find(|(_, of)| *of == name);
        let (session, _) = known.context("a session")?;
        let folder = self.home.home().join(name);
        let is_first = SESSIONS.iter().find(|(of, _)| of == session) == known;
        let target = format!("{session}:");
        let opens = if is_first {
            ["new-session", "-d", "-s", *session, "-n", name, "-x", "100", "-y", "40"].to_vec()
        } else {
            ["new-window", "-d", "-t", &target, "-n", name].to_vec()
        };
        let pane = self.pane(&opens, &folder.to_string_lossy());
        pane.start(arguments);
        self.when(name, SessionState::Idle)?;
        Ok(pane)
    }

    fn pane(&self, opens: &[&str], folder: &str) -> Pane {
        let shell = ["-c", folder, "bash", "--norc", "--noprofile"];
        self.terminal.tell(&[opens, &shell].concat());
        let mut panes = self.terminal.panes();
        let pane = panes.pop().unwrap_or_else(|| unreachable!("the pane that was opened"));
        pane.wait_screen("dev$");
        pane
    }

    fn prompts(&self, pane: &Pane, text: &str) {
        pane.type_line(text);
        self.api.wait_for(text);
    }

    /// Waits until a session is in a state, and then for the next step.
    fn passes(
        &self,
        name: &str,
        state: SessionState,
        fits: impl Fn(&Session) -> bool,
    ) -> anyhow::Result<()> {
        self.when_so(name, state, fits)?;
        std::thread::park_timeout(self.pause);
        Ok(())
    }

    fn when(&self, name: &str, state: SessionState) -> anyhow::Result<()> {
        self.when_so(name, state, |_| true)
    }

    fn when_so(
        &self,
        name: &str,
        state: SessionState,
        fits: impl Fn(&Session) -> bool,
    ) -> anyhow::Result<()> {
        if self.serve.has_ended() {
            bail!("the coordinator has ended: {:?}", self.serve.output());
        }
        let folder = self.home.home().join(name);
        wait_until(&format!("{name} is {state:?}"), || {
            let mut inspect = self.home.command(self.programs.join("coord"));
            inspect.arg("--root").arg(self.home.root()).args(["inspect", "--json"]);
            inspect.stdin(Stdio::null());
            let said = run(inspect, &self.home.tmp(), "inspect").stdout;
            let all: Inspect = serde_json::from_str(&said).map_err(|_| said.clone())?;
            let of = |one: &&Session| Path::new(&one.cwd) == folder;
            let found = all.sessions.iter().find(of).ok_or_else(|| said.clone())?;
            if found.state == state && fits(found) { Ok(()) } else { Err(format!("{found:#?}")) }
        });
        Ok(())
    }
}

/// Whether a turn of the session has ended.
fn has_answered(session: &Session) -> bool {
    session.last_event.as_ref().is_some_and(|last| last.name == "Stop")
}

/// Makes the directory of each session below the home, and has the client trust it.
fn make_projects(home: &Home) -> anyhow::Result<()> {
    let file = home.config_dir().join(".claude.json");
    let mut state: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    let trusted = state["projects"][&*home.project().to_string_lossy()].clone();
    for (_, name) in SESSIONS {
        let folder = home.home().join(name);
        std::fs::create_dir(&folder)?;
        state["projects"][&*folder.to_string_lossy()] = trusted.clone();
    }
    std::fs::write(&file, state.to_string()).with_context(|| format!("the state of {VERSION}"))
}

/// What the model answers, each for the prompt that it names.
fn turns() -> Vec<Turn> {
    let option = |label: &str| json!({"label": label, "description": label});
    let question = json!({"questions": [{
        "question": "Which example comes first?", "header": "Example", "multiSelect": false,
        "options": [option("A crash"), option("A prompt")],
    }]});
    let serve = json!({
        "command": "tail -f /dev/null", "description": "Serve the report", "run_in_background": true,
    });
    let build = json!({"command": "rm -rf build && mkdir build", "description": "Start anew"});
    let looks = |part: &str| {
        json!({
            "description": format!("Look through {part}"), "prompt": format!("SUBTASK {part}"),
            "subagent_type": "general-purpose", "run_in_background": false,
        })
    };
    vec![
        Turn::text("Three decisions, two open questions.").only_for("Sum up the meeting"),
        Turn::tool("AskUserQuestion", question).only_for("Write the guide"),
        Turn::tool("Bash", serve).only_for("Serve the report"),
        Turn::text("It is served.").only_for("Serve the report"),
        Turn::text("It is rebuilt.").only_for("Rebuild the site"),
        Turn::hang().only_for("Publish it"),
        Turn::hang().only_after("SUBTASK").lasting(),
        Turn::tool("Agent", looks("unit"))
            .and_tool("Agent", looks("end-to-end"))
            .and_tool("Agent", looks("random"))
            .only_after("Find the flaky tests"),
        Turn::hang().only_for("Find the flaky tests"),
        Turn::tool("Bash", build).only_for("Build it anew"),
        Turn::text("It is built.").only_for("Build it anew"),
    ]
}
