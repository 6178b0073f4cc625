//! Tests what lines prove that are written as the real client writes them (H-30).

use coord_model::MessageId;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

use super::arrived_in;

fn id(n: u64) -> MessageId {
    MessageId::from_random(n)
}

/// A frame as an agent reads it.
fn frame(n: u64) -> String {
    let id = id(n);
    format!(
        "[coord] Message {id} was sent by a program (make).\n> text\n[coord] End of message {id}."
    )
}

/// Which of the messages 1 to 3 these lines prove.
fn proved(lines: &[Value]) -> Vec<u64> {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    proved_by(text.join("\n").as_bytes())
}

fn proved_by(text: &[u8]) -> Vec<u64> {
    let ids = (1..=3).map(id).collect();
    let found = arrived_in(text, &ids);
    (1..=3).filter(|n| found.contains(&id(*n))).collect()
}

fn prompt(content: &str) -> Value {
    json!({
        "parentUuid": null, "isSidechain": false, "promptId": "p1", "type": "user",
        "message": {"role": "user", "content": content}, "promptSource": "typed",
    })
}

/// Context that a hook's answer added.
fn context(event: &str, content: &str) -> Value {
    json!({
        "parentUuid": "u1", "isSidechain": false, "type": "attachment",
        "attachment": {
            "type": "hook_additional_context", "content": [content], "hookName": event,
            "toolUseID": "t1", "hookEvent": event,
        },
    })
}

/// An entry of the agent; each call makes a new message.
fn says(text: &str) -> Value {
    static SAID: AtomicU64 = AtomicU64::new(0);
    let id = format!("msg_{}", SAID.fetch_add(1, Ordering::Relaxed));
    json!({
        "parentUuid": "u2", "isSidechain": false, "type": "assistant",
        "message": {
            "id": id, "role": "assistant", "model": "claude-opus-5-5", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": text}],
        },
    })
}

