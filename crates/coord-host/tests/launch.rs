//! How a process was started, read from real ones: below a program, an interactive shell, a script,
//! and tmux.

#![expect(clippy::unwrap_used, reason = "a test's own set-up may fail loudly")]

use coord_host::{launch, process};
use coord_model::{Kind, Launch, ParentKind, ProcessRef};
use coord_tests::process::copy_program;
use coord_tests::wait::wait_until;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Says its pid, then waits until its input ends.
const CLIENT: &str = "echo $$ >\"$TOLD.new\"; mv \"$TOLD.new\" \"$TOLD\"; cat; :\n";

/// A list that ends at the next option, and a prompt.
const FIT: &str = "--model opus --add-dir /a --ide 'fix it'";
/// A list that swallows the prompt.
const UNFIT: &str = "--add-dir /a 'fix it'";

/// A directory with a stand-in for the client, which is a script.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("client"), CLIENT).unwrap();
        Self { dir }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The line that runs the stand-in with these words.
    fn line(&self, words: &str) -> String {
        format!("/bin/sh {} {words}", self.file("client").display())
    }

    /// The stand-in, once it runs; none if what it says is not there yet.
    fn client(&self) -> Option<ProcessRef> {
        let pid = fs::read_to_string(self.file("told")).ok()?.trim().parse().ok()?;
        Some(ProcessRef { pid, start_time: process::stat(pid)?.start_time })
    }

    #[track_caller]
    fn launch(&self) -> Launch {
        wait_until("the stand-in runs", || self.client().ok_or_else(|| "not yet".to_owned()));
        launch::of(self.client().unwrap()).unwrap()
    }
}

/// A tmux server of this test alone.
struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// Starts the server with one pane that runs `command` in the place.
    #[track_caller]
    fn start(place: &Place, command: &[&str]) -> Self {
        let tmux = Self { socket: place.file("socket") };
        let told = format!("TOLD={}", place.file("told").display());
        let dir = place.dir.path().to_str().unwrap();
        let head = ["-f", "/dev/null", "new-session", "-d", "-c", dir, "-e", &told];
        tmux.run(&[&head[..], &["-e", "HTTPS_PROXY=http://localhost:1", "--"], command].concat());
        tmux
    }

    #[track_caller]
    fn run(&self, words: &[&str]) {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(words).env_remove("TMUX");
        assert!(command.status().unwrap().success(), "{words:?}");
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let socket = self.socket.as_os_str();
        let _ = Command::new("tmux").arg("-S").arg(socket).arg("kill-server").status();
    }
}

/// A child that waits for the end of its input.
struct Waiting(Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[track_caller]
fn is_the_stand_in(launch: &Launch, place: &Place) {
    let shell = fs::canonicalize("/bin/sh").unwrap().display().to_string();
    let dir = fs::canonicalize(place.dir.path()).unwrap();
    assert_eq!(launch.unfit, None);
    assert_eq!(launch.program, [shell, place.file("client").display().to_string()]);
    // S0-25d, G11: the options, and not the prompt.
    assert_eq!(launch.flags, ["--model", "opus", "--add-dir", "/a", "--ide"]);
    let seen = fs::metadata(&dir).unwrap();
    assert_eq!(Path::new(&launch.cwd.path), dir);
    assert_eq!((launch.cwd.device, launch.cwd.inode), (seen.dev(), seen.ino()));
    assert!(launch.variables.iter().any(|name| name == "HTTPS_PROXY"), "{:?}", launch.variables);
}

fn start_below_this_program(place: &Place) -> Waiting {
    let mut command = Command::new("/bin/sh");
    command.arg(place.file("client")).args(["--model", "opus", "--add-dir", "/a", "--ide"]);
    command.arg("fix it").current_dir(place.dir.path()).stdin(Stdio::piped());
    command.env("TOLD", place.file("told")).env("HTTPS_PROXY", "http://localhost:1");
    Waiting(command.stdout(Stdio::null()).spawn().unwrap())
}

// H-13: a program that starts clients restarts them itself, where it wants that.
#[test]
fn a_program_is_no_shell() {
    let place = Place::new();
    let _client = start_below_this_program(&place);
    let launch = place.launch();
    is_the_stand_in(&launch, &place);
    let pid = std::process::id();
    let start_time = process::stat(pid).unwrap().start_time;
    assert_eq!(launch.parent.process, ProcessRef { pid, start_time });
    assert!(matches!(launch.parent.kind, ParentKind::Other(_)), "{:?}", launch.parent.kind);
}

// H-18: the harness is the pane's first process.
#[test]
fn tmux_starts_a_panes_first_process() {
    let place = Place::new();
    let line = format!("exec {}", place.line(FIT));
    let _tmux = Tmux::start(&place, &["/bin/sh", "-c", &line]);
    let launch = place.launch();
    is_the_stand_in(&launch, &place);
    assert_eq!(launch.parent.kind, ParentKind::Tmux);
    // Its launch reaches the core; a headless run has none.
    let seen = process::seen(place.client().unwrap(), true);
    assert_eq!((seen.kind, seen.launch), (Some(Kind::Interactive), Some(Box::new(launch))));
}

// H-18: a shell at its prompt.
#[test]
fn a_shell_that_waits_for_its_user_is_told() {
    let place = Place::new();
    let tmux = Tmux::start(&place, &["/bin/bash", "--norc", "--noprofile"]);
    let line = place.line(FIT);
    tmux.run(&["send-keys", &line, "Enter"]);
    let launch = place.launch();
    is_the_stand_in(&launch, &place);
    assert_eq!(launch.parent.kind, ParentKind::Shell);
}

// H-13: neither a script, nor a command, nor a script at the standard input is a waiting shell.
#[test]
fn a_shell_that_runs_a_script_is_another_program() {
    for start in ["bash loop", "bash -c \"$LINE\"", "bash <loop", "cat loop | bash -s"] {
        let place = Place::new();
        let line = format!("{} </dev/tty; :", place.line(UNFIT));
        fs::write(place.file("loop"), format!("{line}\n")).unwrap();
        let start = format!("LINE='{}'; {start}", line.replace('\'', "'\\''"));
        let _tmux = Tmux::start(&place, &["/bin/bash", "--norc", "-c", &format!("{start}; :")]);
        let launch = place.launch();
        assert_eq!(launch.parent.kind, ParentKind::Other("bash".to_owned()), "{start}");
        // H-19: the prompt behind the list makes it unfit.
        assert!(launch.unfit.is_some_and(|why| why.contains("--add-dir")), "{start}");
        assert_eq!(launch.flags, [""; 0]);
    }
}

// S0-25d
#[test]
fn an_executable_that_is_gone_is_unfit() {
    let place = Place::new();
    let program = place.file("claude");
    copy_program("/bin/cat".as_ref(), &program);
    let mut command = Command::new(&program);
    let child = Waiting(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    let pid = child.0.id();
    // Whoever starts a program goes on before the kernel shows its words.
    while fs::read(format!("/proc/{pid}/cmdline")).unwrap().is_empty() {
        std::thread::yield_now();
    }
    let client = ProcessRef { pid, start_time: process::stat(pid).unwrap().start_time };
    let fit = launch::of(client).unwrap();
    assert_eq!((fit.unfit, fit.program), (None, vec![program.display().to_string()]));
    fs::remove_file(&program).unwrap();
    let unfit = launch::of(client).unwrap();
    assert!(unfit.unfit.is_some_and(|why| why.contains("deleted")));
    assert_eq!(unfit.program, [""; 0]);
}
