//! Reads the files of the runs, for people and programs: with a coordinator and without.
//!
//! A file that nobody has locked has no supervisor any more. If it does not contain an end either, the state
//! of the run is unknown.

use std::io;
use std::path::Path;

use coord_store::{Disk, DiskFile, RealDisk};
use coord_wire::paths::Paths;
use coord_wire::run::{RUN_ID_PREFIX, Run, RunLine, RunShown};

use crate::record::id_of;
pub use crate::record::new_id;

/// Longest file that is read, in bytes; a supervisor writes no longer one.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Shortest accepted beginning of an id, in characters.
const PREFIX_MIN: usize = 4;

/// All runs that have a file, the newest first.
///
/// # Errors
/// The directory exists and cannot be read.
pub fn all(paths: &Paths) -> io::Result<Vec<Run>> {
    let dir = paths.runs();
    let names = match RealDisk.list(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        names => names?,
    };
    let ids = names.iter().rev().filter(|name| id_of(name).is_some());
    Ok(ids.filter_map(|name| read(&dir.join(name))).collect())
}

/// The runs whose id begins with `id`, with or without its `run_`. Returns none if the text is too short.
///
/// # Errors
/// The same as for [`all`].
pub fn find(paths: &Paths, id: &str) -> io::Result<Vec<Run>> {
    let digits = id.strip_prefix(RUN_ID_PREFIX).unwrap_or(id);
    if digits.len() < PREFIX_MIN {
        return Ok(Vec::new());
    }
    let mut runs = all(paths)?;
    runs.retain(|run| {
        run.begin.run_id.strip_prefix(RUN_ID_PREFIX).is_some_and(|own| own.starts_with(digits))
    });
    Ok(runs)
}

/// The run with exactly this id, if it has a file.
pub fn get(paths: &Paths, id: &str) -> Option<Run> {
    let digits = id.strip_prefix(RUN_ID_PREFIX)?;
    // Any other text could name another file.
    let is_id = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let path = is_id.then(|| paths.runs().join(format!("{id}.jsonl")))?;
    read(&path)
}

/// What was observed and decided in a run, in order: time, name, warning, reason.
///
/// # Errors
/// The file of the run cannot be read.
pub fn notes(paths: &Paths, run_id: &str) -> io::Result<Vec<RunLine>> {
    let text = RealDisk.read(&paths.runs().join(format!("{run_id}.jsonl")), FILE_BYTES_MAX)?;
    let is_told = |line: &RunLine| matches!(line, RunLine::Note { .. } | RunLine::Forced { .. });
    Ok(lines(&text).filter(is_told).collect())
}

/// The complete lines that are understood; a power loss may have cut off the last one.
fn lines(text: &[u8]) -> impl Iterator<Item = RunLine> {
    text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
}

fn read(path: &Path) -> Option<Run> {
    // Checked before the file is read, so that an end that is written meanwhile is not missed.
    let supervised = !RealDisk.open_append(path).ok()?.try_lock().ok()?;
    let text = RealDisk.read(path, FILE_BYTES_MAX).ok()?;
    let (mut begin, mut shown, mut exit) = (None, None, None);
    for line in lines(&text) {
        match line {
            RunLine::Begin(line) => begin = Some(line),
            RunLine::State(line) => shown = Some(line),
            RunLine::Ended(line) => exit = Some(line),
            RunLine::Note { .. } | RunLine::Forced { .. } | RunLine::Unknown => (),
        }
    }
    let begin = begin?;
    let mut shown =
        shown.unwrap_or_else(|| RunShown { since: begin.at.clone(), ..RunShown::default() });
    if let Some(end) = &exit {
        shown = RunShown { state: "exited".into(), since: end.at.clone(), hold: None, ..shown };
    } else if !supervised {
        shown = RunShown { state: "unknown".into(), hold: None, ..shown };
    } else if shown.state.is_empty() {
        shown.state = "spawned".into();
    }
    Some(Run { begin, shown, supervised, exit })
}
