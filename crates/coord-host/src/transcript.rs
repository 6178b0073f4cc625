//! Reads the end of a session's transcript: whether the newest entry is an interrupt, whether the text
//! of a crash signature is part of the conversation (S0-29), and how the conversation ends (`last_words`).
//!
//! This module decides nothing else. An event names the file, so it is opened component by component below
//! the session's own configuration directory, without following links and without blocking. It must be a
//! regular file of this user, and only its end is read (H-27, H-14). The format is undocumented: a line that
//! is not understood proves nothing. No text is kept (G11).

mod arrived;
mod decided;
mod last_words;
mod order;
pub mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path};

use coord_model::stamp::parse_rfc3339;
use coord_model::{Decided, LastWords, MessageId, ProcessRef, RequestId, SessionKey};
use coord_screen::signature_in;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use serde_json::Value;

use crate::registry::{Readable, open_config_dir};

pub use arrived::arrived_in;
pub use decided::decided_in;

/// Bytes that are read from the end of a transcript.
const END_BYTES: u64 = 256 * 1024;
/// Bytes that are read from the end of a transcript in the last look for a message.
const LAST_BYTES: u64 = 16 * 1024 * 1024;
/// The beginning of the text that the client writes in the user's name when a turn is interrupted.
const INTERRUPTED: &str = "[Request interrupted by user";

/// A request to read the end of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptWish {
    /// The process that writes the transcript.
    pub process: ProcessRef,
    /// The path of the transcript.
    pub path: String,
    /// The configuration directory that must contain the transcript.
    pub config_dir: String,
    /// The name of a crash signature to look for.
    pub signature: Option<String>,
}

/// What the end of a transcript shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tail {
    /// When the client wrote the interrupt, if an interrupt is the newest entry; in milliseconds since 1970.
    pub interrupted_ms: Option<u64>,
    /// Whether the requested signature is in the transcript.
    pub has_signature: bool,
    /// How the conversation ends.
    pub last_words: LastWords,
}

/// A request to look for messages in a transcript (H-30).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageWish {
    /// The path of the transcript.
    pub path: String,
    /// The configuration directory that must contain the transcript.
    pub config_dir: String,
    /// The messages to look for.
    pub ids: BTreeSet<MessageId>,
    /// Whether messages that are not found now are given up.
    pub is_last: bool,
}

/// A request to look how calls were decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionWish {
    /// The session.
    pub session: SessionKey,
    /// The path of the transcript.
    pub path: String,
    /// The configuration directory that must contain the transcript.
    pub config_dir: String,
    /// The client's ids of the calls, by request.
    pub calls: BTreeMap<RequestId, String>,
}

/// How the calls were decided, as far as the transcript shows it.
pub fn decided(
    readable: &Readable,
    wish: &DecisionWish,
) -> Result<Vec<(RequestId, Decided)>, String> {
    let file = open(readable, Path::new(&wish.config_dir), Path::new(&wish.path))
        .map_err(|why| format!("{}: {why}", wish.path))?;
    let end = end_of(&file, END_BYTES).map_err(|error| format!("{}: {error}", wish.path))?;
    Ok(decided_in(&end, &wish.calls))
}

/// The messages whose arrival at the agent the transcript proves.
pub fn arrived(readable: &Readable, wish: &MessageWish) -> Result<Vec<MessageId>, String> {
    let file = open(readable, Path::new(&wish.config_dir), Path::new(&wish.path))
        .map_err(|why| format!("{}: {why}", wish.path))?;
    let bytes_max = if wish.is_last { LAST_BYTES } else { END_BYTES };
    let end = end_of(&file, bytes_max).map_err(|error| format!("{}: {error}", wish.path))?;
    Ok(arrived_in(&end, &wish.ids))
}

/// Reads the end of a transcript.
pub fn read(readable: &Readable, wish: &TranscriptWish) -> Result<Tail, String> {
    let file = open(readable, Path::new(&wish.config_dir), Path::new(&wish.path))
        .map_err(|why| format!("{}: {why}", wish.path))?;
    let end = end_of(&file, END_BYTES).map_err(|error| format!("{}: {error}", wish.path))?;
    Ok(tail_of(&end, wish.signature.as_deref()))
}

/// What complete lines of a transcript show, and whether they contain this signature.
pub fn tail_of(end: &[u8], signature: Option<&str>) -> Tail {
    let in_order = order::in_order(end);
    let lines = || in_order.iter().rev().copied();
    let interrupted_ms = interrupted(lines().filter_map(word_of));
    let has_signature = signature.is_some_and(|name| {
        lines().any(|line| signature_in(&String::from_utf8_lossy(line)) == Some(name))
    });
    Tail { interrupted_ms, has_signature, last_words: last_words::of(lines) }
}

