//! Reads the files of the runs, for people and programs: with a coordinator and without.
//!
//! A file that nobody holds locked has no supervisor any more; where it says nothing of an end, nobody
//! knows how the run goes on.

use std::io;
use std::path::Path;

use coord_store::{Disk, DiskFile, RealDisk};
use coord_wire::paths::Paths;
use coord_wire::run::{RUN_ID_PREFIX, Run, RunLine, RunShown};

use crate::record::id_of;
pub use crate::record::new_id;

/// A longer file is none that a supervisor wrote, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The beginning of an id is at least this long.
const PREFIX_MIN: usize = 4;

/// All runs that there are files of, the youngest first.
///
/// # Errors
/// The directory is there and cannot be read.
pub fn all(paths: &Paths) -> io::Result<Vec<Run>> {
    let dir = paths.runs();
    let names = match RealDisk.list(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        names => names?,
    };
    let ids = names.iter().rev().filter(|name| id_of(name).is_some());
    Ok(ids.filter_map(|name| read(&dir.join(name))).collect())
}

/// The runs whose id begins so, with or without its `run_`; none for what is too short to be one.
///
/// # Errors
/// As [`all`].
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

/// The run with exactly this id, if there is a file of it.
pub fn get(paths: &Paths, id: &str) -> Option<Run> {
    let digits = id.strip_prefix(RUN_ID_PREFIX)?;
    // Another text could name another file.
    let is_id = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let path = is_id.then(|| paths.runs().join(format!("{id}.jsonl")))?;
    read(&path)
}

/// What was seen and decided in a run, in its order: time, name, warning, why.
///
/// # Errors
/// Its file cannot be read.
pub fn notes(paths: &Paths, run_id: &str) -> io::Result<Vec<RunLine>> {
    let text = RealDisk.read(&paths.runs().join(format!("{run_id}.jsonl")), FILE_BYTES_MAX)?;
    let is_told = |line: &RunLine| matches!(line, RunLine::Note { .. } | RunLine::Forced { .. });
    Ok(lines(&text).filter(is_told).collect())
}

/// The whole lines that are understood; a power loss may have cut the last one.
fn lines(text: &[u8]) -> impl Iterator<Item = RunLine> {
    text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
}

fn read(path: &Path) -> Option<Run> {
    // Before it is read: an end that is written meanwhile is not missed.
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
