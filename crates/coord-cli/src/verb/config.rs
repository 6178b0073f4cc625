//! `coord config show`, `coord config check FILE`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::anyhow;
use coord_config::{Config, Effective};
use coord_view::lookup::nearest;

use crate::context::Context;
use crate::out::{Colour, Failure, Painter, print_json};

/// The table of each agent of a pool.
const AGENTS: &str = "loop.agent";

/// The tables of the channels through which people are told.
const CHANNELS: &str = "notice.channel";

/// Show or check the configuration
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord config show\n  coord config show recovery\n  coord config check ~/.config/coord/config.toml"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Print every key with its value and where it comes from
    Show {
        /// Only this table, such as recovery
        table: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check a file and print its errors
    Check {
        /// The file [default: the one in use]
        file: Option<PathBuf>,
    },
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    match &args.what {
        What::Show { table, json } => show(table.as_deref(), *json, context),
        What::Check { file } => {
            let file = file.clone().unwrap_or_else(|| context.paths.config_file());
            if !file.exists() {
                return Err(anyhow!("{}: no such file", file.display()).into());
            }
            load(&file)?;
            Ok(writeln!(std::io::stdout(), "{}: ok", file.display())?)
        }
    }
}

fn load(file: &std::path::Path) -> Result<Config, Failure> {
    Config::load(file).map_err(|error| anyhow!("{}: {error}", file.display()).into())
}

fn show(wanted: Option<&str>, json: bool, context: &Context) -> Result<(), Failure> {
    let file = context.paths.config_file();
    let config = load(&file)?;
    if let Some(wanted) = wanted {
        check_table(wanted, &config)?;
    }
    let is_wanted = |of: &str| wanted.is_none_or(|wanted| wanted == of);
    let mut out = std::io::stdout().lock();
    if json {
        let entry = |name: String, one: &Effective| {
            let origin = match one.line {
                Some(line) => format!("{}:{line}", file.display()),
                None => "default".to_owned(),
            };
            (name, serde_json::json!({"value": one.text, "origin": origin}))
        };
        let effective = config.effective().filter(|one| is_wanted(table(one)));
        let keys = effective.map(|one| entry(one.key.name.to_owned(), &one));
        let agents = config.agents().iter().filter(|_| is_wanted(AGENTS));
        let agents = agents.flat_map(|agent| {
            let named = |one| entry(format!("loop.agent.{}.{}", agent.name, bare(one)), one);
            agent.written.iter().map(named)
        });
        let channels = config.channels().into_iter().filter(|_| is_wanted(CHANNELS));
        let channels = channels.flat_map(|channel| {
            let named = |one| entry(format!("{CHANNELS}.{}.{}", channel.name, bare(one)), one);
            channel.written.iter().map(named).collect::<Vec<_>>()
        });
        let keys: serde_json::Map<_, _> = keys.chain(agents).chain(channels).collect();
        return print_json(&mut out, &keys);
    }
    let painter = Painter::for_stdout();
    let state = if file.exists() { "" } else { " (does not exist: all defaults)" };
    writeln!(out, "# {}{state}", file.display())?;
    let line = |out: &mut dyn Write, one: &Effective| {
        let origin = one.line.map_or_else(|| "default".to_owned(), |line| format!("line {line}"));
        let note = painter.paint(Colour::Dim, &format!("# {origin}: {}", one.key.about));
        writeln!(out, "{} = {}  {note}", bare(one), one.text)
    };
    let effective: Vec<_> = config.effective().filter(|one| is_wanted(table(one))).collect();
    for of in effective.chunk_by(|one, next| table(one) == table(next)) {
        of.first().map_or(Ok(()), |one| writeln!(out, "\n[{}]", table(one)))?;
        of.iter().try_for_each(|one| line(&mut out, one))?;
    }
    for agent in config.agents().iter().filter(|_| is_wanted(AGENTS)) {
        writeln!(out, "\n[[{AGENTS}]]")?;
        agent.written.iter().try_for_each(|one| line(&mut out, one))?;
    }
    for channel in config.channels().iter().filter(|_| is_wanted(CHANNELS)) {
        writeln!(out, "\n[{CHANNELS}.{}]", channel.name)?;
        if channel.written.is_empty() {
            writeln!(
                out,
                "via = \"{}\"  {}",
                channel.name,
                painter.paint(Colour::Dim, "# default")
            )?;
        }
        channel.written.iter().try_for_each(|one| line(&mut out, one))?;
    }
    Ok(())
}

/// Whether there is such a table.
fn check_table(wanted: &str, config: &Config) -> Result<(), Failure> {
    let effective: Vec<_> = config.effective().collect();
    let tables: Vec<&str> = effective.iter().map(table).chain([AGENTS, CHANNELS]).collect();
    if tables.contains(&wanted) {
        return Ok(());
    }
    let remedy = match nearest(wanted, tables) {
        Some(meant) => format!("Did you mean {meant}?"),
        None => "→ coord config show".to_owned(),
    };
    Err(anyhow!("No table {wanted:?}. {remedy}").into())
}

/// The table of a key.
fn table(one: &Effective) -> &'static str {
    one.key.name.rsplit_once('.').map_or("", |(table, _)| table)
}

/// A key without its table.
fn bare(one: &Effective) -> &'static str {
    one.key.name.rsplit_once('.').map_or(one.key.name, |(_, key)| key)
}
