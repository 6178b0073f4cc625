//! `coord top` in a real terminal: what it shows, what its keys do, and how it leaves the terminal (U-05).

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use coord_tests::coord::{Coordinator, coord, programs, session_when};
use coord_tests::home::Home;
use coord_tests::process::{Running, run};
use coord_tests::wait::wait_until;
use coord_top::{Job, Look, Options, Ran, Source, Watch};
use coord_view::list::{List, Row};
use coord_wire::inspect::{Inspect, Session};
use serde_json::json;

use super::control::watched;
use super::go::attached;
use super::harness::{Harness, Tmux};
use super::wire::with;

/// A shell in a pane, at which `coord top` is started.
pub(super) struct Shell<'a> {
    tmux: &'a Tmux<'a>,
    home: &'a Home,
    pane: String,
}

impl<'a> Shell<'a> {
    pub(super) fn open(home: &'a Home, tmux: &'a Tmux<'a>) -> Self {
        let line = format!(
            "exec env COORD_HOME='{}' LANG=C.UTF-8 PS1='ready> ' PATH='{}':\"$PATH\" sh -i",
            home.root().display(),
            programs().display()
        );
        let size = ["-x", "100", "-y", "30"];
        let new = ["new-session", "-d", "-P", "-F", "#{pane_id}", "-s", "shell"];
        let words: Vec<&str> = new.into_iter().chain(size).chain([line.as_str()]).collect();
        let pane = tmux.run(&words).trim().to_owned();
        let shell = Self { tmux, home, pane };
        shell.shows("ready>");
        shell
    }

    pub(super) fn keys(&self, keys: &[&str]) {
        let words: Vec<&str> =
            ["send-keys", "-t", &self.pane].into_iter().chain(keys.iter().copied()).collect();
        self.tmux.run(&words);
    }

    pub(super) fn types(&self, line: &str) {
        self.keys(&["-l", line]);
        self.keys(&["Enter"]);
    }

    pub(super) fn screen(&self) -> String {
        self.tmux.run(&["capture-pane", "-p", "-t", &self.pane])
    }

    /// Waits until the screen has this in it.
    pub(super) fn shows(&self, text: &str) -> String {
        wait_until(&format!("the screen shows {text:?}"), || {
            let screen = self.screen();
            if screen.contains(text) { Ok(screen) } else { Err(screen) }
        })
    }

    /// How the terminal is set, and that the shell has it.
    pub(super) fn settings(&self, name: &str) -> String {
        let file = self.home.tmp().join(name);
        self.types(&format!("stty -g >'{f}.new'; mv '{f}.new' '{f}'", f = file.display()));
        wait_until("the shell has written", || fs::read_to_string(&file))
    }

    /// Whether a program has the screen for itself.
    pub(super) fn is_covered(&self) -> bool {
        let format = "#{alternate_on}#{cursor_flag}";
        self.tmux.run(&["display-message", "-p", "-t", &self.pane, format]).trim() == "10"
    }

    pub(super) fn is_uncovered(&self) {
        let format = "#{alternate_on}#{cursor_flag}";
        wait_until("the terminal is as it was", || {
            let seen = self.tmux.run(&["display-message", "-p", "-t", &self.pane, format]);
            if seen.trim() == "01" { Ok(()) } else { Err(seen) }
        });
    }
}

/// The process that runs this verb.
pub(super) fn pid_of(home: &Home, verb: &str) -> u32 {
    wait_until(&format!("coord {verb} runs"), || {
        let own = super::harness::programs_of(home).into_iter().find(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).split('\0').nth(1) == Some(verb)
        });
        own.ok_or("no such process")
    })
}

