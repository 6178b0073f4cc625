//! Claude Code's settings files: whether they can be read, and whether our entries in them are all
//! there, once each, up to date, and in force (H-24, H-39).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::finding::quoted;
use super::fix::Fix;
use super::{Finding, Setup};
use crate::context::{Context, variable};
use crate::out::Failure;
use crate::verb::install::audit::{self, Audit, Entry};
use crate::verb::install::{default_hooks_dir, managed_warnings, shown, user_directory};

/// Directories of plugins that are looked through, and how deep.
const PLUGIN_DIRS_MAX: usize = 4096;
const PLUGIN_DEPTH_MAX: u32 = 7;
/// A plugin's hooks file is read up to here, in bytes.
const PLUGIN_HOOKS_BYTES_MAX: u64 = 1024 * 1024;

/// One settings file.
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    /// The client's configuration directory; none for a project's file.
    config_dir: Option<PathBuf>,
    text: Option<String>,
    /// What stands in it, or why that cannot be told.
    audit: Result<Option<Audit>, String>,
}

impl SettingsFile {
    /// Reads one.
    fn read(path: PathBuf, config_dir: Option<PathBuf>) -> Self {
        let (text, audit) = match audit::read(&path) {
            Ok(Some(text)) => {
                let audit = audit::audit(&text).map(Some);
                let audit = audit.map_err(|why| format!("{}:{why:#}", shown(&path)));
                (Some(text), audit)
            }
            Ok(None) => (None, Ok(None)),
            Err(error) => (None, Err(format!("{error:#}"))),
        };
        Self { path, config_dir, text, audit }
    }

    /// Our entries.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.audit {
            Ok(Some(audit)) => &audit.entries,
            Ok(None) | Err(_) => &[],
        }
    }
}

/// The files that are in force: the user's, and those of the project we are in.
pub(super) fn files(config_dirs: &[PathBuf]) -> Result<Vec<SettingsFile>, Failure> {
    let dirs = match config_dirs {
        [] => vec![user_directory()?],
        named => named.iter().map(std::path::absolute).collect::<Result<_, _>>()?,
    };
    let mut files: Vec<SettingsFile> = dirs
        .into_iter()
        .map(|dir| SettingsFile::read(dir.join("settings.json"), Some(dir)))
        .collect();
    let project = std::env::current_dir().unwrap_or_default().join(".claude");
    for name in ["settings.json", "settings.local.json"] {
        let path = project.join(name);
        let is_listed = files.iter().any(|file| file.path == path);
        if !is_listed && path.exists() {
            files.push(SettingsFile::read(path, None));
        }
    }
    Ok(files)
}

/// Whether a configuration directory of the client has entries of ours.
pub(super) fn is_registered(config_dir: &Path) -> bool {
    let path = config_dir.join("settings.json");
    !SettingsFile::read(path, None).entries().is_empty()
}

pub(super) fn check(setup: &Setup<'_>) -> Vec<Finding> {
    let in_project =
        setup.settings.iter().any(|file| file.config_dir.is_none() && !file.entries().is_empty());
    let mut findings = managed(managed_warnings());
    for file in &setup.settings {
        findings.extend(judge(file, setup, in_project));
    }
    findings.extend(doubled_by_project(&setup.settings));
    findings
}

/// Managed settings win over the user's.
fn managed(warnings: Vec<String>) -> Vec<Finding> {
    let remedy = "ask your administrator to allow coord's hooks; until then coord sees sessions without hooks";
    warnings.into_iter().map(|found| Finding::error("settings.managed", found, remedy)).collect()
}