fn calls() -> Value {
    let mut line = says("");
    line["message"]["content"] =
        json!([{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]);
    line
}

fn result(content: &str) -> Value {
    let block = json!({"type": "tool_result", "content": content, "tool_use_id": "t1"});
    let mut line = prompt("");
    line["message"]["content"] = json!([block]);
    line
}

/// The line that the client writes when a turn is interrupted after its first output.
fn interrupt() -> Value {
    let mut line = prompt("");
    line["message"]["content"] =
        json!([{"type": "text", "text": "[Request interrupted by user for tool use]"}]);
    line
}

/// The prompt that the client makes of a wake hook's text.
fn wake_text(n: u64) -> String {
    format!(
        "<task-notification>\nNOT USER INPUT\nStop hook blocking error from command \"Stop\": {}\n</task-notification>",
        frame(n)
    )
}

fn queued(text: &str) -> Value {
    json!({
        "isSidechain": false, "type": "attachment",
        "attachment": {"type": "queued_command", "prompt": text, "commandMode": "task-notification"},
    })
}

fn with(mut line: Value, field: &str, value: Value) -> Value {
    line[field] = value;
    line
}

// H-30: context that an entry of the agent answers, in each form in which the client writes it.
#[test]
fn what_the_agent_answers_arrived() {
    for (name, lines) in [
        (
            "with the start, before the prompt",
            vec![context("SessionStart", &frame(1)), prompt("go"), says("ok")],
        ),
        (
            "behind the prompt",
            vec![prompt("go"), context("UserPromptSubmit", &frame(1)), says("ok")],
        ),
        (
            "with a tool's result",
            vec![prompt("go"), calls(), result("x"), context("PostToolUse", &frame(1)), calls()],
        ),
        (
            "before the result of another tool",
            vec![prompt("go"), calls(), context("PostToolUse", &frame(1)), result("x"), says("ok")],
        ),
        ("at the end of a turn", vec![says("done"), context("Stop", &frame(1)), says("ok")]),
        ("by a wake", vec![prompt(&wake_text(1)), says("ok")]),
        (
            "by a wake into a running turn",
            vec![prompt("go"), calls(), queued(&wake_text(1)), says("ok")],
        ),
    ] {
        assert_eq!(proved(&lines), [1], "{name}");
        let unanswered = &lines[..lines.len() - 1];
        assert_eq!(proved(unanswered), [0; 0], "{name}: until it is answered");
    }
}

// H-30: several messages in one answer, each with its own frame, and the answers of two turns.
#[test]
fn each_message_is_proved_by_its_own_frame() {
    let both = format!("{}\n\n{}", frame(1), frame(3));
    assert_eq!(proved(&[prompt("go"), context("UserPromptSubmit", &both), says("ok")]), [1, 3]);
    let lines = [
        prompt("go"),
        context("UserPromptSubmit", &frame(2)),
        says("ok"),
        context("Stop", &frame(1)),
        says("ok"),
        prompt("more"),
        context("UserPromptSubmit", &frame(3)),
    ];
    assert_eq!(proved(&lines), [1, 2]);
}

// H-30: Esc before any output removes the context again, and the file does not show it (measured): only
// context from the start of a session stays.
#[test]
fn a_prompt_in_between_leaves_nothing_proved() {
    for (event, arrived) in [
        ("UserPromptSubmit", vec![]),
        ("PostToolUse", vec![]),
        ("Stop", vec![]),
        ("SessionStart", vec![1]),
    ] {
        let lines = [context(event, &frame(1)), prompt("another"), says("ok")];
        assert_eq!(proved(&lines), arrived, "{event}");
    }
    assert_eq!(proved(&[prompt(&wake_text(1)), prompt("another"), says("ok")]), [0; 0]);
    assert_eq!(proved(&[queued(&wake_text(1)), prompt("another"), says("ok")]), [0; 0]);
    let again = [
        context("UserPromptSubmit", &frame(1)),
        prompt("another"),
        context("UserPromptSubmit", &frame(1)),
        says("ok"),
    ];
    assert_eq!(proved(&again), [1], "sent again it is there again");
}

// H-30: an interrupt in between is no answer, and what follows it is another request.
#[test]
fn an_interrupt_in_between_leaves_nothing_proved() {
    let lines = [prompt("go"), calls(), context("PostToolUse", &frame(1)), interrupt(), says("ok")];
    assert_eq!(proved(&lines), [0; 0]);
    let lines = [prompt("go"), context("UserPromptSubmit", &frame(1)), says("ok"), interrupt()];
    assert_eq!(proved(&lines), [1], "an interrupt behind the answer takes nothing back");
}

// H-30: an addition of the client itself is no prompt.
#[test]
fn what_the_client_adds_is_no_prompt() {
    let added = with(prompt("Caveat: the messages below"), "isMeta", json!(true));
    let lines = [
        context("UserPromptSubmit", &frame(1)),
        added,
        result("x"),
        json!({"type": "last-prompt", "lastPrompt": "go"}),
        json!({"type": "system", "subtype": "turn_duration", "isMeta": false}),
        says("ok"),
    ];
    assert_eq!(proved(&lines), [1]);
}

// H-30: a subagent reads what was meant for its parent, and its answers prove nothing.
#[test]
fn a_subagent_proves_nothing() {
    let aside = |line| with(line, "isSidechain", json!(true));
    let brought = context("UserPromptSubmit", &frame(1));
    assert_eq!(proved(&[prompt("go"), brought.clone(), aside(says("ok"))]), [0; 0]);
    assert_eq!(proved(&[prompt("go"), aside(brought.clone()), says("ok")]), [0; 0]);
    assert_eq!(
        proved(&[brought, aside(prompt("its task")), says("ok")]),
        [1],
        "nor is it in between"
    );
}

// H-30, R-11: an error that the client writes in the agent's place is no answer; the answer of a retry
// is one.
#[test]
fn the_client_s_own_words_are_no_answer() {
    let mut synthetic = says("API Error");
    synthetic["message"]["model"] = json!("<synthetic>");
    let error = with(says("API Error: 529"), "isApiErrorMessage", json!(true));
    for words in [synthetic, error] {
        let mut lines = vec![prompt("go"), context("UserPromptSubmit", &frame(1)), words];
        assert_eq!(proved(&lines), [0; 0]);
        lines.push(says("ok"));
        assert_eq!(proved(&lines), [1]);
    }
    let mut unnamed = says("ok");
    unnamed["message"].as_object_mut().unwrap().remove("model");
    assert_eq!(proved(&[context("Stop", &frame(1)), unnamed]), [1], "older clients name no model");
}

// H-30, H-04: lines that contain the text, but are in no request.
#[test]
fn what_is_in_no_request_carries_nothing() {
    let (text, woken) = (frame(1), wake_text(1));
    for line in [
        json!({"type": "queue-operation", "operation": "enqueue", "content": woken}),
        json!({
            "type": "system", "subtype": "stop_hook_summary", "isSidechain": false,
            "hookAdditionalContext": [text], "hookErrors": [text],
        }),
        json!({"type": "last-prompt", "lastPrompt": woken}),
        json!({"type": "summary", "summary": text}),
        json!({"type": "attachment", "attachment": {"type": "hook_success", "stdout": text, "content": text}}),
        json!({"type": "attachment", "attachment": {"type": "file", "content": [text]}}),
        json!({"type": "attachment", "attachment": {"content": [text]}}),
        json!({"type": "attachment"}),
        json!({"attachment": {"type": "hook_additional_context", "content": [text]}}),
        context("Stop", "nothing"),
        json!([text]),
        json!(text),
        json!(null),
    ] {
        assert_eq!(proved(&[prompt("go"), line.clone(), says("ok")]), [0; 0], "{line}");
    }
}

// H-30: no text can forge the arrival of a message: neither a quoted frame nor a mentioned id.
#[test]
fn an_id_that_is_only_mentioned_carries_nothing() {
    let inner = frame(1).replace('\n', "\n> ");
    let quoting = format!("[coord] Message {} was sent by …:\n> {inner}\n[coord] End.", id(2));
    assert_eq!(proved(&[prompt("go"), context("UserPromptSubmit", &quoting), says("ok")]), [2]);
    let (one, text) = (id(1).to_string(), frame(1));
    let mut blocks = prompt("");
    blocks["message"]["content"] = json!([{"type": "text", "text": text}]);
    for line in [
        prompt(&one),
        prompt(&text),
        blocks,
        result(&text),
        says(&text),
        context("UserPromptSubmit", &format!("coord queue show {one}")),
        context("UserPromptSubmit", &format!("[coord] End of message {one}.")),
        context("UserPromptSubmit", &format!("[coord] Message {one}x was sent")),
    ] {
        assert_eq!(proved(&[line.clone(), says("ok")]), [0; 0], "{line}");
    }
}

// H-27: a broken or cut line shows nothing, and hides nothing.
#[test]
fn broken_lines_are_skipped() {
    let good = [prompt("go"), context("UserPromptSubmit", &frame(1)), says("ok")];
    let [go, brought, answer] = good.map(|line| line.to_string());
    let half = &brought[..brought.len() / 2];
    for text in [
        format!("{half}\n{go}\n{brought}\n{half}\n\n{answer}\n"),
        format!("{go}\r\n{brought}\r\n{answer}"),
        format!("{go}\n{{\n{brought}\n\"\u{0}\n{answer}\n{half}"),
    ] {
        assert_eq!(proved_by(text.as_bytes()), [1], "{text:?}");
    }
    let torn =
        [go.as_bytes(), b"\n\xff\xfe{", brought.as_bytes(), b"\n", answer.as_bytes()].concat();
    assert_eq!(proved_by(&torn), [0; 0], "that line is none");
    assert_eq!(proved_by(format!("{go}\n{brought}\n{}", &answer[..40]).as_bytes()), [0; 0]);
    assert_eq!(proved_by(b""), [0; 0]);
}

// H-30: only requested messages are found.
#[test]
fn only_what_is_looked_for_is_found() {
    let lines = [prompt("go"), context("UserPromptSubmit", &frame(4)), says("ok")];
    assert_eq!(proved(&lines), [0; 0]);
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    assert_eq!(arrived_in(text.join("\n").as_bytes(), &[id(4)].into()), [id(4)]);
}

fn lines() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        (1..4_u64).prop_map(frame),
        (1..4_u64).prop_map(wake_text),
        (1..4_u64).prop_map(|n| format!("> {}", frame(n).replace('\n', "\n> "))),
        ".{0,20}".prop_map(|text| text),
    ];
    let event = prop_oneof![
        Just("SessionStart"),
        Just("UserPromptSubmit"),
        Just("PostToolUse"),
        Just("Stop")
    ];
    (0..10_u8, event, text, any::<bool>()).prop_map(|(kind, event, text, is_aside)| {
        let line = match kind {
            0 => prompt(&text),
            1..=3 => context(event, &text),
            4 => says(&text),
            5 => calls(),
            6 => result(&text),
            7 => interrupt(),
            8 => queued(&text),
            _ => json!({"type": "queue-operation", "content": text}),
        };
        if is_aside { with(line, "isSidechain", json!(true)) } else { line }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // H-27: whatever a file contains, reading it never fails.
    #[test]
    fn any_bytes_are_read(
        bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 0..200_usize,
        lines in proptest::collection::vec(lines(), 0..8),
    ) {
        proved_by(&bytes);
        let text: Vec<String> = lines.iter().map(Value::to_string).collect();
        let mut text = text.join("\n").into_bytes();
        let at = cut.min(text.len());
        text.splice(at..at, bytes);
        proved_by(&text);
    }

    // H-30: what was proved stays proved, whatever follows, and nothing is proved without an answer
    // after its frame.
    #[test]
    fn a_proof_is_not_taken_back(lines in proptest::collection::vec(lines(), 0..14)) {
        let mut before = Vec::new();
        for n in 0..=lines.len() {
            let now = proved(&lines[..n]);
            prop_assert!(before.iter().all(|one| now.contains(one)));
            let is_new = now.len() > before.len();
            let is_answer = n > 0 && lines[n - 1]["type"] == "assistant" && lines[n - 1]["isSidechain"] == false;
            prop_assert!(!is_new || is_answer);
            before = now;
        }
    }
}

// H-30: after a tool's result, the agent's message continues with a block that it wrote before it read
// anything.
#[test]
fn a_further_block_of_the_same_message_proves_nothing() {
    let id = MessageId::from_random(7);
    let block = |message: &str| {
        json!({"type": "assistant", "message": {"id": message, "content": []}}).to_string()
    };
    let carries = json!({"type": "attachment", "attachment": {
        "type": "hook_additional_context", "hookEvent": "PostToolUse",
        "content": [format!("[coord] Message {id} was sent")],
    }});
    let arrives = |lines: &[String]| {
        !arrived_in(lines.join("\n").as_bytes(), &std::collections::BTreeSet::from([id])).is_empty()
    };
    let before = [block("one"), carries.to_string(), block("one")];
    assert!(!arrives(&before));
    assert!(arrives(&[&before[..], &[block("two")]].concat()));
}

// H-30: the first answer of a conversation may be written before what it answers; its lines say so.
#[test]
fn an_answer_that_is_written_first_proves_what_it_follows() {
    let linked = |mut line: Value, id: &str, parent: Option<&str>| {
        line["uuid"] = json!(id);
        line["parentUuid"] = json!(parent);
        line
    };
    let begins = linked(prompt("do it"), "prompt", None);
    let message = linked(context("UserPromptSubmit", &frame(1)), "context", Some("prompt"));
    let answer = linked(says("done"), "answer", Some("context"));
    assert_eq!(proved(&[begins.clone(), message.clone(), answer.clone()]), [1]);
    assert_eq!(proved(&[answer.clone(), begins.clone(), message.clone()]), [1]);
    // One that came after it is not proved by it.
    let later = linked(context("PostToolUse", &frame(2)), "later", Some("answer"));
    assert_eq!(proved(&[answer, begins, message, later]), [1]);
}
