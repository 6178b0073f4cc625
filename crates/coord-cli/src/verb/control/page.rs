//! What the page of `coordctl dashboard` shows of requests, and does (W-03): by the same steps as the verbs, with what they
//! ask at the terminal asked on the page instead.

use anyhow::anyhow;
use coord_dashboard::{
    Act, Acted, ChoiceView, Done, OptionView, QuestionView, RequestView, hook_name,
};
use coord_host::passphrase::Passphrase;
use coord_model::{NeedKind, PlanMode, ReplyKind};
use coord_view::list::age;
use coord_wire::api::{DecisionRequest, OpenRequest, OperatorRequest, OperatorVerb, REFUSED};
use coord_wire::message::Send;
use coord_wire::question::QuestionAnswer;

use super::reply::{Reply, follow, send_once};
use super::requests::{agent, left, open};
use super::shown::{asked, exact, input, what};
use super::{answer, approve, ask_once, deny, passphrase};
use crate::context::Context;
use crate::follow::JournalWatch;
use crate::out::{Failure, escape};
use crate::verb::inspect::tilde;
use crate::verb::queue;

/// The open prompts, the one that waits longest first.
pub(crate) fn requests(context: &Context) -> Result<Vec<RequestView>, Failure> {
    let open = open(context)?;
    let mut all = open.requests;
    all.sort_by_key(|one| one.since_ms);
    all.iter().map(|one| view(one, open.now_ms)).collect()
}

