//! Tests ends of conversations: those that the real client writes, and those that somebody else could
//! cause.

use coord_model::{Failure, LastWords, Question};
use serde_json::{Value, json};

fn fixture(name: &str) -> Vec<u8> {
    let place = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/transcripts");
    std::fs::read(place.join(name)).unwrap()
}

fn of_text(text: &[u8]) -> LastWords {
    crate::transcript::tail_of(text, None).last_words
}

fn of(lines: &[Value]) -> LastWords {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    of_text((text.join("\n") + "\n").as_bytes())
}

/// A line of the agent, with these blocks.
fn says(id: &str, content: &Value) -> Value {
    json!({"type": "assistant", "isSidechain": false, "message": {
        "id": id, "role": "assistant", "model": "claude-opus-5-5", "content": content, "stop_reason": "end_turn",
        "usage": {"input_tokens": 2, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 400, "output_tokens": 5000},
    }})
}

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

fn asks() -> Value {
    says("msg_1", &text("Part one is done. Continue?"))
}

fn user(content: &Value) -> Value {
    json!({"type": "user", "isSidechain": false, "message": {"role": "user", "content": content}})
}

fn failed(error: &Value) -> Value {
    json!({
        "type": "assistant", "isSidechain": false, "error": error, "isApiErrorMessage": true, "apiErrorStatus": 429,
        "message": {"id": "x", "role": "assistant", "model": "<synthetic>", "content": text("Continue?"),
            "stop_reason": "stop_sequence", "usage": {"input_tokens": 0, "output_tokens": 0}},
        "apiErrorParams": {"rate_limit_info": {"status": "rejected", "resetsAt": 1_795_402_033_u64}},
    })
}

fn failure(error: &str, resets_ms: Option<u64>) -> Failure {
    Failure { error: error.to_owned(), written_ms: 0, resets_ms }
}

/// The line with another value at `pointer`.
fn with(mut line: Value, pointer: &str, value: Value) -> Value {
    *line.pointer_mut(pointer).unwrap() = value;
    line
}

// S1-09 to S1-11, S1-13, S1-22, R-11: lines that the real client wrote.
#[test]
fn the_real_clients_lines() {
    for (name, error, resets_ms, tokens) in [
        // A subscription's limit, whose reset time the API reported; with an API key, none is reported.
        ("usage_limit", "rate_limit", Some(1_795_402_033_000), None),
        ("rate_limit", "rate_limit", None, None),
        ("authentication", "authentication_failed", None, None),
        ("context_limit", "invalid_request", None, None),
        ("max_output_tokens", "max_output_tokens", None, Some(110)),
    ] {
        let words = of_text(&fixture(&format!("{name}.jsonl")));
        let written_ms = words.failure.as_ref().map_or(0, |failure| failure.written_ms);
        assert!(1_700_000_000_000 < written_ms, "{name}: {written_ms}");
        let expected = Failure { written_ms, ..failure(error, resets_ms) };
        assert_eq!((words.failure, words.question), (Some(expected), None), "{name}");
        assert_eq!(words.context_tokens, tokens, "{name}");
    }
    let words = of_text(&fixture("asks_to_continue.jsonl"));
    let question = Some(Question::Proceed);
    let written_ms = words.written_ms.filter(|ms| 1_700_000_000_000 < *ms);
    assert!(written_ms.is_some(), "R-19: the message says when it was written");
    let expected = LastWords { failure: None, question, context_tokens: Some(110), written_ms };
    assert_eq!(words, expected);
    for name in
        ["permission_open", "interrupted_stream", "interrupted_tool", "subagent", "subagent_own"]
    {
        let words = of_text(&fixture(&format!("{name}.jsonl")));
        assert_eq!((words.failure, words.question), (None, None), "{name}");
    }
}

