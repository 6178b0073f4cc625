//! Writes the file of a run (`coord_wire::run`), line by line, under a lock that is held for the life of the
//! supervisor.
//!
//! This module decides nothing. A run continues without its file. What must be on disk before an act is
//! written with [`Record::forced`], which reports whether it is there.

use std::io;
use std::path::Path;

use coord_model::Awake;
use coord_model::stamp::{WallMs, rfc3339};
use coord_store::{Disk, DiskFile, RealDisk};
use coord_wire::run::{RUN_ID_PREFIX, RunBegin, RunEnded, RunLine, RunShown};
use rustix::rand::{GetRandomFlags, getrandom};

/// Time for which files of ended runs are kept, in milliseconds (interfaces.md, retention).
const KEPT_MS: WallMs = 30 * 24 * 3_600_000;
/// Most files of ended runs that are kept.
const KEPT_MAX: usize = 1_000;
/// Size of a run's file, in bytes, above which it receives only warnings and the end, and shown states at
/// most every [`SHOWN_EVERY_MS`].
const BYTES_MAX: u64 = 4 * 1024 * 1024;
const SHOWN_EVERY_MS: u64 = 10_000;

/// The file of one run.
#[derive(Debug)]
pub(crate) struct Record {
    /// None if the file could not be created: the run then has none.
    file: Option<<RealDisk as Disk>::File>,
    bytes: u64,
    /// Whether the file may end with a partial line, after the disk refused a line.
    is_torn: bool,
    shown: RunShown,
    shown_at: Awake,
}

/// Creates an id: 48 bits of wall time and 32 random bits.
pub fn new_id(wall_ms: WallMs) -> String {
    let mut bytes = [0; 4];
    // Without a source of randomness, the pid tells runs of the same millisecond apart.
    bytes.copy_from_slice(&std::process::id().to_be_bytes());
    let _fallback_stays = getrandom(&mut bytes, GetRandomFlags::NONBLOCK);
    format!("{RUN_ID_PREFIX}{wall_ms:012x}{:08x}", u32::from_be_bytes(bytes))
}

impl Record {
    /// Creates the file of a run and locks it.
    pub(crate) fn make(runs: &Path, id: &str) -> io::Result<Self> {
        RealDisk.create_dir(runs)?;
        let file = RealDisk.open_append(&runs.join(format!("{id}.jsonl")))?;
        if !file.try_lock()? {
            return Err(io::Error::other("another process has its file"));
        }
        RealDisk.sync_dir(runs)?;
        Ok(Self { file: Some(file), ..Self::none() })
    }

    /// The record of a run that has no file.
    pub(crate) fn none() -> Self {
        Self {
            file: None,
            bytes: 0,
            is_torn: false,
            shown: RunShown::default(),
            shown_at: Awake::default(),
        }
    }

    fn append(&mut self, line: &RunLine) -> io::Result<()> {
        let file = self.file.as_mut().ok_or_else(|| io::Error::other("it has no file"))?;
        let mut text = if self.is_torn { vec![b'\n'] } else { Vec::new() };
        serde_json::to_writer(&mut text, line).map_err(io::Error::other)?;
        text.push(b'\n');
        self.bytes = self.bytes.saturating_add(text.len() as u64);
        let appended = file.append(&text);
        self.is_torn = appended.is_err();
        appended
    }

    /// Writes a line if possible: a run does not depend on it.
    fn tell(&mut self, line: &RunLine) {
        if let Err(error) = self.append(line) {
            tracing::debug!(%error, "a line of a run's file");
        }
    }

    /// Writes the first line.
    pub(crate) fn begin(&mut self, begin: RunBegin) {
        self.tell(&RunLine::Begin(begin));
    }

    /// Writes a line of the run's log.
    pub(crate) fn note(&mut self, note: &coord_core::RunNote, wall_ms: WallMs) {
        if BYTES_MAX < self.bytes && !note.is_warning {
            return;
        }
        self.tell(&RunLine::Note {
            at: rfc3339(wall_ms),
            name: note.name.clone(),
            warning: note.is_warning,
            because: note.because.clone(),
        });
    }

