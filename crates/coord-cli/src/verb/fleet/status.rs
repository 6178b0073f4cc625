//! `coord fleet status`: the link, and the machines (F-01, F-07).

use std::io::Write;

use coord_config::Config;
use coord_fleet::SKEW_SHOWN_MS;
use coord_model::MachineId;
use coord_store::read_small_file;
use coord_wire::fleet::RelayStatus;
use coord_wire::limits::SMALL_FILE_BYTES_MAX;
use serde::Serialize;

use super::machines::{self, Machine};
use super::{identity, own_name};
use crate::context::Context;
use crate::out::{Failure, age, escape, print_columns, print_json};

/// Show the link to the server, and the machines
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  coord fleet status\n  coord fleet status --json")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    machine: String,
    name: String,
    key: String,
    relay_runs: bool,
    relay: Option<RelayStatus>,
    machines: Vec<ShownMachine>,
}

#[derive(Debug, Serialize)]
struct ShownMachine {
    id: String,
    name: String,
    key: String,
    version: String,
    sessions: usize,
    seen_age_ms: Option<u64>,
    is_silent: bool,
    skew_ms: i64,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let config = Config::load(&context.paths.config_file()).map_err(anyhow::Error::from)?;
    let identity = identity(context)?;
    let machines = machines::all(context)?;
    let shown = Shown {
        schema: 1,
        machine: identity.keys.machine().to_string(),
        name: own_name(&config),
        key: identity.keys.public().to_string(),
        relay_runs: relay_runs(context),
        relay: read_status(context),
        machines: machines.iter().map(shown_machine).collect(),
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        return print_json(&mut out, &shown);
    }
    let Shown { name, machine, key, .. } = &shown;
    writeln!(out, "machine   {name}, {machine}")?;
    writeln!(out, "key       {key}")?;
    link(&mut out, &shown, &config, context)?;
    if machines.is_empty() {
        return Ok(writeln!(out, "machines  none known yet")?);
    }
    writeln!(out)?;
    let mut lines = vec![["MACHINE", "SESSIONS", "SEEN", "CLOCK", "ID"].map(str::to_owned)];
    lines.extend(shown.machines.iter().map(row));
    print_columns(&mut out, &lines)
}

/// The lines about the link.
fn link(
    out: &mut impl Write,
    shown: &Shown,
    config: &Config,
    context: &Context,
) -> Result<(), Failure> {
    let Some(url) = &config.fleet.url.0 else {
        return Ok(writeln!(
            out,
            "link      none: config.toml names no server. → coord fleet join URL"
        )?);
    };
    let url = escape(&url.0);
    if !shown.relay_runs {
        writeln!(out, "link      none to {url}: the relay does not run. → coord up")?;
    }
    let Some(relay) = &shown.relay else { return Ok(()) };
    let since = age(context.now.wall_ms.saturating_sub(relay.since_ms) / 1_000);
    if shown.relay_runs {
        let state = if relay.is_up { "up" } else { "down" };
        let version =
            relay.server_version.as_ref().map(|version| format!(", server {}", escape(version)));
        writeln!(out, "link      {state} for {since} to {url}{}", version.unwrap_or_default())?;
    }
    let lag = relay.durable.saturating_sub(relay.held_through.unwrap_or(0));
    match (&relay.duplicate, relay.held_through) {
        (Some(why), _) => writeln!(
            out,
            "journal   NOT published: another machine has the same identity: {}. Move {} away there, and join again.",
            escape(why),
            context.paths.fleet_identity().display()
        )?,
        (None, Some(_)) if lag == 0 => writeln!(out, "journal   published")?,
        (None, Some(_)) => writeln!(out, "journal   {lag} records are not published yet")?,
        (None, None) => writeln!(out, "journal   not published yet")?,
    }
    if let Some(error) = relay.last_error.as_ref().filter(|_| !relay.is_up) {
        writeln!(out, "error     {}", escape(error))?;
    }
    for trouble in &relay.troubles {
        writeln!(out, "trouble   {}", escape(trouble))?;
    }
    if 0 < relay.refused {
        let last = relay.last_refusal.as_deref().unwrap_or("for an unknown reason");
        writeln!(out, "refused   {} items, the last one because {}", relay.refused, escape(last))?;
    }
    notices(out, shown, relay, config)?;
    if let Some(skew) = relay.skew_ms.filter(|skew| SKEW_SHOWN_MS <= skew.unsigned_abs()) {
        writeln!(out, "clock     {}", skewed(skew))?;
    }
    Ok(())
}

/// The lines about who tells of whose needs (F-02).
fn notices(
    out: &mut impl Write,
    shown: &Shown,
    relay: &RelayStatus,
    config: &Config,
) -> Result<(), Failure> {
    let name = |machine: MachineId| {
        let known = shown.machines.iter().find(|one| one.id == machine.to_string());
        known.map_or_else(|| machine.to_string(), |one| escape(&one.name))
    };
    if let Some(notifier) = relay.notifier {
        writeln!(out, "notices   {} tells of the needs here", name(notifier))?;
    }
    if !relay.tells_for.is_empty() {
        let names: Vec<String> = relay.tells_for.iter().map(|machine| name(*machine)).collect();
        writeln!(out, "notices   told here for {}", names.join(", "))?;
    } else if config.fleet.notify.0 {
        let Shown { key, name, .. } = shown;
        writeln!(
            out,
            "notices   told here for no other machine yet. On each of them: coord fleet allow {key} {name} --notify"
        )?;
    }
    Ok(())
}

fn skewed(skew_ms: i64) -> String {
    let by = age(skew_ms.unsigned_abs() / 1_000);
    let word = if 0 < skew_ms { "ahead of" } else { "behind" };
    format!("{by} {word} the server's")
}

fn shown_machine(machine: &Machine) -> ShownMachine {
    let Machine { id, name, age_ms, peer } = machine;
    ShownMachine {
        id: id.to_string(),
        name: name.clone(),
        key: peer.key.to_string(),
        version: peer.beat.version.clone(),
        sessions: peer.sessions.len(),
        seen_age_ms: *age_ms,
        is_silent: machine.is_silent(),
        skew_ms: peer.skew_ms,
    }
}

fn row(machine: &ShownMachine) -> [String; 5] {
    let seen = match machine.seen_age_ms {
        Some(ms) if machine.is_silent => format!("{} ago, silent", age(ms / 1_000)),
        Some(ms) => format!("{} ago", age(ms / 1_000)),
        None => "not since this boot".to_owned(),
    };
    let clock = if machine.skew_ms.unsigned_abs() < SKEW_SHOWN_MS {
        String::new()
    } else {
        skewed(machine.skew_ms)
    };
    [escape(&machine.name), machine.sessions.to_string(), seen, clock, machine.id.clone()]
}

/// What the relay said last.
pub(crate) fn read_status(context: &Context) -> Option<RelayStatus> {
    let text = read_small_file(&context.paths.fleet_status(), SMALL_FILE_BYTES_MAX).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Whether a relay holds its lock.
pub(crate) fn relay_runs(context: &Context) -> bool {
    let Ok(file) = std::fs::File::open(context.paths.fleet_lock()) else { return false };
    file.try_lock_shared().is_err()
}
