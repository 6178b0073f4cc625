//! The caller's own tmux client: where it is, and how it is moved.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::anyhow;

use super::moves;
use crate::context::{Context, variable};
use crate::out::Failure;

/// A tmux client, and the program that moves it.
#[derive(Debug)]
pub(super) struct Client {
    /// The tmux program; none if there is no tmux here.
    program: Option<PathBuf>,
    /// The socket of its server; none outside tmux.
    server: Option<String>,
    /// Its name.
    name: Option<String>,
    /// Whether a key binding named it, so that nobody reads what is printed.
    is_bound: bool,
}

impl Client {
    /// The client that this process runs in, or the named one.
    pub(super) fn open(named: Option<String>) -> Self {
        let program = coord_host::tmux::find_program(&[]).ok();
        let tmux = variable("TMUX").and_then(|tmux| tmux.into_string().ok()).unwrap_or_default();
        let server = tmux.split(',').next().filter(|socket| !socket.is_empty());
        let is_bound = named.is_some();
        let mut client = Self { program, server: server.map(str::to_owned), name: named, is_bound };
        if client.server.is_some() && client.name.is_none() {
            let own = client.ask(&["display-message", "-p", "#{client_name}"]);
            client.name = own.filter(|name| !name.is_empty());
        }
        client
    }

    /// The socket of its server; none outside tmux.
    pub(super) fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// What tells it from other clients.
    pub(super) fn key(&self) -> String {
        format!("{} {}", self.server().unwrap_or_default(), self.name.as_deref().unwrap_or("-"))
    }

    /// The pane that it shows.
    pub(super) fn pane(&self) -> Option<String> {
        let format = "#{pane_id}";
        match &self.name {
            Some(name) => self.ask(&["display-message", "-p", "-c", name, format]),
            None => self.ask(&["display-message", "-p", format]),
        }
    }

    /// The device number of a pane's terminal; none if the pane is gone, or the server is another one.
    pub(super) fn terminal_of(&self, pane: &str, server_pid: u32) -> Option<u64> {
        let answer =
            self.ask(&["display-message", "-p", "-t", pane, "#{pid} #{pane_id} #{pane_tty}"])?;
        let mut fields = answer.splitn(3, ' ');
        let pid: u32 = fields.next()?.parse().ok()?;
        let is_it = fields.next()? == pane && (server_pid == 0 || pid == server_pid);
        let terminal = fields.next().filter(|_| is_it)?;
        Some(std::fs::symlink_metadata(terminal).ok()?.rdev())
    }

    /// Shows the pane, and remembers where the client was.
    pub(super) fn move_to(&self, pane: &str, context: &Context) -> Result<(), Failure> {
        let Some(before) = self.pane().filter(|before| before != pane) else {
            return self.switch(pane);
        };
        // Before the move: `coord back` may follow at once.
        let remembered = moves::remember(context, &self.key(), &before);
        if let Err(failure) = self.switch(pane) {
            if remembered.is_ok() {
                moves::take_last(context, &self.key());
            }
            return Err(failure);
        }
        Ok(remembered?)
    }

    /// Shows the pane.
    pub(super) fn switch(&self, pane: &str) -> Result<(), Failure> {
        if self.name.is_none() {
            return self
                .tell("No terminal shows this tmux server; nothing was switched.".to_owned());
        }
        let mut words = vec!["switch-client", "-Z"];
        if let Some(name) = &self.name {
            words.extend(["-c", name]);
        }
        words.extend(["-t", pane]);
        match self.ask(&words) {
            Some(_) => Ok(()),
            None => self.tell("The pane is closed; nothing was switched.".to_owned()),
        }
    }

    /// Says why nothing was switched: in tmux, if a key binding asked.
    pub(super) fn tell(&self, text: String) -> Result<(), Failure> {
        if let Some(name) = self.name.as_ref().filter(|_| self.is_bound) {
            let plain = text.replace('#', "##").replace('%', "%%");
            self.ask(&["display-message", "-c", name, &plain]);
        }
        Err(Failure::Failed(anyhow!(text)))
    }

    /// Runs one command on its server. None if it failed.
    fn ask(&self, words: &[&str]) -> Option<String> {
        let server = self.server.as_ref()?;
        let mut command = Command::new(self.program.as_ref()?);
        command.arg("-S").arg(server).args(words).stdin(Stdio::null());
        let output = command.output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim_end_matches('\n').to_owned())
    }
}
