//! A file that exists only to be removed when the disk is full (H-29), so that turn edges and the
//! coordinator's own records still find room. The coordinator decides when to remove it, and what
//! may be written then.

use crate::disk::{Disk, DiskFile};
use std::io;
use std::path::{Path, PathBuf};

/// Name of the reserve file in the state directory.
const FILE: &str = "reserve";
/// Size of the pieces in which the reserve is written, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// The reserve of one state directory.
#[derive(Debug)]
pub struct Reserve<D> {
    disk: D,
    dir: PathBuf,
    bytes: u64,
}

impl<D: Disk> Reserve<D> {
    /// The reserve in the state directory `dir`, of `bytes` bytes
    /// ([`coord_wire::limits::RESERVE_FILE_BYTES`]).
    pub fn new(disk: D, dir: &Path, bytes: u64) -> Self {
        Self { disk, dir: dir.to_path_buf(), bytes }
    }

    /// Whether the reserve exists.
    pub fn is_there(&self) -> bool {
        self.disk.len(&self.file()).is_ok_and(|len| self.bytes <= len)
    }

    /// Releases the space. Returns false if there was no reserve.
    pub fn release(&self) -> io::Result<bool> {
        match self.disk.remove(&self.file()) {
            // File systems free the blocks only when the removal is committed.
            Ok(()) => self.disk.sync_dir(&self.dir).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates the reserve if it is missing and as much space again stays free. Returns whether it
    /// exists now.
    pub fn restore(&self) -> io::Result<bool> {
        if self.is_there() {
            return Ok(true);
        }
        if self.disk.free(&self.dir)? < 2 * self.bytes {
            return Ok(false);
        }
        match self.fill() {
            Ok(()) => Ok(true),
            Err(error) => {
                self.release()?;
                if crate::disk::is_full(&error) { Ok(false) } else { Err(error) }
            }
        }
    }

    fn file(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    /// Writes noise: zeros would take no room on a file system that compresses.
    fn fill(&self) -> io::Result<()> {
        let mut file = self.disk.open_append(&self.file())?;
        file.truncate(0)?;
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let mut left = self.bytes;
        while 0 < left {
            piece.clear();
            while piece.len() < PIECE_BYTES {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                piece.extend_from_slice(&state.to_le_bytes());
            }
            piece.truncate(usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES));
            file.append(&piece)?;
            left -= piece.len() as u64;
        }
        file.sync()
    }
}