fn judge(file: &SettingsFile, setup: &Setup<'_>, in_project: bool) -> Vec<Finding> {
    let path = shown(&file.path);
    let audit = match &file.audit {
        Err(why) => {
            let remedy = format!("repair {path}: Claude Code may not read it either");
            return vec![Finding::error("settings.file", why.clone(), remedy)];
        }
        Ok(audit) => audit.as_ref(),
    };
    let entries = file.entries();
    let Some(audit) = audit.filter(|audit| !entries.is_empty() || audit.hooks_disabled) else {
        return missing(file, setup, in_project);
    };
    let mut findings = Vec::new();
    if audit.hooks_disabled {
        findings.push(Finding::error(
            "settings.disabled",
            format!("{path} sets disableAllHooks: no hook runs, and no event is reported"),
            format!("remove \"disableAllHooks\" from {path}"),
        ));
    }
    if entries.is_empty() {
        findings.extend(missing(file, setup, in_project));
        return findings;
    }
    if !audit.missing.is_empty() {
        let events: Vec<&str> = audit.missing.iter().copied().collect();
        let found = format!("{path} lacks coord's entry for {}", events.join(", "));
        findings.push(outdated(Finding::error("settings.events", found, ""), file, setup));
    }
    if !audit.doubled.is_empty() {
        let events: Vec<&str> = audit.doubled.iter().map(String::as_str).collect();
        let found = format!("{path} runs coord's hook twice at {}", events.join(", "));
        findings.push(outdated(Finding::warning("settings.doubled", found, ""), file, setup));
    }
    findings.extend(judge_entries(file, setup));
    findings.extend(file.config_dir.iter().flat_map(|dir| plugins(dir)));
    if findings.is_empty() {
        let events: BTreeSet<&str> = entries.iter().map(|entry| entry.event.as_str()).collect();
        let found = format!("{} events in {path}", events.len());
        findings.push(Finding::ok("settings.events", found));
    }
    findings
}

fn missing(file: &SettingsFile, setup: &Setup<'_>, in_project: bool) -> Vec<Finding> {
    // A project's file need not have any.
    if file.config_dir.is_none() {
        return Vec::new();
    }
    let found = format!(
        "coord's hooks are not registered in {}: sessions do not report",
        shown(&file.path)
    );
    vec![if in_project {
        Finding::note(
            "settings.registered",
            found,
            "none for this project; for all others: coord install",
        )
    } else {
        outdated(Finding::error("settings.registered", found, ""), file, setup)
    }]
}

/// Where the entries lead: to this root, and to the executables of this program.
fn judge_entries(file: &SettingsFile, setup: &Setup<'_>) -> Vec<Finding> {
    let path = shown(&file.path);
    let mut findings = Vec::new();
    let context = setup.context;
    if let Some(found) = elsewhere(&file.path, file.entries(), context) {
        findings.push(outdated(Finding::error("settings.root", found, ""), file, setup));
    } else if file.entries().iter().any(|entry| entry.state().is_none()) {
        let found = format!(
            "an earlier version registered the hooks in {path}: they take their directories from \
             the environment of each session"
        );
        findings.push(outdated(Finding::warning("settings.directories", found, ""), file, setup));
    }
    let Some(dir) = &setup.hooks_dir else { return findings };
    let of_other_dir = file.entries().iter().find(|entry| entry.command.parent() != Some(dir));
    if let Some(entry) = of_other_dir {
        let found = format!(
            "{path} runs {}, but the hooks of this coord are in {}",
            shown(&entry.command),
            shown(dir)
        );
        findings.push(outdated(Finding::warning("settings.prefix", found, ""), file, setup));
    }
    let is_old = findings.is_empty()
        && file.text.as_ref().is_some_and(|text| !audit::is_up_to_date(text, dir, context));
    if is_old {
        let found = format!("the entries in {path} are those of another version");
        findings.push(outdated(Finding::warning("settings.outdated", found, ""), file, setup));
    }
    findings
}

/// That entries lead to another place than the one this program works with.
fn elsewhere(path: &Path, entries: &[Entry], context: &Context) -> Option<String> {
    let entry = entries.iter().find(|entry| !entry.reports_to(context))?;
    let place = match (entry.state(), entry.root()) {
        (Some(state), _) => shown(Path::new(state)),
        (None, Some(root)) => shown(Path::new(root)),
        (None, None) => "the directories of the environment".to_owned(),
    };
    let own = shown(&context.paths.state_base);
    Some(format!("the hooks in {} report to {place}, but this coord uses {own}", shown(path)))
}

