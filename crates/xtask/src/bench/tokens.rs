//! What it takes to count the tokens in a long transcript: time, and memory at its peak.

use super::Bench;
use super::table::{Goal, Table};
use anyhow::Context;
use coord_host::registry::Readable;
use coord_host::transcript::tokens::Tokens;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

/// Size of the transcript, and of a quick one, in bytes.
const BYTES: usize = 1024 * 1024 * 1024;
const QUICK_BYTES: usize = BYTES / 16;
/// Text of one answer, in bytes.
const TEXT_BYTES: usize = 4096;

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let bytes = if bench.quick { QUICK_BYTES } else { BYTES };
    let dir = tempfile::tempdir()?;
    let projects = dir.path().join("projects/p");
    std::fs::create_dir_all(&projects)?;
    let path = projects.join("5e551000-0000-4000-8000-000000000001.jsonl");
    let answers = write(&path, bytes)?;
    let (before, begun) = (resident("VmRSS:")?, Instant::now());
    // The kernel forgets the former peak.
    std::fs::write("/proc/self/clear_refs", "5")?;
    let mut tokens = Tokens::new(dir.path(), &path);
    let whole = tokens.read(&Readable::default(), u64::MAX).map_err(anyhow::Error::msg)?;
    let seconds = begun.elapsed().as_secs_f64();
    let counts = tokens.counts();
    anyhow::ensure!(whole && counts.n_messages == answers, "{counts:?}, of {answers} answers");
    let memory = resident("VmHWM:")?.saturating_sub(before);
    let megabytes = bytes / (1024 * 1024);
    let detail = format!("{answers} answers, {memory} KiB of memory at the peak");
    let what = format!("tokens of a transcript of {megabytes} MiB");
    table.row(what, seconds, "s", Goal::AtMost(2.0, 1.0), detail);
    Ok(())
}

/// Writes answers of the model until the file is so long. Returns their number.
fn write(path: &Path, bytes: usize) -> anyhow::Result<u64> {
    let mut file = BufWriter::new(File::create(path)?);
    let text = "x".repeat(TEXT_BYTES);
    let (mut written, mut answers) = (0, 0);
    while written < bytes {
        let line = format!(
            "{{\"type\":\"assistant\",\"message\":{{\"id\":\"msg_{answers}\",\"role\":\"assistant\",\"model\":\"m\",\
             \"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"usage\":{{\"input_tokens\":10,\
             \"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":5}}}},\
             \"timestamp\":\"2026-01-01T00:00:01.000Z\"}}\n"
        );
        file.write_all(line.as_bytes())?;
        written += line.len();
        answers += 1;
    }
    file.flush()?;
    Ok(answers)
}

/// A size of this process in KiB, by its name in /proc/self/status.
fn resident(name: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such size")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