fn view(request: &OpenRequest, now_ms: u64) -> Result<RequestView, Failure> {
    let hook = request.hook.filter(|_| request.why_not.is_none() && request.input.is_some());
    let questions = asked(request).filter(|_| request.kind == NeedKind::Question);
    let mut text = Vec::new();
    if request.input.is_some() || request.hook.is_some() {
        input(request, "", &mut text)?;
    }
    let text = String::from_utf8_lossy(&text);
    let name = escape(&request.name);
    Ok(RequestView {
        need: request.need.to_string(),
        hook: hook.map(hook_name).unwrap_or_default(),
        session: request.session_id.clone(),
        title: title(request),
        age: age(now_ms.saturating_sub(request.since_ms) / 1000),
        place: format!("{} · {}", escape(&tilde(&request.cwd)), agent(request)),
        left: left(request),
        input: if questions.is_some() { Vec::new() } else { lines(&text) },
        questions: questions.into_iter().flatten().map(|one| question(&one)).collect(),
        choices: if hook.is_some() { choices(request) } else { Vec::new() },
        why_not: match &request.why_not {
            Some(why) => format!("At its terminal only: {}.", escape(why)),
            None => String::new(),
        },
        terminal: format!("coord go {name}"),
        name,
    })
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// What is asked, in words that follow the session's name.
fn title(request: &OpenRequest) -> String {
    if request.kind == NeedKind::Question {
        "asks a question".to_owned()
    } else if request.kind == NeedKind::Plan {
        "has a plan to approve".to_owned()
    } else if request.tool.is_empty() {
        "has a dialog open".to_owned()
    } else {
        format!("asks to run {}", what(request))
    }
}

fn question(one: &coord_wire::question::Question) -> QuestionView {
    let option = |one: &coord_wire::question::QuestionOption| OptionView {
        label: exact(&one.label),
        description: exact(&one.description),
    };
    QuestionView {
        question: exact(&one.question),
        options: one.options.iter().map(option).collect(),
        is_several: one.multi_select,
    }
}

/// The replies that can be given to a request.
fn choices(request: &OpenRequest) -> Vec<ChoiceView> {
    let allow = |reply, label: &str, mode: Option<PlanMode>| {
        approve::reply(request, mode).ok().map(|one| ChoiceView {
            reply,
            label: label.to_owned(),
            question: one.question,
            confirm: label.to_owned(),
            takes_message: false,
            is_main: true,
        })
    };
    let deny = |label: &str, confirm: &str| ChoiceView {
        reply: ReplyKind::Deny,
        label: label.to_owned(),
        question: deny::reply(request, None).question,
        confirm: confirm.to_owned(),
        takes_message: true,
        is_main: false,
    };
    if request.kind == NeedKind::Question {
        let answer = ChoiceView {
            reply: ReplyKind::Answer,
            label: "Answer…".to_owned(),
            question: String::new(),
            confirm: "Send the answer".to_owned(),
            takes_message: false,
            is_main: true,
        };
        return vec![deny("Leave unanswered…", "Leave unanswered"), answer];
    }
    let allowed: Vec<ChoiceView> = if request.kind == NeedKind::Plan {
        let by = |mode, label| allow(ReplyKind::Approve(mode), label, Some(mode));
        let each = by(PlanMode::Default, "Approve, ask before each edit");
        each.into_iter().chain(by(PlanMode::AcceptEdits, "Approve, edit without asking")).collect()
    } else {
        allow(ReplyKind::Allow, "Allow once", None).into_iter().collect()
    };
    std::iter::once(deny("Deny…", "Deny")).chain(allowed).collect()
}

/// Acts, or says what a person is to confirm.
pub(crate) fn act(act: &Act, is_dry: bool, context: &Context) -> Result<Done, Failure> {
    let verb = match act {
        Act::Reply { need, hook, reply, message, answers } => {
            let request = find(need, hook, context)?;
            let one = wanted(&request, *reply, message.clone(), answers.clone())?;
            if is_dry {
                return Ok(said(true, &[one.question]));
            }
            return settled(send(&request, one, context));
        }
        Act::Send { session, text } => return send_message(session, text, is_dry, context),
        Act::Hold { session } => (OperatorVerb::Hold, session),
        Act::Release { session } => (OperatorVerb::Release, session),
        Act::Recover { session } => (OperatorVerb::Recover, session),
        Act::Dismiss { session } => (OperatorVerb::Dismiss, session),
    };
    let (verb, session) = verb;
    settled(order((verb, session.as_str()), is_dry, context))
}

fn said(is_done: bool, lines: &[String]) -> Done {
    let lines = lines.iter().map(|line| exact(line)).collect();
    Done::Said(Acted { is_done, lines })
}

/// What came of an act: that the passphrase is needed is no failure.
fn settled(done: Result<Done, Failure>) -> Result<Done, Failure> {
    match done {
        Err(Failure::PassphraseNeeded(_)) => Ok(Done::PassphraseNeeded),
        done => done,
    }
}

/// The request that was shown, as long as the same hook waits for its reply (H-23).
fn find(need: &str, hook: &str, context: &Context) -> Result<OpenRequest, Failure> {
    let over = || Failure::Over("This request is over. Nothing was sent.".to_owned());
    let all = open(context)?.requests;
    let request = all.into_iter().find(|one| one.need.to_string() == need).ok_or_else(over)?;
    match (&request.why_not, request.hook) {
        (None, Some(own)) if hook_name(own) == hook && request.input.is_some() => Ok(request),
        (Some(why), _) => {
            let name = escape(&request.name);
            Err(anyhow!("Not answerable here: {}. → coord go {name}", escape(why)).into())
        }
        (None, _) => Err(over()),
    }
}

/// The reply that a person chose, and the words for it.
fn wanted(
    request: &OpenRequest,
    reply: ReplyKind,
    message: Option<String>,
    answers: Vec<QuestionAnswer>,
) -> Result<Reply, Failure> {
    let message = message.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let one = match reply {
        ReplyKind::Allow => approve::reply(request, None)?,
        ReplyKind::Approve(mode) => approve::reply(request, Some(mode))?,
        ReplyKind::Deny => deny::reply(request, message),
        ReplyKind::Answer => match asked(request) {
            Some(questions) if questions.len() == answers.len() => {
                answer::reply(&questions, answers)?
            }
            Some(_) | None => return Err(anyhow!("Answer each question.").into()),
        },
    };
    if one.kind == reply { Ok(one) } else { Err(anyhow!("That is no reply to this.").into()) }
}

/// Sends the reply for the one hook, and tells what became of it.
fn send(request: &OpenRequest, one: Reply, context: &Context) -> Result<Done, Failure> {
    let Some(hook) = request.hook else {
        return Err(Failure::Over("This request is over. Nothing was sent.".to_owned()));
    };
    let news = JournalWatch::new(context)?;
    let Reply { kind, message, answers, taken, .. } = one;
    send_once(request, &DecisionRequest { hook, reply: kind, message, answers }, context)?;
    let mut out = Vec::new();
    follow(request, (false, &news), &taken, context, &mut out)?;
    Ok(said(true, &lines(&String::from_utf8_lossy(&out))))
}

fn order(
    (verb, session): (OperatorVerb, &str),
    dry_run: bool,
    context: &Context,
) -> Result<Done, Failure> {
    let sessions = vec![session.to_owned()];
    let request = OperatorRequest { sessions, dry_run, ..OperatorRequest::new(verb) };
    let answer = ask_once(&request, context)?;
    let is_done = answer.results.iter().all(|one| one.outcome != REFUSED);
    let lines: Vec<String> = answer.results.into_iter().map(|one| one.would).collect();
    Ok(said(is_done, &lines))
}

fn send_message(
    session: &str,
    text: &str,
    is_dry: bool,
    context: &Context,
) -> Result<Done, Failure> {
    if text.trim().is_empty() {
        return Err(anyhow!("The text is empty; nothing was sent.").into());
    }
    if is_dry {
        return Ok(said(true, &[]));
    }
    let message =
        Send { session: Some(session.to_owned()), text: text.to_owned(), ..Send::default() };
    let sent = queue::hand_in(&message, context)?;
    Ok(said(true, &[queue::words(&sent)]))
}

/// Gives the coordinator the passphrase.
pub(crate) fn unlock(passphrase: String, context: &Context) -> Result<(), Failure> {
    passphrase::give(&Passphrase::new(passphrase), context)
}
