//! Determines how a conversation ends: with an API error, with a question, or otherwise, and how much of its
//! context is used (S1-09 to S1-11, S1-13, S1-22, S1-23, H-40).
//!
//! Only lines of the main thread count, and of those only the newest of the agent or the user: tool results,
//! typed text and subagents never count. In doubt, nothing is reported. No text leaves this file.

use coord_model::stamp::parse_rfc3339;
use coord_model::{Failure, LastWords, Question};
use coord_screen::question_in;
use serde_json::Value;

use super::INTERRUPTED;
use super::arrived::is_prompt;

/// Longest error name, in characters; the client's names are short.
const ERROR_CHARS_MAX: usize = 64;
/// The model that the client names in entries that it writes itself.
const SYNTHETIC: &str = "<synthetic>";
/// The stop reasons of a complete message; one that was cut off or continues asks for nothing.
const WHOLE: [&str; 2] = ["end_turn", "stop_sequence"];
/// The kinds of blocks in a message that calls no tool.
const SPOKEN: [&str; 3] = ["text", "thinking", "redacted_thinking"];

/// How the texts begin that the client writes for what its user does beside turns: a shell command, a command of the
/// client, Esc.
const BESIDE_TURNS: [&str; 4] = ["<bash-", "<local-command-", "<command-", INTERRUPTED];

/// A line that shows something about the main thread.
enum Entry {
    /// An entry of the agent, or of the client in its place.
    Assistant(Value),
    /// What a turn begins with.
    Prompt,
    /// A tool's result, a command of the user's to the client, or an entry that is not understood.
    Other,
    /// A summary of everything before it; the context starts again.
    Compacted,
}

/// What the lines show; `lines` come newest first.
pub(super) fn of<'a, I: Iterator<Item = &'a [u8]>>(lines: impl Fn() -> I) -> LastWords {
    let entries = || lines().filter_map(entry_of);
    let context_tokens = context_tokens(entries());
    let mut spoken = entries().map_while(assistant);
    let Some(newest) = spoken.next() else {
        // Its user ran a command since, or the results of tools follow. What stands before the newest prompt says
        // nothing of that prompt's turn.
        let mut since =
            entries().take_while(|entry| !matches!(entry, Entry::Prompt | Entry::Compacted));
        let newest = since.find_map(assistant).filter(is_models);
        let written_ms = newest.as_ref().and_then(written_ms);
        return LastWords { context_tokens, written_ms, ..LastWords::default() };
    };
    if is_error(&newest) {
        let failure = failure(&newest);
        return LastWords { failure, context_tokens, ..LastWords::default() };
    }
    // A message is written block by block, with a line for each block.
    let id = newest.pointer("/message/id").and_then(Value::as_str);
    let is_same =
        |line: &Value| id.is_some() && line.pointer("/message/id").and_then(Value::as_str) == id;
    let calls_tool = !spoken.take_while(is_same).all(|line| is_spoken(&line));
    let question = if calls_tool { None } else { question(&newest) };
    LastWords { failure: None, question, context_tokens, written_ms: written_ms(&newest) }
}

/// When the client wrote a line, in milliseconds since 1970.
fn written_ms(line: &Value) -> Option<u64> {
    line.get("timestamp").and_then(Value::as_str).and_then(parse_rfc3339)
}

/// The entry that a line is; none for lines that show nothing about the main thread.
fn entry_of(line: &[u8]) -> Option<Entry> {
    let Ok(line) = serde_json::from_slice::<Value>(line) else { return Some(Entry::Other) };
    if line.get("isSidechain").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    let is_compacted = line.get("subtype").is_some_and(|is| is == "compact_boundary");
    match line.get("type").and_then(Value::as_str)? {
        "assistant" => Some(Entry::Assistant(line)),
        "user" if is_prompt(&line) && !is_beside_turns(&line) => Some(Entry::Prompt),
        "user" => Some(Entry::Other),
        "system" if is_compacted => Some(Entry::Compacted),
        _ => None,
    }
}

fn assistant(entry: Entry) -> Option<Value> {
    match entry {
        Entry::Assistant(line) => Some(line),
        Entry::Prompt | Entry::Other | Entry::Compacted => None,
    }
}

fn is_beside_turns(line: &Value) -> bool {
    let mut texts = ["/message/content", "/message/content/0/text"]
        .into_iter()
        .filter_map(|place| line.pointer(place)?.as_str());
    let text = texts.next();
    text.is_some_and(|text| BESIDE_TURNS.iter().any(|begin| text.starts_with(begin)))
}

/// Whether the model wrote it, and not the client in its place.
fn is_models(line: &Value) -> bool {
    !is_error(line) && line.pointer("/message/model").is_none_or(|model| model != SYNTHETIC)
}

fn is_error(line: &Value) -> bool {
    line.get("isApiErrorMessage").and_then(Value::as_bool) == Some(true)
}

fn failure(line: &Value) -> Option<Failure> {
    let error = line.get("error")?.as_str()?;
    let is_plain = (1..=ERROR_CHARS_MAX).contains(&error.len())
        && error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_plain.then(|| Failure {
        error: error.to_owned(),
        written_ms: written_ms(line).unwrap_or(0),
        resets_ms: resets_ms(line),
    })
}

/// When the usage limit resets, in milliseconds since 1970, as the API reported it to the client.
fn resets_ms(line: &Value) -> Option<u64> {
    let limit = line.pointer("/apiErrorParams/rate_limit_info")?;
    limit.get("status").filter(|status| *status == "rejected")?;
    limit.get("resetsAt")?.as_u64()?.checked_mul(1_000)
}

/// The question that a complete message asks.
fn question(line: &Value) -> Option<Question> {
    let reason = line.pointer("/message/stop_reason").filter(|reason| !reason.is_null());
    let is_whole = reason.is_none_or(|is| is.as_str().is_some_and(|is| WHOLE.contains(&is)));
    if !is_whole || !is_spoken(line) {
        return None;
    }
    let last = blocks(line)?.last()?;
    last.get("type").filter(|kind| *kind == "text")?;
    question_in(last.get("text")?.as_str()?)
}

/// Whether a line contains nothing but text, the agent's thoughts included.
fn is_spoken(line: &Value) -> bool {
    let is_spoken = |block: &Value| {
        block.get("type").and_then(Value::as_str).is_some_and(|kind| SPOKEN.contains(&kind))
    };
    blocks(line).is_some_and(|blocks| blocks.iter().all(is_spoken))
}

fn blocks(line: &Value) -> Option<&[Value]> {
    line.pointer("/message/content")?.as_array().map(Vec::as_slice)
}

/// Tokens in the newest request and the answer to it (S1-23).
fn context_tokens(entries: impl Iterator<Item = Entry>) -> Option<u64> {
    let since = entries.take_while(|entry| !matches!(entry, Entry::Compacted));
    let usage = since.filter_map(assistant).filter(is_models).find_map(|line| {
        line.pointer("/message/usage").filter(|usage| usage.is_object()).cloned()
    })?;
    let tokens = |name: &str| match usage.get(name) {
        None | Some(Value::Null) => Some(0),
        Some(number) => number.as_u64(),
    };
    usage.get("input_tokens")?.as_u64()?;
    let parts =
        ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
    parts.into_iter().try_fold(0_u64, |sum, name| Some(sum.saturating_add(tokens(name)?)))
}

#[cfg(test)]
mod tests;
