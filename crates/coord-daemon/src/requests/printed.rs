//! Decides what a hook prints for a reply (A-02): the decision, and for a question or a plan the call's own input, to
//! which nothing but the answers is added. "Always" and the end of the turn are never asked for.

use coord_model::{PlanMode, ReplyKind};
use coord_wire::api::{DecisionRequest, RequestAsk};
use coord_wire::question::{QuestionAnswer, questions};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// Longest message of a denial, text of an answer, or note, in bytes.
const TEXT_BYTES_MAX: usize = 8 * 1024;
/// What the agent reads of a denial without a message.
const DENIED: &str = "Denied by the user.";

/// What the client reads, and a line that the session is to show (H-22).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    hook_specific_output: ForEvent<'a>,
    system_message: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ForEvent<'a> {
    hook_event_name: &'static str,
    decision: Decision<'a>,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct Decision<'a> {
    behavior: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_permissions: Option<Value>,
}

/// What the hook prints, with a line that the session is to show (H-22).
///
/// # Errors
/// Why the reply does not fit what the hook asks for, in words.
pub(super) fn printed(ask: &RequestAsk, asked: &DecisionRequest) -> Result<String, String> {
    check(asked)?;
    let allowed = Decision { behavior: "allow", ..Decision::default() };
    let decision = match asked.reply {
        ReplyKind::Allow => allowed,
        ReplyKind::Deny => Decision {
            behavior: "deny",
            message: Some(asked.message.as_deref().unwrap_or(DENIED)),
            ..Decision::default()
        },
        ReplyKind::Answer => {
            let updated_input = Some(answered(input(ask)?, &asked.answers)?);
            Decision { updated_input, ..allowed }
        }
        ReplyKind::Approve(mode) => {
            let (updated_input, updated_permissions) = approved(input(ask)?, mode)?;
            let updated_permissions = Some(updated_permissions);
            Decision { updated_input: Some(updated_input), updated_permissions, ..allowed }
        }
    };
    let hook_specific_output = ForEvent { hook_event_name: "PermissionRequest", decision };
    let system_message = format!("coord: {} by coordctl ({})", asked.reply.did(), ask.request);
    serde_json::to_string(&Output { hook_specific_output, system_message })
        .map_err(|error| error.to_string())
}

fn check(asked: &DecisionRequest) -> Result<(), String> {
    if asked.message.is_some() && asked.reply != ReplyKind::Deny {
        return Err("a message goes with a denial".into());
    }
    if !asked.answers.is_empty() && asked.reply != ReplyKind::Answer {
        return Err("answers go with a question".into());
    }
    let texts = asked.answers.iter().flat_map(|one| [&one.text, &one.note]);
    if texts.chain([&asked.message]).flatten().any(|text| TEXT_BYTES_MAX < text.len()) {
        return Err("a message, text or note has 8 KiB at most".into());
    }
    Ok(())
}

fn input(ask: &RequestAsk) -> Result<&RawValue, String> {
    ask.input.as_deref().ok_or_else(|| "its input is too long to be shown whole".into())
}

/// The input of a question, to which its answers are appended. What is there stays as it is: version 2.1.250 reports it in
/// the order in which it was answered (measured), and the hook tells a question by its text.
fn answered(input: &RawValue, answers: &[QuestionAnswer]) -> Result<Box<RawValue>, String> {
    let questions = questions(input).ok_or("its questions cannot be read")?;
    if questions.len() != answers.len() {
        return Err(format!("questions: {}, answers: {}", questions.len(), answers.len()));
    }
    let (mut words, mut notes) = (Map::new(), Map::new());
    for (question, answer) in questions.iter().zip(answers) {
        let text = answer.words(question)?.into();
        if words.insert(question.question.clone(), text).is_some() {
            return Err("two of its questions are the same".into());
        }
        if let Some(note) = &answer.note {
            notes.insert(question.question.clone(), json!({"notes": note}));
        }
    }
    let open = input.get().trim_end().strip_suffix('}').ok_or("its questions cannot be read")?;
    let words = Value::from(words);
    let whole = if notes.is_empty() {
        format!("{open},\"answers\":{words}}}")
    } else {
        format!("{open},\"answers\":{words},\"annotations\":{}}}", Value::from(notes))
    };
    RawValue::from_string(whole).map_err(|error| error.to_string())
}

/// The input and the permissions that approve a plan. The mode is forced, since the client would return to the one before
/// it, which may accept edits (measured).
fn approved(input: &RawValue, mode: PlanMode) -> Result<(Box<RawValue>, Value), String> {
    let whole: Value = serde_json::from_str(input.get()).map_err(|error| error.to_string())?;
    let has_plan = whole.get("plan").and_then(Value::as_str).is_some_and(|plan| !plan.is_empty());
    if !has_plan {
        return Err("its plan is not in the request, so nobody here has seen it".into());
    }
    let mode = json!([{"type": "setMode", "mode": mode.name(), "destination": "session"}]);
    Ok((input.to_owned(), mode))
}

