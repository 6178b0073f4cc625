//! What `coord run` costs the stream that passes through it: throughput beside a plain pipe, and how much
//! later a line comes.

use super::Bench;
use super::sample::{Sample, count};
use super::sandbox::Sandbox;
use super::table::{Goal, Table};
use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Size of the stream that is passed on, in MB, and how often a round passes it.
const STREAM_MB: usize = 64;
const TIMES: usize = 8;

pub(super) fn measure(bench: &Bench, table: &mut Table) -> anyhow::Result<()> {
    let sandbox = Sandbox::new(bench)?;
    let scratch = tempfile::tempdir().context("making a temporary directory")?;
    let stream = scratch.path().join("stream.jsonl");
    make_stream(&stream)?;
    throughput(bench, &sandbox, &stream, table)?;
    delay(bench, &sandbox, table)
}

/// A stream as the client writes it: what its agent says, tools and what they print.
fn make_stream(path: &Path) -> anyhow::Result<()> {
    let said = serde_json::json!({
        "type": "assistant", "message": {"id": "msg_1", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "The tests pass now. ".repeat(20)}], "usage": {"output_tokens": 80}},
        "parent_tool_use_id": null, "session_id": "3a408b2c-1323-4822-be8e-48626c683ebf"});
    let used = serde_json::json!({
        "type": "assistant", "message": {"id": "msg_2", "role": "assistant", "model": "m",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "cargo test"}}]},
        "parent_tool_use_id": null, "session_id": "3a408b2c-1323-4822-be8e-48626c683ebf"});
    let answered = serde_json::json!({
        "type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1",
        "content": "test result: ok. 12 passed\n".repeat(120), "is_error": false}]},
        "parent_tool_use_id": null, "session_id": "3a408b2c-1323-4822-be8e-48626c683ebf"});
    let lines = format!("{said}\n{used}\n{answered}\n");
    let mut file = std::io::BufWriter::new(File::create(path)?);
    for _ in 0..STREAM_MB * 1_000_000 / lines.len() {
        file.write_all(lines.as_bytes())?;
    }
    Ok(file.flush()?)
}

fn throughput(
    bench: &Bench,
    sandbox: &Sandbox,
    stream: &Path,
    table: &mut Table,
) -> anyhow::Result<()> {
    let paths = vec![stream.as_os_str(); TIMES];
    // A write for each line, as the client does; and all at once, as fast as memory is.
    let by_line = ["grep", "-h", "--line-buffered", ""].map(OsStr::new);
    let words = [by_line.as_slice(), paths.as_slice()].concat();
    let goal = Goal::AtLeast(0.95, 0.99);
    compare(bench, sandbox, &words, table, "coord run: throughput", goal)?;
    let words = [&[OsStr::new("cat")], paths.as_slice()].concat();
    let what = "coord run: throughput, written by the block";
    compare(bench, sandbox, &words, table, what, Goal::None)
}

fn compare(
    bench: &Bench,
    sandbox: &Sandbox,
    words: &[&OsStr],
    table: &mut Table,
    what: &str,
    goal: Goal,
) -> anyhow::Result<()> {
    let (mut plain, mut passed) = (Sample::default(), Sample::default());
    for round in 0..bench.rounds(20).max(5) {
        // In turns, so that both meet the same machine.
        for is_run in [round % 2 == 0, round % 2 != 0] {
            let sample = if is_run { &mut passed } else { &mut plain };
            sample.push(drain(command(bench, sandbox, words, is_run))?);
        }
    }
    let mb = count(STREAM_MB * TIMES);
    let detail = format!(
        "{:.0} MB/s, plain pipe {:.0} MB/s; n {}",
        mb / (passed.median() / 1e6),
        mb / (plain.median() / 1e6),
        plain.len()
    );
    table.row(what, plain.median() / passed.median(), "x pipe", goal, detail);
    Ok(())
}

/// The words as they are, or below `coord run`.
fn command(bench: &Bench, sandbox: &Sandbox, words: &[&OsStr], is_run: bool) -> Command {
    let mut command = if is_run {
        let mut command = Command::new(&bench.programs.coord);
        command.arg("--root").arg(sandbox.root()).args(["run", "--provider", "claude", "--"]);
        command.args(words);
        command
    } else {
        let (program, arguments) = words.split_first().unwrap_or((&words[0], &[]));
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// From the first byte to the last: the start is not part of it.
fn drain(mut command: Command) -> anyhow::Result<Duration> {
    let mut child = command.spawn().context("starting the writer")?;
    let mut output = child.stdout.take().context("its output")?;
    let mut buffer = vec![0; 256 * 1024];
    output.read_exact(buffer.get_mut(..1).unwrap_or_default())?;
    let begun = Instant::now();
    while output.read(&mut buffer)? > 0 {}
    let took = begun.elapsed();
    if !child.wait()?.success() {
        bail!("the writer failed");
    }
    Ok(took)
}

/// A line there and back through `cat`: what more it takes below `coord run`.
fn delay(bench: &Bench, sandbox: &Sandbox, table: &mut Table) -> anyhow::Result<()> {
    let words = [OsStr::new("cat")];
    let n = bench.rounds(5_000);
    let plain = there_and_back(command(bench, sandbox, &words, false), n)?;
    let passed = there_and_back(command(bench, sandbox, &words, true), n)?;
    let extra_ms = (passed.p99() - plain.median()) / 1000.0;
    let detail = format!(
        "p99 beyond the median of a plain pipe; medians {:.0} and {:.0} us, p99 {:.0} and {:.0} us; n {}",
        passed.median(),
        plain.median(),
        passed.p99(),
        plain.p99(),
        passed.len()
    );
    let goal = Goal::AtMost(1.0, 0.2);
    table.row("coord run: extra delay of a line", extra_ms, "ms", goal, detail);
    Ok(())
}

fn there_and_back(mut command: Command, n: usize) -> anyhow::Result<Sample> {
    let mut child = command.stdin(Stdio::piped()).spawn().context("starting cat")?;
    let mut input = child.stdin.take().context("its input")?;
    let mut output = child.stdout.take().context("its output")?;
    let line = b"{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"one line\"}]}}\n";
    let mut back = vec![0; line.len()];
    let mut sample = Sample::default();
    for _ in 0..n {
        let begun = Instant::now();
        input.write_all(line)?;
        output.read_exact(&mut back)?;
        sample.push(begun.elapsed());
    }
    drop(input);
    if !child.wait()?.success() {
        bail!("cat failed");
    }
    Ok(sample)
}
