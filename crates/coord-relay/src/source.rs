//! What the relay needs of this machine. `coord-cli` implements it by the coordinator's socket and the files.

use std::io;

use coord_fleet::{Journal, Local};
use coord_wire::fleet::{FleetNotices, NoticesAnswer};
use serde_json::value::RawValue;

/// This machine.
pub trait Source: Local + Journal {
    /// The sessions as `coord inspect --json` shows them, each with its id.
    ///
    /// # Errors
    /// The coordinator does not answer.
    fn sessions(&mut self) -> io::Result<Vec<(String, Box<RawValue>)>>;

    /// Says what was heard of needs, and of who tells of them.
    ///
    /// # Errors
    /// The coordinator does not answer.
    fn notices(&mut self, heard: &FleetNotices) -> io::Result<NoticesAnswer>;
}

/// Tells when something may be new. It waits on a thread of its own.
pub trait Watch: Send + 'static {
    /// Waits until the journal has grown.
    ///
    /// # Errors
    /// There is nothing to watch yet.
    fn wait(&mut self) -> io::Result<()>;
}
