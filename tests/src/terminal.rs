//! The real client at a terminal: a tmux server of the test's own, one pane with a plain shell for
//! each session.
//!
//! The server is the test's child, so it can be killed for certain, and what runs in its panes
//! inherits the home's `HOME`, so [`crate::home::Home`] ends it. tmux offers no event for a screen
//! that changed: it is asked again until it shows what is waited for.

use crate::client::{program, surround};
use crate::fake_api::FakeApi;
use crate::home::Home;
use crate::process::Running;
use crate::wait::wait_until;
use rustix::process::Signal;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A tmux server.
#[derive(Debug)]
pub struct Terminal {
    server: Running,
    tmux: Tmux,
}

/// A pane with a shell. Its client is whatever the shell's child is.
#[derive(Debug)]
pub struct Pane {
    tmux: Tmux,
    id: String,
    pid: u32,
}

/// How the server is reached.
#[derive(Debug, Clone)]
struct Tmux {
    socket: PathBuf,
    folder: PathBuf,
    path: String,
}

impl Terminal {
    /// Starts a server without panes. Its shells find the client as `claude`.
    #[track_caller]
    pub fn start(home: &Home, api: &FakeApi) -> Self {
        let programs = home.dir().join("programs");
        std::fs::create_dir(&programs).expect("create a directory");
        symlink(program(), programs.join("claude")).expect("link the client");
        let path = std::env::var("PATH").expect("PATH is set");
        let path = format!("{}:{path}", programs.display());
        Self::start_at(home, api, Self::socket(home), path)
    }

    /// Starts another server beside it, of which coord knows nothing.
    #[must_use]
    #[track_caller]
    pub fn start_elsewhere(&self, home: &Home, api: &FakeApi) -> Self {
        Self::start_at(home, api, home.tmp().join("tmux-elsewhere"), self.tmux.path.clone())
    }

    #[track_caller]
    fn start_at(home: &Home, api: &FakeApi, socket: PathBuf, path: String) -> Self {
        let tmux = Tmux { socket, folder: home.project(), path };
        let server = Self::serve(&tmux, home, api);
        Self { server, tmux }
    }

    /// Starts a server anew where one was killed: its panes have the same ids again.
    #[track_caller]
    pub fn restart(&mut self, home: &Home, api: &FakeApi) {
        self.server = Self::serve(&self.tmux, home, api);
    }

    #[track_caller]
    fn serve(tmux: &Tmux, home: &Home, api: &FakeApi) -> Running {
        let mut command = surround(home.command("tmux"), home, api);
        command
            .args(["-D", "-f", "/dev/null", "-S"])
            .arg(&tmux.socket)
            .env("PS1", "dev$ ")
            .stdin(Stdio::null());
        let server = Running::start(command, &home.tmp(), "tmux");
        wait_until("the tmux server answers", || tmux.ask(&["show-options", "-s"]));
        server
    }

    /// Where the server of a home listens.
    pub fn socket(home: &Home) -> PathBuf {
        home.tmp().join("tmux")
    }

    /// Opens a pane in a session of its own.
    #[track_caller]
    pub fn pane(&self) -> Pane {
        let pane = self.pane_of(&["bash", "--norc", "--noprofile"]);
        pane.wait_screen("dev$");
        pane
    }

    /// The same with another first process.
    #[track_caller]
    pub fn pane_of(&self, words: &[&str]) -> Pane {
        let folder = self.tmux.folder.to_string_lossy().into_owned();
        let size = ["new-session", "-d", "-x", "110", "-y", "40", "-c", &folder, "-P", "-F"];
        let made = self.tmux.tell(&[&size[..], &["#{pane_id} #{pane_pid}"], words].concat());
        self.known(made.trim())
    }

    /// All panes, in the order in which they were opened.
    #[track_caller]
    pub fn panes(&self) -> Vec<Pane> {
        let all = self.tmux.tell(&["list-panes", "-a", "-F", "#{pane_id} #{pane_pid}"]);
        let mut all: Vec<Pane> = all.lines().map(|line| self.known(line)).collect();
        all.sort_by_key(|pane| pane.id.trim_start_matches('%').parse::<u32>().ok());
        all
    }

    #[track_caller]
    fn known(&self, line: &str) -> Pane {
        let (id, pid) = line.split_once(' ').expect("tmux prints what was asked for");
        let pid = pid.parse().expect("a pid is a number");
        Pane { tmux: self.tmux.clone(), id: id.to_owned(), pid }
    }

    /// Any command of tmux, and what it prints.
    #[track_caller]
    pub fn tell(&self, arguments: &[&str]) -> String {
        self.tmux.tell(arguments)
    }

    /// Signals the server, and nothing else.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        self.server.signal(signal);
    }
}

