//! Standard input of a hook: an envelope that the coordinator takes, the same however the input was
//! cut into pieces, with the fields that a JSON parser finds and nothing of what must not leave
//! (G11); or a diagnosis that has no content in it (S4-07).

use super::Target;
use crate::inputs::files;
use coord_hook::trial::{Trial, trial};
use coord_model::envelope::Envelope;
use coord_wire::limits::MALFORMED_BYTES_MAX;
use coord_wire::paths::machine_id;
use serde_json::Value;
use std::path::Path;
use std::sync::OnceLock;

pub(super) const TARGET: Target = Target {
    name: "hook",
    seeds: || files("tests/fixtures/payloads"),
    dictionary: &[
        "\"session_id\":\"s\",",
        "\"hook_event_name\":\"Stop\",",
        "\"prompt\":\"a secret of its user\",",
        "\"tool_input\":{\"command\":\"a secret command\"},",
        "\"error\":\"a secret error text\",",
        "\"reason\":\"a secret reason text\",",
        "\"background_tasks\":[{\"type\":\"subagent\"}],",
        "\"session_crons\":[",
        "\"stop_hook_active\":true,",
        "\"duration_ms\":1,",
        "\"cwd\":\"/x\",",
        "SessionStart",
        "StopFailure",
        "SessionEnd",
    ],
    repair: None,
    run,
};

/// Texts of the payload that are the envelope's too.
const TEXTS: [&str; 13] = [
    "session_id",
    "hook_event_name",
    "transcript_path",
    "cwd",
    "permission_mode",
    "prompt_id",
    "agent_id",
    "agent_type",
    "tool_name",
    "tool_use_id",
    "notification_type",
    "source",
    "error",
];
/// Shorter texts stand in every envelope by chance.
const SECRET_CHARS_MIN: usize = 8;

/// A root with a state directory in it, and a key for digests.
fn root() -> &'static Path {
    static ROOT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let root = ROOT.get_or_init(|| {
        let root = tempfile::tempdir().expect("a temporary directory");
        let id = std::fs::read_to_string("/etc/machine-id").ok();
        let host = rustix::system::uname();
        let host = host.nodename().to_str().unwrap_or_default();
        let state = root.path().join("state").join(machine_id(id.as_deref(), host));
        std::fs::create_dir_all(&state).expect("a directory");
        std::fs::write(state.join("digest.key"), [7; 16]).expect("a small file");
        root
    });
    root.path()
}

