//! The end of a transcript: nothing that stands in it can undo or feign what the client writes behind
//! it (R-01, S0-29).

use super::Target;
use crate::corpus::files;
use crate::mutate::as_text;
use coord_daemon::transcript::tail_of;

pub(super) const TARGET: Target = Target {
    name: "transcript",
    seeds: || files("crates/coord-daemon/fixtures/transcripts"),
    dictionary: &[
        "[Request interrupted by user]",
        "[Request interrupted by user for tool use]",
        "\"isSidechain\":true,",
        "{\"type\":\"assistant\"}\n",
        "\"type\":\"tool_result\"",
        "\"timestamp\":\"2026-01-01T00:00:00.000Z\"",
        "RangeError: Maximum call stack size exceeded",
        "\n{}\n",
    ],
    repair: Some(as_text),
    run,
};

const SIGNATURE: &str = "RangeError: Maximum call stack size exceeded";
const ASSISTANT: &str = "{\"type\":\"assistant\",\"message\":{\"role\":\"assistant\"}}\n";
const INTERRUPT: &str = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"[Request interrupted by user]\"}]},\"timestamp\":\"2026-01-02T03:04:05.006Z\"}\n";
const INTERRUPT_MS: u64 = 1_767_323_045_006;
const SIDECHAIN: &str = "{\"type\":\"assistant\",\"isSidechain\":true}\n{\"type\":\"mode\"}\n";

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
    format!("interrupted {}, signature {}", tail.interrupted_ms.is_some(), tail.has_signature)
}
