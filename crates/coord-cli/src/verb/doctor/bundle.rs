//! `--bundle FILE`: one text file for others to read, private to its owner, with what helps and
//! nothing that is secret: findings, versions, the configuration, the coordinator's health, our own
//! entries, counts, and the end of the log.
//!
//! Nothing is copied as it stands but our own words: of the log only plain words and small numbers
//! stay (G11), of the settings only our own entries, of the environment nothing.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context as _;
use coord_store::{Disk, RealDisk, Spool};

use super::{Finding, Setup};
use crate::context::Context;
use crate::out::Failure;
use crate::verb::inspect::state_name;
use crate::verb::install::shown;

/// Of the log's end, this much is read, in bytes.
const LOG_BYTES_MAX: u64 = 64 * 1024;
/// Longer words are names, ids or keys.
const WORD_BYTES_MAX: usize = 14;
/// Longer numbers are ids or times.
const DIGITS_MAX: usize = 7;

/// Writes the report to a file that must not be there yet.
pub(super) fn write(file: &Path, findings: &[Finding], setup: &Setup<'_>) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let mut out = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .with_context(|| format!("{}: name a new file", file.display()))?;
    let context = setup.context;
    let sections = [
        ("findings", serde_json::to_string_pretty(findings)?),
        ("versions", versions(context)),
        ("configuration", configuration(setup)),
        ("coordinator", coordinator(setup)?),
        ("entries", entries(setup)?),
        ("counts", counts(setup)),
        ("log", log_end(&context.paths.logs().join("coord.log"))),
    ];
    for (name, text) in sections {
        writeln!(out, "== {name}\n{}\n", text.trim_end())?;
    }
    Ok(out.sync_all()?)
}

fn versions(context: &Context) -> String {
    let uname = rustix::system::uname();
    let (release, machine) = (uname.release().to_string_lossy(), uname.machine().to_string_lossy());
    let at = coord_model::stamp::rfc3339(context.now.wall_ms);
    format!("coord {}\n{} {machine}\nat {at}", coord_wire::VERSION, release)
}

fn configuration(setup: &Setup<'_>) -> String {
    let line = |one: coord_config::Effective| {
        let origin = one.line.map_or_else(|| "default".to_owned(), |line| format!("line {line}"));
        format!("{} = {}  # {origin}\n", one.key.name, one.text)
    };
    let error = setup.config_error.iter().map(|why| format!("# the file is wrong: {why}\n"));
    error.chain(setup.config.effective().map(line)).collect()
}

fn coordinator(setup: &Setup<'_>) -> Result<String, Failure> {
    match &setup.health {
        Ok(health) => Ok(serde_json::to_string_pretty(health)?),
        Err(miss) => Ok(miss.to_string()),
    }
}

fn entries(setup: &Setup<'_>) -> Result<String, Failure> {
    let mut lines = Vec::new();
    for file in &setup.settings {
        lines.push(shown(&file.path));
        for entry in file.entries() {
            lines.push(format!("  {}", serde_json::to_string(entry)?));
        }
    }
    Ok(lines.join("\n"))
}

fn counts(setup: &Setup<'_>) -> String {
    let paths = &setup.context.paths;
    let mut states = std::collections::BTreeMap::<String, u64>::new();
    for session in setup.sessions() {
        let n = states.entry(state_name(session.state)).or_default();
        *n = n.saturating_add(1);
    }
    let sessions = states.iter().map(|(state, n)| format!("sessions {state}: {n}\n"));
    let sizes = [("journal", paths.journal()), ("spool", paths.spool()), ("logs", paths.logs())];
    let sizes = sizes.map(|(name, dir)| {
        let names = RealDisk.list(&dir).unwrap_or_default();
        let bytes: u64 = names.iter().filter_map(|name| RealDisk.len(&dir.join(name)).ok()).sum();
        format!("{name}: {} files, {bytes} bytes\n", names.len())
    });
    let spool = Spool::new(RealDisk, &paths.spool());
    let records = [
        ("pending", spool.pending()),
        ("malformed", spool.malformed()),
        ("crashes", spool.crashes()),
    ];
    let records = records.map(|(name, n)| format!("spool {name}: {}\n", n.unwrap_or(0)));
    sessions.chain(sizes).chain(records).collect()
}

/// The last lines of the log, each word by itself plain or masked.
fn log_end(path: &Path) -> String {
    let read = || {
        let mut file = std::fs::File::open(path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(LOG_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES_MAX).read_to_end(&mut bytes).map(|_| bytes)
    };
    match read() {
        Err(error) => error.kind().to_string(),
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            text.lines().map(|line| masked(line) + "\n").collect()
        }
    }
}

/// A line of the log in which only what can be no secret is left.
fn masked(line: &str) -> String {
    let words = line.split_whitespace().map(|word| match word.split_once('=') {
        Some((key, value)) if is_plain(key) => {
            format!("{key}={}", if is_plain(value) { value } else { "…" })
        }
        None if is_plain(word) || is_time(word) || is_target(word) => word.to_owned(),
        Some(_) | None => "…".to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A word of prose or a small number.
fn is_plain(word: &str) -> bool {
    let word = word.trim_matches(['"', '(', ')', ',', '.', ':', ';']);
    let rest = word.strip_prefix(|c: char| c.is_ascii_uppercase()).unwrap_or(word);
    let is_prose = word.len() <= WORD_BYTES_MAX
        && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let is_level = matches!(word, "ERROR" | "WARN" | "INFO" | "DEBUG" | "TRACE");
    let is_number = word.len() <= DIGITS_MAX && word.bytes().all(|byte| byte.is_ascii_digit());
    is_prose || is_level || is_number
}

fn is_time(word: &str) -> bool {
    coord_model::stamp::parse_rfc3339(word).is_some()
}

/// A module of ours.
fn is_target(word: &str) -> bool {
    word.starts_with("coord_")
        && word.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    // G11
    #[test]
    fn of_the_log_only_plain_words_stay_g11() {
        let line = "2026-11-22T03:00:00.000Z  WARN coord_daemon::server: not recorded error=Xk9-secret stood_ms=17";
        assert_eq!(
            masked(line),
            "2026-11-22T03:00:00.000Z WARN coord_daemon::server: not recorded error=… stood_ms=17"
        );
        for secret in [
            "sk-ant-api03-abcdef",
            "/home/dev/.claude",
            "hunter2",
            "token=abc:def@x",
            "PASSWORD=x",
            "0123456789",
            "\u{1b}[31m",
            "correcthorsebatterystaple",
        ] {
            assert!(!masked(&format!("serving {secret}")).contains(secret), "{secret}");
        }
    }
}