fn run(input: &[u8]) -> String {
    let whole = trial(root(), &[input]).expect("coord is installed there");
    // Cut by its own bytes, so that a replay cuts alike.
    let cut = usize::from(input.first().copied().unwrap_or(1) % 13) + 1;
    let pieces: Vec<&[u8]> = input.chunks(cut).collect();
    let in_pieces = trial(root(), &pieces).expect("coord is installed there");
    match (whole, in_pieces) {
        (Trial::Malformed(text), Trial::Malformed(again)) => {
            check_mask(&text);
            check_mask(&again);
            // How much was read, and so what is kept, is a matter of the pieces.
            let why = |text| {
                String::from_utf8_lossy(text).split(", bytes read").next().map(str::to_owned)
            };
            assert_eq!(why(&text), why(&again), "pieces make another diagnosis");
            let why = why(&text).unwrap_or_default();
            why.split([',', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
                .next()
                .map_or(why.clone(), str::to_owned)
        }
        (Trial::Envelope(text), Trial::Envelope(again)) => {
            let envelope = Envelope::parse(&text).expect("the coordinator takes the envelope");
            let again = Envelope::parse(&again).expect("the coordinator takes the envelope");
            let (id, at) = (again.id.clone(), again.emitted_at.clone());
            let once = Envelope { id, emitted_at: at, mono_ns: again.mono_ns, ..envelope.clone() };
            assert_eq!(once, again, "pieces make another envelope");
            check_against_parser(input, &envelope);
            outcome(&envelope)
        }
        (whole, in_pieces) => panic!("{whole:?} is in pieces {in_pieces:?}"),
    }
}

/// Only structure, masks and known names.
fn check_mask(text: &[u8]) {
    assert!(text.len() <= MALFORMED_BYTES_MAX, "a diagnosis of {} bytes", text.len());
    let masked = text.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    for word in text[masked..].split(|byte| *byte == b'"') {
        let is_plain = |byte: &u8| {
            matches!(byte, b'x' | b'9' | b'?' | b'.' | b' ' | b'\n' | b'\r' | b'\t')
                || b"{}[]:,\\".contains(byte)
        };
        let is_name = word.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'_');
        let is_long_name = is_name && (3..=24).contains(&word.len());
        assert!(
            word.iter().all(is_plain) || is_long_name,
            "content in a diagnosis: {:?}",
            String::from_utf8_lossy(word)
        );
    }
}

/// A JSON parser sees the same fields, and no other text of the payload is in the envelope.
fn check_against_parser(input: &[u8], envelope: &Envelope) {
    // A name written with escapes is not looked for by hooks; no client writes one.
    if input.windows(4).any(|window| window == b"\\u00") {
        return;
    }
    // Hooks take bytes that are no UTF-8 as a lossy reading does.
    let text = String::from_utf8_lossy(input);
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let Some(Ok(Value::Object(payload))) = values.next() else { return };
    let own = serde_json::to_value(envelope).expect("an envelope is JSON");
    let mut allowed = Vec::new();
    for name in TEXTS {
        let Some(there) = payload.get(name).and_then(Value::as_str) else { continue };
        let is_only_of = match name {
            "source" => Some("SessionStart"),
            "error" => Some("StopFailure"),
            _ => None,
        };
        if is_only_of.is_some_and(|only| only != envelope.event) {
            continue;
        }
        allowed.push(there.to_owned());
        let here = if name == "hook_event_name" { "event" } else { name };
        let here = own.get(here).and_then(Value::as_str).unwrap_or_default();
        if envelope.cut.iter().any(|cut| cut == name) {
            assert!(there.starts_with(here), "{name}: {here:?} is no beginning of {there:?}");
        } else {
            assert_eq!(here, there, "{name}");
        }
    }
    allowed.extend(envelope.reason.clone());
    let mut secrets = Vec::new();
    for (name, value) in &payload {
        if !TEXTS.contains(&name.as_str()) || !value.is_string() || name == "error" {
            texts_of(value, &mut secrets);
        }
    }
    let shown: Vec<String> = TEXTS
        .iter()
        .map(|name| if *name == "hook_event_name" { "event" } else { name })
        .chain(["tool_input_digest", "prompt_digest"])
        .filter_map(|name| own.get(name).and_then(Value::as_str).map(str::to_owned))
        .collect();
    for secret in secrets.iter().filter(|text| SECRET_CHARS_MIN <= text.chars().count()) {
        if allowed.iter().any(|text| text.contains(secret.as_str())) {
            continue;
        }
        let leak = shown.iter().find(|text| text.contains(secret.as_str()));
        assert!(leak.is_none(), "{secret:?} left in {leak:?}");
    }
}

fn texts_of(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts_of(item, texts)),
        Value::Object(members) => members.values().for_each(|item| texts_of(item, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

fn outcome(envelope: &Envelope) -> String {
    let own = serde_json::to_value(envelope).unwrap_or_default();
    let set = own.as_object().into_iter().flatten().filter(|(_, value)| {
        !(value.is_null()
            || **value == ""
            || **value == false
            || **value == Value::Array(Vec::new()))
    });
    let names = set.map(|(name, _)| name.get(..4).unwrap_or(name));
    format!("{} cut {}", names.collect::<Vec<_>>().join(" "), envelope.cut.len())
}
