//! Determines which messages reached an agent (H-30): those in a request of the agent's conversation that an
//! entry of the agent answers.
//!
//! A line *carries* a message if the client wrote it for a hook's answer or for a wake hook's text, and if
//! the message's frame is in it outside any quote. No prompt may come between that line and the answer. An
//! interrupt before any output removes the prompt's context again, and the next prompt's request is sent
//! without it, although the file has both in one line of descent (measured). A further block of a message
//! that the agent had already begun is no answer either. Context from SessionStart stays in the conversation,
//! whatever happens to its first prompt (measured).

use std::collections::BTreeSet;

use coord_model::MessageId;
use serde_json::Value;

use super::order::{holds, in_order};

/// Begins every line of a message's own text.
const QUOTE: &str = "> ";
/// Begins the prompt that the client makes of a wake hook's text.
const WAKE: &str = "<task-notification>";
/// The model that the client names in entries that it writes itself.
const SYNTHETIC: &str = "<synthetic>";

/// Those of the messages in `ids` that complete lines of a transcript prove to have been answered.
pub fn arrived_in(end: &[u8], ids: &BTreeSet<MessageId>) -> Vec<MessageId> {
    let frames: Vec<(MessageId, String)> =
        ids.iter().map(|id| (*id, format!("[coord] Message {id} "))).collect();
    let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let lines = in_order(end);
    let (mut arrived, mut asked) = (Vec::new(), Vec::new());
    // The message that the agent was writing when the first of them came; it may continue, block by block.
    let mut under_way = None;
    for (at, line) in lines.iter().enumerate() {
        if asked.is_empty() {
            if !names.iter().any(|name| holds(line, name.as_bytes())) {
                continue;
            }
            under_way = lines.iter().take(at).rev().find_map(|line| said(line));
        }
        let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
        if line.get("isSidechain").and_then(Value::as_bool) == Some(true) {
            continue;
        }
        match line.get("type").and_then(Value::as_str) {
            Some("assistant") if is_agents(&line) && is_another(&line, under_way.as_deref()) => {
                arrived.extend(asked.drain(..).map(|(id, _)| id));
            }
            Some("user") => {
                if is_prompt(&line) {
                    asked.retain(|(_, stays)| *stays);
                }
                let text = line.pointer("/message/content").and_then(Value::as_str);
                let text = text.filter(|text| text.starts_with(WAKE));
                asked.extend(carried(&frames, text).map(|id| (id, false)));
            }
            Some("attachment") => {
                let (texts, stays) = attached(&line);
                asked.extend(carried(&frames, texts).map(|id| (id, stays)));
            }
            Some(_) | None => (),
        }
    }
    arrived.sort_unstable();
    arrived.dedup();
    arrived
}

/// The messages whose frames are in these texts.
fn carried<'a>(
    frames: &'a [(MessageId, String)],
    texts: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = MessageId> {
    let texts: Vec<&str> = texts.into_iter().collect();
    let has = move |frame: &str| {
        let mut lines = texts.iter().flat_map(|text| text.lines());
        lines.any(|line| !line.starts_with(QUOTE) && line.contains(frame))
    };
    frames.iter().filter(move |(_, frame)| has(frame)).map(|(id, _)| *id)
}

/// The texts that a hook's answer or a wake hook added during a turn, and whether they stay whatever happens
/// to the prompt after them.
fn attached(line: &Value) -> (Vec<&str>, bool) {
    let of = |name: &str| line.pointer(&format!("/attachment/{name}"));
    match of("type").and_then(Value::as_str) {
        Some("hook_additional_context") => {
            let content = of("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let stays = of("hookEvent").is_some_and(|event| event == "SessionStart");
            (content.iter().filter_map(Value::as_str).collect(), stays)
        }
        Some("queued_command") => {
            (of("prompt").and_then(Value::as_str).into_iter().collect(), false)
        }
        Some(_) | None => (Vec::new(), false),
    }
}

/// The id of the agent's message to which a line belongs.
fn said(line: &[u8]) -> Option<String> {
    if !holds(line, b"assistant") {
        return None;
    }
    let line = serde_json::from_slice::<Value>(line).ok()?;
    let is_its = line.get("type").is_some_and(|is| is == "assistant")
        && line.get("isSidechain").and_then(Value::as_bool) != Some(true);
    let id = line.pointer("/message/id").and_then(Value::as_str);
    id.filter(|_| is_its).map(ToOwned::to_owned)
}

/// Whether a line is no further block of that message.
fn is_another(line: &Value, under_way: Option<&str>) -> bool {
    let id = line.pointer("/message/id").and_then(Value::as_str);
    id.is_none() || id != under_way
}

/// Whether an entry is the agent's own, and not an error that the client wrote in its place.
fn is_agents(line: &Value) -> bool {
    line.get("isApiErrorMessage").and_then(Value::as_bool) != Some(true)
        && line.pointer("/message/model").is_none_or(|model| model != SYNTHETIC)
}

/// Whether an entry is something that the user typed or did to the turn, rather than a tool's result or an
/// addition of the client.
pub(super) fn is_prompt(line: &Value) -> bool {
    if line.get("isMeta").and_then(Value::as_bool) == Some(true) {
        return false;
    }
    let blocks = line.pointer("/message/content").and_then(Value::as_array);
    let is_result = |block: &Value| block.get("type").is_some_and(|is| is == "tool_result");
    blocks.is_none_or(|blocks| !blocks.iter().all(is_result))
}

#[cfg(test)]
mod tests;
