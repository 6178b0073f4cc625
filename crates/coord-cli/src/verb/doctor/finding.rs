//! What a check found: one line, and one remedy where something is wrong.

use std::path::Path;

use serde::Serialize;

use super::fix::Fix;
use crate::verb::install::shown;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// coord works, with less than it could have.
    Warning,
    /// Events or states are lost or wrong until it is repaired.
    Error,
}

impl Level {
    /// The word for people.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What one check found.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    /// `GROUP.CHECK`, a stable name for programs.
    pub(super) check: &'static str,
    /// How bad it is.
    pub(super) level: Level,
    /// What was found, one line.
    pub(super) found: String,
    /// One command or one sentence; null where nothing is to be done.
    pub(super) remedy: Option<String>,
    /// What `--fix` does about it.
    #[serde(skip)]
    pub(super) fix: Option<Fix>,
}

impl Finding {
    /// All is well.
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, found: found.into(), remedy: None, fix: None }
    }

    /// Worth knowing.
    pub(super) fn note(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Note, remedy: Some(remedy.into()), ..Self::ok(check, found) }
    }

    /// coord works with less.
    pub(super) fn warning(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Warning, ..Self::note(check, found, remedy) }
    }

    /// Something is lost or wrong.
    pub(super) fn error(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Error, ..Self::note(check, found, remedy) }
    }

    /// The same, with what `--fix` does about it.
    pub(super) fn fixed_by(self, fix: Fix) -> Self {
        Self { fix: Some(fix), ..self }
    }

    /// The part of the name before the dot.
    pub(super) fn group(&self) -> &'static str {
        self.check.split('.').next().unwrap_or(self.check)
    }
}

/// A path as one word of a shell's command, for remedies.
pub(super) fn quoted(path: &Path) -> String {
    let text = shown(path);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,~".contains(c);
    if text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_remedies_are_one_word() {
        assert_eq!(quoted(Path::new("/a/b-c_1.x")), "/a/b-c_1.x");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
