//! What the relay needs of this machine. `coord-cli` implements it by the coordinator's socket and the files.

use std::io;

use coord_fleet::{Journal, Local};
use serde_json::value::RawValue;

/// This machine.
pub trait Source: Local + Journal {
    /// The sessions as `coord inspect --json` shows them, each with its id.
    ///
    /// # Errors
    /// The coordinator does not answer.
    fn sessions(&mut self) -> io::Result<Vec<(String, Box<RawValue>)>>;
}

/// Tells when something may be new. It waits on a thread of its own.
pub trait Watch: Send + 'static {
    /// Waits until the journal has grown.
    ///
    /// # Errors
    /// There is nothing to watch yet.
    fn wait(&mut self) -> io::Result<()>;
}