#[test]
fn u_05_top_shows_goes_explains_and_leaves_the_terminal_as_it_was() {
    let (home, coordinator) = watched();
    let tmux = Tmux::start(&home);
    let shell = Shell::open(&home, &tmux);
    let before = shell.settings("before");
    shell.types("coord top; echo \"code $?\"");
    shell.shows("No sessions yet");
    assert!(shell.is_covered());

    // It follows what happens.
    let mut harness = Harness::in_tmux(&tmux, "session-one");
    harness.begin_turn();
    let fields = with(json!({"session_id": "session-one"}), json!({"tool_name": "Bash"}));
    assert_eq!(harness.report("PermissionRequest", &fields), 0);
    let asks = shell.shows("asks to run Bash");
    assert!(asks.contains("1 needs you") && asks.contains("\n> "), "{asks}");

    // Its keys.
    let known = session_when(&home, "session-one", "its pane is known", |session| {
        session.place.as_ref().is_some_and(|place| place.kind == "tmux")
    });
    let place = known.place.unwrap().text;
    shell.shows(&place);
    shell.keys(&["p"]);
    shell.shows(&format!("screen of {place}, read-only"));
    shell.keys(&["q"]);
    shell.keys(&["e"]);
    shell.shows("coord explain ");
    shell.keys(&["q"]);
    shell.shows("Enter go");
    shell.keys(&["m"]);
    shell.keys(&["-l", "hello there"]);
    shell.shows("hello there_");
    shell.keys(&["Enter"]);
    wait_until("the message is accepted", || {
        let all = coord(&home, &["queue", "--json"]).stdout;
        if all.contains("session-one") { Ok(()) } else { Err(all) }
    });
    // Where no terminal shows the server, nothing can be moved.
    shell.keys(&["Enter"]);
    shell.shows("No terminal shows this tmux server; nothing was switched.");
    shell.keys(&["b"]);
    shell.shows("No earlier place.");

    // A coordinator that is gone is said, and found again.
    coordinator.kill();
    shell.shows("Coordinator lost at ");
    let _coordinator = Coordinator::start(&home);
    shell.shows("coord top   1 needs you");

    shell.keys(&["q"]);
    shell.shows("code 0");
    shell.is_uncovered();
    assert_eq!(shell.settings("after"), before);
}

#[test]
fn u_05_enter_moves_the_users_client_and_back_returns() {
    let (home, _coordinator) = watched();
    let tmux = Tmux::start(&home);
    let mut harness = Harness::in_tmux(&tmux, "session-one");
    harness.begin_turn();
    let known = session_when(&home, "session-one", "its pane is known", |session| {
        session.place.as_ref().is_some_and(|place| place.kind == "tmux")
    });
    let shell = Shell::open(&home, &tmux);
    let (_terminal, client) = attached(&home, &tmux);
    tmux.run(&["switch-client", "-c", &client, "-t", &shell.pane]);
    let is_at = |pane: &str| {
        wait_until("the client shows the pane", || {
            let seen = tmux.run(&["display-message", "-p", "-c", &client, "#{pane_id}"]);
            if seen.trim() == pane { Ok(()) } else { Err(seen) }
        });
    };
    shell.types("coord top");
    shell.shows("\n> ");
    let pane = known.tmux.unwrap().pane;
    // Its terminal echoes what is typed into it.
    let typed = || tmux.run(&["capture-pane", "-p", "-t", &pane]).trim().to_owned();
    let before = typed();
    for _ in 0..50 {
        shell.keys(&["Enter"]);
        is_at(&pane);
        // It goes on while its pane is not seen.
        shell.keys(&["b"]);
        is_at(&shell.pane);
    }
    shell.keys(&["q"]);
    shell.shows("ready>");
    assert_eq!(typed(), before, "100 moves typed nothing into the client's terminal");
    tmux.run(&["send-keys", "-t", &pane, "Escape"]);
    wait_until("the terminal echoes a key", || {
        let now = typed();
        if now == before { Err(now) } else { Ok(()) }
    });
}

/// Sessions that cannot be looked at, or not be listed.
#[derive(Debug)]
struct Panics {
    in_job: bool,
}

impl Source for Panics {
    fn look(&self, _: bool) -> Job<anyhow::Result<Look>> {
        let in_job = self.in_job;
        Box::new(move || {
            assert!(!in_job, "this look panics");
            Ok(Look::default())
        })
    }

    fn watch(&self, _: u32) -> anyhow::Result<Box<dyn Watch>> {
        anyhow::bail!("there is nothing to watch")
    }

    fn list(&self, _: &Inspect, _: u64) -> List {
        assert!(self.in_job, "this list panics");
        List::default()
    }

    fn details(&self, _: &Inspect, _: &Row) -> Vec<(String, String)> {
        Vec::new()
    }

    fn directory(&self, _: &Session) -> String {
        String::new()
    }

    fn screen(&self, _: &Session) -> Job<Result<String, String>> {
        Box::new(|| Ok(String::new()))
    }

    fn command(&self, _: bool, _: &[String]) -> Job<Ran> {
        Box::new(|| Err(std::io::ErrorKind::Unsupported.into()))
    }

