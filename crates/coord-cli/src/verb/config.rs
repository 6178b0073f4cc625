//! `coord config show`, `coord config check FILE`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::anyhow;
use coord_config::{Config, Effective};

use crate::context::Context;
use crate::out::{Colour, Failure, Painter, print_json};

/// Show or check the configuration
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord config show\n  coord config check ~/.config/coord/config.toml"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Print every key with its value and where it comes from
    Show {
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
        What::Show { json } => show(*json, context),
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

fn show(json: bool, context: &Context) -> Result<(), Failure> {
    let file = context.paths.config_file();
    let config = load(&file)?;
    let mut out = std::io::stdout().lock();
    if json {
        let entry = |name: String, one: &Effective| {
            let origin = match one.line {
                Some(line) => format!("{}:{line}", file.display()),
                None => "default".to_owned(),
            };
            (name, serde_json::json!({"value": one.text, "origin": origin}))
        };
        let keys = config.effective().map(|one| entry(one.key.name.to_owned(), &one));
        let agents = config.agents().iter().flat_map(|agent| {
            let named = |one| entry(format!("loop.agent.{}.{}", agent.name, bare(one)), one);
            agent.written.iter().map(named)
        });
        let keys: serde_json::Map<_, _> = keys.chain(agents).collect();
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
    let effective: Vec<_> = config.effective().collect();
    for of in effective.chunk_by(|one, next| table(one) == table(next)) {
        of.first().map_or(Ok(()), |one| writeln!(out, "\n[{}]", table(one)))?;
        of.iter().try_for_each(|one| line(&mut out, one))?;
    }
    for agent in config.agents() {
        writeln!(out, "\n[[loop.agent]]")?;
        agent.written.iter().try_for_each(|one| line(&mut out, one))?;
    }
    Ok(())
}

/// The table of a key.
fn table(one: &Effective) -> &'static str {
    one.key.name.rsplit_once('.').map_or("", |(table, _)| table)
}

/// A key without its table.
fn bare(one: &Effective) -> &'static str {
    one.key.name.rsplit_once('.').map_or(one.key.name, |(_, key)| key)
}
