//! What `coordctl approve`, `deny` and `answer` share: the exact input is shown, a person confirms, the reply is sent for
//! the one hook whose input was shown, and what became of it is told.

use std::io::{BufRead as _, IsTerminal as _, Write};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use coord_model::{NeedId, NeedKind, ProcessRef, ReplyKind, ReplyOutcome};
use coord_wire::api::{DecisionRequest, OpenRequest, PASSPHRASE_NEEDED, ReplyShown};
use coord_wire::question::QuestionAnswer;

use super::passphrase;
use super::requests::{agent, called, find, names};
use super::shown::{input, what};
use crate::client::{self, Sent};
use crate::context::Context;
use crate::follow::JournalWatch;
use crate::out::{Failure, escape};
use crate::verb::completions;
use crate::verb::inspect::tilde;
use crate::verb::status::not_reachable;

/// How long the proof of a reply is awaited: an allowed call is proved only once it has ended (measured).
const PROOF: Duration = Duration::from_secs(10);

/// What all of them take.
#[derive(Debug, clap::Args)]
pub(super) struct How {
    /// A request's id or its beginning, or the session's name if it has one open request
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new(), add = completions::of(names))]
    request: String,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Wait for the proof without limit
    #[arg(long)]
    wait: bool,
}

/// A request that can be answered here.
pub(super) struct Answerable {
    pub(super) request: OpenRequest,
    /// The hook that waits for the reply.
    hook: ProcessRef,
}

impl Answerable {
    /// Finds the request that a person names.
    pub(super) fn find(how: &How, context: &Context) -> Result<Self, Failure> {
        let request = find(&how.request, context)?;
        let name = escape(&request.name);
        match (&request.why_not, request.hook) {
            (None, Some(hook)) if request.input.is_some() => Ok(Self { request, hook }),
            (None, Some(_)) => {
                Err(anyhow!("Too long to show whole. Answer at the terminal. → coord go {name}")
                    .into())
            }
            (why, _) => {
                let why = escape(why.as_deref().unwrap_or("coord's hook does not wait for it"));
                Err(anyhow!("Not answerable here: {why}. → coord go {name}").into())
            }
        }
    }

    /// Shows who asks, where, and the exact input.
    pub(super) fn show(&self, out: &mut impl Write) -> Result<(), Failure> {
        writeln!(out, "{}\n", heading(&self.request))?;
        input(&self.request, "    ", out)?;
        Ok(writeln!(out)?)
    }
}

/// Which session asks for what, where, and which of its agents does.
fn heading(request: &OpenRequest) -> String {
    let (name, cwd) = (escape(&request.name), escape(&tilde(&request.cwd)));
    let asks = if request.kind == NeedKind::Question {
        "asks".to_owned()
    } else if request.kind == NeedKind::Plan {
        "has a plan".to_owned()
    } else {
        format!("asks to run {}", what(request))
    };
    format!("{name} {asks} in {cwd} ({}):", agent(request))
}

/// A reply, and the words for it.
pub(super) struct Reply {
    pub(super) kind: ReplyKind,
    /// What the agent reads of a denial.
    pub(super) message: Option<String>,
    pub(super) answers: Vec<QuestionAnswer>,
    /// What the person confirms.
    pub(super) question: String,
    /// What the client did, once it is proved.
    pub(super) taken: String,
}

/// Asks for confirmation, sends the reply, and tells what became of it.
pub(super) fn send_reply(
    answerable: &Answerable,
    one: Reply,
    how: &How,
    context: &Context,
) -> Result<(), Failure> {
    let out = &mut std::io::stdout().lock();
    if !how.yes && !is_confirmed(&one.question, out)? {
        return Ok(writeln!(out, "Nothing was sent.")?);
    }
    let news = JournalWatch::new(context)?;
    let Answerable { request, hook } = answerable;
    let Reply { kind, message, answers, taken, .. } = one;
    send(request, &DecisionRequest { hook: *hook, reply: kind, message, answers }, context)?;
    follow(request, (how.wait, &news), &taken, context, out)
}

fn is_confirmed(question: &str, out: &mut impl Write) -> Result<bool, Failure> {
    let line = typed(&format!("{question} [y/N] "), "--yes", out)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// A line that the person types. Without a terminal to ask at, `instead` says what to use.
pub(super) fn typed(
    question: &str,
    instead: &str,
    out: &mut impl Write,
) -> Result<String, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(anyhow!("standard input is no terminal to ask at; use {instead}").into());
    }
    write!(out, "{question}")?;
    out.flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

