//! `coord queue claim`, `done`, `fail` and `renew`: what a consumer says.

use std::io::Write;
use std::time::Duration;

use coord_wire::exchange::mono_ns;
use coord_wire::message::{Claim, Claimed, Settle};

use super::{answered, post, tell};
use crate::client::{self, segment};
use crate::context::Context;
use crate::follow::JournalWatch;
use crate::out::{Failure, duration_ms, escape, print_json};

/// Take the next message under a lease
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord queue claim builds                   the next message, with its text and fence\n  coord queue claim builds --json | jq -r .text\n  coord queue claim builds --wait 10m        wait for a message\n\nExit code 5: no message waits."
)]
pub(crate) struct ClaimArgs {
    /// Name of the queue
    queue: String,
    /// Name of the consumer, shown to people [default: the parent's pid]
    #[arg(long = "as", value_name = "WHO")]
    holder: Option<String>,
    /// Length of the lease, such as 20m; then the message goes back
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    lease: Option<u64>,
    /// Wait for a message, for at most this time
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    wait: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which message, by which lease.
#[derive(Debug, clap::Args)]
struct Held {
    /// A message's id, or the beginning of one
    id: String,
    /// The fence that `coord queue claim` printed
    fence: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Say that a message that was taken is done
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  coord queue done m_x7d2 41")]
pub(crate) struct DoneArgs {
    #[command(flatten)]
    held: Held,
}

/// Say that it could not be done
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord queue fail m_x7d2 41 --why 'no disk'       retried later\n  coord queue fail m_x7d2 41 --why 'no such branch' --final"
)]
pub(crate) struct FailArgs {
    #[command(flatten)]
    held: Held,
    /// The reason, in one line
    #[arg(long)]
    why: String,
    /// Do not retry: another attempt would fail as well
    #[arg(long = "final")]
    is_final: bool,
}

/// Keep it for longer
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  coord queue renew m_x7d2 41 --lease 20m")]
pub(crate) struct RenewArgs {
    #[command(flatten)]
    held: Held,
    /// Length of the lease from now on, such as 20m
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    lease: Option<u64>,
}

pub(crate) fn claim(args: &ClaimArgs, context: &Context) -> Result<(), Failure> {
    let claimed = next(args, context)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &claimed);
    }
    let Claimed { message, text, fence } = &claimed;
    let again = if message.maybe_duplicate { ", possibly done before" } else { "" };
    writeln!(
        out,
        "{} {fence}  from {}, attempt {}{again}",
        escape(&message.id),
        escape(&message.from),
        message.attempts
    )?;
    for line in text.lines() {
        writeln!(out, "{}", escape(line))?;
    }
    Ok(())
}

fn next(args: &ClaimArgs, context: &Context) -> Result<Claimed, Failure> {
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let holder = args.holder.clone().unwrap_or_else(|| format!("pid {parent}"));
    let ask = Claim { holder, lease_ms: args.lease };
    let path = format!("/v1/queues/{}/claim", segment(&args.queue));
    let (began_ns, wait) = (mono_ns(), Duration::from_millis(args.wait.unwrap_or(0)));
    let mut journal = None;
    loop {
        if let Some(claimed) = answered(client::take(context, &path, &ask), context)? {
            return Ok(claimed);
        }
        let left = wait.saturating_sub(Duration::from_nanos(mono_ns().saturating_sub(began_ns)));
        if left.is_zero() {
            let nothing = format!("nothing waits for {}", args.queue);
            return Err(Failure::TimedOut(nothing));
        }
        match &journal {
            Some(journal) => JournalWatch::pause(journal, left)?,
            // What comes between the first look and the watch is found by the second look.
            None => journal = Some(JournalWatch::new(context)?),
        }
    }
}

pub(crate) fn done(args: &DoneArgs, context: &Context) -> Result<(), Failure> {
    let settle = Settle { fence: args.held.fence, ..Settle::default() };
    say(&args.held, "done", &settle, context)
}

pub(crate) fn fail(args: &FailArgs, context: &Context) -> Result<(), Failure> {
    let settle = Settle {
        fence: args.held.fence,
        why: Some(args.why.clone()),
        is_final: args.is_final,
        ..Settle::default()
    };
    say(&args.held, "fail", &settle, context)
}

pub(crate) fn renew(args: &RenewArgs, context: &Context) -> Result<(), Failure> {
    let settle = Settle { fence: args.held.fence, lease_ms: args.lease, ..Settle::default() };
    say(&args.held, "renew", &settle, context)
}

fn say(held: &Held, verb: &str, settle: &Settle, context: &Context) -> Result<(), Failure> {
    tell(&post(&held.id, verb, settle, context)?, held.json)
}
