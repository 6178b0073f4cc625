//! A place where sessions run: a home with registered hooks, a coordinator that may act, a tmux server
//! and a client that its shells find. Decides nothing about what is measured there.

use super::Bench;
use super::client;
use super::terminal::Terminal;
use crate::say_error;
use anyhow::{Context, bail};
use coord_model::Record;
use coord_store::RealDisk;
use coord_store::journal::read_segments;
use coord_tests::fake_api::{FakeApi, Request, Turn};
use coord_tests::home::Home;
use coord_tests::netns;
use coord_tests::process::Running;
use coord_wire::exchange::{Answer, exchange, mono_ns, request};
use coord_wire::inspect::{Inspect, Session};
use rustix::process::Signal;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Whatever is waited for comes within this, or something broke.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks: what is measured shall not wait for who looks.
const PAUSE: Duration = Duration::from_millis(20);
/// An answer about some hundred sessions, in bytes.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Registers the hooks in this directory.
fn install(home: &Home, coord: &Path, hooks_dir: &Path) {
    let mut install = home.command(coord);
    install.env("COORD_HOME", home.root()).arg("install");
    install.arg("--hooks-dir").arg(hooks_dir).arg("--config-dir").arg(home.config_dir());
    coord_tests::process::run(install, &home.tmp(), "install").expect_success();
}

/// Starts a coordinator.
fn serve(home: &Home, coord: &Path) -> Running {
    let mut serve = home.command(coord);
    serve.arg("serve").arg("--root").arg(home.root()).current_dir("/").stdin(Stdio::null());
    Running::start(serve, &home.tmp(), "serve")
}

/// Which client runs in the panes.
#[derive(Debug)]
pub(super) enum Which {
    /// The scripted one.
    Scripted,
    /// The real one, whose requests go there.
    Real(FakeApi),
}

/// The place. What runs there ends with it, in the order of the fields.
#[derive(Debug)]
pub(super) struct Place {
    serve: Running,
    pub(super) terminal: Terminal,
    which: Which,
    pub(super) home: Home,
    coord: PathBuf,
}

impl Place {
    /// Sets one up. `config` comes behind what every place needs; it may begin with keys of
    /// `tracking`. Nobody watches what is started in its project.
    pub(super) fn open(bench: &Bench, which: Which, config: &str) -> anyhow::Result<Self> {
        let home = Home::new();
        let coord = bench.programs.coord.clone();
        let config_dir = home.config_dir();
        install(&home, &coord, &bench.programs.hook(""));
        home.write_config(&format!(
            "[tracking]\nconfig_dirs = ['{}']\ntmux_sockets = ['{}']\n{config}",
            config_dir.display(),
            Terminal::socket(&home).display(),
        ));
        let serve = serve(&home, &coord);
        let programs = home.dir().join("programs");
        std::fs::create_dir(&programs)?;
        let mut tmux = home.command("tmux");
        let program = programs.join(client::NAME);
        match &which {
            Which::Scripted => {
                std::fs::copy(std::env::current_exe()?, program)?;
                tmux.env("CLAUDE_CONFIG_DIR", &config_dir);
            }
            Which::Real(api) => {
                symlink(coord_tests::client::program(), program)?;
                tmux = coord_tests::client::surround(tmux, &home, api);
            }
        }
        let terminal = Terminal::start(&home, tmux, &programs)?;
        let place = Self { serve, terminal, which, home, coord };
        until("the coordinator", || Ok(place.sessions("").ok()))?;
        place.attend()?;
        Ok(place)
    }

    /// A person says, at a terminal, that nobody watches the project.
    fn attend(&self) -> anyhow::Result<()> {
        let pane = self.terminal.pane(&self.home.dir().join("home"))?;
        self.terminal.wait_shell(&pane)?;
        let (ctl, out) = (self.coord.with_file_name("coordctl"), self.home.tmp().join("attend"));
        let (root, dir) = (self.home.root(), self.home.project());
        self.terminal.command(
            &pane,
            &format!(
                "{} --root {} attend --dir {} --unattended > {out} 2>&1; echo code $? >> {out}",
                ctl.display(),
                root.display(),
                dir.display(),
                out = out.display(),
            ),
        )?;
        let said = until("the order", || {
            let text = std::fs::read_to_string(&out).unwrap_or_default();
            Ok(text.contains("code ").then_some(text))
        })?;
        if !said.contains("code 0") {
            bail!("coordctl attend: {said}");
        }
        self.terminal.close(&pane)
    }

    /// The coordinator's pid.
    pub(super) fn coordinator(&self) -> u32 {
        self.serve.pid()
    }

    /// What was decided on a session, as the coordinator tells it.
    pub(super) fn decisions(&self, id: &str) -> anyhow::Result<String> {
        let answer = self.get(&format!("/v1/sessions/{id}/decisions"))?;
        Ok(String::from_utf8(answer.body)?)
    }

    fn get(&self, path: &str) -> anyhow::Result<Answer> {
        let deadline_ns = mono_ns() + 5_000_000_000;
        let (socket, ask) = (self.home.paths().socket(), request("GET", path, b""));
        let answer = exchange(&socket, &ask, ANSWER_BYTES_MAX, deadline_ns);
        answer.map_err(|miss| anyhow::anyhow!("{miss}"))
    }