// S1-21, S1-22: what its user did since hides neither that the agent wrote, nor when. An API error is no message of it,
// and what the client writes in its place neither.
#[test]
fn the_time_of_the_agents_last_message_is_told_before_entries_of_its_user() {
    let at = |mut line: Value, time: &str| {
        line["timestamp"] = json!(time);
        line
    };
    let said = at(asks(), "2026-11-28T10:00:00Z");
    let error = at(failed(&json!("rate_limit")), "2026-11-28T10:00:01Z");
    let synthetic = with(said.clone(), "/message/model", json!("<synthetic>"));
    let command = at(user(&json!("<bash-input>ls</bash-input>")), "2026-11-28T10:00:02Z");
    let written = |lines: &[&Value]| {
        let words = of(&lines.iter().copied().cloned().collect::<Vec<_>>());
        assert_eq!((words.failure, words.question), (None, None), "it is not the newest entry");
        words.written_ms
    };
    assert_eq!(written(&[&said, &command]), Some(1_795_860_000_000));
    assert_eq!(written(&[&error, &said, &command]), Some(1_795_860_000_000));
    assert_eq!(written(&[&said, &error, &command]), None);
    let results = user(&json!([{"type": "tool_result", "content": "ok"}]));
    assert_eq!(written(&[&said, &results]), Some(1_795_860_000_000));
    for beside in [
        "<local-command-stdout>Set model</local-command-stdout>",
        "<command-name>/model</command-name>",
    ] {
        assert_eq!(written(&[&said, &user(&json!(beside))]), Some(1_795_860_000_000), "{beside}");
    }
    let interrupt = user(&text("[Request interrupted by user]"));
    assert_eq!(written(&[&said, &interrupt]), Some(1_795_860_000_000));
    // What stands before a prompt is not of that prompt's turn.
    assert_eq!(written(&[&said, &user(&json!("go on"))]), None);
    assert_eq!(written(&[&said, &user(&text("go on")), &results, &command]), None);
    assert_eq!(written(&[&said, &synthetic, &command]), None);
}

// H-40: a real message that called a tool, read up to each of its lines.
#[test]
fn a_conversation_asks_at_its_end_only() {
    let text = fixture("asks_to_continue.jsonl");
    let is_line = |at: &usize| text[*at - 1] == b'\n';
    let asking: Vec<bool> = (1..=text.len())
        .filter(is_line)
        .map(|to| of_text(&text[..to]).question.is_some())
        .collect();
    assert_eq!(asking.iter().rposition(|asks| !asks), Some(9), "{asking:?}");
    assert!(asking[10..].iter().all(|asks| *asks), "{asking:?}");
}

// R-11, S1-13
#[test]
fn a_failure_is_the_newest_word_and_has_the_clients_flag() {
    let error = failed(&json!("rate_limit"));
    let expected = Some(failure("rate_limit", Some(1_795_402_033_000)));
    let aside = json!({"type": "system", "subtype": "turn_duration"});
    let sidechain = with(asks(), "/isSidechain", json!(true));
    assert_eq!(of(&[asks(), error.clone()]).failure, expected);
    assert_eq!(of(&[error.clone(), aside, sidechain]).failure, expected);
    for behind in [asks(), user(&json!("go on")), json!("no line")] {
        let is_line = behind.is_object();
        assert_eq!(of(&[error.clone(), behind]).failure.is_some(), !is_line);
    }
    assert_eq!(of_text(format!("{error}\nnot understood\n").as_bytes()), LastWords::default());
    let meta = json!({"type": "user", "isMeta": true, "message": {"role": "user", "content": "Resume directly"}});
    assert_eq!(of(&[error.clone(), meta]).failure, None);
    for flag in [json!(false), json!("true"), json!(1), json!(null)] {
        assert_eq!(of(&[with(error.clone(), "/isApiErrorMessage", flag)]).failure, None);
    }
    assert_eq!(of(&[with(error.clone(), "/isSidechain", json!(true))]), LastWords::default());
    assert_eq!(of(&[with(error, "/type", json!("user"))]), LastWords::default());
}

