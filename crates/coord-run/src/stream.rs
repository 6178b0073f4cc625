//! Interprets the lines of a client's stream.
//!
//! Only a line's own fields count. What an agent prints is inside texts, which are skipped and never built,
//! so an agent cannot forge a line. If a key occurs twice, the last one counts, as in the client's own
//! language. An object of an unknown form still shows that the client spoke; a line that is no object shows
//! nothing.

mod json;

use std::collections::BTreeMap;
use std::time::Duration;

use coord_core::{ResultSeen, ResultUsage, RunTasks, StreamFact};
use coord_model::TokenCounts;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use json::{digest, each, fields, flag, is_object, number, text};

/// Most facts taken from one line.
const FACTS_MAX: usize = 256;
/// Longest name or id of the client, in bytes.
const WORD_BYTES_MAX: usize = 64;
/// Longest delay of the client's wake-up, in milliseconds: it wakes at a full minute, plus one more
/// (measured).
const WAKEUP_ROUNDS_MS: u64 = 120_000;
/// Longest time for which a wake-up is waited for.
const WAKEUP_MAX: Duration = Duration::from_secs(24 * 3600);
/// The range in which a limit's reset time is believed, in seconds since 1970: from 2020 to 2100.
const RESETS_S: core::ops::Range<u64> = 1_577_836_800..4_102_444_800;

/// The fields of a line that are read.
const ROW: [&str; 11] = [
    "type",
    "subtype",
    "session_id",
    "parent_tool_use_id",
    "message",
    "error",
    "tasks",
    "rate_limit_info",
    "request_id",
    "request",
    "response",
];
/// The fields that are read only of a result line.
const RESULT: [&str; 7] = [
    "is_error",
    "subtype",
    "terminal_reason",
    "api_error_status",
    "num_turns",
    "total_cost_usd",
    "modelUsage",
];
/// Longest list of models that is read, in bytes.
const MODELS_BYTES_MAX: usize = 64 * 1024;

/// The facts in a line; none if the line is no object.
pub fn facts_of(line: &[u8]) -> Vec<StreamFact> {
    match said_by(line) {
        Some(facts) => facts,
        None if is_object(line) => vec![StreamFact::Said],
        None => Vec::new(),
    }
}

/// The facts in an object; none if it is no object, or if a decisive field is unreadable.
fn said_by(line: &[u8]) -> Option<Vec<StreamFact>> {
    let row = fields(line, &ROW)?;
    let [kind, subtype, session_id, parent, message, error, tasks, limit, id, request, response] =
        row;
    let is_main = parent.is_none_or(|parent| parent.get() == "null");
    let fact = match text(kind?)?.as_str() {
        "system" => match text(subtype?)?.as_str() {
            "init" => StreamFact::Init { session_id: word(session_id?)? },
            "background_tasks_changed" => StreamFact::Tasks(tasks_in(tasks?)?),
            "api_retry" => StreamFact::Retry { error: error.and_then(word) },
            _ => StreamFact::Said,
        },
        "assistant" if is_main => return Some(by_assistant(message, error)),
        "user" => return Some(by_user(message, is_main)),
        "rate_limit_event" => limit_in(limit?)?,
        "control_request" => {
            StreamFact::ControlOpened { request: digest(id?)?, call: request.and_then(call_of) }
        }
        "control_cancel_request" => StreamFact::ControlClosed { request: digest(id?)? },
        "control_response" => {
            let [id] = fields(response?.get().as_bytes(), &["request_id"])?;
            StreamFact::ControlClosed { request: digest(id?)? }
        }
        "result" => StreamFact::Result(result_in(line)?),
        _ => StreamFact::Said,
    };
    Some(vec![fact])
}

fn by_assistant(message: Option<&RawValue>, error: Option<&RawValue>) -> Vec<StreamFact> {
    let mut facts = Vec::new();
    blocks(message, "\"tool_use\"", &mut |block| {
        let Some([kind, id, name, input]) =
            fields(block.get().as_bytes(), &["type", "id", "name", "input"])
        else {
            return;
        };
        let call = id.filter(|_| is_word(kind, "tool_use")).and_then(digest);
        let Some(call) = call.filter(|_| facts.len() < FACTS_MAX) else { return };
        facts.push(StreamFact::ToolBegan { call });
        if is_word(name, "ScheduleWakeup") {
            let after_ms = input.and_then(wakeup_in);
            facts.extend(after_ms.map(|after_ms| StreamFact::Wakeup { after_ms }));
        }
    });
    // An error is the last fact of its line: what precedes it does not make up for it.
    if let Some(error) = error.filter(|error| error.get() != "null") {
        let error = word(error).unwrap_or_else(|| String::from("unknown"));
        facts.push(StreamFact::Failed { error });
    }
    or_said(facts)
}

fn by_user(message: Option<&RawValue>, is_main: bool) -> Vec<StreamFact> {
    // Calls of a subagent were not reported as begun, but a question may be open about one of them.
    let mut facts = if is_main { Vec::new() } else { vec![StreamFact::Said] };
    blocks(message, "\"tool_result\"", &mut |block| {
        let found = fields(block.get().as_bytes(), &["type", "tool_use_id"]);
        let Some([kind, id]) = found.filter(|_| facts.len() < FACTS_MAX) else { return };
        let call = id.filter(|_| is_word(kind, "tool_result")).and_then(digest);
        facts.extend(call.map(|call| StreamFact::ToolEnded { call }));
    });
    or_said(facts)
}

