//! `coord install` and `coord uninstall`: the hooks in Claude Code's settings, and the state
//! directory they report to.
//!
//! Decides the order of things: everything is read and checked before anything is written, state is
//! made before the hooks that need it are live, and entries are gone before state is. What is
//! registered, where it stands and how it is written is decided in the modules below. Holds G8,
//! H-14 and H-24 (hooks get their root by argument), H-39 (no entry without its executable).

mod attributes;
pub(crate) mod audit;
mod client;
mod edit;
mod layout;
mod plugin;
#[cfg(test)]
mod properties;
mod record;
mod registration;
mod scope;
mod settings_file;
mod silenced;
mod status_line;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use coord_host::{launch, state_dir};
use coord_model::ProcessRef;
use serde::Serialize;

pub(crate) use plugin::{PluginArgs, run_plugin};

use edit::Rest;
pub(crate) use registration::PROGRAM_PREFIX;
use registration::{Registration, check_programs};
use scope::Scope;
pub(crate) use scope::{shown, user_directory};
use settings_file::{Outcome, Wanted};
pub(crate) use settings_file::{sync_directory, temporary};
pub(crate) use silenced::managed_warnings;

use crate::context::{Context, variable};
use crate::out::{Failure, print_json};
use crate::verb::inspect;

/// Which settings files, and how to tell about them.
#[derive(Debug, clap::Args)]
struct Where {
    /// Whose sessions report events: all of yours, or those in one project.
    #[arg(long, value_enum, default_value = "user")]
    scope: Scope,
    /// A configuration directory of Claude Code; may be given several times [default:
    /// `$CLAUDE_CONFIG_DIR` or ~/.claude].
    #[arg(long, value_name = "DIR")]
    config_dir: Vec<PathBuf>,
    /// The project for --scope project or local [default: the current directory].
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Print what would change, and change nothing.
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
    /// Register the status line too: your own command runs as before, if you have one, and context, limits and
    /// cost are reported after it.
    #[arg(long)]
    statusline: bool,
    /// Where the coord-hook executables are [default: ../lib/coord beside this program, or its own
    /// directory].
    #[arg(long, value_name = "DIR")]
    hooks_dir: Option<PathBuf>,
}

/// Remove the hooks from Claude Code's settings; every other byte stays.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coord uninstall --dry-run")]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    place: Where,
    /// Remove the recorded state as well.
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
    /// Sessions that may call the hooks until they have read their settings again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    still_running: Vec<Running>,
    warnings: Vec<String>,
}

/// A session that is alive.
#[derive(Debug, Serialize)]
struct Running {
    session_id: String,
    pid: u32,
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
    /// The file that is written, where `path` or its directory is a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<PathBuf>,
    changed: bool,
    events_before: usize,
    events_after: usize,
    /// Whether the status line runs our program now.
    status_line: bool,
    /// What was and what is registered, for people.
    #[serde(skip)]
    before: String,
    #[serde(skip)]
    after: String,
    backup: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    #[serde(skip)]
    is_gone: bool,
}

impl FileReport {
    /// Its path, with the file that is really written.
    fn name(&self) -> String {
        match &self.target {
            Some(target) => format!("{} -> {}", shown(&self.path), shown(target)),
            None => shown(&self.path),
        }
    }
}

