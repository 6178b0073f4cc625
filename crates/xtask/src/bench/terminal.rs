//! A tmux server of a measurement's own, and panes with a shell in which clients are started by typing.

use super::place::until;
use anyhow::{Context, bail};
use coord_tests::home::Home;
use coord_tests::process::Running;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a shell that waits shows last.
const PROMPT: &str = "dev$";

/// The session that all windows are in.
const SESSION: &str = "bench";

/// A tmux server; it ends with this.
#[derive(Debug)]
pub(super) struct Terminal {
    server: Running,
    socket: PathBuf,
    path: String,
}

/// A pane with a shell.
#[derive(Debug, Clone)]
pub(super) struct Pane {
    id: String,
}

impl Terminal {
    /// Where the server of a home listens.
    pub(super) fn socket(home: &Home) -> PathBuf {
        home.tmp().join("tmux")
    }

    /// Starts a server in the environment of `command`, whose program is tmux. Its shells find programs in
    /// `programs` first.
    pub(super) fn start(
        home: &Home,
        mut command: Command,
        programs: &Path,
    ) -> anyhow::Result<Self> {
        let socket = Self::socket(home);
        let path = std::env::var("PATH").context("PATH")?;
        let path = format!("{}:{path}", programs.display());
        command
            .args(["-D", "-f", "/dev/null", "-S"])
            .arg(&socket)
            .env("PATH", &path)
            .env("PS1", format!("{PROMPT} "))
            .stdin(Stdio::null());
        let terminal = Self { server: Running::start(command, &home.tmp(), "tmux"), socket, path };
        until("the tmux server", || Ok(terminal.tell(&["show-options", "-s"]).ok()))?;
        Ok(terminal)
    }

    /// Its server's pid.
    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Opens a pane in a window of its own; its shell may not be ready yet.
    pub(super) fn pane(&self, folder: &Path) -> anyhow::Result<Pane> {
        let folder = folder.to_string_lossy();
        let size = ["-x", "110", "-y", "40", "-s", SESSION];
        let shell = ["-c", &folder, "-P", "-F", "#{pane_id}", "bash", "--norc", "--noprofile"];
        let is_first = self.tell(&["has-session", "-t", SESSION]).is_err();
        let id = if is_first {
            self.tell(&[&["new-session", "-d"][..], &size, &shell].concat())?
        } else {
            self.tell(&[&["new-window", "-d", "-t", SESSION][..], &shell].concat())?
        };
        Ok(Pane { id: id.trim().to_owned() })
    }

    /// Waits until the pane's shell shows its prompt.
    pub(super) fn wait_shell(&self, pane: &Pane) -> anyhow::Result<()> {
        self.wait_screen(pane, PROMPT)
    }

    /// Waits until the pane shows `text`.
    pub(super) fn wait_screen(&self, pane: &Pane, text: &str) -> anyhow::Result<()> {
        let found = until(text, || Ok(self.screen(pane)?.contains(text).then_some(())));
        found.with_context(|| self.screen(pane).unwrap_or_default())
    }

    /// What the pane shows.
    pub(super) fn screen(&self, pane: &Pane) -> anyhow::Result<String> {
        self.tell(&["capture-pane", "-p", "-t", &pane.id])
    }

    /// Types a command into the pane's shell.
    pub(super) fn command(&self, pane: &Pane, line: &str) -> anyhow::Result<()> {
        let text = ["send-keys", "-t", &pane.id, "-l", line, ";"];
        self.tell(&[&text[..], &["send-keys", "-t", &pane.id, "Enter"]].concat()).map(drop)
    }

    /// Types a line into a client. Sent together with the text, Enter would count as pasted.
    pub(super) fn say(&self, pane: &Pane, line: &str) -> anyhow::Result<()> {
        self.tell(&["send-keys", "-t", &pane.id, "-l", line])?;
        self.wait_screen(pane, line)?;
        self.tell(&["send-keys", "-t", &pane.id, "Enter"]).map(drop)
    }

    /// Presses a key, by tmux's name of it.
    pub(super) fn key(&self, pane: &Pane, key: &str) -> anyhow::Result<()> {
        self.tell(&["send-keys", "-t", &pane.id, key]).map(drop)
    }

    /// Closes the pane.
    pub(super) fn close(&self, pane: &Pane) -> anyhow::Result<()> {
        self.tell(&["kill-pane", "-t", &pane.id]).map(drop)
    }

    /// Attaches a terminal, which ends with what is returned. The file has all that it was shown.
    pub(super) fn attach(&self, home: &Home) -> anyhow::Result<(Running, PathBuf)> {
        let mut command = home.command("script");
        let (shown, socket) = (home.tmp().join("shown"), self.socket.display());
        let line = format!("exec tmux -S '{socket}' attach -t {SESSION}");
        command.args(["-qefc", &line]).arg(&shown).env("TERM", "xterm").stdin(Stdio::piped());
        let terminal = Running::start(command, &home.tmp(), "attach");
        until("an attached terminal", || {
            let clients = self.tell(&["list-clients", "-F", "#{client_name}"])?;
            Ok((!clients.trim().is_empty()).then_some(()))
        })?;
        Ok((terminal, shown))
    }

    fn tell(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("tmux");
        // A new pane gets the PATH of the one who asked for it, whatever the server's is.
        command.env_remove("TMUX").env("LANG", "C.UTF-8").env("PATH", &self.path);
        let output =
            command.arg("-S").arg(&self.socket).args(arguments).output().context("tmux")?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            bail!("tmux {}: {}", arguments.join(" "), why.trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}
