//! One file of the journal: its format, and what a reader finds in it.
//!
//! A segment is the file `journal/SEQ.seg`, where SEQ is the number of its first record in 20
//! digits. It contains frames ([`coord_wire::frame`]) of three kinds:
//!
//! | payload | meaning |
//! |---|---|
//! | `{"store":1,"first_seq":N}` | the header, always first: store version, number of the first record |
//! | `{"store":1,"synced":B}` | a mark: before this was written, the first B bytes were synced |
//! | anything else | a record; the n-th one has the number `first_seq + n` |
//!
//! A mark needs no write of its own: it is written with the next record after a sync. It
//! distinguishes damage from loss. Bytes below a mark were durable: if they are bad now, accepted
//! records are lost, and the journal is refused. Bytes above every mark were never synced, and a
//! power loss may leave any part of them, with holes. This module reads; [`crate::journal`]
//! decides.

use crate::journal::JournalError;
use coord_model::STORE_VERSION;
use coord_wire::frame::{self, Frame, Frames};
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Prefix of the store's own frames. No record may begin with it.
pub(crate) const OWN_PREFIX: &[u8] = b"{\"store\":";

/// The store's own frames: header and mark.
#[derive(Deserialize)]
struct Own {
    store: u32,
    first_seq: Option<u64>,
    synced: Option<u64>,
}

/// Appends the header of the segment that begins with record `first_seq`.
pub(crate) fn push_header(out: &mut Vec<u8>, first_seq: u64) {
    let text = format!("{{\"store\":{STORE_VERSION},\"first_seq\":{first_seq}}}");
    frame::push(out, text.as_bytes());
}

/// Appends the mark that `synced` bytes of this segment are durable.
pub(crate) fn push_mark(out: &mut Vec<u8>, synced: u64) {
    let text = format!("{{\"store\":{STORE_VERSION},\"synced\":{synced}}}");
    frame::push(out, text.as_bytes());
}

/// Refuses a frame of the store's own that a newer version wrote into the file at `path`.
pub(crate) fn check_version(path: &Path, payload: &[u8]) -> Result<(), JournalError> {
    match serde_json::from_slice::<Own>(payload) {
        Ok(own) if STORE_VERSION < own.store => {
            Err(JournalError::Newer { file: path.to_path_buf(), found: own.store })
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The file name of the segment that begins with record `first_seq`.
pub(crate) fn file_name(first_seq: u64) -> String {
    format!("{first_seq:020}.seg")
}

/// The number in a segment's file name; none for any other file.
pub(crate) fn first_seq_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    (digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

/// Bytes of a segment that are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Offset of the first bad byte.
    pub(crate) at: usize,
    /// Number of bad bytes before the next frame or the end.
    pub(crate) bytes: usize,
    /// Number of complete records after it.
    pub(crate) behind: usize,
}

/// The content of one segment, up to the first damage.
#[derive(Debug, Clone)]
pub struct Segment {
    pub(crate) path: PathBuf,
    pub(crate) first_seq: u64,
    pub(crate) bytes: Vec<u8>,
    records: Vec<Range<usize>>,
    /// Whether the segment has a header; without one, nothing in it was ever synced.
    pub(crate) begun: bool,
    /// The highest mark, wherever it is in the file.
    marked: u64,
    pub(crate) damage: Option<Damage>,
}

impl Segment {
    /// Reads the frames in `bytes`, the content of the segment at `path`.
    pub(crate) fn scan(
        path: PathBuf,
        first_seq: u64,
        bytes: Vec<u8>,
    ) -> Result<Self, JournalError> {
        let mut segment = Self {
            path,
            first_seq,
            bytes: Vec::new(),
            records: Vec::new(),
            begun: false,
            marked: 0,
            damage: None,
        };
        for frame in Frames::new(&bytes, 0) {
            match frame {
                Frame::Record { at, payload } if payload.starts_with(OWN_PREFIX) => {
                    segment.note_own(at, payload)?;
                }
                Frame::Record { at, payload } => {
                    if let Some(damage) = &mut segment.damage {
                        damage.behind += 1;
                    } else {
                        let from = at + frame::HEAD_BYTES;
                        segment.records.push(from..from + payload.len());
                    }
                }
                Frame::Damaged { at, bytes } | Frame::Torn { at, bytes } => {
                    segment.damage.get_or_insert(Damage { at, bytes, behind: 0 });
                }
            }
        }
        if !segment.begun && !segment.records.is_empty() {
            return Err(segment.damaged(Damage {
                at: 0,
                bytes: bytes.len(),
                behind: segment.records.len(),
            }));
        }
        segment.bytes = bytes;
        Ok(segment)
    }

    /// Reads a header or a mark.
    fn note_own(&mut self, at: usize, payload: &[u8]) -> Result<(), JournalError> {
        let whole = Damage { at, bytes: payload.len(), behind: 0 };
        let own: Own = serde_json::from_slice(payload).map_err(|_| self.damaged(whole))?;
        if STORE_VERSION < own.store {
            return Err(JournalError::Newer { file: self.path.clone(), found: own.store });
        }
        if let Some(first_seq) = own.first_seq {
            if at != 0 || first_seq != self.first_seq {
                return Err(self.damaged(whole));
            }
            self.begun = true;
        }
        self.marked = self.marked.max(own.synced.unwrap_or(0));
        Ok(())
    }

    /// The damage, if it is in bytes that a sync had made durable.
    pub(crate) fn loss(&self) -> Option<Damage> {
        self.damage.filter(|damage| (damage.at as u64) < self.marked)
    }

    /// The error that refuses this segment because of `damage`.
    pub(crate) fn damaged(&self, damage: Damage) -> JournalError {
        JournalError::Damaged {
            file: self.path.clone(),
            at: damage.at as u64,
            bytes: damage.bytes as u64,
            before: self.records.len(),
            behind: damage.behind,
        }
    }

    /// Length of the file up to the first damage, in bytes.
    pub(crate) fn whole_len(&self) -> usize {
        self.damage.map_or(self.bytes.len(), |damage| damage.at)
    }

    /// The number of the record after the last one.
    pub fn next_seq(&self) -> u64 {
        self.first_seq + self.records.len() as u64
    }

    /// The path of the segment's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The records with their numbers, in order.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = (u64, &[u8])> {
        let numbered = self.records.iter().enumerate();
        numbered.map(|(n, span)| {
            (self.first_seq + n as u64, self.bytes.get(span.clone()).unwrap_or_default())
        })
    }
}
