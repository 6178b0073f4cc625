//! Everything outside the coordinator except its clock: processes, the client's registry, panes,
//! transcripts, and the disk with the jobs that wait for it.
//!
//! A world observes and acts, and decides nothing. `real_world` implements it for this machine. The
//! simulation implements another one, and so runs the coordinator itself.

use std::io;

use coord_fleet::Allowed;
use coord_host::executor::Reply;
use coord_host::notices::Told;
use coord_host::observer::Seen;
use coord_host::passphrase::{FileError, HashError, Passphrase, PassphraseHash};
use coord_host::registry::{Change, Found};
use coord_host::registry_reader::RegistryWish;
use coord_host::tmux::PaneWish;
use coord_host::transcript::{DecisionWish, MessageWish, TranscriptWish};
use coord_model::{
    Action, LocalOffset, MachineId, NeedId, ProcessRef, ProcessSeen, Registry, SessionKey, TmuxPane,
};
use coord_store::Disk;
use coord_wire::notice::SendRequest;

use crate::background::{Done, Job};

/// What this machine is in a fleet, and whom it lets in.
#[derive(Debug, Clone)]
pub struct Membership {
    /// This machine.
    pub machine: MachineId,
    /// The machines that a person has allowed (F-06).
    pub allowed: Allowed,
}

/// The world as the coordinator sees it. No method here blocks.
pub trait World {
    /// The disk of the store.
    type Disk: Disk;

    /// Watches a process for its exit. Returns whether the process is alive.
    ///
    /// # Errors
    /// The process is alive, and its exit cannot be watched.
    fn watch_process(&mut self, process: ProcessRef) -> io::Result<bool>;
    /// Whether exactly this process is alive.
    fn is_alive(&self, process: ProcessRef) -> bool;
    /// Whether exactly this process is stopped by a signal; none if it is gone.
    fn is_stopped(&self, process: ProcessRef) -> Option<bool>;
    /// Checks by its executable that exactly this process is a client (H-46).
    ///
    /// # Errors
    /// The process is no client: the name of its program, for people.
    fn recognize(&self, process: ProcessRef) -> Result<(), String>;
    /// The configuration directory from the environment of exactly this process; none if the environment
    /// cannot be read.
    fn config_dir_of(&self, process: ProcessRef) -> Option<String>;
    /// The pid of the tmux server that listens at this socket, if exactly this process is the first one
    /// of a pane: a child of that server, on a terminal of its own.
    fn pane_server(&self, process: ProcessRef, socket: &str) -> Option<u32>;
    /// What the command line and the terminal of a process show, whether it is alive or has ended.
    fn seen(&self, process: ProcessRef, alive: bool) -> ProcessSeen;

    /// Watches the registry of a configuration directory. Returns all of its present entries.
    fn watch_registry(&mut self, config_dir: &str) -> Vec<Change>;
    /// Tries again to watch the registries that were missing. Returns the entries of those found.
    fn retry_registries(&mut self) -> Vec<Change>;
    /// The watched registries that are missing, whether they never existed or were removed.
    fn missing_registries(&self) -> Vec<String>;
    /// The entries that changed in the watched registries since the last call.
    fn registry_changes(&mut self) -> Vec<Change>;
    /// Requests reads of registry entries. [`Self::take_seen`] returns one answer each, in this order.
    fn read_registry(&mut self, wishes: Vec<RegistryWish>);
    /// Reads the registry entry of the process that has this pid, to judge an event by it.
    ///
    /// # Errors
    /// What was found instead of an entry.
    fn registry_entry(&self, config_dir: &str, pid: u32) -> Result<Found, Box<Registry>>;
    /// Locks a configuration directory for the life of the coordinator. Returns whether the lock is held
    /// (H-14).
    fn lock_config_dir(&mut self, config_dir: &str) -> bool;

    /// Watches the transcript of a process. Returns whether it was not watched before.
    fn watch_transcript(&mut self, process: ProcessRef, path: &str) -> bool;
    /// Stops watching the transcript of a process.
    fn forget_transcript(&mut self, process: ProcessRef);
    /// The processes whose transcripts changed since the last call.
    fn transcript_changes(&mut self) -> Vec<ProcessRef>;

    /// Requests captures of panes; [`Self::take_seen`] returns one answer each.
    fn look_at_panes(&mut self, wishes: Vec<PaneWish>);
    /// Requests a read of the end of a transcript.
    fn read_transcript(&mut self, wish: TranscriptWish);
    /// Requests a look for messages in a transcript; [`Self::take_seen`] returns the answer.
    fn seek_messages(&mut self, wish: MessageWish);
    /// Requests a look how calls were decided; [`Self::take_seen`] returns the answer.
    fn seek_decisions(&mut self, wish: DecisionWish);
    /// Requests a read of the files in a task directory.
    fn read_task(&mut self, dir: String);
    /// Requests a look at the repository that a session's directory is in; [`Self::take_seen`] returns the answer.
    fn look_at_work(&mut self, session: SessionKey, dir: String);
    /// The next observation, if there is one.
    fn take_seen(&mut self) -> Option<Seen>;

    /// Performs an action on a session, or a look at one; [`Self::take_reply`] returns one answer each.
    fn act(&mut self, action: Action);
    /// The next result of an action, if there is one.
    fn take_reply(&mut self) -> Option<Reply>;

    /// Sends a notice through a channel; [`Self::take_told`] returns the answer. The world fills in which programs
    /// are used, and leaves out the tmux servers that may not be.
    fn send_notice(&mut self, channel: String, number: Option<u64>, request: SendRequest);
    /// Looks whether a person is watching the pane of a need; [`Self::take_told`] returns the answer.
    fn look_for_presence(&mut self, need: NeedId, pane: TmuxPane);
    /// The next result of a notice or of a look for a person, if there is one.
    fn take_told(&mut self) -> Option<Told>;
    /// The local clock's distances from UTC, from now on for two days.
    fn local_offsets(&self, wall_ms: u64) -> Vec<LocalOffset>;

    /// Runs the relay of a fleet from now on, or ends it. One that ends by itself is started again (F-09).
    fn keep_relay(&mut self, is_wanted: bool);

    /// What this machine is in a fleet; none if it has joined none.
    ///
    /// # Errors
    /// Why that cannot be told, in words.
    fn membership(&self) -> Result<Option<Membership>, String>;

    /// The hash of the passphrase; none if no passphrase is set.
    ///
    /// # Errors
    /// The file cannot be used.
    fn passphrase(&self) -> Result<Option<PassphraseHash>, FileError>;
    /// Verifies a passphrase; [`Self::take_verified`] returns one answer each.
    fn verify_passphrase(&mut self, passphrase: Passphrase, hash: PassphraseHash);
    /// Whether the next passphrase was right, if one was verified, or why that is unknown.
    fn take_verified(&mut self) -> Option<Result<bool, HashError>>;

    /// Whether the machine says that it is being shut down; `wall_ms` is the present wall time (H-10).
    fn is_shutting_down(&self, wall_ms: u64) -> bool;

    /// Returns 64 random bits.
    fn random(&mut self) -> u64;

    /// Gives the disk thread a job, which runs after all earlier ones.
    fn give(&mut self, job: Job<Self::Disk>);
    /// The next result of a job, if there is one.
    fn take_done(&mut self) -> Option<Done<Self::Disk>>;
    /// Waits until all jobs are done, and returns their results.
    fn finish(&mut self) -> Vec<Done<Self::Disk>>;
}
