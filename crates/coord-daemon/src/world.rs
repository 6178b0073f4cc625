//! Everything outside the coordinator but its clock: processes, the client's registry, panes,
//! transcripts, and the disk with what waits for it.
//!
//! It observes and acts, and decides nothing. `real_world` is this machine; the simulation
//! has another one, so that it runs the coordinator itself.

use std::io;

use coord_host::executor::Reply;
use coord_host::observer::Seen;
use coord_host::registry::{Change, Found};
use coord_host::registry_reader::RegistryWish;
use coord_host::tmux::PaneWish;
use coord_host::transcript::{MessageWish, TranscriptWish};
use coord_model::{Action, ProcessRef, ProcessSeen, Registry};
use coord_store::Disk;

use crate::background::{Done, Job};

/// The world as a coordinator meets it. Nothing here waits.
pub trait World {
    /// Where the store lies.
    type Disk: Disk;

    /// Asks to be told of the end of a process; true if it is alive.
    ///
    /// # Errors
    /// It is alive, and its end cannot be told.
    fn watch_process(&mut self, process: ProcessRef) -> io::Result<bool>;
    /// Whether exactly this process is alive.
    fn is_alive(&self, process: ProcessRef) -> bool;
    /// Whether exactly this process is stopped by a signal; none where it is gone.
    fn is_stopped(&self, process: ProcessRef) -> Option<bool>;
    /// Whether exactly this process is a client, by its executable (H-46).
    ///
    /// # Errors
    /// It is not: the program that it is, for people.
    fn recognize(&self, process: ProcessRef) -> Result<(), String>;
    /// The configuration directory that the environment of exactly this process gives; none where that
    /// cannot be read.
    fn config_dir_of(&self, process: ProcessRef) -> Option<String>;
    /// Whether exactly this process is the first one of a pane: the child of the tmux server that listens
    /// at this socket, on a terminal of its own; that server's pid.
    fn pane_server(&self, process: ProcessRef, socket: &str) -> Option<u32>;
    /// What its command line and its terminal say of a process that is alive, or was.
    fn seen(&self, process: ProcessRef, alive: bool) -> ProcessSeen;

    /// Watches the registry of a configuration directory; all entries there are now.
    fn watch_registry(&mut self, config_dir: &str) -> Vec<Change>;
    /// Tries again the registries that were not there; the entries of those that are.
    fn retry_registries(&mut self) -> Vec<Change>;
    /// Registries that are to be watched and are not there, or no longer.
    fn missing_registries(&self) -> Vec<String>;
    /// What changed in the watched registries since the last call.
    fn registry_changes(&mut self) -> Vec<Change>;
    /// Wishes for entries of the registry; each is answered, in this order, by [`Self::take_seen`].
    fn read_registry(&mut self, wishes: Vec<RegistryWish>);
    /// The registry's entry of whatever process has this pid, for an event that is believed by it; else what is
    /// there instead.
    ///
    /// # Errors
    /// What was found instead of an entry.
    fn registry_entry(&self, config_dir: &str, pid: u32) -> Result<Found, Box<Registry>>;
    /// Takes the lock on a configuration directory for life; true if it is held (H-14).
    fn lock_config_dir(&mut self, config_dir: &str) -> bool;

    /// Watches the transcript of a process; true if nobody did.
    fn watch_transcript(&mut self, process: ProcessRef, path: &str) -> bool;
    /// Watches it no longer.
    fn forget_transcript(&mut self, process: ProcessRef);
    /// Whose transcripts changed since the last call.
    fn transcript_changes(&mut self) -> Vec<ProcessRef>;

    /// Wishes for looks at panes; each is answered once, by [`Self::take_seen`].
    fn look_at_panes(&mut self, wishes: Vec<PaneWish>);
    /// Wishes for the end of a transcript.
    fn read_transcript(&mut self, wish: TranscriptWish);
    /// Wishes for a look for messages in a transcript; answered by [`Self::take_seen`].
    fn seek_messages(&mut self, wish: MessageWish);
    /// Wishes for the files of a task directory.
    fn read_task(&mut self, dir: String);
    /// Something that was seen, if there is any.
    fn take_seen(&mut self) -> Option<Seen>;

    /// Does something to a session, or looks for it; each action is answered once, by
    /// [`Self::take_reply`].
    fn act(&mut self, action: Action);
    /// What came of an action, if anything has.
    fn take_reply(&mut self) -> Option<Reply>;

    /// Whether the machine is being shut down, as far as it says so; `wall_ms` is the wall time now (H-10).
    fn is_shutting_down(&self, wall_ms: u64) -> bool;

    /// 64 random bits.
    fn random(&mut self) -> u64;

    /// Gives the disk something to do, behind what it was given before.
    fn give(&mut self, job: Job<Self::Disk>);
    /// What the disk has done, if there is any.
    fn take_done(&mut self) -> Option<Done<Self::Disk>>;
    /// Waits until all that was given is done; the results.
    fn finish(&mut self) -> Vec<Done<Self::Disk>>;
}