// the name of an error is one of the client's own, or there is none.
#[test]
fn names_of_errors_are_plain() {
    let long = "a".repeat(65);
    for name in ["", "Rate_limit", "rate limit", "rate_limit\u{1b}[2J", "é", long.as_str()] {
        assert_eq!(of(&[failed(&json!(name))]).failure, None, "{name:?}");
    }
    for value in [json!(null), json!(1), json!(["rate_limit"]), json!({"type": "rate_limit"})] {
        assert_eq!(of(&[failed(&value)]).failure, None, "{value}");
    }
    assert!(of(&[failed(&json!(long[..64]))]).failure.is_some());
}

// S1-22
#[test]
fn a_reset_is_a_time_of_a_limit_that_was_reached() {
    let at = "/apiErrorParams/rate_limit_info/resetsAt";
    let error = || failed(&json!("rate_limit"));
    for (value, resets_ms) in [
        (json!(1), Some(1_000)),
        (json!(0), Some(0)),
        (json!(u64::MAX), None),
        (json!(u64::MAX / 1_000 + 1), None),
        (json!(-5), None),
        (json!(1.5), None),
        (json!("1795402033"), None),
        (json!(null), None),
    ] {
        let words = of(&[with(error(), at, value.clone())]);
        assert_eq!(words.failure, Some(failure("rate_limit", resets_ms)), "{value}");
    }
    for (at, value) in [
        ("/apiErrorParams/rate_limit_info/status", json!("allowed_warning")),
        ("/apiErrorParams/rate_limit_info/status", json!(null)),
        ("/apiErrorParams/rate_limit_info", json!([])),
        ("/apiErrorParams", json!("rejected")),
    ] {
        let words = of(&[with(error(), at, value.clone())]);
        assert_eq!(words.failure, Some(failure("rate_limit", None)), "{at} {value}");
    }
}

// S1-09 to S1-11, H-40
#[test]
fn a_question_is_the_agents_newest_word() {
    assert_eq!(of(&[asks()]).question, Some(Question::Continue));
    let tool_result = json!([{"type": "tool_result", "tool_use_id": "t", "content": "Delete the backups? (y/n)"}]);
    for behind in [
        user(&json!("Delete the backups? (y/n)")),
        user(&text("Delete the backups? (y/n)")),
        user(&tool_result),
        says("msg_2", &text("It is done.")),
        says("msg_2", &tool_result),
        says("msg_2", &json!([])),
        says("msg_2", &json!("Continue?")),
        says("msg_2", &json!([{"type": "text", "text": ["Continue?"]}])),
        says("msg_2", &json!([{"type": "thinking", "thinking": "Continue?"}])),
        says(
            "msg_2",
            &json!([{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "Continue?"}}]),
        ),
        says(
            "msg_2",
            &json!([{"type": "text", "text": "Continue?"}, {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]),
        ),
        with(says("msg_2", &text("Continue?")), "/message/stop_reason", json!("max_tokens")),
        with(says("msg_2", &text("Continue?")), "/message/stop_reason", json!(["end_turn"])),
        with(says("msg_2", &text("Continue?")), "/message", json!("Continue?")),
        failed(&json!("rate_limit")),
    ] {
        assert_eq!(of(&[asks(), behind.clone()]).question, None, "{behind}");
    }
    let thought =
        json!([{"type": "thinking", "thinking": "Well."}, {"type": "text", "text": "Continue?"}]);
    assert_eq!(of(&[says("msg_2", &thought)]).question, Some(Question::Continue));
    let not_yet_told = with(asks(), "/message/stop_reason", json!(null));
    assert_eq!(of(&[not_yet_told]).question, Some(Question::Continue));
    // S1-13
    let limited = says("msg_1", &text("I hit a rate limit.\n\nDelete the backups? (y/n)"));
    assert_eq!(of(&[limited]).question, Some(Question::Limit));
}