    fn converse(&self, _: &[String]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn nothing(&self) -> String {
        String::new()
    }

    fn now_ms(&self) -> u64 {
        0
    }

    fn clock(&self, _: u64) -> String {
        String::new()
    }
}

#[test]
fn u_05_a_panic_leaves_the_terminal_as_it_was() {
    // This test runs itself, in a terminal.
    if let Some(place) = std::env::var_os("COORD_TEST_PANICS") {
        let options = Options {
            name: "coord top",
            notice: None,
            acts: false,
            is_colourless: false,
            is_ascii: false,
        };
        let ended = coord_top::run(&Panics { in_job: place == "job" }, options);
        let Err(coord_top::Failure::Panicked(report)) = ended else { panic!("{ended:?}") };
        println!("kept: {report}");
        return;
    }
    let home = Home::new();
    let tmux = Tmux::start(&home);
    let shell = Shell::open(&home, &tmux);
    let before = shell.settings("before");
    let own = std::env::current_exe().unwrap();
    let test = "contract::top::u_05_a_panic_leaves_the_terminal_as_it_was";
    for (place, words, code) in [("list", "this list panics", 101), ("job", "this look panics", 0)]
    {
        shell.types(&format!(
            "COORD_TEST_PANICS={place} RUST_BACKTRACE=0 '{}' --nocapture --exact {test}; echo \"{place} $?\"",
            own.display()
        ));
        let said = shell.shows(&format!("{place} {code}"));
        assert!(said.contains(words) && said.contains("kept: ") == (place == "job"), "{said}");
        shell.is_uncovered();
        assert_eq!(shell.settings(place), before);
    }
}

#[test]
fn u_05_signals_and_ctrl_z_leave_the_terminal_as_it_was() {
    let (home, _coordinator) = watched();
    let tmux = Tmux::start(&home);
    let shell = Shell::open(&home, &tmux);
    let before = shell.settings("before");
    shell.types("coord top");
    shell.shows("No sessions yet");
    for n in 0..2 {
        shell.keys(&["C-z"]);
        shell.is_uncovered();
        assert_eq!(shell.settings(&format!("stopped-{n}")), before);
        shell.types("fg");
        shell.shows("No sessions yet");
        assert!(shell.is_covered());
        // Sizes change while it runs.
        for columns in ["40", "200", "61", "100"] {
            tmux.run(&["resize-window", "-t", &shell.pane, "-x", columns, "-y", "12"]);
        }
        shell.shows("No sessions yet");
    }
    let pid = pid_of(&home, "top");
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    shell.is_uncovered();
    assert_eq!(shell.settings("after"), before);
    shell.types("coord top --ascii; echo \"code $?\"");
    shell.shows("No sessions yet");
    shell.keys(&["C-c"]);
    shell.shows("code 0");
    assert_eq!(shell.settings("at last"), before);
}

#[test]
fn u_05_without_a_terminal_it_says_what_to_use() {
    let home = Home::new();
    for (program, term) in [("coord", None), ("coord", Some("dumb")), ("coordctl", Some("xterm"))] {
        let mut command = home.command(programs().join(program));
        term.map(|term| command.env("TERM", term));
        command.arg("top");
        let said = run(command, &home.tmp(), "top");
        let wanted = format!("{program}: coord top needs a terminal. → coord inspect --watch\n");
        assert_eq!((said.code(), said.stderr), (Some(1), wanted), "{program} {term:?}");
    }
}

#[test]
fn u_05_plain_is_a_line_per_change_and_takes_typed_commands() {
    let (home, _coordinator) = watched();
    let mut command = home.command(programs().join("coord"));
    command.args(["top", "--plain"]).env("COORD_HOME", home.root()).stdin(Stdio::piped());
    let mut top = Running::start(command, &home.tmp(), "top");
    let mut commands = top.take_stdin().unwrap();
    let says = |text: &str| {
        wait_until(&format!("it says {text:?}"), || {
            let [all, _] = top.output();
            if all.contains(text) { Ok(()) } else { Err(all) }
        });
    };
    says("Nobody needs you\n");
    let mut harness = Harness::headless(&home, "session-one");
    harness.begin_turn();
    says(" is running: waits for the model, headless\n");
    let mut types = |line: &str| commands.write_all(line.as_bytes()).unwrap();
    types("explain session-one\n");
    says("a turn is open");
    types("nonsense\n");
    says("Commands: go NAME");
    types("go session-one\n");
    says("is headless. → coord inspect");
    types("quit\n");
    assert_eq!(top.finish().code(), Some(0));
}
