//! `coord status`: whether the coordinator runs and is well.

use std::io::Write;

use coord_config::Config;
use coord_model::stamp::parse_rfc3339;
use coord_wire::api::{ChannelHealth, Health};
use coord_wire::exchange::Miss;

use crate::client;
use crate::context::Context;
use crate::out::{Colour, Failure, Painter, age, complain, escape, print_json};
use crate::verb::doctor::note_elsewhere;
use crate::verb::inspect::{age_s, clock_time};

/// Show whether the coordinator runs and is well
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  coord status --json\n\nExit code 4: no coordinator answers.")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    warn_elsewhere(context);
    let health: Health = match client::get(context, "/healthz") {
        Ok(health) => health?,
        Err(miss) => return Err(Failure::NotReachable(not_reachable(miss, context))),
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &health);
    }
    let painter = Painter::for_stdout();
    let (word, colour) = match health.status.as_str() {
        "ok" => ("well", Colour::Green),
        _ => ("degraded", Colour::Yellow),
    };
    writeln!(
        out,
        "coordinator {} (pid {}, version {}, up {}, mode {})",
        painter.paint(colour, word),
        health.pid,
        escape(&health.version),
        age(health.uptime_s),
        escape(&health.mode)
    )?;
    writeln!(
        out,
        "{}{}, {} in the journal, {} in the spool",
        counted(health.sessions, "session"),
        match health.unattended {
            0 => String::new(),
            n => format!(" ({n} unattended)"),
        },
        counted(health.seq, "record"),
        counted(health.spool_pending, "event")
    )?;
    if let Some(at) = &health.config_changed_at {
        let ago = age(age_s(at, context));
        let changes = escape(&health.config_changes.join(", "));
        writeln!(out, "configuration changed {ago} ago: {changes}")?;
    }
    if 0 < health.events_counted.saturating_add(health.records_dropped) {
        writeln!(
            out,
            "since the journal began: {} only counted, {} of unverified sessions dropped",
            counted(health.events_counted, "event"),
            counted(health.records_dropped, "record")
        )?;
    }
    if !health.notices.is_empty() {
        writeln!(out, "notices: {}", channels(&health.notices, painter))?;
    }
    if health.notices.iter().any(|one| one.failing.is_some()) {
        writeln!(out, "  → coord notice test")?;
    }
    for problem in &health.problems {
        writeln!(out, "{} {}", painter.paint(Colour::Yellow, "!"), escape(problem))?;
    }
    Ok(())
}

/// `tmux ok · phone failing since 13:40: HTTP 403 from hooks.example.org`
fn channels(channels: &[ChannelHealth], painter: Painter) -> String {
    let one = |channel: &ChannelHealth| {
        let name = escape(&channel.channel);
        let Some(why) = &channel.failing else { return format!("{name} ok") };
        let since = channel.failing_since.as_deref().and_then(parse_rfc3339);
        let since = since.map_or_else(String::new, |ms| format!(" since {}", clock_time(ms)));
        painter.paint(Colour::Yellow, &format!("{name} failing{since}: {}", escape(why)))
    };
    channels.iter().map(one).collect::<Vec<_>>().join(" · ")
}

/// Says on standard error that the hooks report to another place than the one that is shown.
pub(crate) fn warn_elsewhere(context: &Context) {
    if let Some(note) = note_elsewhere(context) {
        complain("coord", &format!("warning: {note}"));
    }
}

pub(crate) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// One line with the remedy.
pub(crate) fn not_reachable(miss: Miss, context: &Context) -> String {
    let config = context.paths.config_file();
    if let (Miss::Absent, Err(error)) = (miss, Config::load(&config)) {
        return format!(
            "Coordinator not running, and it cannot start with {}: {error}. Correct the file. → coord up",
            config.display()
        );
    }
    match miss {
        Miss::Absent if context.paths.down().exists() => {
            "Coordinator not running: `coord down` stopped it. → coord up".to_owned()
        }
        Miss::Absent => "Coordinator not running. → coord up".to_owned(),
        Miss::Late => "Coordinator does not answer. → coord down && coord up".to_owned(),
        miss @ (Miss::Foreign | Miss::Broken) => {
            format!("{miss}: {}", context.paths.socket().display())
        }
    }
}
