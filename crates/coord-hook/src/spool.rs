//! Appends to the spool, with the protocol of [`coord_wire::spool`].
//!
//! This module decides what is kept when space runs out (H-29): tool events are counted instead of
//! written, turn edges may use the reserve, and each session has a share. Once an append has begun,
//! no deadline interrupts it (H-37). It holds G1: what it reports as kept is in the page cache.

use crate::files;
use coord_model::envelope::ENVELOPE_BYTES_MAX;
use coord_wire::exchange::mono_ns;
use coord_wire::frame;
use coord_wire::limits::{
    SPOOL_BYTES_MAX, SPOOL_RECORDS_MAX, SPOOL_RESERVE_BYTES, SPOOL_SESSION_BYTES_MAX,
};
use coord_wire::spool::{
    CURRENT, FOLDED_AT, HEADER_BYTES, HEADER_MAGIC, RECORDS_AT, SOLO_PREFIX, share_at,
};
use rustix::event::{Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, OFlags, RawDir, fstat, ftruncate, statat, unlinkat};
use rustix::io::{Errno, pread, pwrite};
use std::mem::MaybeUninit;

/// Longest time, in nanoseconds, that a hook waits for another one's append.
const LOCK_WAIT_NS: u64 = 200_000_000;
/// Time between two attempts to take the lock.
const LOCK_STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Most files with one record: as many as fill the spool if each has the largest envelope.
const SOLO_FILES_MAX: u64 = SPOOL_BYTES_MAX / ENVELOPE_BYTES_MAX as u64;

/// Why an event could not be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpoolError {
    /// The limits of H-29 leave no room for this event.
    Full,
    /// The system refused.
    System(Errno),
}

impl From<Errno> for SpoolError {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

/// The priority of an event when space runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Counted instead of written.
    Folded,
    Ordinary,
    /// May use the reserve.
    Reserved,
}

/// A record to append.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    /// The frame: head and payload in one piece.
    pub(crate) framed: &'a [u8],
    pub(crate) weight: Weight,
    pub(crate) session_id: &'a str,
    /// The id of the event.
    pub(crate) id: &'a str,
}

/// Appends one event. It waits for the lock until `deadline_ns` at most. After that, the event gets
/// a file of its own, because the holder of the lock may be stopped for long.
pub(crate) fn append(
    spool: &OwnedFd,
    uid: u32,
    record: &Record<'_>,
    deadline_ns: u64,
) -> Result<(), SpoolError> {
    let deadline_ns = deadline_ns.min(mono_ns().saturating_add(LOCK_WAIT_NS));
    match Locked::open(spool, CURRENT, uid, deadline_ns)? {
        Some(mut file) => file.append_event(record),
        None => write_solo(spool, uid, record),
    }
}

/// A spool file with a header, whose lock is held until this value is dropped.
#[derive(Debug)]
pub(crate) struct Locked {
    file: OwnedFd,
    size: u64,
    header: [u8; HEADER_BYTES],
}

impl Locked {
    /// Opens and locks a file of the spool, and creates it if it is missing. Returns none if
    /// another process holds the lock, or if the file is no spool file.
    pub(crate) fn open(
        spool: &OwnedFd,
        name: &str,
        uid: u32,
        deadline_ns: u64,
    ) -> Result<Option<Self>, Errno> {
        loop {
            let (file, _) = files::file(spool, name, OFlags::RDWR | OFlags::CREATE, uid)?;
            if !lock(&file, deadline_ns)? {
                return Ok(None);
            }
            let held = fstat(&file)?;
            let is_named = statat(spool, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|named| (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino));
            if !is_named {
                // The coordinator renamed the file between open and lock: open the new one.
                continue;
            }
            let size = u64::try_from(held.st_size).unwrap_or(0);
            return Self::with_header(file, size);
        }
    }

    fn with_header(file: OwnedFd, size: u64) -> Result<Option<Self>, Errno> {
        let mut header = [0; HEADER_BYTES];
        if size < HEADER_BYTES as u64 {
            // The file is new, or its creator was killed before the header was complete.
            header[..HEADER_MAGIC.len()].copy_from_slice(&HEADER_MAGIC);
            write_whole(&file, &header, 0, size)?;
            return Ok(Some(Self { file, size: HEADER_BYTES as u64, header }));
        }
        let n = pread(&file, &mut header[..], 0)?;
        let is_spool = n == HEADER_BYTES && header.starts_with(&HEADER_MAGIC);
        Ok(is_spool.then_some(Self { file, size, header }))
    }