/// Registers the hooks.
pub(crate) fn run_install(args: &InstallArgs, context: &Context) -> anyhow::Result<()> {
    let context = &context.for_install()?;
    refuse_other_owner(context)?;
    let hooks_dir = match &args.hooks_dir {
        Some(directory) => std::path::absolute(directory)?,
        None => default_hooks_dir()?,
    };
    let mut ours = Registration::new(&hooks_dir, context.root.as_deref(), &context.paths)?;
    ours.adds_status_line = args.statusline;
    check_programs(&hooks_dir)?;
    let paths =
        scope::files(args.place.scope, &args.place.config_dir, args.place.project.as_deref())?;
    scope::refuse_missing(&args.place.config_dir)?;
    if args.place.scope != Scope::User {
        paths.iter().try_for_each(|path| scope::refuse_tracked(path))?;
        if args.statusline {
            refuse_to_hide(args.place.scope, &paths)?;
        }
    }
    let edit = |before: Option<&str>| {
        let after = edit::register(before, &ours)?;
        if let Some(before) = before
            && !edit::is_undone(before, &after)?
        {
            bail!(" uninstall could not restore this file as it is; nothing was changed");
        }
        Ok(Wanted::Text(after))
    };
    let previews = preview_all(&paths, &edit)?;
    client::refuse_too_old(&config_dirs(&args.place, &paths)?)?;
    let warnings = silenced::warnings(&scope::read_beside(args.place.scope, &paths));
    let outcomes = if args.place.dry_run {
        previews
    } else {
        state_dir::prepare(&context.paths)?;
        record::write(context)?;
        change_all(&paths, &edit)?
    };
    let report = Report::new(&args.place, &outcomes, context, warnings)?;
    report.print(&args.place, |file| {
        let (path, events) = (file.name(), &file.after);
        match (file.changed, &file.backup) {
            (false, _) => format!("{path} has all {events}: nothing changed"),
            (true, Some(backup)) => {
                format!("registered {events} in {path} (backup: {})", shown(backup))
            }
            (true, None) => format!("registered {events} in {path} (new file)"),
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
    let is_change = previews.iter().any(|(_, outcome)| outcome.is_change());
    let mut warnings = Vec::new();
    let running = match is_change.then(|| still_running(args, &paths, context)).transpose() {
        Ok(running) => running.unwrap_or_default(),
        Err(error) => {
            warnings.push(format!("coord cannot tell which sessions still run: {error:#}"));
            Vec::new()
        }
    };
    let mut outcomes = if args.place.dry_run { previews } else { change_all(&paths, &edit)? };
    if !args.place.dry_run {
        // The other bytes are back: nothing is left that a backup could give.
        for (path, outcome) in &mut outcomes {
            drop(std::fs::remove_file(settings_file::backup_path(path)));
            outcome.backup = None;
        }
    }
    if fate == StateFate::Purged {
        record::purge(&context.paths)?;
    }
    let mut report = Report::new(&args.place, &outcomes, context, warnings)?;
    report.state_fate = fate;
    report.still_running = running;
    report.print(&args.place, |file| {
        let (path, events) = (file.name(), &file.before);
        match (file.changed, file.is_gone) {
            (false, _) => format!("{path} has no coord hooks: nothing changed"),
            (true, false) => format!("removed {events} from {path}"),
            (true, true) => format!("removed {path}, which held nothing else"),
        }
    })
}

/// What is registered in a file, for people.
fn what((events, status_line): (usize, bool)) -> String {
    format!("{events} events{}", if status_line { " and the status line" } else { "" })
}

/// Refuses a new status line that another file's would be hidden by: the client shows one only.
fn refuse_to_hide(scope: Scope, paths: &[PathBuf]) -> anyhow::Result<()> {
    let has_one = |path: &Path| -> anyhow::Result<bool> {
        let text = audit::read(path)?;
        Ok(text.is_some_and(|text| edit::read(&text).is_ok_and(|file| file.status_line.is_some())))
    };
    for path in paths {
        if has_one(path)? {
            continue;
        }
        for other in scope::read_beside(scope, paths) {
            if has_one(&other)? {
                bail!(
                    "a status line in {} would hide the one in {}: register that one, with the --scope of \
                     its file; nothing was changed",
                    shown(path),
                    shown(&other)
                );
            }
        }
    }
    Ok(())
}

fn refuse_other_owner(context: &Context) -> anyhow::Result<()> {
    let home = variable("HOME").map(PathBuf::from).filter(|_| context.root.is_none());
    Ok(coord_store::check_owner(&context.paths, home.as_deref())?)
}

/// The configuration directories of the client whose sessions read `paths`.
fn config_dirs(place: &Where, paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    Ok(match place.scope {
        Scope::User => paths.iter().filter_map(|path| path.parent()).map(PathBuf::from).collect(),
        Scope::Project | Scope::Local => vec![user_directory()?],
    })
}

/// The sessions that reported through the entries and are alive.
fn still_running(
    args: &UninstallArgs,
    paths: &[PathBuf],
    context: &Context,
) -> anyhow::Result<Vec<Running>> {
    let dirs = config_dirs(&args.place, paths)?;
    let looked = inspect::look(None, context).map_err(Failure::into_error)?;
    let sessions = looked.answer.sessions.into_iter().filter_map(|session| {
        let owner = session.owner.filter(|owner| owner.alive == Some(true))?;
        // Where no verified event named it, its own environment does.
        let config_dir = match session.config_dir.as_str() {
            "" => {
                launch::config_dir_of(ProcessRef { pid: owner.pid, start_time: owner.start_time })?
            }
            known => known.to_owned(),
        };
        let is_ours = dirs.iter().any(|dir| dir == Path::new(&config_dir));
        is_ours.then_some(Running { session_id: session.session_id, pid: owner.pid })
    });
    Ok(sessions.collect())
}

/// The program of the status line with its directories, which the environment of a session must not decide (H-48).
pub(crate) fn status_line_program(context: &Context) -> anyhow::Result<Command> {
    let ours = Registration::new(&default_hooks_dir()?, context.root.as_deref(), &context.paths)?;
    let mut command = Command::new(ours.program(status_line::PROGRAM));
    command.args(ours.arguments());
    Ok(command)
}

/// The hooks that belong to this program: where `install.sh` and packages put them, or beside it, where
/// `cargo binstall` does.
pub(crate) fn default_hooks_dir() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("cannot tell the path of this program")?;
    let bin = program.parent().unwrap_or(Path::new("/"));
    let installed = bin
        .parent()
        .context(
            "coord cannot derive the hooks' directory from this program's path: use --hooks-dir",
        )?
        .join("lib/coord");
    let is_beside = !audit::has_programs(&installed) && audit::has_programs(bin);
    Ok(if is_beside { bin.to_owned() } else { installed })
}

type Edit<'a> = &'a dyn Fn(Option<&str>) -> anyhow::Result<Wanted>;
type Outcomes = Vec<(PathBuf, Outcome)>;

/// Reads every file before the first is written, so that one that is refused stops them all.
fn preview_all(paths: &[PathBuf], edit: Edit<'_>) -> anyhow::Result<Outcomes> {
    let one =
        |path: &PathBuf| Ok((path.clone(), settings_file::preview(path, &named(path, edit))?));
    paths.iter().map(one).collect()
}

/// Changes one after the other; what stands in the way of one leaves those before it changed.
fn change_all(paths: &[PathBuf], edit: Edit<'_>) -> anyhow::Result<Outcomes> {
    let mut outcomes = Outcomes::new();
    for path in paths {
        match settings_file::change(path, &named(path, edit)) {
            Ok(outcome) => outcomes.push((path.clone(), outcome)),
            Err(error) => {
                let changed = outcomes.iter().filter(|(_, outcome)| outcome.is_change());
                let changed: Vec<String> = changed.map(|(path, _)| shown(path)).collect();
                if changed.is_empty() {
                    return Err(error);
                }
                bail!("{error:#}; already changed: {}", changed.join(", "));
            }
        }
    }
    Ok(outcomes)
}

/// A refusal begins with line and column, which belong right behind the file's name.
fn named(path: &Path, edit: Edit<'_>) -> impl Fn(Option<&str>) -> anyhow::Result<Wanted> {
    move |before| edit(before).map_err(|error| anyhow::anyhow!("{}:{error:#}", path.display()))
}

impl Report {
    fn new(
        place: &Where,
        outcomes: &Outcomes,
        context: &Context,
        mut warnings: Vec<String>,
    ) -> anyhow::Result<Self> {
        let ours = |text: &Option<String>| -> anyhow::Result<(usize, bool)> {
            let layout = text.as_deref().map(edit::read).transpose()?;
            Ok(layout.map_or((0, false), |file| (file.registered_events(), file.has_status_line())))
        };
        let mut files = Vec::new();
        for (path, outcome) in outcomes {
            let lost = outcome.lost.iter();
            warnings.extend(lost.map(|name| format!("{} lost its {name}", shown(path))));
            let before @ (events_before, _) = ours(&outcome.before)?;
            let after @ (events_after, status_line) = ours(&outcome.after)?;
            files.push(FileReport {
                path: path.clone(),
                target: settings_file::target_of_link(path),
                changed: outcome.is_change(),
                events_before,
                events_after,
                status_line,
                before: what(before),
                after: what(after),
                backup: outcome.backup.clone(),
                diff: place.dry_run.then(|| diff(path, outcome)),
                is_gone: outcome.after.is_none(),
            });
        }
        let state = context.paths.state.clone();
        Ok(Self {
            schema: 1,
            dry_run: place.dry_run,
            files,
            state,
            state_fate: StateFate::Kept,
            still_running: Vec::new(),
            warnings,
        })
    }

    fn print(&self, place: &Where, line: impl Fn(&FileReport) -> String) -> anyhow::Result<()> {
        for warning in &self.warnings {
            writeln!(std::io::stderr(), "coord: warning: {warning}")?;
        }
        let mut out = std::io::stdout().lock();
        if place.json {
            return print_json(&mut out, self).map_err(Failure::into_error);
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
        for Running { session_id, pid } in &self.still_running {
            writeln!(
                out,
                "session {session_id} (pid {pid}) runs and may still call the hooks: leave the \
                 programs where they are for 10 minutes"
            )?;
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