// H-40: a message consists of one line for each block.
#[test]
fn a_message_that_calls_a_tool_asks_nothing() {
    let call = json!([{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]);
    let thinks = json!([{"type": "thinking", "thinking": "Well."}]);
    assert_eq!(of(&[says("msg_1", &call), asks()]).question, None);
    assert_eq!(of(&[says("msg_1", &call), says("msg_1", &thinks), asks()]).question, None);
    assert_eq!(of(&[says("msg_1", &thinks), asks()]).question, Some(Question::Continue));
    assert_eq!(of(&[says("msg_0", &call), asks()]).question, Some(Question::Continue));
    assert_eq!(of(&[asks(), says("msg_1", &call)]).question, None);
}

// S1-23
#[test]
fn the_context_is_what_the_newest_request_held() {
    let usage = |usage: Value| with(asks(), "/message/usage", usage);
    assert_eq!(
        of(&[asks(), user(&json!("go on")), failed(&json!("rate_limit"))]).context_tokens,
        Some(5432)
    );
    assert_eq!(of(&[usage(json!({"input_tokens": 7})), asks()]).context_tokens, Some(5432));
    for (value, tokens) in [
        (json!({"input_tokens": 7, "cache_read_input_tokens": null}), Some(7)),
        (json!({"input_tokens": u64::MAX, "output_tokens": u64::MAX}), Some(u64::MAX)),
        (json!({"output_tokens": 7}), None),
        (json!({"input_tokens": -7}), None),
        (json!({"input_tokens": 7, "output_tokens": "9"}), None),
        (json!({"input_tokens": 7, "output_tokens": 1.5}), None),
        (json!([7]), None),
        (json!(null), None),
    ] {
        assert_eq!(of(&[usage(value.clone())]).context_tokens, tokens, "{value}");
    }
    let boundary = json!({"type": "system", "subtype": "compact_boundary", "isSidechain": false});
    let summary = user(&json!("This session is being continued"));
    assert_eq!(of(&[asks(), boundary.clone()]).context_tokens, None);
    assert_eq!(
        of(&[asks(), boundary, summary, usage(json!({"input_tokens": 9}))]).context_tokens,
        Some(9)
    );
    let sidechain = with(usage(json!({"input_tokens": 9})), "/isSidechain", json!(true));
    assert_eq!(of(&[asks(), sidechain]).context_tokens, Some(5432));
}

/// The line with its id and that of the line that it follows.
fn linked(mut line: Value, id: &str, parent: Option<&str>) -> Value {
    line["uuid"] = json!(id);
    line["parentUuid"] = json!(parent);
    line
}

// S1-09, H-40: a busy client writes the first answer before its prompt.
#[test]
fn a_prompt_that_is_written_after_its_answer_is_not_newer() {
    let prompt = linked(user(&json!("First prompt")), "prompt", None);
    let attachment = linked(json!({"type": "attachment"}), "attachment", Some("prompt"));
    let answer = linked(asks(), "answer", Some("attachment"));
    let hooks = json!({"type": "system", "subtype": "stop_hook_summary"});
    let hooks = linked(hooks, "hooks", Some("answer"));
    let asked = of(&[prompt.clone(), attachment.clone(), answer.clone(), hooks.clone()]).question;
    assert_eq!(asked, Some(Question::Continue));
    for order in [[&answer, &prompt, &attachment, &hooks], [&answer, &hooks, &prompt, &attachment]]
    {
        assert_eq!(of(&order.map(Clone::clone)).question, asked);
    }
    // Whatever does not lead to the answer is newer.
    let next = linked(user(&json!("Second prompt")), "next", Some("hooks"));
    let other = linked(user(&json!("Second prompt")), "other", None);
    for newer in [next, other, user(&json!("Second prompt"))] {
        let lines = [answer.clone(), prompt.clone(), attachment.clone(), newer];
        assert_eq!(of(&lines).question, None);
    }
    // A circle of lines ends.
    let circle = linked(user(&json!("First prompt")), "attachment", Some("attachment"));
    assert_eq!(of(&[answer, circle]).question, asked);
}