/// An entry of the main thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// An interrupt, with the time at which it was written, in milliseconds since 1970.
    Interrupt(u64),
    /// The results of tools.
    ToolResult,
    /// An entry of the agent.
    Assistant,
    /// A prompt, or a line that is not understood.
    Other,
}

/// When the newest turn was interrupted, if the interrupt is the newest entry but for results of calls that ended with
/// it. `words` come newest first.
///
/// If a turn is interrupted while a message is queued, the client continues with that message, and writes it
/// *before* the interrupt (measured). The interrupt then follows a prompt instead of the agent's entry, and
/// the running turn is a newer one.
fn interrupted(mut words: impl Iterator<Item = Entry>) -> Option<u64> {
    let Some(Entry::Interrupt(at)) = words.find(|word| *word != Entry::ToolResult) else {
        return None;
    };
    let before = words.find(|word| !matches!(word, Entry::Interrupt(_) | Entry::ToolResult));
    (before == Some(Entry::Assistant)).then_some(at)
}

/// The entry that a line is; none for lines that show nothing about the main thread's turns.
fn word_of(line: &[u8]) -> Option<Entry> {
    let Ok(line) = serde_json::from_slice::<Value>(line) else { return Some(Entry::Other) };
    if line.get("isSidechain").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    match line.get("type").and_then(Value::as_str) {
        Some("assistant") => Some(Entry::Assistant),
        Some("user") => Some(user_word(&line)),
        Some(_) | None => None,
    }
}

fn user_word(line: &Value) -> Entry {
    // Text typed by the user is a string: only the client itself writes a single block of text.
    let blocks = line.pointer("/message/content").and_then(Value::as_array);
    let blocks = blocks.map_or(&[][..], Vec::as_slice);
    let is_kind = |block: &Value, kind: &str| block.get("type").is_some_and(|is| is == kind);
    if let [block] = blocks
        && is_kind(block, "text")
        && block.get("text").and_then(Value::as_str).is_some_and(is_interrupt)
    {
        let at = line.get("timestamp").and_then(Value::as_str).and_then(parse_rfc3339);
        return at.map_or(Entry::Other, Entry::Interrupt);
    }
    let is_result = !blocks.is_empty() && blocks.iter().all(|one| is_kind(one, "tool_result"));
    if is_result { Entry::ToolResult } else { Entry::Other }
}

fn is_interrupt(text: &str) -> bool {
    text.starts_with(INTERRUPTED) && text.ends_with(']')
}

/// Opens the transcript at `path`, which must be a file of this user below `config_dir`.
pub(crate) fn open(readable: &Readable, config_dir: &Path, path: &Path) -> Result<File, String> {
    let file = open_below(readable, config_dir, path, OFlags::NOCTTY)?;
    let stat = fstat(&file).map_err(|error| error.to_string())?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err("is no file of ours".to_owned());
    }
    Ok(file.into())
}

/// Opens what is at `path` below `config_dir`, without following links and without blocking.
fn open_below(
    readable: &Readable,
    config_dir: &Path,
    path: &Path,
    more: OFlags,
) -> Result<OwnedFd, String> {
    if !readable.allows(config_dir) {
        return Err("the directory is outside COORD_HOME and not named".to_owned());
    }
    let outside = || "is not below its configuration directory's projects".to_owned();
    let inside = path.strip_prefix(config_dir).map_err(|_| outside())?;
    let mut parts = Vec::new();
    for part in inside.components() {
        let Component::Normal(part) = part else { return Err(outside()) };
        parts.push(part);
    }
    let (Some((name, dirs)), true) = (parts.split_last(), inside.starts_with("projects")) else {
        return Err(outside());
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let step = |at: &OwnedFd, part, flags| {
        openat(at, part, flags, Mode::empty()).map_err(|error| error.to_string())
    };
    let mut at = open_config_dir(config_dir)?;
    for dir in dirs {
        at = step(&at, *dir, flags | OFlags::DIRECTORY)?;
    }
    step(&at, *name, flags | more)
}

/// The complete lines at the end of the file. A line that is longer than `bytes_max` is left out.
fn end_of(file: &File, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(bytes_max);
    // What is appended during the read is left to the next one.
    let mut end = vec![0; usize::try_from(length - from).unwrap_or(usize::MAX)];
    let mut n = 0;
    while let Some(rest) = end.get_mut(n..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, from + n as u64) {
            Ok(0) => break,
            Ok(read) => n += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    end.truncate(n);
    let newline = |byte: &u8| *byte == b'\n';
    end.truncate(end.iter().rposition(newline).map_or(0, |last| last + 1));
    if from > 0 {
        end.drain(..end.iter().position(newline).map_or(0, |first| first + 1));
    }
    Ok(end)
}

#[cfg(test)]
mod tests;
