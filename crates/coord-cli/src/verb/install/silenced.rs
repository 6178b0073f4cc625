//! What keeps registered hooks from running, or makes them run twice.
//!
//! Decides only what is worth a warning: settings that switch hooks off, wherever they stand, and a
//! plugin that brings the same hooks. Changes nothing and refuses nothing; a file that cannot be
//! read says nothing here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use coord_store::read_small_file;
use serde_json::Value;

use super::scope::shown;
use super::settings_file::SETTINGS_BYTES_MAX;

/// Where an administrator's settings stand; they win over the user's.
const MANAGED: [&str; 2] = [
    "/etc/claude-code/managed-settings.json",
    "/Library/Application Support/ClaudeCode/managed-settings.json",
];
/// Further settings of an administrator, one file each.
const MANAGED_DIR: &str = "/etc/claude-code/managed-settings.d";
/// The name of a plugin that registers what is registered here.
const PLUGIN: &str = "coord";

/// One line for each setting that stands against the hooks. `others` are the settings files that
/// count beside the administrator's.
pub(super) fn warnings(others: &[PathBuf]) -> Vec<String> {
    let mut managed: Vec<PathBuf> = MANAGED.iter().map(PathBuf::from).collect();
    let more = std::fs::read_dir(MANAGED_DIR).into_iter().flatten().flatten();
    managed.extend(more.map(|entry| entry.path()));
    let managed = managed.iter().flat_map(|path| of_file(path, true));
    let others: BTreeSet<&PathBuf> = others.iter().collect();
    managed.chain(others.into_iter().flat_map(|path| of_file(path, false))).collect()
}

/// The same of the administrator's settings alone.
pub(crate) fn managed_warnings() -> Vec<String> {
    warnings(&[])
}

fn of_file(path: &Path, is_managed: bool) -> Vec<String> {
    let text = read_small_file(path, SETTINGS_BYTES_MAX).unwrap_or_default();
    let text = String::from_utf8(text).unwrap_or_default();
    let text = text.trim_start_matches('\u{feff}');
    let settings: Value = serde_json::from_str(text).unwrap_or_default();
    let mut keys = vec!["disableAllHooks"];
    if is_managed {
        keys.push("allowManagedHooksOnly");
    }
    keys.retain(|key| settings.get(key) == Some(&true.into()));
    let silenced =
        keys.into_iter().map(|key| format!("{} sets {key}: the hooks will not run", shown(path)));
    let plugins = settings.get("enabledPlugins").and_then(Value::as_object);
    let copies = plugins.into_iter().flatten().filter(|(name, is_enabled)| {
        **is_enabled == Value::Bool(true) && name.split('@').next() == Some(PLUGIN)
    });
    let doubled = copies.map(|(name, _)| {
        format!(
            "{} enables the plugin {name}: each event will be reported twice; disable the plugin, \
             or run `coord uninstall`",
            shown(path)
        )
    });
    silenced.chain(doubled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_silence_or_double_the_hooks_are_named() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("settings.json");
        assert!(of_file(&path, true).is_empty());
        for (text, is_managed, expected) in [
            (r#"{"allowManagedHooksOnly": true, "disableAllHooks": false}"#, true, 1),
            (r#"{"allowManagedHooksOnly": true, "disableAllHooks": true}"#, false, 1),
            ("\u{feff}{\"disableAllHooks\": true}", false, 1),
            (r#"{"enabledPlugins": {"coord@hub": true, "coordinate@hub": true}}"#, false, 1),
            (r#"{"enabledPlugins": {"coord@hub": false}, "disableAllHooks": "true"}"#, false, 0),
            (r#"{"enabledPlugins": ["coord"]}"#, false, 0),
            ("{", true, 0),
        ] {
            std::fs::write(&path, text).unwrap();
            let warnings = of_file(&path, is_managed);
            assert_eq!(warnings.len(), expected, "{text}: {warnings:?}");
            assert!(warnings.iter().all(|line| line.contains("settings.json")), "{warnings:?}");
        }
    }
}
