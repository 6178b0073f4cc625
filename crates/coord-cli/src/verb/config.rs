//! `coord config show`, `coord config check FILE`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::anyhow;
use coord_daemon::config::{Config, KEYS};

use crate::context::Context;
use crate::out::{Colour, Failure, Painter};

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
        let keys: serde_json::Map<_, _> = config
            .effective()
            .map(|(name, value)| {
                let origin = match value.line {
                    Some(line) => format!("{}:{line}", file.display()),
                    None => "default".to_owned(),
                };
                (name.to_owned(), serde_json::json!({"value": value.text, "origin": origin}))
            })
            .collect();
        serde_json::to_writer(&mut out, &keys)?;
        return Ok(writeln!(out)?);
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
    Ok(())
}
