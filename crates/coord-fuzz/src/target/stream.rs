//! A run's output: whatever stands in it, only a line's own fields decide, and how it comes in
//! pieces changes nothing.

use super::Target;
use crate::inputs::{as_text, files};
use coord_core::StreamFact;
use coord_run::lines::{Line, Lines};
use coord_run::stream::facts_of;
use serde_json::Value;

pub(super) const TARGET: Target = Target {
    name: "stream",
    seeds: || files("crates/coord-run/fixtures/stream"),
    dictionary: &[
        "{\"type\":\"result\"}",
        "\n{\"type\":\"result\",\"is_error\":false}\n",
        "\"type\":\"result\",",
        "\"type\":\"tool_result\"",
        "\"type\":\"tool_use\"",
        "\"name\":\"ScheduleWakeup\",\"input\":{\"delaySeconds\":1e300}",
        "\"subtype\":\"background_tasks_changed\",\"tasks\":[{}]",
        "\"error\":\"rate_limit\",",
        "\"parent_tool_use_id\":\"x\",",
        "\"resetsAt\":18446744073709551615",
        "\\u0074ype",
        "\u{feff}",
    ],
    repair: Some(as_text),
    run,
};

/// Longer lines are not built here.
const LINE_BYTES_MAX: usize = 64 * 1024;

fn run(input: &[u8]) -> String {
    let whole = said(input, &mut || input.len().max(1));
    // The same pieces for the same input, long and short ones.
    let mut state = u64::try_from(input.len()).unwrap_or_default() | 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let length = if state >> 63 == 0 { 7 } else { 2000 };
        usize::try_from((state >> 33) % length).unwrap_or_default() + 1
    };
    assert_eq!(said(input, &mut next), whole, "other pieces, other facts");
    let mut results = 0;
    for line in input.split(|byte| *byte == b'\n').filter(|line| line.len() <= LINE_BYTES_MAX) {
        results += usize::from(check(line));
    }
    let count = |is: fn(&StreamFact) -> bool| whole.iter().filter(|fact| is(fact)).count().min(3);
    format!(
        "results {}, tools {}, failures {}, questions {}, tasks {}",
        results.min(3),
        count(|fact| matches!(fact, StreamFact::ToolBegan { .. } | StreamFact::ToolEnded { .. })),
        count(|fact| matches!(fact, StreamFact::Failed { .. } | StreamFact::Retry { .. })),
        count(|fact| matches!(fact, StreamFact::ControlOpened { .. })),
        count(|fact| matches!(fact, StreamFact::Tasks(tasks) if tasks.is_any())),
    )
}

fn said(input: &[u8], step: &mut dyn FnMut() -> usize) -> Vec<StreamFact> {
    let mut facts = Vec::new();
    let mut lines = Lines::new(LINE_BYTES_MAX);
    let mut each = |line: Line<'_>| match line {
        Line::Whole(line) => facts.extend(facts_of(line)),
        Line::TooLong => facts.push(StreamFact::Said),
    };
    let mut rest = input;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(step().min(rest.len()));
        lines.feed(piece, &mut each);
        rest = behind;
    }
    lines.end(&mut each);
    facts
}

/// Compares with a reader that builds everything; whether it is a result line.
fn check(line: &[u8]) -> bool {
    let facts = facts_of(line);
    let is_result = facts.iter().any(|fact| matches!(fact, StreamFact::Result(_)));
    // It refuses more: depth, and numbers out of range.
    if let Ok(value) = serde_json::from_slice::<Value>(line) {
        assert_eq!(facts.is_empty(), !value.is_object(), "an object says something, only that");
        let kind = value.as_object().and_then(|row| row.get("type")).and_then(Value::as_str);
        assert_eq!(is_result, kind == Some("result"), "a result by something else than its type");
        let is_tool = facts.iter().any(|fact| matches!(fact, StreamFact::ToolBegan { .. }));
        assert!(!is_tool || kind == Some("assistant"), "a tool that begins in a {kind:?}");
        let is_failed = facts.iter().any(|fact| matches!(fact, StreamFact::Failed { .. }));
        let has_error = value.get("error").is_some_and(|error| !error.is_null());
        assert!(!is_failed || (kind == Some("assistant") && has_error), "a feigned failure");
    }
    is_result
}
