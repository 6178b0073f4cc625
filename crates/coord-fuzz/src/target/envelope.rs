//! An envelope from anywhere: what is taken has an id, a time and bounded names, and is the same when
//! it is written and read again; what is refused is refused in one line.

use super::{Target, assert_is_one_line};
use crate::inputs::as_text;
use coord_model::envelope::Envelope;
use coord_model::stamp::rfc3339;

pub(super) const TARGET: Target = Target {
    name: "envelope",
    seeds,
    dictionary: &[
        "\"kind\":\"interactive\"",
        "\"kind\":\"\u{1b}[2J\"",
        "\"tmux\":{\"socket\":\"/s\",\"server_pid\":1,\"server_start\":\"5\",\"pane\":\"%1\"}",
        "\"v\":2",
        "9999-12-31T23:59:59.999Z",
        "2024-02-29T00:00:60Z",
        "\"id\":\"",
        "\"emitted_at\":",
        "\"cut\":[\"cwd\"]",
    ],
    repair: Some(as_text),
    run,
};

const WHOLE: &str = r#"{"v":1,"id":"0192f0c0a1b2c3d4e5f60718293a4b5c","event":"PostToolUse","session_id":"253fc9fa-1980-41fd-bb18-330cafa0a480","emitted_at":"2026-03-01T10:20:30.456Z","mono_ns":123456789,"boot":"b","host":"h","machine":"m","pid":77,"harness":{"pid":70,"start_time":"4711","pid_ns":4026531836,"tty":34816,"kind":"interactive"},"tmux":{"server_pid":9,"server_start":"33","socket":"/tmp/tmux-1000/default","pane":"%3"},"config_dir":"/h/.claude","cwd":"/h/p","transcript_path":"/h/.claude/projects/p/s.jsonl","permission_mode":"default","prompt_id":"p","agent_id":"a","agent_type":"t","tool_name":"Bash","tool_use_id":"u","duration_ms":5,"background_tasks":1,"background_subagents":0,"session_crons":2,"stop_hook_active":false,"tool_input_digest":"0011223344556677","prompt_digest":"0011223344556677","cut":["cwd"],"incomplete":true,"hook":"0.1.0"}"#;
const LEAST: &str = r#"{"v":1,"id":"00000000000000000000000000000001","event":"E","session_id":"s","emitted_at":"1970-01-01T00:00:00.000Z","mono_ns":0,"boot":"","machine":"","pid":1}"#;

fn seeds() -> Vec<Vec<u8>> {
    vec![WHOLE.into(), LEAST.into(), format!("[{LEAST},{LEAST}]").into()]
}

fn run(input: &[u8]) -> String {
    let envelope = match Envelope::parse(input) {
        Ok(envelope) => envelope,
        Err(error) => {
            assert_is_one_line(&error.to_string(), 1000);
            let words = error.to_string();
            return words
                .split(['`', '"', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
                .next()
                .unwrap_or_default()
                .to_owned();
        }
    };
    assert!(envelope.event_id().is_some());
    assert!((1..=256).contains(&envelope.event.len()));
    assert!((1..=256).contains(&envelope.session_id.len()));
    let at = envelope.wall_ms().expect("a time that can be read");
    let again = Envelope { emitted_at: rfc3339(at), ..envelope.clone() };
    assert_eq!(again.wall_ms(), Some(at), "{} is another time when written", envelope.emitted_at);
    let text = serde_json::to_vec(&envelope).expect("an envelope is JSON");
    if text.len() <= coord_model::envelope::ENVELOPE_BYTES_MAX {
        assert_eq!(Envelope::parse(&text).as_ref(), Ok(&envelope));
    }
    format!(
        "taken, harness {}, tmux {}, cut {}",
        envelope.harness.is_some(),
        envelope.tmux.is_some(),
        envelope.cut.len().min(3)
    )
}
