//! `coord install` and `coord uninstall`: the hooks in Claude Code's settings, and the state
//! directory they report to.
//!
//! Decides the order of things: everything is read and checked before anything is written, state is
//! made before the hooks that need it are live, and entries are gone before state is. What is
//! registered, where it stands and how it is written is decided in the modules below. Holds G8,
//! H-14 and H-24 (hooks get their root by argument), H-39 (no entry without its executable).

pub(crate) mod audit;
mod edit;
mod layout;
#[cfg(test)]
mod properties;
mod record;
mod registration;
mod scope;
mod settings_file;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use coord_daemon::state_dir;
use serde::Serialize;

use edit::Rest;
pub(crate) use registration::PROGRAM_PREFIX;
use registration::Registration;
use scope::Scope;
pub(crate) use scope::{managed_warnings, shown, user_directory};
use settings_file::{Outcome, Wanted};

use crate::context::{Context, variable};

/// Which settings files, and how to tell about them.
#[derive(Debug, clap::Args)]
struct Where {
    /// Whose sessions report: all of yours, or those in one project.
    #[arg(long, value_enum, default_value = "user")]
    scope: Scope,
    /// A configuration directory of Claude Code; may be given several times [default:
    /// `$CLAUDE_CONFIG_DIR` or ~/.claude].
    #[arg(long, value_name = "DIR")]
    config_dir: Vec<PathBuf>,
    /// The project for --scope project or local [default: the current directory].
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Register the hooks in Claude Code's settings and prepare the state directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coord install --dry-run")]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    place: Where,
    /// Where the coord-hook executables are [default: ../lib/coord beside this program].
    #[arg(long, value_name = "DIR")]
    hooks_dir: Option<PathBuf>,
}

/// Remove the hooks from Claude Code's settings; every other byte stays.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coord uninstall --dry-run")]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    place: Where,
    /// Remove the recorded state and the backups of the settings as well.
    #[arg(long)]
    purge: bool,
}

/// What was done, for programs.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    dry_run: bool,
    files: Vec<FileReport>,
    state: PathBuf,
    state_fate: StateFate,
    warnings: Vec<String>,
}

/// What became of the state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum StateFate {
    Kept,
    WouldBePurged,
    Purged,
}

/// What was done to one settings file.
#[derive(Debug, Serialize)]
struct FileReport {
    path: PathBuf,
    changed: bool,
    events_before: usize,
    events_after: usize,
    backup: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    #[serde(skip)]
    is_gone: bool,
}

/// Registers the hooks.
pub(crate) fn run_install(args: &InstallArgs, context: &Context) -> anyhow::Result<()> {
    refuse_other_owner(context)?;
    let hooks_dir = match &args.hooks_dir {
        Some(directory) => std::path::absolute(directory)?,
        None => default_hooks_dir()?,
    };
    let ours = Registration::new(&hooks_dir, context.root.as_deref())?;
    ours.check_programs()?;
    let paths =
        scope::files(args.place.scope, &args.place.config_dir, args.place.project.as_deref())?;
    if args.place.scope != Scope::User {
        paths.iter().try_for_each(|path| scope::refuse_tracked(path))?;
    }
    let edit = |before: Option<&str>| Ok(Wanted::Text(edit::register(before, &ours)?));
    let previews = preview_all(&paths, &edit)?;
    let mut warnings = managed_warnings();
    warnings.extend(previews.iter().filter_map(|(path, outcome)| disabled_warning(path, outcome)));
    let outcomes = if args.place.dry_run {
        previews
    } else {
        state_dir::prepare(&context.paths)?;
        record::write(context)?;
        change_all(&paths, &edit)?
    };
    let report = Report::new(&args.place, &outcomes, context, StateFate::Kept, warnings)?;
    report.print(&args.place, |file| {
        let (path, events) = (shown(&file.path), file.events_after);
        match (file.changed, &file.backup) {
            (false, _) => format!("{path} has all {events} events: nothing changed"),
            (true, Some(backup)) => {
                format!("registered {events} events in {path} (backup: {})", shown(backup))
            }
            (true, None) => format!("registered {events} events in {path} (new file)"),
        }
    })
}

/// Removes the hooks, and with `--purge` the state.
pub(crate) fn run_uninstall(args: &UninstallArgs, context: &Context) -> anyhow::Result<()> {
    refuse_other_owner(context)?;
    let paths =
        scope::files(args.place.scope, &args.place.config_dir, args.place.project.as_deref())?;
    let edit = |before: Option<&str>| {
        Ok(match before.map(edit::unregister).transpose()? {
            Some(Rest::Text(text)) => Wanted::Text(text),
            Some(Rest::Nothing) | None => Wanted::Gone,
        })
    };
    let previews = preview_all(&paths, &edit)?;
    if args.purge {
        record::refuse_running(&context.paths)?;
    }
    let fate = match (args.purge, args.place.dry_run) {
        (false, _) => StateFate::Kept,
        (true, true) => StateFate::WouldBePurged,
        (true, false) => StateFate::Purged,
    };
    let mut outcomes = if args.place.dry_run { previews } else { change_all(&paths, &edit)? };
    if fate == StateFate::Purged {
        record::purge(&context.paths)?;
        for (path, outcome) in &mut outcomes {
            drop(std::fs::remove_file(settings_file::backup_path(path)));
            outcome.backup = None;
        }
    }
    let report = Report::new(&args.place, &outcomes, context, fate, Vec::new())?;
    report.print(&args.place, |file| {
        let (path, events) = (shown(&file.path), file.events_before);
        let backup = file.backup.as_ref().map(|path| format!(" (backup: {})", shown(path)));
        let backup = backup.unwrap_or_default();
        match (file.changed, file.is_gone) {
            (false, _) => format!("{path} has no hook of coord: nothing changed"),
            (true, false) => format!("removed {events} events from {path}{backup}"),
            (true, true) => format!("removed {path}, which held nothing else{backup}"),
        }
    })
}

