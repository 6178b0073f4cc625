//! Where the list comes from, and what performs the keys.

use std::fmt::Debug;
use std::process::Output;

use coord_view::list::{List, Row};
use coord_wire::inspect::{Inspect, Session};

/// Something that may take long. It runs on a thread of its own, so that the keys always work.
pub type Job<T> = Box<dyn FnOnce() -> T + Send>;

/// What a look found.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// Sessions and runs.
    pub answer: Inspect,
    /// Whether a coordinator answered; else this is the last recorded state.
    pub is_live: bool,
    /// Whether nothing changes any more.
    pub is_last: bool,
}

/// How a command of coord ended, or why it was not started.
pub type Ran = std::io::Result<Output>;

/// Blocks until there may be something new.
pub trait Watch: Send {
    /// Returns when the journal grew, or when the coordinator that was looked at last has ended.
    ///
    /// # Errors
    /// There is nothing that could be watched.
    fn wait(&mut self) -> anyhow::Result<()>;
}

/// What `top` shows and does.
pub trait Source: Debug {
    /// Looks at all sessions and runs. Where no coordinator answers, the files are read if `reads_files`; else that
    /// is an error.
    fn look(&self, reads_files: bool) -> Job<anyhow::Result<Look>>;
    /// Watches for changes, and for the end of the coordinator, whose process is `pid`.
    ///
    /// # Errors
    /// There is nothing to watch yet.
    fn watch(&self, pid: u32) -> anyhow::Result<Box<dyn Watch>>;
    /// The rows of what was seen, at a time in milliseconds since 1970.
    fn list(&self, answer: &Inspect, now_ms: u64) -> List;
    /// What is known of a row's session or run: names and words. Not escaped.
    fn details(&self, answer: &Inspect, row: &Row) -> Vec<(String, String)>;
    /// The directory of a session, as people write it.
    fn directory(&self, session: &Session) -> String;
    /// Reads what a session's pane shows; the error says why that cannot be read. Not escaped.
    fn screen(&self, session: &Session) -> Job<Result<String, String>>;
    /// Runs a command of coord itself: `coord` with these words, or `coordctl` for those that act.
    fn command(&self, acts: bool, words: &[String]) -> Job<Ran>;
    /// Runs a command of `coordctl` that speaks with the person at this terminal, to its end.
    ///
    /// # Errors
    /// It could not be run.
    fn converse(&self, words: &[String]) -> std::io::Result<()>;
    /// What is said where there is no session.
    fn nothing(&self) -> String;
    /// Now, in milliseconds since 1970.
    fn now_ms(&self) -> u64;
    /// A time of day on this machine's clock.
    fn clock(&self, at_ms: u64) -> String;
}
