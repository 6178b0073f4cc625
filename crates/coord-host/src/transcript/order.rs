//! Puts the lines of a transcript into the order of the conversation.
//!
//! A busy client may write the first answer of a new conversation before the prompt that it answers: 2.1.250 and
//! 2.1.328 did in 9 of 40. Each line names the one that it follows.

use memchr::memmem;
use serde_json::Value;

/// Most lines that are put before the answer; the client writes about four with a prompt.
const MOVED_MAX: usize = 64;

/// The complete lines of the end of a transcript, the oldest first.
pub(super) fn in_order(end: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> =
        end.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let first = lines.iter().enumerate().find_map(|(at, line)| Some((at, answer(line)?)));
    let Some((at, answer)) = first else { return lines };
    let mut older = Vec::new();
    let mut parent = id(&answer, "parentUuid");
    while let Some(wanted) = parent.filter(|_| older.len() < MOVED_MAX) {
        let after = lines.iter().enumerate().skip(at.saturating_add(1));
        let mut named =
            after.filter(|(n, line)| !older.contains(n) && holds(line, wanted.as_bytes()));
        let found =
            named.find_map(|(n, line)| Some((n, parsed(line).filter(|it| is(it, &wanted))?)));
        let Some((n, line)) = found else { break };
        older.push(n);
        parent = id(&line, "parentUuid");
    }
    // The client writes those in their order.
    older.sort_unstable();
    let moved: Vec<&[u8]> = older.iter().filter_map(|n| lines.get(*n).copied()).collect();
    for n in older.into_iter().rev() {
        lines.remove(n);
    }
    lines.splice(at..at, moved);
    lines
}

/// The line if it is the agent's, on the main thread.
fn answer(line: &[u8]) -> Option<Value> {
    let line = Some(line).filter(|line| holds(line, b"\"assistant\"")).and_then(parsed)?;
    let is_its = line.get("type").is_some_and(|is| is == "assistant")
        && line.get("isSidechain").and_then(Value::as_bool) != Some(true);
    is_its.then_some(line)
}

fn parsed(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line).ok()
}

fn id(line: &Value, name: &str) -> Option<String> {
    line.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn is(line: &Value, wanted: &str) -> bool {
    line.get("uuid").is_some_and(|id| id == wanted)
}

/// Whether these bytes are in a line.
pub(super) fn holds(line: &[u8], bytes: &[u8]) -> bool {
    !bytes.is_empty() && memmem::find(line, bytes).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, id: &str, parent: &str) -> String {
        format!("{{\"type\":\"{kind}\",\"uuid\":\"{id}\",\"parentUuid\":\"{parent}\"}}\n")
    }

    /// The ids of the lines, in order.
    fn ids(lines: &[String]) -> String {
        let text = lines.concat();
        let ids = in_order(text.as_bytes()).into_iter().filter_map(parsed);
        ids.filter_map(|line| id(&line, "uuid")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_leads_to_the_first_answer_stands_before_it() {
        let (prompt, context) = (line("user", "p", ""), line("attachment", "c", "p"));
        let (answer, hooks) = (line("assistant", "a", "c"), line("system", "h", "a"));
        let later = [line("user", "p2", "h"), line("assistant", "a2", "p2")];
        let [prompt_2, answer_2] = &later;
        for order in [
            [&prompt, &context, &answer, &hooks, prompt_2, answer_2],
            [&answer, &prompt, &context, &hooks, prompt_2, answer_2],
            [&answer, &hooks, &prompt, &context, prompt_2, answer_2],
        ] {
            assert_eq!(ids(&order.map(Clone::clone)), "p c a h p2 a2");
        }
    }

    #[test]
    fn a_circle_and_what_is_unknown_change_nothing() {
        let circle = [line("assistant", "a", "b"), line("user", "b", "b"), line("user", "c", "d")];
        assert_eq!(ids(&circle), "b a c");
        let of_subagent =
            "{\"type\":\"assistant\",\"uuid\":\"a\",\"parentUuid\":\"p\",\"isSidechain\":true}\n";
        assert_eq!(ids(&[of_subagent.to_owned(), line("user", "p", "")]), "a p");
        assert_eq!(in_order(b"{\"type\":\"assistant\"\n\nodd\n").len(), 2);
    }
}
