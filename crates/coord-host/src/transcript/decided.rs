//! Determines how calls were decided (A-07): by a hook, which the client notes directly before the call's result
//! (measured), or without one, so that only its terminal can have decided.

use std::collections::BTreeMap;

use coord_model::{Decided, RequestId, Verdict};
use serde_json::Value;

use super::order::holds;

/// The decisions that complete lines of a transcript show, of the calls with these ids.
pub fn decided_in(end: &[u8], calls: &BTreeMap<RequestId, String>) -> Vec<(RequestId, Decided)> {
    let lines = || end.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let decision = |call: &String| {
        let mut of_call = lines().filter(|line| holds(line, call.as_bytes()));
        // The note comes before the result, so the first that tells is right.
        of_call.find_map(|line| decision_of(&serde_json::from_slice(line).ok()?, call))
    };
    calls.iter().filter_map(|(request, call)| Some((*request, decision(call)?))).collect()
}

/// What a line says of the decision on a call. The agent's own text is in no field that is read here.
fn decision_of(line: &Value, call: &str) -> Option<Decided> {
    let is = |place: &str, word: &str| line.pointer(place).is_some_and(|value| value == word);
    if is("/type", "attachment") {
        let is_note = is("/attachment/type", "hook_permission_decision")
            && is("/attachment/hookEvent", "PermissionRequest")
            && is("/attachment/toolUseID", call);
        let word = line.pointer("/attachment/decision").filter(|_| is_note)?;
        return match word.as_str()? {
            "allow" => Some(Decided::ByHook(Verdict::Allow)),
            "deny" => Some(Decided::ByHook(Verdict::Deny)),
            _ => None,
        };
    }
    let blocks = line.pointer("/message/content").filter(|_| is("/type", "user"))?.as_array()?;
    let is_result = |block: &Value| {
        let has = |name: &str, word: &str| block.get(name).is_some_and(|value| value == word);
        has("type", "tool_result") && has("tool_use_id", call)
    };
    blocks.iter().any(is_result).then_some(Decided::AtTerminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: &str = r#"{"type":"attachment","attachment":{"type":"hook_permission_decision","decision":"WORD","toolUseID":"toolu_1","hookEvent":"PermissionRequest"}}"#;
    const RESULT: &str = r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]}}"#;

    fn decided(lines: &[&str]) -> Option<Decided> {
        let calls = BTreeMap::from([(RequestId(1), "toolu_1".to_owned())]);
        decided_in(lines.join("\n").as_bytes(), &calls).pop().map(|(_, decided)| decided)
    }

    // A-07
    #[test]
    fn the_client_s_note_tells_and_a_result_without_it() {
        let (allow, deny) = (NOTE.replace("WORD", "allow"), NOTE.replace("WORD", "deny"));
        assert_eq!(decided(&[&allow, RESULT]), Some(Decided::ByHook(Verdict::Allow)));
        assert_eq!(decided(&[&deny, RESULT]), Some(Decided::ByHook(Verdict::Deny)));
        assert_eq!(decided(&[RESULT]), Some(Decided::AtTerminal));
        assert_eq!(decided(&[]), None);
        // The note is written in the moment before the result; a half-written line is none.
        assert_eq!(decided(&[&allow[..allow.len() - 1]]), None);
    }

    #[test]
    fn what_an_agent_or_a_tool_says_decides_nothing() {
        let quoted = serde_json::to_string(&NOTE.replace("WORD", "allow")).unwrap();
        let agent = format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":{quoted}}}]}}}}"#
        );
        let tool = format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"toolu_2","content":{quoted}}}]}}}}"#
        );
        assert_eq!(decided(&[&agent, &tool]), None);
        let other = NOTE.replace("WORD", "allow").replace("PermissionRequest", "PreToolUse");
        assert_eq!(decided(&[&other, RESULT]), Some(Decided::AtTerminal));
    }
}
