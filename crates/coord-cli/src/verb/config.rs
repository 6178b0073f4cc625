//! `coord config show`, `coord config check FILE`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::anyhow;
use coord_config::{AGENT_KEYS, Config, KEYS};

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
    /// Check a file and say what is wrong with it
    Check {
        /// The file; the one in force if left out
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
        let entry = |name: String, text: &str, line: Option<usize>| {
            let origin = match line {
                Some(line) => format!("{}:{line}", file.display()),
                None => "default".to_owned(),
            };
            (name, serde_json::json!({"value": text, "origin": origin}))
        };
        let keys =
            config.effective().map(|(name, value)| entry(name.to_owned(), &value.text, value.line));
        let agents = config.agents().iter().flat_map(|agent| {
            agent.written.iter().map(move |one| {
                let key = one.key.rsplit_once('.').map_or(one.key, |(_, key)| key);
                let name = format!("loop.agent.{}.{key}", agent.name);
                entry(name, &one.text, Some(one.line))
            })
        });
        let keys: serde_json::Map<_, _> = keys.chain(agents).collect();
        return print_json(&mut out, &keys);
    }
    let painter = Painter::for_stdout();
    let state = if file.exists() { "" } else { " (not there: all defaults)" };
    writeln!(out, "# {}{state}", file.display())?;
    let mut table = "";
    for key in &KEYS {
        let Some((_, value)) = config.effective().find(|(name, _)| *name == key.name) else {
            continue;
        };
        let (of, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if of != table {
            writeln!(out, "\n[{of}]")?;
            table = of;
        }
        let origin = match value.line {
            Some(line) => format!("line {line}"),
            None => "default".to_owned(),
        };
        let note = format!("# {origin}: {}", key.about);
        writeln!(out, "{name} = {}  {}", value.text, painter.paint(Colour::Dim, &note))?;
    }
    for agent in config.agents() {
        writeln!(out, "\n[[loop.agent]]")?;
        for one in &agent.written {
            let key = one.key.rsplit_once('.').map_or(one.key, |(_, key)| key);
            let about = AGENT_KEYS.iter().find(|known| known.name == one.key);
            let note = format!("# line {}: {}", one.line, about.map_or("", |known| known.about));
            writeln!(out, "{key} = {}  {}", one.text, painter.paint(Colour::Dim, &note))?;
        }
    }
    Ok(())
}
