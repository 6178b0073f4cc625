//! The settings of a repository that git is given: those that say how files are compared, and in which format objects
//! and references are. All of their values are words of a short list, so no text of the repository is passed on.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::repository::Repository;

/// Switches, in lower case. If `index.sparse` were not as it is in the repository, git would give the index its other
/// form, and in doing so the repository's objects another time.
const SWITCHES: [&str; 8] = [
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.symlinks",
    "core.trustctime",
    "index.sparse",
];
/// Other settings, and the values that are passed on.
const CHOICES: [(&str, &[&str]); 5] = [
    ("core.autocrlf", &["true", "false", "input"]),
    ("core.checkstat", &["default", "minimal"]),
    ("core.eol", &["lf", "crlf", "native"]),
    ("extensions.objectformat", &["sha1", "sha256"]),
    ("extensions.refstorage", &["files", "reftable"]),
];
/// Further extensions that change nothing of what is read here.
const HARMLESS: [&str; 6] = [
    "extensions.noop",
    "extensions.noop-v1",
    "extensions.partialclone",
    "extensions.preciousobjects",
    "extensions.relativeworktrees",
    "extensions.worktreeconfig",
];
const WORKTREE_CONFIG: &str = "extensions.worktreeconfig";

/// The settings that were taken over.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Key and value of each, the newest last.
    kept: Vec<(&'static str, &'static str)>,
    has_worktree_config: bool,
    /// `core.worktree`, the newest.
    work_tree: Option<PathBuf>,
    /// Whether there is an extension that is not known.
    is_strange: bool,
}

impl Settings {
    /// Takes over what is on the list. `list` is the output of `git config --list -z`.
    pub(super) fn take(&mut self, list: &[u8]) {
        for record in list.split(|byte| *byte == 0) {
            let mut parts = record.splitn(2, |byte| *byte == b'\n');
            let key = parts.next().unwrap_or_default();
            // A key without a value is a switch that is on.
            let value = parts.next().unwrap_or(b"true");
            if let Ok(key) = std::str::from_utf8(key) {
                self.take_one(key, value);
            }
        }
    }

    fn take_one(&mut self, key: &str, value: &[u8]) {
        if key == "core.worktree" {
            use std::os::unix::ffi::OsStringExt;
            self.work_tree = Some(std::ffi::OsString::from_vec(value.to_owned()).into());
            return;
        }
        if key == WORKTREE_CONFIG {
            self.has_worktree_config = is_on(value);
        }
        let switch = SWITCHES.into_iter().find(|one| *one == key);
        let choice = CHOICES.into_iter().find(|(name, _)| *name == key);
        if let Some(switch) = switch {
            self.kept.push((switch, if is_on(value) { "true" } else { "false" }));
        } else if let Some((name, values)) = choice {
            let same = |one: &&&str| value.eq_ignore_ascii_case(one.as_bytes());
            match values.iter().find(same) {
                Some(value) => self.kept.push((name, value)),
                // `core.autocrlf` is a switch too; an unknown format makes everything unreadable.
                None if name == "core.autocrlf" => {
                    self.kept.push((name, if is_on(value) { "true" } else { "false" }));
                }
                None => self.is_strange |= key.starts_with("extensions."),
            }
        } else if key.starts_with("extensions.") {
            self.is_strange |= !HARMLESS.contains(&key);
        }
    }

    /// Whether the work tree has settings of its own.
    pub(super) fn has_worktree_config(&self) -> bool {
        self.has_worktree_config
    }

    /// Whether references are not files.
    pub(super) fn has_reftable(&self) -> bool {
        let newest = self.kept.iter().rev().find(|(key, _)| *key == "extensions.refstorage");
        newest.is_some_and(|(_, value)| *value == "reftable")
    }

    /// Whether the repository is one that can be read here; the error says why not.
    pub(super) fn check(&self, repository: &Repository) -> Result<(), String> {
        if self.is_strange {
            return Err("the repository has an extension that is not known".to_owned());
        }
        if self.has_reftable() && repository.is_linked() {
            return Err("a linked work tree's references are in a reftable".to_owned());
        }
        let Some(named) = &self.work_tree else { return Ok(()) };
        let named = repository.git_dir.join(named).canonicalize();
        if named.is_ok_and(|named| named == repository.root) {
            Ok(())
        } else {
            Err("the repository's work tree is elsewhere".to_owned())
        }
    }

    /// The text of the configuration file that git reads.
    pub(super) fn text(&self) -> String {
        let mut text = String::from(
            "[core]\n\trepositoryFormatVersion = 1\n\tbare = false\n\tfsmonitor = false\n\
             \thooksPath = /dev/null\n\tuntrackedCache = false\n",
        );
        for (key, value) in &self.kept {
            if let Some((section, name)) = key.split_once('.') {
                let _ = writeln!(text, "[{section}]\n\t{name} = {value}");
            }
        }
        text
    }
}

/// Whether git takes the value of a switch for "on". What is neither counts as "off".
fn is_on(value: &[u8]) -> bool {
    let text = value.to_ascii_lowercase();
    let number = || std::str::from_utf8(&text).ok()?.parse::<i64>().ok();
    matches!(text.as_slice(), b"true" | b"yes" | b"on") || number().is_some_and(|n| n != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(list: &[u8]) -> String {
        let mut settings = Settings::default();
        settings.take(list);
        settings.text()
    }

    #[test]
    fn q_04_only_listed_settings_with_listed_values_are_passed_on() {
        let none = text(b"");
        for list in [
            &b"core.fsmonitor\n/tmp/p\x00filter.x.clean\n/tmp/p\x00core.hookspath\n/tmp"[..],
            b"core.eol\nlf\n[filter \"x\"]\x00core.checkstat\n/tmp/p\x00core.pager",
            b"include.path\n/tmp/p\x00hook.x.command\n/tmp/p\x00extensions.worktreeconfig\ntrue",
        ] {
            assert_eq!(text(list), none, "{}", list.escape_ascii());
        }
        let some =
            text(b"core.filemode\nno\x00core.symlinks\x00core.autocrlf\nINPUT\x00core.autocrlf\n1");
        let added = "[core]\n\tfilemode = false\n[core]\n\tsymlinks = true\n\
                     [core]\n\tautocrlf = input\n[core]\n\tautocrlf = true\n";
        assert_eq!(some.strip_prefix(&none), Some(added));
    }

    #[test]
    fn q_04_an_extension_that_is_not_known_is_noticed() {
        for (list, is_strange) in [
            (&b"extensions.objectformat\nsha256"[..], false),
            (b"extensions.objectformat\nsha512", true),
            (b"extensions.refstorage\nreftable", false),
            (b"extensions.preciousobjects\ntrue", false),
            (b"extensions.news\ntrue", true),
        ] {
            let mut settings = Settings::default();
            settings.take(list);
            assert_eq!(settings.is_strange, is_strange, "{}", list.escape_ascii());
        }
    }
}
