//! A program that a test started: its output, its end, and what is left of it.
//!
//! Only processes that a test started are ever signalled: the child itself while it is not reaped,
//! its process group for as long, and what inherited the test's own `HOME`.

use crate::wait::{PATIENCE, readable, wait_until};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use std::fmt::{Debug, Formatter};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A program under way. Dropping it kills its process group.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    pidfd: OwnedFd,
    output: [PathBuf; 2],
    reaped: bool,
}

/// A program that ended.
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// All that it wrote there.
    pub stdout: String,
    /// All that it wrote there.
    pub stderr: String,
}

impl Running {
    /// Starts `command` in a process group of its own; its output goes to files `DIR/NAME-N.out`
    /// and `DIR/NAME-N.err`, so that a full pipe never holds it up.
    #[track_caller]
    pub fn start(mut command: Command, dir: &Path, name: &str) -> Self {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let output = ["out", "err"].map(|end| dir.join(format!("{name}-{number}.{end}")));
        let [stdout, stderr] = [&output[0], &output[1]]
            .map(|path| File::create(path).expect("create a file for output"));
        let child = command.stdout(stdout).stderr(stderr).process_group(0).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).expect("pidfd_open");
        Self { name: name.to_owned(), child, pidfd, output, reaped: false }
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Signals it, and nothing else.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.pidfd, signal).expect("signal a child that is not reaped");
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Waits for its end, at most for `limit`.
    pub fn ends_within(&self, limit: Duration) -> bool {
        readable(&self.pidfd, limit)
    }

    /// Its standard input, where the command made it a pipe; dropping it closes the pipe.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// What it has written to standard output and standard error so far.
    pub fn output(&self) -> [String; 2] {
        [&self.output[0], &self.output[1]]
            .map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into())
    }

    /// Waits for its end.
    #[track_caller]
    pub fn finish(mut self) -> Finished {
        if !readable(&self.pidfd, PATIENCE) {
            let [stdout, stderr] = self.output();
            panic!(
                "{} has not ended in {PATIENCE:?}\nstdout: {stdout}\nstderr: {stderr}",
                self.name
            );
        }
        let status = self.child.wait().expect("wait for a child");
        self.reaped = true;
        let [stdout, stderr] = self.output();
        Finished { status, stdout, stderr }
    }

    /// Kills it as `kill -9` does, and waits for its end.
    #[track_caller]
    pub fn kill(self) -> Finished {
        self.signal(Signal::KILL);
        self.finish()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An unreaped child keeps its pid, so the group is its own for certain.
        if !self.reaped {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// For a test's failure message: the output as it is, not escaped.
impl Debug for Finished {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { status, stdout, stderr } = self;
        write!(f, "{status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n---")
    }
}

impl Finished {
    /// The exit code; none after a signal.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Fails unless the exit code is 0.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "often only the success counts")]
    pub fn expect_success(self) -> Self {
        assert!(self.status.success(), "{self:#?}");
        self
    }
}

/// The session that a process lives in.
#[track_caller]
pub fn session_of(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    // Field 6, counted from the last parenthesis: a name may hold some.
    let fields = stat.rsplit_once(')').expect("a name").1;
    let session = fields.split_ascii_whitespace().nth(3).expect("a session");
    session.parse().expect("a number")
}

/// Runs a program to its end, with nothing on its standard input.
#[track_caller]
pub fn run(mut command: Command, dir: &Path, name: &str) -> Finished {
    command.stdin(Stdio::null());
    Running::start(command, dir, name).finish()
}

/// Waits until its own parent is gone, so that nothing leads back to the test, and leaves what the command
/// said beside the path that it is given first.
const ORPHAN: &str = r#"out=$1
shift
(
    while kill -0 $$; do :; done
    "$@" </dev/null >"$out.out" 2>"$out.err"
    echo $? >"$out.new"
    mv "$out.new" "$out.code"
) </dev/null >/dev/null 2>&1 &"#;

/// Runs a command as a child of nobody's, and waits for its end: what refuses agents may not be refused
/// because the tests run below one. The command has the variables that it was given and no others.
#[track_caller]
pub fn run_as_orphan(command: &Command, dir: &Path, name: &str) -> Finished {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let at = dir.join(format!("{name}-orphan-{number}"));
    let mut orphan = Command::new("/bin/sh");
    orphan.env_clear().args(["-c", ORPHAN, "sh"]).arg(&at);
    orphan.arg(command.get_program()).args(command.get_args());
    orphan.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = command.get_current_dir() {
        orphan.current_dir(dir);
    }
    run(orphan, dir, name).expect_success();
    let read = |end: &str| {
        let bytes = std::fs::read(at.with_extension(end));
        bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let code = wait_until(&format!("{name} has ended"), || read("code"));
    let code: i32 = code.trim().parse().expect("an exit code");
    let [stdout, stderr] = ["out", "err"].map(|end| read(end).expect("its output"));
    Finished { status: ExitStatus::from_raw(code << 8), stdout, stderr }
}

/// Kills every process that runs with `home` as its `HOME`: what a hook or a tool left behind.
/// Only [`crate::home::Home::command`] starts anything with that, and what it starts hands it on.
pub fn sweep(home: &Path) {
    let variable = [b"HOME=", home.as_os_str().as_bytes()].concat();
    let Ok(entries) = std::fs::read_dir("/proc") else { return };
    for entry in entries.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else { continue };
        // The pidfd comes first: if the pid is another process by now, the look is at that one.
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry == variable) {
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        }
    }
}

/// Copies a program that is to be run. Another process does it: a file that this one has open for writing
/// is also open in whatever another thread forks meanwhile, and the kernel runs no such file ("text file busy").
#[track_caller]
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("--").args([from, to]).status().expect("cp");
    assert!(status.success(), "cp {} {}: {status}", from.display(), to.display());
}

/// Writes a script that is to be run, by another process too.
#[track_caller]
pub fn write_program(path: &Path, text: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"", "sh"]).arg(path).arg(text);
    let status = command.status().expect("sh");
    assert!(status.success(), "write {}: {status}", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;

    #[test]
    fn what_a_program_left_behind_goes_with_its_home() {
        let (home, other) = (Home::new(), Home::new());
        let mut script = home.command("sh");
        // In the moment of an exec a process has no environment: it says that it is past its own.
        let waits = "echo $$; echo > \"$HOME/up\"; read never <> \"$HOME/never\"";
        let script_text = format!(
            "mkfifo \"$HOME/up\" \"$HOME/never\"; setsid sh -c '{waits}' & read up < \"$HOME/up\""
        );
        script.args(["-c", &script_text]);
        let left: i32 = run(script, &home.tmp(), "sh").stdout.trim().parse().unwrap();
        let left = pidfd_open(Pid::from_raw(left).unwrap(), PidfdFlags::empty()).unwrap();
        let mut bystander = other.command("sleep");
        bystander.arg("1000");
        let bystander = Running::start(bystander, &other.tmp(), "sleep");
        drop(home);
        assert!(readable(&left, PATIENCE));
        assert!(!bystander.has_ended());
    }
}