impl Pane {
    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Has a person look at another pane from here: what is typed here reaches that one as keys.
    #[track_caller]
    pub fn attach_to(&self, other: &Self) {
        let socket = self.tmux.socket.display();
        self.command(&format!("TMUX= tmux -S {socket} attach -t {}", other.id));
        wait_until("a client is attached to it", || {
            let n = self.show(&other.id, "#{session_attached}");
            if n == "1" { Ok(()) } else { Err(n) }
        });
    }

    /// What tmux says of it.
    #[track_caller]
    pub fn format(&self, format: &str) -> String {
        self.show(&self.id, format)
    }

    #[track_caller]
    fn show(&self, id: &str, format: &str) -> String {
        self.tmux.tell(&["display-message", "-p", "-t", id, format]).trim().to_owned()
    }

    /// The shell's pid.
    pub fn pane_pid(&self) -> u32 {
        self.pid
    }

    /// Types the client's command and waits until the client shows its input line. Returns its pid.
    #[track_caller]
    pub fn start(&self, arguments: &[&str]) -> u32 {
        self.start_with("", arguments)
    }

    /// The same, with `variables` set for it alone.
    #[track_caller]
    pub fn start_with(&self, variables: &str, arguments: &[&str]) -> u32 {
        let words: Vec<String> = arguments.iter().map(|word| format!(" '{word}'")).collect();
        self.command(&format!("{variables} claude{}", words.concat()));
        let pid = self.client_pid();
        self.wait_screen("❯\u{a0}");
        pid
    }

    /// Types a command into the shell, on a cleared screen: what an earlier client left there must
    /// not look like the new one's.
    #[track_caller]
    pub fn command(&self, line: &str) {
        self.type_text(&format!("clear; {line}"));
        self.keys(&["Enter"]);
    }

    /// The pid of the client that the shell runs, as soon as it does.
    #[track_caller]
    pub fn client_pid(&self) -> u32 {
        let client = program();
        wait_until("the pane's shell runs the client", || {
            let children = format!("/proc/{0}/task/{0}/children", self.pid);
            let children = std::fs::read_to_string(children).unwrap_or_default();
            let is_client = |pid: &&str| {
                std::fs::read_link(format!("/proc/{pid}/exe")).ok() == Some(client.clone())
            };
            let pid = children.split_whitespace().find(is_client).and_then(|pid| pid.parse().ok());
            pid.ok_or_else(|| (children.clone(), self.screen()))
        })
    }

    /// Types `text`, sees it on the screen, and presses Enter.
    #[track_caller]
    pub fn type_line(&self, text: &str) {
        self.type_text(text);
        // Sent together with the text, Enter would count as pasted.
        self.wait_screen(text);
        self.keys(&["Enter"]);
    }

    /// Types `text` and nothing behind it.
    #[track_caller]
    pub fn type_text(&self, text: &str) {
        self.tmux.tell(&["send-keys", "-t", &self.id, "-l", text]);
    }

    /// Presses keys, by tmux's names.
    #[track_caller]
    pub fn keys(&self, keys: &[&str]) {
        self.tmux.tell(&[&["send-keys", "-t", &self.id][..], keys].concat());
    }

    /// What the pane shows.
    #[track_caller]
    pub fn screen(&self) -> String {
        self.tmux.tell(&["capture-pane", "-p", "-t", &self.id])
    }

    /// The same for a report of a failure: why it shows nothing, where it is gone.
    pub fn last_screen(&self) -> String {
        self.tmux.ask(&["capture-pane", "-p", "-t", &self.id]).unwrap_or_else(|why| why)
    }

    /// Waits until the pane shows `text`. Returns the screen.
    #[track_caller]
    pub fn wait_screen(&self, text: &str) -> String {
        wait_until(&format!("the screen shows {text:?}"), || {
            let screen = self.screen();
            if screen.contains(text) { Ok(screen) } else { Err(Screen(screen)) }
        })
    }

    /// Waits until the pane no longer shows `text`.
    #[track_caller]
    pub fn wait_gone(&self, text: &str) {
        wait_until(&format!("the screen no longer shows {text:?}"), || {
            let screen = self.screen();
            if screen.contains(text) { Err(Screen(screen)) } else { Ok(()) }
        });
    }

    /// Closes the pane, as a person does with the window's close button.
    #[track_caller]
    pub fn close(&self) {
        self.tmux.tell(&["kill-pane", "-t", &self.id]);
    }
}

/// A screen in a failure message, as it looks.
struct Screen(String);

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\n{}", self.0.trim_end())
    }
}

impl Tmux {
    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("tmux");
        // A new pane gets the PATH of the one who asked for it, whatever the server's is.
        command.env_clear().env("PATH", &self.path);
        command.env("LANG", "C.UTF-8").arg("-S").arg(&self.socket).args(arguments);
        let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    #[track_caller]
    fn tell(&self, arguments: &[&str]) -> String {
        self.ask(arguments).unwrap_or_else(|error| panic!("tmux {arguments:?}: {error}"))
    }
}