    /// The sessions that the coordinator shows; with `/ID`, that one.
    pub(super) fn sessions(&self, of: &str) -> anyhow::Result<Vec<Session>> {
        let answer = self.get(&format!("/v1/sessions{of}"))?;
        match answer.status {
            200 => Ok(serde_json::from_slice::<Inspect>(&answer.body)?.sessions),
            404 => Ok(Vec::new()),
            status => bail!("the coordinator answered {status}"),
        }
    }

    /// Waits until a session is shown so that `fits` holds.
    pub(super) fn when(
        &self,
        id: &str,
        what: &str,
        fits: impl Fn(&Session) -> bool,
    ) -> anyhow::Result<Session> {
        let of = format!("/{id}");
        let mut last = None;
        let found = until(what, || {
            last = self.sessions(&of)?.into_iter().next();
            Ok(last.clone().filter(&fits))
        });
        found.with_context(|| format!("session {id}: {last:#?}"))
    }

    /// What the real client asked its model.
    pub(super) fn requests(&self) -> Vec<Request> {
        match &self.which {
            Which::Scripted => Vec::new(),
            Which::Real(api) => api.requests(),
        }
    }

    /// Adds a turn to what the real client's model answers.
    pub(super) fn will_answer(&self, turn: Turn) {
        if let Which::Real(api) = &self.which {
            api.push(turn);
        }
    }

    /// The command line of `coord` with these words.
    pub(super) fn coord_line(&self, words: &str) -> String {
        format!("{} --root {} {words}", self.coord.display(), self.home.root().display())
    }

    /// A person sets a passphrase, without which no hook waits for a reply.
    pub(super) fn set_passphrase(&self) -> anyhow::Result<()> {
        let pane = self.terminal.pane(&self.home.dir().join("home"))?;
        self.terminal.wait_shell(&pane)?;
        let (ctl, root) = (self.coord.with_file_name("coordctl"), self.home.root());
        let line = format!("{} --root {} passphrase", ctl.display(), root.display());
        self.terminal.command(&pane, &line)?;
        for asked in ["New passphrase:", "Repeat the new"] {
            self.terminal.wait_screen(&pane, asked)?;
            self.terminal.command(&pane, "correct horse battery")?;
        }
        self.terminal.wait_screen(&pane, "Passphrase set")?;
        self.terminal.close(&pane)
    }

    /// Runs `coord`; what it prints.
    pub(super) fn coord(&self, arguments: &[&str]) -> String {
        let mut command = self.home.command(&self.coord);
        command.arg("--root").arg(self.home.root()).args(arguments).stdin(Stdio::null());
        coord_tests::process::run(command, &self.home.tmp(), "coord").expect_success().stdout
    }

    /// Ends the coordinator and starts another.
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        self.end()?;
        self.serve = serve(&self.home, &self.coord);
        until("the coordinator", || Ok(self.sessions("").ok())).map(drop)
    }

    /// Installs the same programs in another directory, with a coordinator from there.
    pub(super) fn upgrade(&mut self, bench: &Bench) -> anyhow::Result<()> {
        let dir = tempfile::Builder::new().prefix("programs-").tempdir_in(self.home.dir())?.keep();
        let hooks = std::fs::read_dir(bench.programs.hook(""))?.flatten().map(|one| one.path());
        let coord = bench.programs.coord.clone();
        let is_program = |path: &PathBuf| path.is_file() && path.extension().is_none();
        let all = hooks.filter(is_program).chain([coord.with_file_name("coordctl"), coord]);
        for program in all {
            let name = program.file_name().context("a program has a name")?;
            std::fs::copy(&program, dir.join(name))?;
        }
        self.coord = dir.join("coord");
        install(&self.home, &self.coord, &dir);
        self.restart()
    }

    fn end(&self) -> anyhow::Result<()> {
        self.serve.signal(Signal::TERM);
        if !self.serve.ends_within(PATIENCE) {
            bail!("the coordinator has not ended");
        }
        Ok(())
    }

    /// Ends the coordinator and leaves what runs in the panes alone. Returns its journal.
    pub(super) fn down(&self) -> anyhow::Result<Vec<Record>> {
        self.end()?;
        let mut records = Vec::new();
        for segment in read_segments(&RealDisk, &self.home.paths().journal(), 0)? {
            for (_, payload) in segment?.records() {
                records.push(serde_json::from_slice(payload)?);
            }
        }
        Ok(records)
    }
}

/// Whether the real client is here and the network is not; says what is missing.
pub(super) fn has_client() -> bool {
    let missing = match coord_tests::client::find() {
        Err(why) => why.clone(),
        Ok(_) if !netns::is_isolated() => "there is no network namespace for the client".to_owned(),
        Ok(_) => return true,
    };
    say_error(&format!("not measured: {missing}"));
    false
}

/// The command that starts the client with a new conversation.
pub(super) fn start_line(id: &str) -> String {
    format!("clear; {} --permission-mode manual --session-id {id}", client::NAME)
}

/// Asks `look` until it finds something.
pub(super) fn until<T>(
    what: &str,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if PATIENCE < begun.elapsed() {
            bail!("waited {PATIENCE:?} in vain for: {what}");
        }
        std::thread::park_timeout(PAUSE);
    }
}

/// Lets time pass until then, with whatever happens in it being measured.
pub(super) fn pass(until: Instant) {
    while let left = until.saturating_duration_since(Instant::now())
        && !left.is_zero()
    {
        std::thread::park_timeout(left);
    }
}

/// How busy the machine is with other things too.
pub(super) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}