    /// Writes the shown state, if it changed.
    pub(crate) fn show(&mut self, shown: RunShown, now: Awake) {
        let may = self.bytes <= BYTES_MAX || SHOWN_EVERY_MS <= now.ms_since(self.shown_at);
        if shown != self.shown && may {
            (self.shown, self.shown_at) = (shown.clone(), now);
            self.tell(&RunLine::State(shown));
        }
    }

    /// Writes a forced end, and syncs it to disk.
    pub(crate) fn forced(&mut self, line: &RunLine) -> io::Result<()> {
        self.append(line)?;
        let file = self.file.as_ref().ok_or_else(|| io::Error::other("it has no file"))?;
        file.sync()
    }

    /// Writes the last line.
    pub(crate) fn ended(&mut self, ended: RunEnded) {
        self.tell(&RunLine::Ended(ended));
    }
}

/// Removes files of runs that ended long ago, and the oldest ones if there are too many.
pub(crate) fn prune(runs: &Path, now_ms: WallMs) {
    let Ok(mut names) = RealDisk.list(runs) else { return };
    names.retain(|name| id_of(name).is_some());
    let surplus = names.len().saturating_sub(KEPT_MAX);
    for (index, name) in names.iter().enumerate() {
        let path = runs.join(name);
        // Ids are ordered by time, so the rest is newer.
        let is_old = began_ms(name).is_some_and(|ms| ms.saturating_add(KEPT_MS) < now_ms);
        if !is_old && surplus <= index {
            break;
        }
        let is_over = RealDisk.open_append(&path).and_then(|file| file.try_lock()).unwrap_or(false);
        if is_over && let Err(error) = RealDisk.remove(&path) {
            tracing::debug!(%error, name, "an old run's file");
        }
    }
}

/// The id of the run whose file has this name.
pub(crate) fn id_of(name: &str) -> Option<&str> {
    name.strip_suffix(".jsonl").filter(|id| id.starts_with(RUN_ID_PREFIX))
}

fn began_ms(name: &str) -> Option<WallMs> {
    WallMs::from_str_radix(name.strip_prefix(RUN_ID_PREFIX)?.get(..12)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs;
    use coord_wire::paths::Paths;

    fn place() -> (tempfile::TempDir, Paths) {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::resolve(Some(dir.path()), "m1234567", 0, |_| None).unwrap();
        (dir, paths)
    }

    fn begun(paths: &Paths) -> (Record, String) {
        let id = new_id(1_800_000_000_000);
        let mut record = Record::make(&paths.runs(), &id).unwrap();
        let process = coord_model::ProcessRef { pid: 1, start_time: 1 };
        record.begin(RunBegin {
            v: 1,
            run_id: id.clone(),
            at: rfc3339(1_800_000_000_000),
            name: None,
            program: "agent".into(),
            provider: "other".into(),
            cwd: "/".into(),
            process: Some(process),
            supervisor: process,
        });
        (record, id)
    }

    fn in_state(state: &str) -> RunShown {
        RunShown { state: state.into(), ..RunShown::default() }
    }

    // S3-23: a line that a full disk cut off does not damage the next one.
    #[test]
    fn behind_a_torn_line_the_next_is_whole() {
        let (_dir, paths) = place();
        let (mut record, id) = begun(&paths);
        record.file.as_mut().unwrap().append(b"{\"kind\":\"no").unwrap();
        record.is_torn = true;
        let forced =
            RunLine::Forced { at: String::new(), reason: "limbo".into(), quarantine: None };
        record.forced(&forced).unwrap();
        assert_eq!(runs::notes(&paths, &id).unwrap(), [forced]);
        assert!(!record.is_torn);
    }

    // S3-15: the shown state stays current in a file that is full.
    #[test]
    fn a_full_file_still_shows_the_state() {
        let (_dir, paths) = place();
        let (mut record, id) = begun(&paths);
        let shown = || runs::find(&paths, &id).unwrap()[0].shown.state.clone();
        let at = |s: u64| Awake::default().plus_ms(s * 1_000);
        record.bytes = BYTES_MAX + 1;
        record.show(in_state("streaming"), at(10));
        assert_eq!(shown(), "streaming");
        record.show(in_state("tool_active"), at(11));
        assert_eq!(shown(), "streaming", "not so soon");
        record.show(in_state("tool_active"), at(20));
        assert_eq!(shown(), "tool_active");
    }
}
