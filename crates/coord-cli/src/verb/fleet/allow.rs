//! `coord fleet allow KEY NAME`: the list of machines whose messages are taken (F-06).

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use coord_daemon::operator::check_self;
use coord_fleet::{Allowed, PublicKey, is_name};

use crate::context::Context;
use crate::out::Failure;
use crate::verb::install::{sync_directory, temporary};

/// Name a machine by its key, and say what it may do
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord fleet allow KEY laptop --send     take messages from that machine\n  coord fleet allow KEY laptop --notify   one of the two tells you of the needs of both\n  coord fleet allow KEY laptop            neither; show its sessions under this name\n  coord fleet allow --remove laptop\n  coord fleet allow                       print the list\n\nKEY is what `coord fleet join` printed there. A machine that may send can make agents here\nact, so allow only your own. The list is the file fleet-allow beside config.toml."
)]
pub(super) struct Args {
    /// The machine's key
    #[arg(requires = "name")]
    key: Option<String>,
    /// Its name here
    name: Option<String>,
    /// Take messages from it
    #[arg(long, requires = "key")]
    send: bool,
    /// Share notices: the one with `notify = true` in config.toml tells you of the needs of both
    #[arg(long, requires = "key")]
    notify: bool,
    /// Take the machine of this name, or with this key, off the list
    #[arg(long, value_name = "NAME", conflicts_with_all = ["key", "send", "notify"])]
    remove: Option<String>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let file = context.paths.fleet_allow();
    let allowed = Allowed::read(&file).with_context(|| file.display().to_string())?;
    let mut out = std::io::stdout().lock();
    if args.key.is_none() && args.remove.is_none() {
        if allowed.all().next().is_none() {
            return Ok(writeln!(out, "No machine is on the list.")?);
        }
        for one in allowed.all() {
            let what = match (one.may_send, one.may_notify) {
                (true, true) => "may send, shares notices",
                (true, false) => "may send",
                (false, true) => "shares notices",
                (false, false) => "is named",
            };
            writeln!(out, "{} {what}, key {}", one.name, one.key)?;
        }
        return Ok(());
    }
    check_self("`coord fleet allow`").map_err(|why| anyhow!(why))?;
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let (text, said) = match (&args.remove, &args.key, &args.name) {
        (Some(who), ..) => removed(&text, &allowed, who)?,
        (None, Some(key), Some(name)) => {
            added(&text, &allowed, (key, name), [args.send, args.notify])?
        }
        (None, ..) => return Ok(()),
    };
    write(&file, &text)?;
    Ok(writeln!(out, "{said}")?)
}

fn added(
    text: &str,
    allowed: &Allowed,
    (key, name): (&str, &str),
    [may_send, may_notify]: [bool; 2],
) -> anyhow::Result<(String, String)> {
    let Ok(key) = PublicKey::parse(key) else {
        bail!(
            "{key:?} is no key: `coord fleet join` prints it on the other machine, 64 digits of 0-9a-f"
        );
    };
    if !is_name(name) {
        bail!("{name:?} is no name for a machine: use up to 64 letters, digits, `-`, `_` and `.`");
    }
    if let Some(other) = allowed.all().find(|one| one.name == name && one.key != key) {
        bail!(
            "{name} is another machine already, key {}: remove it, or use another name",
            other.key
        );
    }
    let mut text = without(text, key);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let [send, notify] = [(may_send, " send"), (may_notify, " notify")]
        .map(|(may, word)| if may { word } else { "" });
    let text = format!("{text}{key} {name}{send}{notify}\n");
    let what = match (may_send, may_notify) {
        (true, true) => "may send messages to sessions here, and shares notices with this machine",
        (true, false) => "may send messages to sessions here",
        (false, true) => "shares notices with this machine",
        (false, false) => "is known by its name",
    };
    Ok((text, format!("{name} {what}.")))
}

fn removed(text: &str, allowed: &Allowed, who: &str) -> anyhow::Result<(String, String)> {
    let found = allowed.all().find(|one| one.name == who || one.key.to_string() == who);
    let Some(found) = found else {
        bail!("No machine {who:?} is on the list; nothing was changed.")
    };
    Ok((without(text, found.key), format!("{} is off the list.", found.name)))
}

/// The list without the line of a key.
fn without(text: &str, key: PublicKey) -> String {
    let key = key.to_string();
    let is_other = |line: &&str| line.split_whitespace().next() != Some(key.as_str());
    text.split_inclusive('\n').filter(is_other).collect()
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let shown = || file.display().to_string();
    if let Some(dir) = file.parent() {
        coord_relay::private_dir(dir).with_context(shown)?;
    }
    temporary(file, text.as_bytes())?.persist(file).with_context(shown)?;
    file.parent().map_or(Ok(()), sync_directory)
}
