//! Where the page's content comes from, and what performs its acts.

use std::fmt::Debug;
use std::time::Duration;

use coord_view::list::List;
use coord_wire::inspect::Inspect;

use crate::view::{Act, Acted, ExplainLine, HistoryLine, RequestView, SessionView};

/// What a look found.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// Sessions and runs.
    pub answer: Inspect,
    /// Whether a coordinator answered; else this is the last recorded state.
    pub is_live: bool,
}

/// Blocks until there may be something new.
pub trait Watch: Send {
    /// Waits for a change of the journal, or for the end of the coordinator that was looked at last; at most for
    /// `at_most`. Returns whether there was one.
    ///
    /// # Errors
    /// There is nothing that could be watched.
    fn wait(&mut self, at_most: Duration) -> anyhow::Result<bool>;
}

/// What came of an act.
#[derive(Debug)]
pub enum Done {
    /// It was done, or would be: what is said about it.
    Said(Acted),
    /// The passphrase has to be given first.
    PassphraseNeeded,
}

/// What the page shows and does. Every method may block; none is called where that would matter.
pub trait Source: Debug + Send + Sync {
    /// Looks at all sessions and runs. Where no coordinator answers, the files are read if `reads_files`; else that is
    /// an error.
    ///
    /// # Errors
    /// Nothing can be read.
    fn look(&self, reads_files: bool) -> anyhow::Result<Look>;
    /// Watches for changes, and for the end of the coordinator, whose process is `pid`.
    ///
    /// # Errors
    /// There is nothing to watch yet.
    fn watch(&self, pid: u32) -> anyhow::Result<Box<dyn Watch>>;
    /// The rows of what was seen, at a time in milliseconds since 1970.
    fn list(&self, answer: &Inspect, now_ms: u64) -> List;
    /// The directory of a row's session, as people write it; empty if it has none.
    fn directory(&self, answer: &Inspect, id: &str) -> String;
    /// One session or run in depth. The page shows it while `is_shown`, so what takes time may be looked at.
    fn session(&self, answer: &Inspect, id: &str) -> Option<SessionView>;
    /// The open prompts of these sessions, with their exact input where it may be shown.
    ///
    /// # Errors
    /// Why none can be had, in words.
    fn requests(&self) -> Result<Vec<RequestView>, String>;
    /// The newest events of a session, the newest first.
    ///
    /// # Errors
    /// Why they cannot be read, in words.
    fn history(&self, id: &str) -> Result<Vec<HistoryLine>, String>;
    /// Why a session is in its state.
    ///
    /// # Errors
    /// Why that cannot be read, in words.
    fn explain(&self, id: &str) -> Result<Vec<ExplainLine>, String>;
    /// Acts, or says with `dry_run` what a person is to confirm.
    ///
    /// # Errors
    /// Why nothing was done, in one line with what to do instead.
    fn act(&self, act: &Act, dry_run: bool) -> Result<Done, String>;
    /// Gives the coordinator the passphrase.
    ///
    /// # Errors
    /// Why it was not taken, in one line.
    fn unlock(&self, passphrase: String) -> Result<(), String>;
    /// Whether this process may connect to the page.
    ///
    /// # Errors
    /// Why not, in one line.
    fn check_peer(&self, pid: u32) -> Result<(), String>;
    /// What is said where there is no session.
    fn nothing(&self) -> String;
    /// Now, in milliseconds since 1970.
    fn now_ms(&self) -> u64;
    /// A time of day on this machine's clock.
    fn clock(&self, at_ms: u64) -> String;
}
