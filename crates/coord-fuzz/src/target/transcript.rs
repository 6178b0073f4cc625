//! The end of a transcript: nothing that stands in it can undo or feign what the client writes behind
//! it (R-01, S0-29), and what it says at its end is the client's and the agent's own (S1-13, H-40).

use super::Target;
use crate::inputs::{as_text, files};
use coord_host::transcript::{Tail, arrived_in, tail_of};
use coord_model::MessageId;
use coord_screen::Question;
use std::collections::BTreeSet;

pub(super) const TARGET: Target = Target {
    name: "transcript",
    seeds: || files("crates/coord-host/fixtures/transcripts"),
    dictionary: &[
        "[Request interrupted by user]",
        "[Request interrupted by user for tool use]",
        "\"isSidechain\":true,",
        "{\"type\":\"assistant\"}\n",
        "\"type\":\"tool_result\"",
        "\"timestamp\":\"2026-01-01T00:00:00.000Z\"",
        "RangeError: Maximum call stack size exceeded",
        "\n{}\n",
        "\"isApiErrorMessage\":true,\"error\":\"rate_limit\",",
        "\"apiErrorParams\":{\"rate_limit_info\":{\"status\":\"rejected\",\"resetsAt\":1795402033}},",
        "\"stop_reason\":\"end_turn\"",
        "{\"type\":\"tool_use\"}",
        "\"usage\":{\"input_tokens\":18446744073709551615}",
        "{\"type\":\"system\",\"subtype\":\"compact_boundary\"}\n",
        "Delete the backups? (y/n)",
        "try again later",
        "{\"type\":\"attachment\",\"attachment\":{\"type\":\"hook_additional_context\",\"content\":[\"[coord] Message m_000000000000 \"]}}\n",
        "<task-notification>",
    ],
    repair: Some(as_text),
    run,
};

const SIGNATURE: &str = "RangeError: Maximum call stack size exceeded";
const ASSISTANT: &str = "{\"type\":\"assistant\",\"message\":{\"role\":\"assistant\"}}\n";
const INTERRUPT: &str = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"[Request interrupted by user]\"}]},\"timestamp\":\"2026-01-02T03:04:05.006Z\"}\n";
const PROMPT: &str = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"go on\"}}\n";
const INTERRUPT_MS: u64 = 1_767_323_045_006;
const SIDECHAIN: &str = "{\"type\":\"assistant\",\"isSidechain\":true}\n{\"type\":\"mode\"}\n";

const ASKS: &str = "{\"type\":\"assistant\",\"message\":{\"id\":\"its own\",\"model\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"Shall I continue?\"}],\"usage\":{\"input_tokens\":7}}}\n";
const RESULT: &str = "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"content\":\"Shall I continue?\"}]},\"isApiErrorMessage\":true,\"error\":\"rate_limit\"}\n";
const FAILED: &str = "{\"type\":\"assistant\",\"message\":{\"model\":\"<synthetic>\",\"content\":[{\"type\":\"text\",\"text\":\"Shall I continue?\"}]},\"isApiErrorMessage\":true,\"error\":\"rate_limit\"}\n";

fn run(input: &[u8]) -> String {
    // Only whole lines are handed on.
    let mut text = input.to_vec();
    text.push(b'\n');
    let tail = tail_of(&text, Some(SIGNATURE));
    assert!(!tail_of(&text, None).has_signature, "a signature that nobody asked for");
    let with = |more: &str| tail_of(&[&text, more.as_bytes()].concat(), Some(SIGNATURE));
    assert_eq!(with(ASSISTANT).interrupted_ms, None, "an interrupt behind which the agent spoke");
    let interrupted = with(&format!("{ASSISTANT}{INTERRUPT}"));
    assert_eq!(interrupted.interrupted_ms, Some(INTERRUPT_MS), "an interrupt that is not seen");
    assert_eq!(with(SIDECHAIN), tail, "what is none of the main thread changes it");
    assert_eq!(
        with("not JSON\n").interrupted_ms,
        None,
        "a line that is not understood says something"
    );
    assert!(with(&format!("{SIGNATURE}\n")).has_signature, "content that is not seen");
    last_words(&with);
    arrived(&text);
    let words = &tail.last_words;
    if let Some(failure) = &words.failure {
        assert_eq!(words.question, None, "an error that asks");
        let is_plain = failure.error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(is_plain && failure.error.len() <= 64, "an error of {:?}", failure.error);
    }
    format!(
        "interrupted {}, signature {}, failure {}, question {:?}, tokens {}",
        tail.interrupted_ms.is_some(),
        tail.has_signature,
        words.failure.is_some(),
        words.question,
        words.context_tokens.is_some(),
    )
}

/// Whatever stands before it, a message that was handed over arrived with the agent's next word, and not with
/// anything else (H-30).
fn arrived(text: &[u8]) {
    let id = MessageId::from_random(77);
    let carries = format!(
        "{{\"type\":\"attachment\",\"attachment\":{{\"type\":\"hook_additional_context\",\"hookEvent\":\"Stop\",\"content\":[\"[coord] Message {id} was sent\"]}}}}\n"
    );
    let quotes = carries.replace("[\"[coord]", "[\"> [coord]");
    let after = |lines: &[&str]| {
        let text = [text, lines.concat().as_bytes()].concat();
        !arrived_in(&text, &BTreeSet::from([id])).is_empty()
    };
    assert!(after(&[&carries, RESULT, FAILED, SIDECHAIN, ASSISTANT]), "an answer that is not seen");
    for not_yet in [&[RESULT, FAILED, SIDECHAIN][..], &[INTERRUPT, ASSISTANT], &[PROMPT, ASSISTANT]]
    {
        assert!(!after(&[&[carries.as_str()], not_yet].concat()), "proved by {not_yet:?}");
    }
    assert!(!after(&[&quotes, ASSISTANT]), "what is quoted was handed over");
}

/// What stands behind decides, and only the agent's and the client's own.
fn last_words(with: &impl Fn(&str) -> Tail) {
    let asks = with(ASKS).last_words;
    assert_eq!((asks.failure, asks.question), (None, Some(Question::Proceed)));
    assert_eq!(asks.context_tokens, Some(7), "a use of the context that is not seen");
    for behind in [RESULT, "not JSON\n", ASSISTANT, INTERRUPT] {
        let words = with(&format!("{ASKS}{behind}")).last_words;
        assert_eq!((words.failure, words.question), (None, None), "said by {behind}");
    }
    let failed = with(&format!("{ASKS}{FAILED}")).last_words;
    assert_eq!((failed.question, failed.context_tokens), (None, Some(7)));
    assert!(failed.failure.is_some_and(|failure| failure.resets_ms.is_none()), "an error unseen");
    let unflagged = with(&FAILED.replace("true", "false")).last_words;
    assert_eq!(unflagged.failure, None, "a failure without the client's flag");
}
