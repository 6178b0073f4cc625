//! What `coord doctor` asks of a settings file: which entries are ours, and in what they differ from
//! what `coord install` would write. Changes nothing, and hands out nothing but our own entries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use serde::{Deserialize, Serialize};

use super::edit;
use super::layout::UNCHANGED;
use super::registration::{HOOKS, Registration, STATE_ARGUMENT, check_programs};
use super::settings_file::{self, Wanted};
use crate::context::Context;

/// One of our entries, as it stands there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The client's event.
    #[serde(default)]
    pub(crate) event: String,
    /// The executable.
    pub(crate) command: PathBuf,
    /// Its arguments.
    pub(crate) args: Vec<String>,
}

impl Entry {
    fn runs(&self, program: &str) -> bool {
        self.command.file_name().is_some_and(|name| name == program)
    }

    /// The root that the hook is handed.
    pub(crate) fn root(&self) -> Option<&str> {
        self.argument("--root")
    }

    /// The state directory that the hook is handed; none in an entry of an earlier version, whose
    /// hook takes its directories from the environment.
    pub(crate) fn state(&self) -> Option<&str> {
        self.argument(STATE_ARGUMENT)
    }

    fn argument(&self, name: &str) -> Option<&str> {
        let at = self.args.iter().position(|arg| arg == name)?;
        self.args.get(at.checked_add(1)?).map(String::as_str)
    }

    /// Whether the hook reports to the place that this program works with.
    pub(crate) fn reports_to(&self, context: &Context) -> bool {
        match self.state() {
            Some(state) => Path::new(state) == context.paths.state_base,
            None => self.root().map(Path::new) == context.root.as_deref(),
        }
    }
}

/// What stands in a settings file of ours.
#[derive(Debug)]
pub(crate) struct Audit {
    /// Our entries, in the file's order.
    pub(crate) entries: Vec<Entry>,
    /// Events without one, or without one of several.
    pub(crate) missing: BTreeSet<&'static str>,
    /// Events that run one of our executables more than once.
    pub(crate) doubled: BTreeSet<String>,
    /// `disableAllHooks` is true.
    pub(crate) hooks_disabled: bool,
}

/// The text of a settings file; none where there is no file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Option<String>> {
    Ok(settings_file::preview(path, &|_| Ok(Wanted::Gone))?.before)
}

/// Looks through the text of a settings file.
pub(crate) fn audit(text: &str) -> anyhow::Result<Audit> {
    // Nobody wanted a change here.
    let layout = edit::read(text)
        .map_err(|why| anyhow!("{}", format!("{why:#}").trim_end_matches(UNCHANGED)))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut entries, mut runs) = (Vec::new(), BTreeMap::new());
    for event in layout.hooks.iter().flat_map(|hooks| &hooks.events) {
        for entry in event.groups.iter().flat_map(|group| &group.entries) {
            let Some(program) = &entry.program else { continue };
            let n: &mut u32 = runs.entry((event.name.clone(), program.clone())).or_default();
            *n = n.saturating_add(1);
            let own = text.get(entry.range.clone()).unwrap_or_default();
            if let Ok(own) = serde_json::from_str::<Entry>(own) {
                entries.push(Entry { event: event.name.clone(), ..own });
            }
        }
    }
    let missing = HOOKS.iter().filter(|hook| {
        let is_it = |entry: &Entry| entry.event == hook.event && entry.runs(hook.program);
        !entries.iter().any(is_it)
    });
    let missing = missing.map(|hook| hook.event).collect();
    let doubled = runs.into_iter().filter(|(_, n)| 1 < *n).map(|((event, _), _)| event);
    Ok(Audit { missing, doubled: doubled.collect(), hooks_disabled: is_disabled(text), entries })
}

fn is_disabled(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}');
    let settings: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    settings.get("disableAllHooks") == Some(&true.into())
}

/// Whether `coord install` would leave the text as it is.
pub(crate) fn is_up_to_date(text: &str, hooks_dir: &Path, context: &Context) -> bool {
    let ours = Registration::new(hooks_dir, context.root.as_deref(), &context.paths);
    ours.is_ok_and(|ours| edit::register(Some(text), &ours).is_ok_and(|after| after == text))
}

/// Whether every executable that is registered lies in `hooks_dir`.
pub(crate) fn has_programs(hooks_dir: &Path) -> bool {
    check_programs(hooks_dir).is_ok()
}
