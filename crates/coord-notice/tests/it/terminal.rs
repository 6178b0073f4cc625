//! A real tmux server with clients that are really attached: each in a pane of another server, whose output is
//! recorded.

use crate::sender::{directory, program, text};
use coord_tests::process::Running;
use coord_tests::wait::wait_until;
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A server, killed with its panes when it is dropped.
pub(crate) struct Server {
    process: Running,
    directory: TempDir,
}

impl Server {
    /// A server with one session `w` that has one pane.
    #[track_caller]
    pub(crate) fn start() -> Self {
        let directory = directory();
        let mut command = tmux();
        command.args(["-D", "-f", "/dev/null", "-S"]).arg(directory.path().join("s"));
        command.stdin(Stdio::null());
        let process = Running::start(command, directory.path(), "tmux");
        let server = Self { process, directory };
        wait_until("the tmux server answers", || server.ask(&["show-options", "-s"]));
        server.tell(&["new-session", "-d", "-x", "120", "-y", "20", "-s", "w", "sleep 1000"]);
        server
    }

    pub(crate) fn socket(&self) -> String {
        text(&self.directory.path().join("s"))
    }

    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let output = tmux().arg("-S").arg(self.socket()).args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Runs a command, and returns what it printed.
    #[track_caller]
    pub(crate) fn tell(&self, arguments: &[&str]) -> String {
        self.ask(arguments).unwrap_or_else(|error| panic!("tmux {arguments:?}: {error}"))
    }

    /// Has `n` clients attached from here to `other`. What they paint is recorded.
    #[track_caller]
    pub(crate) fn attach(&self, other: &Self, n: usize) -> Vec<Record> {
        let attach = format!("env -u TMUX {} -S {} attach -t w", program("tmux"), other.socket());
        let records = (0..n).map(|at| {
            let file = self.directory.path().join(format!("record-{at}"));
            let make = ["new-session", "-d", "-x", "120", "-y", "20", "-P", "-F", "#{pane_id}"];
            // The record begins before the client does.
            let begin = format!("until [ -e {} ]; do sleep 0.01; done; {attach}", file.display());
            let pane = self.tell(&[&make[..], &[&begin]].concat());
            let cat = format!("cat > {}", file.display());
            self.tell(&["pipe-pane", "-t", pane.trim(), &cat]);
            Record(file)
        });
        let records = records.collect();
        wait_until("the clients are attached", || {
            let list = other.tell(&["list-clients"]);
            if list.lines().count() == n { Ok(()) } else { Err(list) }
        });
        records
    }

    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
}

/// What a client painted.
pub(crate) struct Record(PathBuf);

impl Record {
    pub(crate) fn read(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.0).unwrap_or_default()).into_owned()
    }

    /// Waits until the client has painted a text.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        wait_until(&format!("the client shows {text:?}"), || {
            let painted = self.read();
            if painted.contains(text) { Ok(()) } else { Err(painted) }
        });
    }
}

fn tmux() -> Command {
    let mut command = Command::new(program("tmux"));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LANG", "C.UTF-8");
    command.env("TERM", "screen").env("SHELL", "/bin/sh");
    command
}
