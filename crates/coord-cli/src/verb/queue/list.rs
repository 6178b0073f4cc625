//! `coord queue` and `coord queue show`: where messages are, and why.

use std::io::Write;

use chrono::{DateTime, Local};
use coord_view::lookup;
use coord_view::messages::{self, Wanted};
use coord_wire::message::{MessageInfo, Messages, Totals};

use super::answered;
use crate::client::{self, segment};
use crate::context::Context;
use crate::out::{Colour, Failure, Painter, age, columns, escape, fit, pad, print_json};
use crate::verb::inspect::read_store;
use crate::verb::status::not_reachable;

/// Which messages are listed.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag of the command line")]
pub(crate) struct ListArgs {
    /// Show only messages for this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Show only messages for this session
    #[arg(long, value_name = "ID", conflicts_with = "name")]
    session: Option<String>,
    /// Show only failed messages
    #[arg(long, group = "which")]
    failed: bool,
    /// Show only messages that a consumer has held for longer than queue.slow_after
    #[arg(long, group = "which")]
    slow: bool,
    /// Show only messages whose lease has expired without a report
    #[arg(long, group = "which")]
    stuck: bool,
    /// Show at most N messages
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One message.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  coord queue retry m_x7d2\n  coord queue drop m_x7d2")]
pub(crate) struct OneArgs {
    /// A message's id, or the beginning of one
    pub(super) id: String,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Show one message, with its text
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  coord queue show m_x7d2")]
pub(crate) struct ShowArgs {
    /// A message's id, or the beginning of one
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ListArgs, context: &Context) -> Result<(), Failure> {
    let which = [(args.failed, "failed"), (args.slow, "slow"), (args.stuck, "stuck")];
    let which = which.iter().find(|(is_wanted, _)| *is_wanted).map(|(_, word)| *word);
    let state = which.map(|word| format!("&state={word}")).unwrap_or_default();
    let name = args.name.as_deref().map(|name| format!("&queue={}", segment(name)));
    let session = args.session.as_deref().map(|id| format!("&session={}", segment(id)));
    let of = name.or(session).unwrap_or_default();
    let path = format!("/v1/messages?limit={}{state}{of}", args.limit);
    let (found, miss): (Messages, _) = match client::get(context, &path) {
        Ok(found) => (found?, None),
        Err(miss) => {
            let (store, _) = read_store(None, context)?;
            let state = which.map(ToOwned::to_owned);
            let id = args.session.as_deref();
            let found = id.map(|id| lookup::find(&store.state, id)).transpose()?;
            let session = found.and_then(|found| found.iter().map(|one| one.key).max());
            let wanted = Wanted { queue: args.name.clone(), session, state, limit: args.limit };
            (messages::list(&store.state, &wanted, context.now), Some(miss))
        }
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &found);
    }
    let (painter, width) = (Painter::for_stdout(), columns());
    for message in &found.messages {
        writeln!(out, "{}", line(message, context.now.wall_ms, painter, width))?;
    }
    if 0 < found.left_out {
        writeln!(out, "… and {} more (--limit)", found.left_out)?;
    }
    writeln!(out, "{}", painter.paint(Colour::Dim, &totals(&found.totals)))?;
    if let Some(miss) = miss {
        let note = format!("This is the last recorded state. {}", not_reachable(miss, context));
        writeln!(out, "{}", painter.paint(Colour::Dim, &escape(&note)))?;
    }
    Ok(())
}

/// Whether there is any that is not done.
pub(crate) fn is_any_open(totals: &Totals) -> bool {
    0 < totals.pending + totals.processing + totals.failed
}

/// How many are where, in words.
pub(crate) fn totals(totals: &Totals) -> String {
    let Totals { pending, processing, failed, processed, slow, stuck } = totals;
    format!(
        "{pending} pending, {processing} processing ({slow} slow, {stuck} stuck), {failed} failed, {processed} done recently"
    )
}

fn line(message: &MessageInfo, now_ms: u64, painter: Painter, width: usize) -> String {
    let sent_ms =
        DateTime::parse_from_rfc3339(&message.sent_at).map_or(0, |at| at.timestamp_millis());
    let sent_ms = u64::try_from(sent_ms).unwrap_or(0);
    let sent = age(now_ms.saturating_sub(sent_ms) / 1000);
    let colour = match message.state.as_str() {
        "failed" => Colour::Red,
        "processing" if message.slow => Colour::Yellow,
        "processing" => Colour::Green,
        _ => Colour::Dim,
    };
    let state = painter.paint(colour, &pad(&escape(&message.state), 10, false));
    let again = if message.maybe_duplicate { "; possibly done before" } else { "" };
    let folded = match message.folded {
        0 => String::new(),
        n => format!("; sent {} times", u64::from(n).saturating_add(1)),
    };
    // Of a session's id its beginning, which every verb takes.
    let to = message.session_id.as_ref().map(|id| id.chars().take(8).collect());
    let rest = format!(
        "{} {} {}: {}{again}{folded}, from {}",
        escape(&message.id),
        pad(&sent, 4, true),
        escape(&to.unwrap_or_else(|| receiver(message))),
        escape(&message.because),
        escape(&message.from),
    );
    format!("{state} {}", fit(&rest, width.saturating_sub(11).max(40)))
}

/// A message, by its id or the beginning of one; without a coordinator as the store has it.
pub(crate) fn find(id: &str, context: &Context) -> Result<MessageInfo, Failure> {
    match client::get(context, &format!("/v1/messages/{}", segment(id))) {
        Ok(found) => Ok(MessageInfo { text: None, ..found? }),
        Err(_) => {
            let (store, _) = read_store(None, context)?;
            let mut found = store.state.messages_with_prefix(id);
            match (found.next(), found.next()) {
                (Some(one), None) => Ok(messages::shown(&store.state, one, context.now)),
                (Some(_), Some(_)) => {
                    Err(Failure::UnclearId(format!("{id:?} begins several messages' ids")))
                }
                (None, _) => Err(Failure::NoSuchSession(format!("No message {id}. → coord queue"))),
            }
        }
    }
}

/// Whom it is for.
fn receiver(message: &MessageInfo) -> String {
    let session = || message.session_id.as_ref().map(|id| format!("session {id}"));
    message.queue.clone().or_else(session).unwrap_or_default()
}

pub(crate) fn show(args: &ShowArgs, context: &Context) -> Result<(), Failure> {
    let path = format!("/v1/messages/{}", segment(&args.id));
    let message: MessageInfo = answered(client::get(context, &path), context)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &message);
    }
    let local = |at: &str| {
        DateTime::parse_from_rfc3339(at).map_or_else(
            |_| at.to_owned(),
            |at| at.with_timezone(&Local).format("%F %T").to_string(),
        )
    };
    let state = format!("{}: {}", message.state, message.because);
    let tried = match (message.attempts, message.maybe_duplicate) {
        (0, _) => None,
        (1, false) => Some("once".to_owned()),
        (n, false) => Some(format!("{n} times")),
        (n, true) => Some(format!("{n} times, possibly done before")),
    };
    for (name, value) in [
        ("id", Some(message.id.clone())),
        ("for", Some(receiver(&message))),
        ("from", Some(message.from.clone())),
        ("sent", Some(local(&message.sent_at))),
        ("state", Some(state)),
        ("until", message.until.as_deref().map(local)),
        ("expires", message.expires_at.as_deref().map(local)),
        ("handed out", tried),
        ("key", message.key.clone()),
    ] {
        if let Some(value) = value {
            writeln!(out, "{} {}", pad(name, 10, false), escape(&value))?;
        }
    }
    match &message.text {
        Some(text) => {
            writeln!(out)?;
            text.lines().try_for_each(|line| writeln!(out, "{}", escape(line)))?;
        }
        None if message.text_withheld => {
            writeln!(
                out,
                "text       only for a person, and for the sessions that send and read it"
            )?;
        }
        None => writeln!(out, "text       no longer kept")?,
    }
    Ok(())
}
