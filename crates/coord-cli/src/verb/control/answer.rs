//! `coordctl answer R|NAME`: answers the questions of a session, with options or in own words.

use anyhow::anyhow;
use clap::builder::NonEmptyStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use coord_model::{NeedKind, ReplyKind};
use coord_wire::question::{Question, QuestionAnswer};

use super::reply::{Answerable, How, Reply, send_reply, typed};
use super::requests::called;
use super::shown::{asked, exact};
use crate::context::Context;
use crate::out::Failure;

/// Answer a session's questions
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coordctl answer r_9m4x              shows the questions, and asks for each\n  coordctl answer docs --option 1\n  coordctl answer docs --option 1,3 --text 'neither, ask Anna' --note 'she is in today'\n                                      options of the first question, and own words for the second\n\nOne --option or --text for each question, in order; --note adds to the answer before it.\nExit codes: 0 taken, or the proof follows; 1 the dialog is still open, or not answerable here;\n3 the prompt is over; 7 the terminal answered first."
)]
pub(crate) struct Args {
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    given: Given,
}

/// The answers, in the order in which they stand.
#[derive(Debug)]
struct Given(Vec<QuestionAnswer>);

impl clap::Args for Given {
    fn augment_args(command: Command) -> Command {
        let arg = |name: &'static str, value: &'static str, help: &'static str| {
            Arg::new(name).long(name).value_name(value).help(help).action(ArgAction::Append)
        };
        let text = NonEmptyStringValueParser::new();
        command
            .arg(
                arg("option", "NUMBER", "Choose an option; several with commas, such as 1,3")
                    .value_parser(numbers),
            )
            .arg(arg("text", "TEXT", "Answer in own words").value_parser(text))
            .arg(arg("note", "TEXT", "Add to the answer before it").value_parser(text))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let texts = |name: &'static str| {
            let values = matches.get_many::<String>(name).into_iter().flatten();
            matches.indices_of(name).into_iter().flatten().zip(values.cloned())
        };
        let options = matches.get_many::<Numbers>("option").into_iter().flatten();
        let options = matches.indices_of("option").into_iter().flatten().zip(options);
        let new = QuestionAnswer::default;
        let mut all: Vec<(usize, QuestionAnswer)> = options
            .map(|(at, one)| (at, QuestionAnswer { options: one.0.clone(), ..new() }))
            .chain(
                texts("text").map(|(at, text)| (at, QuestionAnswer { text: Some(text), ..new() })),
            )
            .collect();
        all.sort_by_key(|(at, _)| *at);
        for (at, note) in texts("note") {
            let before = all.iter_mut().rev().find(|(of, _)| *of < at);
            match before.map(|(_, answer)| &mut answer.note) {
                Some(none @ None) => *none = Some(note),
                Some(Some(_)) | None => {
                    let missing = vec!["--option or --text before --note".to_owned()];
                    let mut error = clap::Error::new(ErrorKind::MissingRequiredArgument);
                    error.insert(ContextKind::InvalidArg, ContextValue::Strings(missing));
                    return Err(error);
                }
            }
        }
        Ok(Self(all.into_iter().map(|(_, answer)| answer).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Numbers of options.
#[derive(Debug, Clone)]
struct Numbers(Vec<usize>);

fn numbers(text: &str) -> Result<Numbers, String> {
    let all: Result<Vec<usize>, _> = text.split(',').map(|one| one.trim().parse()).collect();
    all.map(Numbers).map_err(|_| "give the numbers of options, such as 1 or 1,3".to_owned())
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let answerable = Answerable::find(&args.how, context)?;
    let request = &answerable.request;
    let id = called(request);
    if request.kind != NeedKind::Question {
        let verbs = format!("→ coordctl approve {id} · coordctl deny {id}");
        let kind = if request.kind == NeedKind::Plan { "a plan" } else { "a permission prompt" };
        return Err(anyhow!("{id} is {kind}. {verbs}").into());
    }
    let Some(questions) = asked(request) else {
        return Err(anyhow!("Its questions cannot be read. → coord go {}", request.name).into());
    };
    answerable.show(&mut std::io::stdout().lock())?;
    let mut answers = args.given.0.clone();
    if answers.is_empty() {
        answers = questions.iter().map(ask).collect::<Result<_, Failure>>()?;
    }
    let (asked, given) = (questions.len(), answers.len());
    if asked != given {
        let line = "one --option or --text for each question, in order";
        return Err(anyhow!("{id} has {asked} questions, not {given}: give {line}").into());
    }
    let one = reply(&questions, answers)?;
    send_reply(&answerable, one, &args.how, context)
}

/// What answers these questions, one answer for each, and the words for it.
pub(super) fn reply(
    questions: &[Question],
    answers: Vec<QuestionAnswer>,
) -> Result<Reply, Failure> {
    let question = confirmation(questions, &answers)?;
    let taken = "took your answer".to_owned();
    Ok(Reply { kind: ReplyKind::Answer, message: None, answers, question, taken })
}

/// Asks the person for the answer to a question.
fn ask(question: &Question) -> Result<QuestionAnswer, Failure> {
    let last = question.options.len();
    let line = format!("{} (1 to {last}, or your own words): ", exact(&question.question));
    let line = typed(&line, "--option or --text", &mut std::io::stdout().lock())?;
    let new = QuestionAnswer::default();
    Ok(match numbers(line.trim()) {
        Ok(Numbers(options)) => QuestionAnswer { options, ..new },
        Err(_) => QuestionAnswer { text: Some(line.trim().to_owned()), ..new },
    })
}

/// What the person confirms.
fn confirmation(questions: &[Question], answers: &[QuestionAnswer]) -> Result<String, Failure> {
    let mut said = Vec::new();
    for (question, answer) in questions.iter().zip(answers) {
        let words = answer.words(question).map_err(|why| anyhow!(exact(&why)))?;
        let note = answer.note.as_ref().map(|note| format!(", and note \"{}\"", exact(note)));
        let (asked, note) = (exact(&question.question), note.unwrap_or_default());
        said.push(format!("\"{asked}\" with \"{}\"{note}", exact(&words)));
    }
    Ok(format!("Answer {}?", said.join(" and ")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        given: Given,
    }

    fn given(words: &[&str]) -> Result<Vec<QuestionAnswer>, String> {
        let all = std::iter::once("answer").chain(words.iter().copied());
        let cli = Cli::try_parse_from(all).map_err(|error| error.to_string())?;
        Ok(cli.given.0)
    }

    // the order of the options is the order of the questions.
    #[test]
    fn answers_keep_their_order() {
        let words = ["--text", "own", "--note", "n", "--option", "1,3", "--option", "2"];
        let answer = |options: &[usize], text: Option<&str>, note: Option<&str>| QuestionAnswer {
            options: options.to_vec(),
            text: text.map(str::to_owned),
            note: note.map(str::to_owned),
        };
        let expected = vec![
            answer(&[], Some("own"), Some("n")),
            answer(&[1, 3], None, None),
            answer(&[2], None, None),
        ];
        assert_eq!(given(&words), Ok(expected));
        assert_eq!(given(&[]), Ok(vec![]));
    }

    #[test]
    fn what_belongs_to_no_question_is_refused() {
        for words in [["--note", "n", "--option", "1"], ["--option", "one", "--note", "n"]] {
            given(&words).unwrap_err();
        }
        let twice = ["--option", "1", "--note", "a", "--note", "b"];
        assert!(given(&twice).unwrap_err().contains("--option or --text before"), "{twice:?}");
    }
}