#[cfg(test)]
mod tests {
    use coord_model::{ProcessRef, RequestId};

    use super::*;

    fn ask(input: &str) -> RequestAsk {
        RequestAsk {
            request: RequestId(7),
            session_id: "s1".into(),
            harness: ProcessRef { pid: 10, start_time: 1 },
            hook: ProcessRef { pid: 11, start_time: 1 },
            has_dialog: true,
            input: Some(RawValue::from_string(input.into()).unwrap()),
        }
    }

    fn decision(reply: ReplyKind) -> DecisionRequest {
        let hook = ProcessRef { pid: 11, start_time: 1 };
        DecisionRequest { hook, reply, message: None, answers: Vec::new() }
    }

    fn decided(input: &str, asked: &DecisionRequest) -> Value {
        let printed: Value = serde_json::from_str(&printed(&ask(input), asked).unwrap()).unwrap();
        printed["hookSpecificOutput"]["decision"].clone()
    }

    const QUESTION: &str = r#"{"questions":[{"question":"Where?","header":"H","options":[{"label":"here","description":"d"},{"label":"there"}],"multiSelect":false}],"metadata":{"source":"x"}}"#;

    // A-02: the payload's own input comes back whole, and only answers are added.
    #[test]
    fn a_02_nothing_but_the_answers_is_added_to_the_input() {
        let mut asked = decision(ReplyKind::Answer);
        let note = Some("by friday".to_owned());
        asked.answers = vec![QuestionAnswer { options: vec![2], text: None, note }];
        let mut expected: Value = serde_json::from_str(QUESTION).unwrap();
        expected["answers"] = json!({"Where?": "there"});
        expected["annotations"] = json!({"Where?": {"notes": "by friday"}});
        let expected = json!({"behavior": "allow", "updatedInput": expected});
        assert_eq!(decided(QUESTION, &asked), expected);
        let text = printed(&ask(QUESTION), &asked).unwrap();
        let kept = QUESTION.strip_suffix('}').unwrap();
        assert!(text.contains(kept), "the hook tells a question by its text: {text}");
    }

    // A-02: the mode afterwards is the one that the person was shown.
    #[test]
    fn a_02_a_plan_comes_back_as_it_was_and_with_its_mode() {
        let input = r#"{"plan":"1. Look","planFilePath":"/p"}"#;
        for (mode, name) in [(PlanMode::Default, "default"), (PlanMode::AcceptEdits, "acceptEdits")]
        {
            let expected = json!({
                "behavior": "allow",
                "updatedInput": {"plan": "1. Look", "planFilePath": "/p"},
                "updatedPermissions": [{"type": "setMode", "mode": name, "destination": "session"}],
            });
            assert_eq!(decided(input, &decision(ReplyKind::Approve(mode))), expected);
        }
        let unseen = printed(&ask("{}"), &decision(ReplyKind::Approve(PlanMode::Default)));
        assert!(unseen.unwrap_err().contains("nobody here has seen it"));
    }

    #[test]
    fn a_denial_has_a_message_always() {
        let mut asked = decision(ReplyKind::Deny);
        let deny = |message: &str| json!({"behavior": "deny", "message": message});
        assert_eq!(decided("{}", &asked), deny("Denied by the user."));
        asked.message = Some("not now".into());
        assert_eq!(decided("{}", &asked), deny("not now"));
        assert_eq!(decided("{}", &decision(ReplyKind::Allow)), json!({"behavior": "allow"}));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let message = |reply| DecisionRequest { message: Some("x".into()), ..decision(reply) };
        let answers = |reply, answers| DecisionRequest { answers, ..decision(reply) };
        let long = QuestionAnswer { text: Some("x".repeat(8193)), ..QuestionAnswer::default() };
        for (asked, expected) in [
            (message(ReplyKind::Allow), "a message goes with a denial"),
            (answers(ReplyKind::Deny, vec![QuestionAnswer::default()]), "answers go with"),
            (answers(ReplyKind::Answer, vec![long]), "8 KiB"),
            (answers(ReplyKind::Answer, vec![]), "questions: 1, answers: 0"),
            (answers(ReplyKind::Answer, vec![QuestionAnswer::default()]), "has no answer"),
        ] {
            let refused = printed(&ask(QUESTION), &asked).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        let mut unseen = ask(QUESTION);
        unseen.input = None;
        assert!(printed(&unseen, &decision(ReplyKind::Answer)).is_err());
    }
}