fn refuse_other_owner(context: &Context) -> anyhow::Result<()> {
    let home = variable("HOME").map(PathBuf::from).filter(|_| context.root.is_none());
    state_dir::refuse_other_owner(&context.paths, home.as_deref())
}

/// Where `install.sh` puts the hooks that belong to this program.
pub(crate) fn default_hooks_dir() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("cannot tell the path of this program")?;
    let prefix = program.parent().and_then(Path::parent);
    Ok(prefix.context("this program stands in no prefix: name --hooks-dir")?.join("lib/coord"))
}

type Edit<'a> = &'a dyn Fn(Option<&str>) -> anyhow::Result<Wanted>;
type Outcomes = Vec<(PathBuf, Outcome)>;

/// Reads every file before the first is written, so that one that is refused stops them all.
fn preview_all(paths: &[PathBuf], edit: Edit<'_>) -> anyhow::Result<Outcomes> {
    each(paths, |path, edit| settings_file::preview(path, edit), edit)
}

fn change_all(paths: &[PathBuf], edit: Edit<'_>) -> anyhow::Result<Outcomes> {
    each(paths, |path, edit| settings_file::change(path, edit), edit)
}

fn each(
    paths: &[PathBuf],
    act: impl Fn(&Path, Edit<'_>) -> anyhow::Result<Outcome>,
    edit: Edit<'_>,
) -> anyhow::Result<Outcomes> {
    let one = |path: &PathBuf| {
        // A refusal begins with line and column, which belong right behind the file's name.
        let named = |before: Option<&str>| {
            edit(before).map_err(|error| anyhow::anyhow!("{}:{error:#}", path.display()))
        };
        Ok((path.clone(), act(path, &named)?))
    };
    paths.iter().map(one).collect()
}

fn disabled_warning(path: &Path, outcome: &Outcome) -> Option<String> {
    let layout = edit::read(outcome.before.as_deref()?).ok()?;
    layout
        .hooks_disabled
        .then(|| format!("{} sets disableAllHooks: the hooks will not run", shown(path)))
}

impl Report {
    fn new(
        place: &Where,
        outcomes: &Outcomes,
        context: &Context,
        state_fate: StateFate,
        warnings: Vec<String>,
    ) -> anyhow::Result<Self> {
        let events = |text: &Option<String>| -> anyhow::Result<usize> {
            Ok(match text {
                Some(text) => edit::read(text)?.registered_events(),
                None => 0,
            })
        };
        let mut files = Vec::new();
        for (path, outcome) in outcomes {
            files.push(FileReport {
                path: path.clone(),
                changed: outcome.is_change(),
                events_before: events(&outcome.before)?,
                events_after: events(&outcome.after)?,
                backup: outcome.backup.clone(),
                diff: place.dry_run.then(|| diff(path, outcome)),
                is_gone: outcome.after.is_none(),
            });
        }
        let state = context.paths.state.clone();
        Ok(Self { schema: 1, dry_run: place.dry_run, files, state, state_fate, warnings })
    }

    fn print(&self, place: &Where, line: impl Fn(&FileReport) -> String) -> anyhow::Result<()> {
        for warning in &self.warnings {
            writeln!(std::io::stderr(), "coord: warning: {warning}")?;
        }
        let mut out = std::io::stdout().lock();
        if place.json {
            writeln!(out, "{}", serde_json::to_string(self)?)?;
            return Ok(());
        }
        for file in &self.files {
            match &file.diff {
                Some(diff) if file.changed => write!(out, "{diff}")?,
                Some(_) | None => writeln!(out, "{}", line(file))?,
            }
        }
        match self.state_fate {
            StateFate::Kept => {}
            StateFate::WouldBePurged => writeln!(out, "would remove {}", shown(&self.state))?,
            StateFate::Purged => writeln!(out, "removed {}", shown(&self.state))?,
        }
        Ok(())
    }
}

/// A unified diff; a file that is not there is `/dev/null`, as `patch` understands it.
fn diff(path: &Path, outcome: &Outcome) -> String {
    let name = |text: &Option<String>| match text {
        Some(_) => path.display().to_string(),
        None => "/dev/null".to_owned(),
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    similar::TextDiff::from_lines(text(&outcome.before), text(&outcome.after))
        .unified_diff()
        .header(&name(&outcome.before), &name(&outcome.after))
        .to_string()
}
