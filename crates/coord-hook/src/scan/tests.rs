//! Compares the scanner with `serde_json`, with the input cut at every byte.

use super::*;
use crate::fields::TEXTS;
use coord_wire::limits::FIELD_BYTES_MAX;
use core::hash::Hasher;
use proptest::prelude::*;
use serde_json::{Value, json};
use siphasher::sip::SipHasher24;

const KEY: [u8; 16] = *b"0123456789abcdef";

fn scan(pieces: &[&[u8]]) -> (Progress, Fields) {
    let mut scanner = Scanner::new(Fields::new(Some(KEY)));
    let mut progress = Progress::More;
    for piece in pieces {
        if progress == Progress::More {
            progress = scanner.feed(piece);
        }
    }
    (progress, scanner.fields)
}

fn texts(fields: &Fields) -> Vec<(&'static str, String)> {
    TEXTS
        .iter()
        .filter_map(|(text, name)| {
            let quoted = [b"\"", fields.text(*text)?, b"\""].concat();
            Some((*name, serde_json::from_slice(&quoted).unwrap()))
        })
        .collect()
}

/// All extracted fields, for comparison.
fn all(fields: &Fields) -> String {
    format!("{fields:?}")
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[\\x00-\\x7f]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"\\\\é]{0,6}|type", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_payload() -> impl Strategy<Value = Value> {
    let names = TEXTS.map(|(_, name)| name).into_iter().chain([
        "stop_hook_active",
        "is_interrupt",
        "duration_ms",
        "background_tasks",
        "session_crons",
        "tool_input",
        "prompt",
        "other",
    ]);
    let name = prop::sample::select(names.collect::<Vec<_>>());
    prop::collection::btree_map(name, any_json(), 0..12)
        .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn expected_digest(value: Option<&Value>) -> Option<u64> {
    Some(digest(&value?.to_string()))
}

fn digest(text: &str) -> u64 {
    let mut hasher = SipHasher24::new_with_key(&KEY);
    hasher.write(text.as_bytes());
    hasher.finish()
}

proptest! {
    #[test]
    fn takes_what_serde_json_reads(payload in any_payload(), pretty in any::<bool>()) {
        let text = if pretty {
            serde_json::to_string_pretty(&payload).unwrap()
        } else {
            payload.to_string()
        };
        let (progress, fields) = scan(&[text.as_bytes()]);
        prop_assert_eq!(progress, Progress::Done(text.len()));
        let wanted: Vec<(&str, String)> = TEXTS
            .iter()
            .filter_map(|(_, name)| Some((*name, payload.get(*name)?.as_str()?.to_owned())))
            .collect();
        prop_assert_eq!(texts(&fields), wanted);
        let flag = |name: &str| payload.get(name).and_then(Value::as_bool);
        prop_assert_eq!(fields.stop_hook_active, flag("stop_hook_active"));
        prop_assert_eq!(fields.is_interrupt, flag("is_interrupt"));
        let array = |name: &str| payload.get(name).and_then(Value::as_array);
        let n = |name: &str| array(name).map(|list| u32::try_from(list.len()).unwrap());
        prop_assert_eq!(fields.tasks, n("background_tasks"));
        prop_assert_eq!(fields.crons, n("session_crons"));
        let subagents = array("background_tasks").map_or(0, |list| {
            list.iter().filter(|task| task.get("type") == Some(&json!("subagent"))).count()
        });
        prop_assert_eq!(fields.subagents as usize, subagents);
        if let Some(Value::Number(number)) = payload.get("duration_ms")
            && let Some(ms) = number.as_u64()
        {
            prop_assert_eq!(fields.duration_ms, Some(ms));
        }
        if !pretty {
            prop_assert_eq!(fields.tool_input, expected_digest(payload.get("tool_input")));
            prop_assert_eq!(fields.prompt, expected_digest(payload.get("prompt")));
        }
    }

    /// The client appends an answer to a question's input (measured).
    #[test]
    fn an_answered_question_has_the_digest_of_its_request(
        questions in any_json(), answers in any_json(), tool in 0..2_usize, event in 0..2_usize,
    ) {
        let is_answered = tool == 0 && event == 0;
        let tool = ["AskUserQuestion", "Bash"][tool];
        let event = ["PostToolUse", "PermissionRequest"][event];
        let asked = json!({"questions": questions}).to_string();
        let whole = format!("{},\"answers\":{answers},\"x\":[1]}}", &asked[..asked.len() - 1]);
        for input in [&asked, &whole] {
            let text = format!(r#"{{"hook_event_name":"{event}","tool_name":"{tool}","tool_input":{input},"x":1}}"#);
            let expected = digest(if is_answered { &asked } else { input });
            for at in 0..text.len() {
                let (first, second) = text.as_bytes().split_at(at);
                prop_assert_eq!(scan(&[first, second]).1.tool_input, Some(expected), "{}", &text);
            }
        }
    }

    #[test]
    fn where_the_input_is_cut_changes_nothing(payload in any_payload()) {
        let text = payload.to_string();
        let whole = scan(&[text.as_bytes()]);
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        prop_assert_eq!(all(&scan(&bytes).1), all(&whole.1));
        for at in 0..text.len() {
            let (first, second) = text.as_bytes().split_at(at);
            prop_assert_eq!(all(&scan(&[first, second]).1), all(&whole.1));
        }
    }

    /// What is refused is no JSON. What is accepted is JSON, except for bytes that strings may not
    /// contain.
    #[test]
    fn agrees_with_serde_json_on_damaged_input(
        payload in any_payload(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut text = payload.to_string().into_bytes();
        for (at, byte) in damage {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let read = serde_json::from_slice::<Value>(&text);
        match scan(&[&text]).0 {
            Progress::Done(end) => {
                let clean: String = String::from_utf8_lossy(&text[..end])
                    .chars()
                    .map(|c| if c < ' ' && !matches!(c, '\n' | '\r' | '\t') { '.' } else { c })
                    .collect();
                let clean = clean.replace(['\n', '\r', '\t'], " ");
                let again = serde_json::from_str::<Value>(&clean);
                let lone_surrogate = again.as_ref().is_err_and(|e| e.to_string().contains("surrogate") || e.to_string().contains("hex escape"));
                let too_large = again.as_ref().is_err_and(|e| e.to_string().contains("out of range"));
                prop_assert!(again.is_ok() || lone_surrogate || too_large, "{again:?} {clean}");
            }
            Progress::More | Progress::Malformed(..) => {
                prop_assert!(!read.is_ok_and(|value| value.is_object()), "{:?}", String::from_utf8_lossy(&text));
            }
        }
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _any = scan(&[b"{\"cwd\":\"", &bytes]);
        let _any = scan(&[&bytes]);
    }
}

fn nested(depth: usize) -> String {
    ["{\"cwd\":\"/x\",\"tool_input\":", &"[".repeat(depth - 1), &"]".repeat(depth - 1), "}"]
        .concat()
}

#[test]
fn nesting_has_a_limit() {
    let text = nested(DEPTH_MAX);
    assert_eq!(scan(&[text.as_bytes()]).0, Progress::Done(text.len()));
    let text = nested(DEPTH_MAX + 1);
    assert!(matches!(scan(&[text.as_bytes()]).0, Progress::Malformed(_, Fault::TooDeep)));
}

#[test]
fn lone_surrogates_become_replacement_characters() {
    let (_, fields) = scan(&[br#"{"cwd":"a\ud83d\ude00b\ud83dc\udc00\ud83d"}"#]);
    assert_eq!(texts(&fields), [("cwd", "a😀b\u{FFFD}c\u{FFFD}\u{FFFD}".to_owned())]);
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let (progress, fields) = scan(&[b"{\"cwd\":\"a\xFFb\x01\xC3\"}"]);
    assert!(matches!(progress, Progress::Done(_)));
    assert_eq!(texts(&fields), [("cwd", "a\u{FFFD}b\u{1}\u{FFFD}".to_owned())]);
}

#[test]
fn a_long_text_is_cut_and_named() {
    let text = json!({"cwd": "é".repeat(5000), "prompt_id": "p"}).to_string();
    let (progress, fields) = scan(&[text.as_bytes()]);
    assert_eq!(progress, Progress::Done(text.len()));
    assert_eq!(fields.text(Text::Cwd).unwrap().len(), FIELD_BYTES_MAX);
    assert!(fields.is_cut(Text::Cwd) && !fields.is_cut(Text::PromptId));
}

#[test]
fn of_a_repeated_field_the_last_one_counts() {
    let (_, fields) = scan(&[br#"{"cwd":"a","cwd":"b","source":"x","source":1}"#]);
    assert_eq!(texts(&fields), [("cwd", "b".to_owned())]);
}