fn or_said(facts: Vec<StreamFact>) -> Vec<StreamFact> {
    if facts.is_empty() { vec![StreamFact::Said] } else { facts }
}

/// Visits the blocks of a message, if `needle` occurs in it at all.
fn blocks(message: Option<&RawValue>, needle: &str, visit: &mut dyn FnMut(&RawValue)) {
    let message = message.map(|message| message.get().as_bytes());
    let Some(message) = message.filter(|text| memmem::find(text, needle.as_bytes()).is_some())
    else {
        return;
    };
    if let Some([Some(content)]) = fields(message, &["content"]) {
        each(content, visit);
    }
}

fn wakeup_in(input: &RawValue) -> Option<u64> {
    let [delay] = fields(input.get().as_bytes(), &["delaySeconds"])?;
    let delay = number(delay?)?.min(WAKEUP_MAX);
    Some(u64::try_from(delay.as_millis()).ok()?.saturating_add(WAKEUP_ROUNDS_MS))
}

fn tasks_in(tasks: &RawValue) -> Option<RunTasks> {
    let mut found = RunTasks::default();
    let is_list = each(tasks, &mut |task| {
        let kind = fields(task.get().as_bytes(), &["task_type"]).and_then(|[kind]| text(kind?));
        let count = match kind.as_deref() {
            Some("local_agent") => &mut found.subagents,
            Some("local_bash") => &mut found.shells,
            Some(_) | None => &mut found.others,
        };
        *count = count.saturating_add(1);
    });
    is_list.then_some(found)
}

fn limit_in(limit: &RawValue) -> Option<StreamFact> {
    let [status, resets] = fields(limit.get().as_bytes(), &["status", "resetsAt"])?;
    let resets = resets.and_then(number).filter(|at| RESETS_S.contains(&at.as_secs()));
    Some(StreamFact::RateLimit {
        is_rejected: text(status?)? == "rejected",
        resets_ms: resets.and_then(|at| u64::try_from(at.as_millis()).ok()),
    })
}

fn call_of(request: &RawValue) -> Option<u64> {
    let [call] = fields(request.get().as_bytes(), &["tool_use_id"])?;
    digest(call?)
}

fn result_in(line: &[u8]) -> Option<ResultSeen> {
    let [is_error, subtype, reason, status, turns, cost, models] = fields(line, &RESULT)?;
    let whole = |field: Option<&RawValue>| field.and_then(number).map(|count| count.as_secs());
    let named = |field: Option<&RawValue>| match field.filter(|field| field.get() != "null") {
        Some(field) => word(field).unwrap_or_else(|| String::from("unknown")),
        None => String::new(),
    };
    let subtype = named(subtype);
    Some(ResultSeen {
        is_error: is_error.and_then(flag).unwrap_or_else(|| subtype.starts_with("error")),
        terminal_reason: named(reason),
        api_error_status: whole(status).and_then(|status| u16::try_from(status).ok()),
        turns: whole(turns).and_then(|turns| u32::try_from(turns).ok()).unwrap_or(0),
        used: ResultUsage {
            cost_usd: cost.and_then(|cost| serde_json::from_str(cost.get()).ok()),
            tokens: models.and_then(tokens_in),
        },
        subtype,
    })
}

/// What one model was used for.
#[derive(Deserialize)]
struct ModelUsage {
    #[serde(rename = "inputTokens")]
    input: u64,
    #[serde(rename = "outputTokens")]
    output: u64,
    #[serde(rename = "cacheReadInputTokens")]
    cache_read: u64,
    #[serde(rename = "cacheCreationInputTokens")]
    cache_creation: u64,
}

/// The tokens of all models; none if a number is missing.
fn tokens_in(models: &RawValue) -> Option<TokenCounts> {
    let json = Some(models.get()).filter(|json| json.len() <= MODELS_BYTES_MAX)?;
    let models: BTreeMap<String, ModelUsage> = serde_json::from_str(json).ok()?;
    let (n_models, mut counts) = (models.len(), TokenCounts::default());
    for used in models.values() {
        let sums = [
            (&mut counts.input, used.input),
            (&mut counts.output, used.output),
            (&mut counts.cache_read, used.cache_read),
            (&mut counts.cache_creation, used.cache_creation),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
    }
    let only = models.into_keys().next().filter(|_| n_models == 1);
    counts.model = only.filter(|name| name.chars().count() <= TokenCounts::MODEL_CHARS_MAX);
    Some(counts)
}

/// A name or an id from the client, if it is safe to show and to keep.
fn word(field: &RawValue) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    text(field).filter(|word| {
        !word.is_empty() && word.len() <= WORD_BYTES_MAX && word.bytes().all(is_plain)
    })
}

fn is_word(field: Option<&RawValue>, expected: &str) -> bool {
    field.and_then(text).is_some_and(|word| word == expected)
}

#[cfg(test)]
mod tests;
