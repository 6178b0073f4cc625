//! `coord plugin DIR`: the same hooks as a Claude Code plugin, instead of entries in the settings.
//!
//! Decides what the plugin holds: the registered events, and the absolute path of the installed
//! executables. It carries no executable of its own, although a plugin could: the client keeps each
//! version of a plugin in a directory of its own and clears old ones away, and a session that
//! outlives that would fail at every event. The installed path is only ever replaced by rename
//! (H-39). Holds R-17 for the plugin; with both, every event would be reported twice, so it is
//! refused where the settings hold the hooks.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use coord_host::state_dir;
use coord_store::read_small_file;
use serde_json::{Map, Value, json};

use super::registration::{Registration, check_programs, events};
use super::scope::{self, Scope, shown};
use super::settings_file::SETTINGS_BYTES_MAX;
use super::{default_hooks_dir, edit, record, refuse_other_owner};
use crate::context::Context;

/// The plugin's name, and that of the marketplace that offers it.
const NAME: &str = "coord";

/// Make a Claude Code plugin that names the installed hooks.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  coord plugin ~/.local/share/coord/plugin\n  claude plugin marketplace add ~/.local/share/coord/plugin\n  claude plugin install coord@coord\n\nUse either the plugin or `coord install`, never both. Uninstall the plugin before the programs."
)]
pub(crate) struct PluginArgs {
    /// Directory for the plugin.
    dir: PathBuf,
    /// Where the coord-hook executables are [default: ../lib/coord beside this program, or its own
    /// directory].
    #[arg(long, value_name = "DIR")]
    hooks_dir: Option<PathBuf>,
}

/// Writes the plugin and prepares the state directory, without which hooks are inert.
pub(crate) fn run_plugin(args: &PluginArgs, context: &Context) -> anyhow::Result<()> {
    refuse_other_owner(context)?;
    refuse_both()?;
    let hooks_dir = match &args.hooks_dir {
        Some(directory) => std::path::absolute(directory)?,
        None => default_hooks_dir()?,
    };
    let context = &context.for_install()?;
    let ours = Registration::new(&hooks_dir, context.root.as_deref(), &context.paths)?;
    check_programs(&hooks_dir)?;
    state_dir::prepare(&context.paths)?;
    record::write(context)?;
    let dir = std::path::absolute(&args.dir)?;
    for (name, content) in files(&ours)? {
        write(&dir.join(name), &content)?;
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "wrote the plugin into {}; install it in Claude Code with", shown(&dir))?;
    writeln!(out, "  claude plugin marketplace add '{}'", dir.display())?;
    writeln!(out, "  claude plugin install {NAME}@{NAME}")?;
    Ok(())
}

/// The settings that every session reads.
fn refuse_both() -> anyhow::Result<()> {
    for path in scope::files(Scope::User, &[], None)? {
        let text = read_small_file(&path, SETTINGS_BYTES_MAX).unwrap_or_default();
        let text = String::from_utf8(text).unwrap_or_default();
        if edit::read(&text).is_ok_and(|settings| 0 < settings.registered_events()) {
            let path = shown(&path);
            bail!(
                "{path} already has the hooks, and with the plugin each event would be reported twice; run `coord uninstall` first"
            );
        }
    }
    Ok(())
}

/// Each file with its content.
fn files(ours: &Registration) -> anyhow::Result<[(&'static str, Value); 3]> {
    let what = "Reports the events of your sessions to coord";
    let author = json!({"name": NAME});
    let mut hooks = Map::new();
    for (event, wanted) in events() {
        hooks.insert(event.to_owned(), serde_json::to_value(ours.groups(wanted))?);
    }
    let plugin = json!({
        "name": NAME, "version": coord_wire::VERSION, "description": what, "author": author,
        "license": env!("CARGO_PKG_LICENSE"),
    });
    let marketplace = json!({
        "name": NAME, "owner": author, "metadata": {"description": what},
        "plugins": [{"name": NAME, "source": "./", "description": what}],
    });
    Ok([
        (".claude-plugin/plugin.json", plugin),
        (".claude-plugin/marketplace.json", marketplace),
        ("hooks/hooks.json", json!({"description": what, "hooks": hooks})),
    ])
}

/// Replaces one file whole: the client may be reading it.
fn write(path: &Path, content: &Value) -> anyhow::Result<()> {
    let dir = path.parent().context("a file has a directory")?;
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let mut text = serde_json::to_vec_pretty(content)?;
    text.push(b'\n');
    let mut new = tempfile::NamedTempFile::new_in(dir)?;
    new.write_all(&text)?;
    new.persist(path).with_context(|| path.display().to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_wire::paths::Paths;

    /// The plugin registers what `hooks.json` says, and nothing else.
    #[test]
    fn the_plugin_has_the_hooks_of_hooks_json_r_17() {
        let mut list = include_str!("../../../../../hooks.json").to_owned();
        for (name, path) in
            [("hooks", "/h é"), ("config", "/c/coord"), ("state", "/s/coord"), ("run", "/r/coord")]
        {
            list = list.replace(&format!("{{{{{name}}}}}"), path);
        }
        let list: Value = serde_json::from_str(&list).unwrap();
        let env = |name: &str| match name {
            "XDG_CONFIG_HOME" => Some("/c".into()),
            "XDG_STATE_HOME" => Some("/s".into()),
            "XDG_RUNTIME_DIR" => Some("/r".into()),
            _ => None,
        };
        let paths = Paths::resolve(None, "m1234567", 5, env).unwrap();
        let ours = Registration::new(Path::new("/h é"), None, &paths).unwrap();
        let [plugin, _, hooks] = files(&ours).unwrap();
        assert_eq!(hooks.1["hooks"], list["hooks"]);
        assert_eq!(plugin.1["version"], env!("CARGO_PKG_VERSION"));
    }
}
