//! The shape of the Messages API's answers, streamed and whole.

use super::http::{begin_stream, end_stream, reply, send_event};
use super::{Answer, Turn};
use serde_json::{Value, json};
use std::io;
use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

/// Answers one request; false if the connection is to be closed. `pass` waits at a gate.
pub(super) fn answer(
    stream: &mut TcpStream,
    turn: &Turn,
    body: &Value,
    pass: impl Fn(Option<&str>) -> io::Result<()>,
) -> io::Result<bool> {
    let at_gate = || pass(turn.gate.as_deref());
    match &turn.answer {
        Answer::Message { text, calls, is_cut_off } => {
            at_gate()?;
            let mut message = message(body, text.as_deref(), calls);
            if *is_cut_off {
                message["stop_reason"] = json!("max_tokens");
            }
            if body["stream"] == true {
                send_message(stream, &turn.headers, &message)?;
            } else {
                reply(stream, 200, &turn.headers, &message)?;
            }
            Ok(true)
        }
        Answer::Error { status, kind, message } => {
            at_gate()?;
            reply(stream, *status, &turn.headers, &error(kind, message))?;
            Ok(true)
        }
        Answer::Hang => {
            // The client sends nothing while it waits, so this ends when it leaves.
            let _ = stream.read(&mut [0])?;
            Ok(false)
        }
        Answer::Cut { text } => {
            begin_stream(stream, &turn.headers)?;
            send_event(stream, &message_start(&message(body, None, &[])))?;
            send_event(stream, &block_start(0, &json!({"type": "text", "text": ""})))?;
            let half: String = text.chars().take(text.chars().count() / 2).collect();
            send_event(stream, &block_delta(0, &json!({"type": "text_delta", "text": half})))?;
            at_gate()?;
            Ok(false)
        }
        Answer::Pieces { pieces } => {
            at_gate()?;
            let message = message(body, Some(""), &[]);
            begin_stream(stream, &turn.headers)?;
            send_event(stream, &message_start(&message))?;
            send_event(stream, &block_start(0, &json!({"type": "text", "text": ""})))?;
            for (index, piece) in pieces.iter().enumerate() {
                pass(Some(&format!("piece {}", index + 1)))?;
                send_event(stream, &block_delta(0, &json!({"type": "text_delta", "text": piece})))?;
            }
            send_event(stream, &block_stop(0))?;
            end_message(stream, &message)?;
            Ok(true)
        }
    }
}

/// The body of an error.
pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_test"})
}

fn message(request: &Value, text: Option<&str>, calls: &[(String, Value)]) -> Value {
    let text = text.map(|text| json!({"type": "text", "text": text}));
    let calls = calls.iter().map(|(name, input)| {
        json!({"type": "tool_use", "id": unique("toolu"), "name": name, "input": input})
    });
    let stop_reason = if calls.len() == 0 { "end_turn" } else { "tool_use" };
    let content: Vec<Value> = text.into_iter().chain(calls).collect();
    json!({
        "id": unique("msg"), "type": "message", "role": "assistant", "model": request["model"],
        "content": content, "stop_reason": stop_reason, "stop_sequence": null,
        "usage": {
            "input_tokens": 100, "output_tokens": 10, "service_tier": "standard",
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        },
    })
}

fn unique(prefix: &str) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}_{:024}", LAST.fetch_add(1, Ordering::Relaxed) + 1)
}

fn send_message(
    stream: &mut TcpStream,
    headers: &[(String, String)],
    message: &Value,
) -> io::Result<()> {
    begin_stream(stream, headers)?;
    send_event(stream, &message_start(message))?;
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, block) in blocks.iter().enumerate() {
        let mut start = block.clone();
        let delta = if block["type"] == "tool_use" {
            start["input"] = json!({});
            json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
        } else {
            start["text"] = json!("");
            json!({"type": "text_delta", "text": block["text"]})
        };
        send_event(stream, &block_start(index, &start))?;
        send_event(stream, &block_delta(index, &delta))?;
        send_event(stream, &block_stop(index))?;
    }
    end_message(stream, message)
}

fn end_message(stream: &mut TcpStream, message: &Value) -> io::Result<()> {
    let delta = json!({"stop_reason": message["stop_reason"], "stop_sequence": null});
    let usage = json!({"output_tokens": message["usage"]["output_tokens"]});
    send_event(stream, &json!({"type": "message_delta", "delta": delta, "usage": usage}))?;
    send_event(stream, &json!({"type": "message_stop"}))?;
    end_stream(stream)
}

fn message_start(message: &Value) -> Value {
    let mut message = message.clone();
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    message["usage"]["output_tokens"] = json!(1);
    json!({"type": "message_start", "message": message})
}

fn block_start(index: usize, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn block_stop(index: usize) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn block_delta(index: usize, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}
