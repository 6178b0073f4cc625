//! The store: writes what was accepted, and reads it back after any crash.
//!
//! The [`Journal`] is the history, and a [`Snapshot`] a shortcut through it. The [`Spool`] reads
//! what hooks wrote while no coordinator answered. All of them work on the narrow [`Disk`] trait,
//! so that the simulation can run this very code on a disk that fails. Payloads are bytes: this
//! crate knows nothing about sessions or events, and decides nothing about them.

pub mod bodies;
pub mod clock;
pub mod disk;
pub mod finding;
pub mod journal;
pub mod lock;
pub mod place;
pub mod real_disk;
pub mod reserve;
pub mod segment;
pub mod snapshot;
pub mod snapshot_index;
pub mod spool;

pub use bodies::Bodies;
pub use clock::{Clock, RealClock, now};
pub use disk::{Disk, DiskFile};
pub use finding::Finding;
pub use journal::{AppendError, Journal, JournalError, ReopenJob, Reopened, SyncJob, Synced, Tail};
pub use lock::{CoordinatorLock, LockError, StateLock};
pub use place::{PlaceError, check_owner, check_place};
pub use real_disk::{RealDisk, read_small_file};
pub use reserve::Reserve;
pub use segment::Segment;
pub use snapshot::{Snapshot, SnapshotError, SnapshotWriter, Staged};
pub use snapshot_index::SnapshotIndex;
pub use spool::{Drained, Piece, Spool, Taken};