    fn append_event(&mut self, record: &Record<'_>) -> Result<(), SpoolError> {
        let bytes = record.framed.len() as u64;
        let share_at = share_at(record.session_id);
        let share = u32::from_le_bytes(self.counter(share_at));
        let bytes_u32 = u32::try_from(bytes).unwrap_or(u32::MAX);
        let end = self.size.saturating_add(bytes);
        let fits = end <= SPOOL_BYTES_MAX - SPOOL_RESERVE_BYTES
            && share.saturating_add(bytes_u32) <= SPOOL_SESSION_BYTES_MAX
            && self.n_records() < SPOOL_RECORDS_MAX;
        match record.weight {
            _ if fits => (),
            Weight::Reserved if end <= SPOOL_BYTES_MAX => (),
            Weight::Folded => {
                let folded = u64::from_le_bytes(self.counter(FOLDED_AT)).saturating_add(1);
                self.set_counter(FOLDED_AT, &folded.to_le_bytes());
                return Ok(self.write_counters(FOLDED_AT + 8)?);
            }
            Weight::Ordinary | Weight::Reserved => return Err(SpoolError::Full),
        }
        self.set_counter(share_at, &share.saturating_add(bytes_u32).to_le_bytes());
        Ok(self.append(record.framed, share_at + 4)?)
    }

    /// Appends a framed record and counts it. If the header cannot be updated, nothing is lost.
    pub(crate) fn append(&mut self, framed: &[u8], counters_end: u64) -> Result<(), Errno> {
        write_whole(&self.file, framed, self.size, self.size)?;
        self.size += framed.len() as u64;
        let n = self.n_records().saturating_add(1);
        self.set_counter(RECORDS_AT, &n.to_le_bytes());
        let _lags_by_one = self.write_counters(counters_end.max(RECORDS_AT + 8));
        Ok(())
    }

    /// The number of records written so far.
    pub(crate) fn n_records(&self) -> u64 {
        u64::from_le_bytes(self.counter(RECORDS_AT))
    }

    fn counter<const N: usize>(&self, at: u64) -> [u8; N] {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        self.header.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    fn set_counter(&mut self, at: u64, bytes: &[u8]) {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if let Some(place) = self.header.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len()))
        {
            place.copy_from_slice(bytes);
        }
    }

    /// Writes the header's counters up to `end`, in one piece.
    fn write_counters(&self, end: u64) -> Result<(), Errno> {
        let end = usize::try_from(end).unwrap_or(HEADER_BYTES);
        let counters = self.header.get(8..end).unwrap_or_default();
        pwrite(&self.file, counters, FOLDED_AT).map(drop)
    }
}

/// Takes the lock. Returns false if another process holds it until the deadline.
fn lock(file: &OwnedFd, deadline_ns: u64) -> Result<bool, Errno> {
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => (),
            Err(Errno::WOULDBLOCK) if mono_ns() < deadline_ns => {
                let _woken_early = poll(&mut [], Some(&LOCK_STEP));
            }
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
}

/// Writes all bytes, or truncates the file to its former size.
fn write_whole(file: &OwnedFd, bytes: &[u8], at: u64, size_before: u64) -> Result<(), Errno> {
    let mut n = 0;
    while n < bytes.len() {
        match pwrite(file, bytes.get(n..).unwrap_or_default(), at + n as u64) {
            Ok(0) => return cut_back(file, size_before, Errno::NOSPC),
            Ok(more) => n += more,
            Err(Errno::INTR) => (),
            Err(errno) => return cut_back(file, size_before, errno),
        }
    }
    Ok(())
}

fn cut_back(file: &OwnedFd, size: u64, errno: Errno) -> Result<(), Errno> {
    // What remains would be read as a torn record: untidy, but harmless.
    let _torn_record_stays = ftruncate(file, size);
    Err(errno)
}

/// Writes one event into a file of its own.
fn write_solo(spool: &OwnedFd, uid: u32, record: &Record<'_>) -> Result<(), SpoolError> {
    let n_max = match record.weight {
        Weight::Reserved => SOLO_FILES_MAX,
        Weight::Folded | Weight::Ordinary => SOLO_FILES_MAX - SOLO_FILES_MAX / 8,
    };
    if n_max <= n_solo_files(spool)? {
        return Err(SpoolError::Full);
    }
    let name = [SOLO_PREFIX, record.id].concat();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let (file, _) = files::file(spool, &name, flags, uid)?;
    match write_whole(&file, record.framed, 0, 0) {
        Ok(()) => Ok(()),
        Err(errno) => {
            let _empty_file_stays = unlinkat(spool, &name, AtFlags::empty());
            Err(errno.into())
        }
    }
}

fn n_solo_files(spool: &OwnedFd) -> Result<u64, Errno> {
    let listing = rustix::fs::openat(
        spool,
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(listing, &mut buffer);
    let mut n = 0;
    while let Some(entry) = entries.next() {
        n += u64::from(entry?.file_name().to_bytes().starts_with(SOLO_PREFIX.as_bytes()));
    }
    Ok(n)
}

/// Frames a single payload.
pub(crate) fn framed(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(frame::HEAD_BYTES + payload.len());
    out.extend_from_slice(&frame::head_of_one(payload));
    out.extend_from_slice(payload);
    out
}