/// Sends the reply, after the passphrase where it is needed.
fn send(
    request: &OpenRequest,
    decision: &DecisionRequest,
    context: &Context,
) -> Result<(), Failure> {
    match send_once(request, decision, context) {
        Err(Failure::PassphraseNeeded(_)) => {
            passphrase::unlock(context)?;
            send_once(request, decision, context)
        }
        sent => sent,
    }
}

/// Sends the reply. Where the passphrase is needed, nothing is sent.
pub(super) fn send_once(
    request: &OpenRequest,
    decision: &DecisionRequest,
    context: &Context,
) -> Result<(), Failure> {
    let sent = client::put(context, &path(request.need), decision);
    match sent.map_err(|miss| Failure::NotReachable(not_reachable(miss, context)))? {
        Sent::Taken => Ok(()),
        Sent::Refused { code, message } if code == PASSPHRASE_NEEDED => {
            Err(Failure::PassphraseNeeded(message))
        }
        Sent::Refused { code, message } if code == "over" => {
            let id = called(request);
            Err(Failure::Over(format!("{id}: {message}. Nothing was sent.")))
        }
        Sent::Refused { message, .. } => Err(anyhow!(message).into()),
    }
}

fn path(need: NeedId) -> String {
    format!("/v1/needs/{need}/decision")
}

/// Tells what became of the reply.
pub(super) fn follow(
    request: &OpenRequest,
    (waits, news): (bool, &JournalWatch),
    taken: &str,
    context: &Context,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let proof = if request.kind == NeedKind::Permission {
        format!("Proof follows when {} ends.", what(request))
    } else {
        "Proof follows.".to_owned()
    };
    let name = escape(&request.name);
    loop {
        let shown = client::get::<ReplyShown>(context, &path(request.need));
        let shown = shown.map_err(|miss| Failure::NotReachable(not_reachable(miss, context)))??;
        match shown.outcome {
            Some(ReplyOutcome::Taken) => {
                return Ok(writeln!(out, "Taken: the client {taken}.")?);
            }
            Some(ReplyOutcome::TerminalFirst) => {
                return Err(Failure::TerminalFirst(
                    "Answered at the terminal first. Your answer changed nothing.".to_owned(),
                ));
            }
            Some(ReplyOutcome::Refused) => {
                let id = called(request);
                return Err(anyhow!("The client decided otherwise. → coord explain {id}").into());
            }
            Some(ReplyOutcome::NotSent) => {
                let id = called(request);
                let why = "coord's hook had ended. Nothing was sent.";
                return Err(Failure::Over(format!("{id}: {why} → coord go {name}")));
            }
            None => (),
        }
        if !shown.is_open && !shown.can_be_proved {
            writeln!(
                out,
                "Sent; the prompt is over. It is not known which call it was about, so there is no proof."
            )?;
            return Ok(writeln!(out, "→ coord go {name}")?);
        }
        let is_over = !waits && PROOF <= begun.elapsed();
        if is_over && shown.is_open {
            return Err(anyhow!("Sent, but the dialog is still open. → coord go {name}").into());
        }
        if is_over {
            writeln!(out, "Sent; the dialog closed. {proof}")?;
            return Ok(writeln!(out, "→ coord explain {}", called(request))?);
        }
        news.pause(if waits { PROOF } else { PROOF.saturating_sub(begun.elapsed()) })?;
    }
}

#[cfg(test)]
mod tests {
    use super::super::requests::tests::example;
    use super::*;

    // a person sees which agent they allow something.
    #[test]
    fn the_heading_says_which_agent_asks() {
        let main = example();
        let of_agent = OpenRequest { agent: Some("rev\u{1b}iewer".to_owned()), ..main.clone() };
        let plan = OpenRequest { kind: NeedKind::Plan, ..main.clone() };
        let question = OpenRequest { kind: NeedKind::Question, ..main.clone() };
        assert_eq!(
            [&main, &of_agent, &plan, &question].map(heading),
            [
                "parser asks to run Bash in /p (main agent):",
                "parser asks to run Bash in /p (rev\u{fffd}iewer):",
                "parser has a plan in /p (main agent):",
                "parser asks in /p (main agent):",
            ]
        );
    }
}
