//! What people reply, which of it fits its prompt, and what a hook prints of it.

use coord_model::{NeedId, NeedKind, PlanMode, ProcessRef, ReplyKind};
use coord_testkit::Random;
use coord_wire::api::{DecisionRequest, OpenRequest};
use coord_wire::question::QuestionAnswer;
use serde_json::{Map, Value, json};

use super::Call;
use crate::client::AskedFor;

/// What a person saw of a prompt.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) need: NeedId,
    pub(super) hook: ProcessRef,
    pub(super) kind: NeedKind,
    pub(super) input: Value,
}

impl Shown {
    /// A prompt that can be answered from elsewhere.
    pub(super) fn of(open: &OpenRequest) -> Option<Self> {
        let (need, hook, kind) = (open.need, open.hook?, open.kind);
        let input = open.input.as_ref().and_then(|input| serde_json::from_str(input.get()).ok());
        let input = input.unwrap_or_default();
        open.why_not.is_none().then_some(Self { need, hook, kind, input })
    }

    /// What is replied to it: mostly what fits.
    pub(super) fn reply(&self, random: &mut Random) -> DecisionRequest {
        let mode = if random.coin() { PlanMode::Default } else { PlanMode::AcceptEdits };
        let (answer, approval) = (ReplyKind::Answer, ReplyKind::Approve(mode));
        let fitting = if self.kind == NeedKind::Question {
            answer
        } else if self.kind == NeedKind::Plan {
            approval
        } else {
            ReplyKind::Allow
        };
        let others = [ReplyKind::Allow, answer, approval];
        let reply = match random.below(10) {
            0 => random.pick(&others).copied().unwrap_or(fitting),
            1..4 => ReplyKind::Deny,
            _ => fitting,
        };
        self.asked(reply, random)
    }

    /// A denial of it.
    pub(super) fn denial(&self, random: &mut Random) -> DecisionRequest {
        self.asked(ReplyKind::Deny, random)
    }

    fn asked(&self, reply: ReplyKind, random: &mut Random) -> DecisionRequest {
        let is_told = reply == ReplyKind::Deny && random.coin();
        let message = is_told.then(|| format!("not {}", random.below(1_000)));
        let mut answers = Vec::new();
        if reply == ReplyKind::Answer {
            answers = questions(&self.input).iter().map(|one| answer_to(one, random)).collect();
            if random.chance(0.1) {
                answers.pop();
            }
        }
        DecisionRequest { hook: self.hook, reply, message, answers }
    }
}

fn questions(input: &Value) -> &[Value] {
    input.get("questions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_multiple(question: &Value) -> bool {
    question.get("multiSelect").is_some_and(|is| *is == true)
}

/// An answer, at times with an option that is not there or with more of them than may be chosen.
fn answer_to(question: &Value, random: &mut Random) -> QuestionAnswer {
    let note = random.chance(0.2).then(|| "a note".to_owned());
    let text = random.chance(0.2).then(|| "in own words".to_owned());
    let options = match random.below(20) {
        _ if text.is_some() => Vec::new(),
        0 => vec![3],
        1 => vec![1, 2],
        2..8 if is_multiple(question) => vec![1, 2],
        _ => vec![1 + random.index(2)],
    };
    QuestionAnswer { options, text, note }
}

/// The words of an answer, if it is one.
fn words_of(question: &Value, answer: &QuestionAnswer) -> Option<String> {
    let label = |n: &usize| match n {
        1 => Some("one"),
        2 => Some("two"),
        _ => None,
    };
    match (&answer.text, answer.options.as_slice()) {
        (Some(text), []) => Some(text.clone()),
        (None, [one]) => label(one).map(str::to_owned),
        (None, [_, ..]) if is_multiple(question) => {
            let labels: Option<Vec<&str>> = answer.options.iter().map(label).collect();
            labels.map(|labels| labels.join(", "))
        }
        _ => None,
    }
}

/// The answers to the questions of an input, and the notes beside them, as the client is given them; none if they do not
/// fit.
fn answers_for(input: &Value, given: &[QuestionAnswer]) -> Option<(Value, Value)> {
    let asked = questions(input);
    let (mut answers, mut notes) = (Map::new(), Map::new());
    for (question, answer) in asked.iter().zip(given) {
        let name = question.get("question")?.as_str()?.to_owned();
        if let Some(note) = &answer.note {
            notes.insert(name.clone(), json!({"notes": note}));
        }
        answers.insert(name, words_of(question, answer)?.into());
    }
    (asked.len() == given.len()).then(|| (answers.into(), notes.into()))
}

/// Whether the prompt of this call takes such a reply.
pub(super) fn fits(call: &Call, asked: &DecisionRequest) -> bool {
    let has_plan = || call.input.get("plan").is_some();
    match (call.asked_for, asked.reply) {
        (_, ReplyKind::Deny) | (AskedFor::Permission, ReplyKind::Allow) => true,
        (AskedFor::Answers, ReplyKind::Answer) => {
            answers_for(&call.input, &asked.answers).is_some()
        }
        (AskedFor::Plan, ReplyKind::Approve(_)) => has_plan(),
        _ => false,
    }
}

/// What a hook is to print decides this, as the client takes it.
pub(super) fn reply_in(text: &str) -> Option<ReplyKind> {
    let printed: Value = serde_json::from_str(text).ok()?;
    let decision = printed.pointer("/hookSpecificOutput/decision")?;
    match decision.get("behavior")?.as_str()? {
        "allow" => Some(allowed_by(decision)),
        "deny" => Some(ReplyKind::Deny),
        _ => None,
    }
}

fn allowed_by(decision: &Value) -> ReplyKind {
    let mode = decision.pointer("/updatedPermissions/0/mode").and_then(Value::as_str);
    match (decision.get("updatedInput"), mode) {
        (Some(input), _) if input.get("answers").is_some() => ReplyKind::Answer,
        (Some(_), Some("acceptEdits")) => ReplyKind::Approve(PlanMode::AcceptEdits),
        (Some(_), Some(_)) => ReplyKind::Approve(PlanMode::Default),
        (Some(_) | None, _) => ReplyKind::Allow,
    }
}

/// Whether what a hook is to print is what was replied, with the call's own input and nothing else.
pub(super) fn is_as_given(text: &str, asked: &DecisionRequest, input: &Value) -> bool {
    let printed: Value = serde_json::from_str(text).unwrap_or_default();
    let decision = printed.pointer("/hookSpecificOutput/decision").cloned().unwrap_or_default();
    let message = decision.get("message").and_then(Value::as_str);
    let is_told = asked.message.as_deref().is_none_or(|given| message == Some(given));
    let mut expected = match asked.reply {
        ReplyKind::Allow | ReplyKind::Deny => Value::Null,
        ReplyKind::Answer | ReplyKind::Approve(_) => input.clone(),
    };
    if let Some(((answers, notes), whole)) =
        answers_for(input, &asked.answers).zip(expected.as_object_mut())
        && asked.reply == ReplyKind::Answer
    {
        whole.insert("answers".to_owned(), answers);
        if notes.as_object().is_some_and(|notes| !notes.is_empty()) {
            whole.insert("annotations".to_owned(), notes);
        }
    }
    let updated = decision.get("updatedInput").unwrap_or(&Value::Null);
    let is_lasting = decision.get("updatedPermissions").is_some();
    let may_last = matches!(asked.reply, ReplyKind::Approve(_));
    let is_ending = decision.get("interrupt").is_some();
    reply_in(text) == Some(asked.reply)
        && is_told
        && *updated == expected
        && is_lasting == may_last
        && !is_ending
}