/// One line where the hooks in the user's settings report to another place than this one, with its
/// remedy: what is shown here is not what they reported.
pub(crate) fn note_elsewhere(context: &Context) -> Option<String> {
    let path = user_directory().ok()?.join("settings.json");
    let file = SettingsFile::read(path, None);
    let found = elsewhere(&file.path, file.entries(), context)?;
    let remedy = if variable("COORD_HOME").is_some() {
        "unset COORD_HOME, or run `coord install` with it"
    } else {
        "run `coord install` for this place"
    };
    Some(format!("{found}; {remedy}"))
}

/// The remedy of everything that a new registration repairs.
fn outdated(finding: Finding, file: &SettingsFile, setup: &Setup<'_>) -> Finding {
    let Some(config_dir) = &file.config_dir else {
        let scope = if file.path.ends_with("settings.local.json") { "local" } else { "project" };
        return Finding { remedy: Some(format!("coord install --scope {scope}")), ..finding };
    };
    let mut arguments =
        vec!["install".into(), "--config-dir".into(), config_dir.clone().into_os_string()];
    let mut remedy = format!("coord install --config-dir {}", quoted(config_dir));
    match &setup.hooks_dir {
        Some(dir) => {
            arguments.extend(["--hooks-dir".into(), dir.clone().into_os_string()]);
            if default_hooks_dir().ok().as_ref() != Some(dir) {
                remedy = format!("{remedy} --hooks-dir {}", quoted(dir));
            }
        }
        None => remedy.push_str(" --hooks-dir DIR"),
    }
    let finding = Finding { remedy: Some(remedy), ..finding };
    // Without executables there is nothing that could be registered.
    if setup.hooks_dir.is_some() { finding.fixed_by(Fix::run(arguments)) } else { finding }
}

/// The client adds the scopes up: each event would be reported twice.
fn doubled_by_project(files: &[SettingsFile]) -> Option<Finding> {
    let with_ours = |of_user: bool| {
        files.iter().find(|file| file.config_dir.is_some() == of_user && !file.entries().is_empty())
    };
    let (_, project) = (with_ours(true)?, with_ours(false)?);
    let scope = if project.path.ends_with("settings.local.json") { "local" } else { "project" };
    Some(Finding::warning(
        "settings.doubled",
        format!(
            "{} registers coord's hooks too: in this project each event is reported twice",
            shown(&project.path)
        ),
        format!("coord uninstall --scope {scope}"),
    ))
}

/// Plugins that bring our hooks once more.
fn plugins(config_dir: &Path) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut rest = vec![(config_dir.join("plugins"), 0)];
    let mut n_dirs = 0;
    while let Some((dir, depth)) = rest.pop() {
        n_dirs += 1;
        if PLUGIN_DIRS_MAX < n_dirs {
            break;
        }
        if has_our_hooks(&dir.join("hooks.json")) || has_our_hooks(&dir.join("plugin.json")) {
            found.push(dir.clone());
        }
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        // Links are not followed: a plugin could lead anywhere.
        let dirs = entries.flatten().filter(|one| one.file_type().is_ok_and(|kind| kind.is_dir()));
        if depth < PLUGIN_DEPTH_MAX {
            rest.extend(dirs.map(|one| (one.path(), depth + 1)));
        }
    }
    let finding = |dir: PathBuf| {
        Finding::warning(
            "settings.plugin",
            format!(
                "a plugin registers coord's hooks too: {}; each event is reported twice",
                shown(&dir)
            ),
            "disable that plugin (claude plugin disable NAME), or coord uninstall",
        )
    };
    found.into_iter().map(finding).collect()
}

fn has_our_hooks(path: &Path) -> bool {
    let is_small = std::fs::symlink_metadata(path)
        .is_ok_and(|file| file.is_file() && file.len() <= PLUGIN_HOOKS_BYTES_MAX);
    is_small && std::fs::read_to_string(path).is_ok_and(|text| text.contains("/coord-hook-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::doctor::Level;

    #[test]
    fn managed_settings_are_an_error_with_a_remedy() {
        let found = managed(vec!["/etc/x sets allowManagedHooksOnly".to_owned()]);
        assert_eq!((found[0].check, found[0].level), ("settings.managed", Level::Error));
        assert!(found[0].remedy.as_ref().unwrap().contains("administrator"));
        assert!(managed(Vec::new()).is_empty());
    }
}
