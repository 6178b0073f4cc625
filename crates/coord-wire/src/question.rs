//! The questions that a client asks with its tool `AskUserQuestion`, and answers to them (A-06).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A question, as the tool's input has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The question; the client finds its answer by this text.
    pub question: String,
    /// What may be chosen.
    pub options: Vec<QuestionOption>,
    /// Whether several options may be chosen.
    #[serde(default)]
    pub multi_select: bool,
}

/// An answer that a question offers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct QuestionOption {
    /// The answer.
    pub label: String,
    /// What it means.
    #[serde(default)]
    pub description: String,
}

/// An answer to one question: options, or a text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionAnswer {
    /// Numbers of the chosen options, from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<usize>,
    /// An answer in own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What the agent reads besides the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The questions of a tool's input; none if it asks none, or in another form than the known one.
pub fn questions(input: &RawValue) -> Option<Vec<Question>> {
    #[derive(Deserialize)]
    struct Input {
        questions: Vec<Question>,
    }
    let input: Input = serde_json::from_str(input.get()).ok()?;
    Some(input.questions).filter(|all| !all.is_empty())
}

impl QuestionAnswer {
    /// The answer in the client's form: what was chosen, or the text.
    ///
    /// # Errors
    /// Why it is no answer to this question, in words.
    pub fn words(&self, question: &Question) -> Result<String, String> {
        let of = &question.question;
        match (&self.text, self.options.as_slice()) {
            (Some(_), [_, ..]) => Err(format!("\"{of}\" takes options or a text, not both")),
            (Some(text), []) if text.trim().is_empty() => {
                Err(format!("the answer to \"{of}\" is empty"))
            }
            (Some(text), []) => Ok(text.clone()),
            (None, []) => Err(format!("\"{of}\" has no answer")),
            (None, [_, _, ..]) if !question.multi_select => {
                Err(format!("\"{of}\" takes one option only"))
            }
            (None, numbers) => {
                let label = |number: &usize| {
                    let option = question.options.get(number.wrapping_sub(1));
                    option.map(|one| one.label.as_str()).ok_or_else(|| {
                        let last = question.options.len();
                        format!("\"{of}\" has no option {number}, only 1 to {last}")
                    })
                };
                let labels: Result<Vec<&str>, String> = numbers.iter().map(label).collect();
                Ok(labels?.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: &str = r#"{"questions":[
        {"question":"Which region?","header":"Region","options":[{"label":"eu-west","description":"near"},{"label":"us-east"}],"multiSelect":false},
        {"question":"Which tests?","header":"Tests","options":[{"label":"unit"},{"label":"whole"}],"multiSelect":true}]}"#;

    fn asked() -> Vec<Question> {
        questions(&RawValue::from_string(INPUT.to_owned()).unwrap()).unwrap()
    }

    fn options(options: &[usize]) -> QuestionAnswer {
        QuestionAnswer { options: options.to_vec(), ..QuestionAnswer::default() }
    }

    fn text(text: &str) -> QuestionAnswer {
        QuestionAnswer { text: Some(text.to_owned()), ..QuestionAnswer::default() }
    }

    // A-06
    #[test]
    fn options_are_chosen_by_their_numbers() {
        let [region, tests] = &asked()[..] else { panic!("two questions") };
        assert_eq!(options(&[2]).words(region).as_deref(), Ok("us-east"));
        assert_eq!(options(&[1, 2]).words(tests).as_deref(), Ok("unit, whole"));
        assert_eq!(text("neither").words(region).as_deref(), Ok("neither"));
    }

    #[test]
    fn what_answers_no_question_is_refused() {
        let [region, tests] = &asked()[..] else { panic!("two questions") };
        for (answer, question, expected) in [
            (options(&[0]), region, "has no option 0, only 1 to 2"),
            (options(&[3]), tests, "has no option 3, only 1 to 2"),
            (options(&[1, 2]), region, "takes one option only"),
            (options(&[]), region, "has no answer"),
            (text("  "), region, "is empty"),
            (QuestionAnswer { options: vec![1], ..text("x") }, region, "not both"),
        ] {
            let refused = answer.words(question).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        for input in [r#"{"questions":[]}"#, r#"{"command":"ls"}"#, r#"{"questions":"none"}"#] {
            assert_eq!(questions(&RawValue::from_string(input.to_owned()).unwrap()), None);
        }
    }
}
