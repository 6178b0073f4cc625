//! `coord queue send NAME TEXT`, and what `coord send ID TEXT` shares with it.

use std::io::{Read, Write as _};
use std::time::Duration;

use anyhow::{Context as _, bail};
use coord_model::RemoteSession;
use coord_view::text::thousands;
use coord_wire::exchange::{Miss, mono_ns};
use coord_wire::message::{MessageInfo, Send, Sent, TEXT_BYTES_MAX};

use super::{answered, tell};
use crate::client::{self, segment};
use crate::context::Context;
use crate::follow::JournalWatch;
use crate::out::{Failure, duration_ms, escape};
use crate::verb::status::not_reachable;

/// Send a message to whoever takes it under a name
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord queue send builds 'build main'\n  git log -1 | coord queue send reviews -          read the text from standard input\n  coord queue send builds 'build main' --key main  one message, however often it is sent\n  coord queue send builds 'build main' --wait 10m  wait, and print how it ended\n\nExit codes with --wait: 1 the message failed, 5 timeout."
)]
pub(crate) struct Args {
    /// Name of the queue
    queue: String,
    #[command(flatten)]
    message: MessageArgs,
}

/// What is sent, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct MessageArgs {
    /// Text of the message; - reads standard input
    text: String,
    /// A key: while the message waits, sending it again with this key adds none
    #[arg(long)]
    key: Option<String>,
    /// Deliver it before messages that are not urgent; to a working session, with the result of its next tool
    #[arg(long)]
    urgent: bool,
    /// Fail the message if nobody takes it within this time, such as 10m
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    ttl: Option<u64>,
    /// Wait until it is done or has failed, for at most TIME, by default one day
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1d", value_parser = duration_ms)]
    wait: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    send(To::Queue(args.queue.clone()), &args.message, context)
}

/// Whom it is for.
pub(crate) enum To {
    /// Whoever takes it under this name.
    Queue(String),
    /// A session's agent.
    Session(String),
    /// The agent of a session of another machine.
    Remote(RemoteSession),
}

/// Sends it, and waits for what becomes of it if that is wanted.
pub(crate) fn send(to: To, args: &MessageArgs, context: &Context) -> Result<(), Failure> {
    let (queue, session, remote) = match to {
        To::Queue(name) => (Some(name), None, None),
        To::Session(id) => (None, Some(id), None),
        To::Remote(to) => (None, None, Some(to)),
    };
    let text = text(&args.text)?;
    let (key, urgent, ttl_ms) = (args.key.clone(), args.urgent, args.ttl);
    let sent = hand_in(&Send { queue, session, remote, text, key, urgent, ttl_ms }, context)?;
    let Some(wait_ms) = args.wait else { return tell(&sent, args.json) };
    let fate = fate(&sent, Duration::from_millis(wait_ms), context)?;
    tell(&Sent { state: fate.state.clone(), because: None, ..sent }, args.json)?;
    if fate.state == "failed" {
        return Err(Failure::Failed(anyhow::anyhow!("{}", fate.because)));
    }
    Ok(())
}

/// Hands a message to the coordinator.
pub(crate) fn hand_in(message: &Send, context: &Context) -> Result<Sent, Failure> {
    let answer = client::post(context, "/v1/messages", message);
    if let Err(miss @ Miss::Absent) = &answer {
        let why = not_reachable(*miss, context);
        let why = why.replacen("not running", "not running; nothing was sent", 1);
        return Err(Failure::NotReachable(why));
    }
    if let Err(Miss::Broken) = &answer {
        let why = "The coordinator ended before it answered, so the message may have been sent. \
                   `coord queue` lists it if it was.";
        return Err(Failure::NotReachable(why.to_owned()));
    }
    answered(answer, context)
}

fn text(word: &str) -> anyhow::Result<String> {
    if word != "-" {
        return Ok(word.to_owned());
    }
    let mut bytes = Vec::new();
    // One byte more than may be sent tells that it is too long, and no character is cut by that.
    let n_max = u64::try_from(TEXT_BYTES_MAX)? + 1;
    std::io::stdin().take(n_max).read_to_end(&mut bytes).context("standard input")?;
    if TEXT_BYTES_MAX < bytes.len() {
        bail!(
            "The text has more than {} bytes, the most that a message may have. Send a file's path instead.",
            thousands(TEXT_BYTES_MAX)
        );
    }
    String::from_utf8(bytes).context("standard input")
}

/// Waits for the end of it. A coordinator that is gone may come back, and then still knows the message.
fn fate(sent: &Sent, wait: Duration, context: &Context) -> Result<MessageInfo, Failure> {
    let (began_ns, path) = (mono_ns(), format!("/v1/messages/{}", segment(&sent.id)));
    let journal = JournalWatch::new(context)?;
    let mut is_told = false;
    loop {
        let why = match client::get::<MessageInfo>(context, &path) {
            Ok(message) => {
                let message = message?;
                if matches!(message.state.as_str(), "processed" | "failed") {
                    return Ok(message);
                }
                is_told = false;
                format!("{} is still {}: {}", sent.id, message.state, message.because)
            }
            Err(miss @ Miss::Foreign) => {
                return Err(Failure::NotReachable(not_reachable(miss, context)));
            }
            Err(miss @ (Miss::Absent | Miss::Late | Miss::Broken)) => {
                let why = not_reachable(miss, context);
                if !std::mem::replace(&mut is_told, true) {
                    // A reader that is gone changes nothing.
                    let line = format!("{} was sent; waiting for the coordinator: {why}", sent.id);
                    drop(writeln!(std::io::stderr(), "coord: {}", escape(&line)));
                }
                why
            }
        };
        let left = wait.saturating_sub(Duration::from_nanos(mono_ns().saturating_sub(began_ns)));
        if left.is_zero() {
            return Err(Failure::TimedOut(why));
        }
        journal.pause(left)?;
    }
}
