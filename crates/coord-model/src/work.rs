//! What a repository of a session's work shows. Decides nothing.
//!
//! Names are foreign text: bounded here, kept as they are, and escaped by whoever shows them.

use alloc::string::String;
use serde::{Deserialize, Serialize};

/// The repository that a directory is in, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkFacts {
    /// Root of the work tree; a byte that is no UTF-8 is replaced.
    pub root: String,
    /// The branch that is checked out, without `refs/heads/`, or another reference in full. None if HEAD is detached or
    /// unknown. The branch of a repository without a commit does not exist yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that is checked out, in hexadecimal. None without a commit, or if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The operation that was begun and is not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// Paths whose entry in the index differs from HEAD. A renamed file is two paths. None if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<PathCount>,
    /// Paths whose file differs from the index, and submodules that are at another commit. None if unknown.
    ///
    /// A file that passes a filter of the repository (such as Git LFS) counts as changed when its size or time
    /// differs from the index: no filter is run to look closer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<PathCount>,
    /// Paths with a conflict that is not resolved; they are neither staged nor changed. None if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicted: Option<PathCount>,
    /// Files that are neither tracked nor ignored by the repository's own rules; a directory that has only such files
    /// is one. None if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untracked: Option<PathCount>,
    /// Why counts are unknown, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_unknown: Option<String>,
}

impl WorkFacts {
    /// The longest root, in characters.
    pub const ROOT_CHARS_MAX: usize = 4096;
    /// The longest name of a branch, in characters.
    pub const BRANCH_CHARS_MAX: usize = 256;

    /// Whether the work tree is known to be as HEAD has it, and nothing is in progress.
    pub fn is_clean(&self) -> bool {
        let counts = [self.staged, self.changed, self.conflicted, self.untracked];
        self.operation.is_none()
            && counts.into_iter().all(|count| count == Some(PathCount::exactly(0)))
    }
}

/// A number of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathCount {
    /// The number.
    pub n: u64,
    /// Whether there may be more, because a bound was reached.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_at_least: bool,
}

impl PathCount {
    /// A number that is complete.
    pub const fn exactly(n: u64) -> Self {
        Self { n, is_at_least: false }
    }
}

/// An operation on a repository that takes several steps, and was not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// `git merge`
    Merge,
    /// `git rebase`
    Rebase,
    /// `git cherry-pick`
    CherryPick,
    /// `git revert`
    Revert,
    /// `git bisect`
    Bisect,
    /// `git am`
    Am,
}

/// The result of a look for a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Work {
    /// The directory is in a work tree.
    Facts(WorkFacts),
    /// The directory is in no work tree.
    NoRepository,
    /// The repository belongs to another user, and was not read.
    NotOurs,
    /// The repository could not be read.
    Unknown {
        /// Why, in words.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;

    fn facts() -> WorkFacts {
        let none = Some(PathCount::exactly(0));
        WorkFacts {
            root: "/w".to_owned(),
            branch: Some("main".to_owned()),
            head: None,
            operation: None,
            staged: none,
            changed: none,
            conflicted: none,
            untracked: none,
            why_unknown: None,
        }
    }

    #[test]
    fn q_04_facts_are_the_same_after_a_round_through_json() {
        let more = Some(PathCount { n: 9, is_at_least: true });
        let facts = WorkFacts {
            operation: Some(Operation::CherryPick),
            changed: more,
            untracked: None,
            ..facts()
        };
        for work in [
            Work::Facts(facts),
            Work::NoRepository,
            Work::NotOurs,
            Work::Unknown { why: "slow".to_owned() },
        ] {
            let text = serde_json::to_string(&work).unwrap();
            assert_eq!(serde_json::from_str::<Work>(&text).unwrap(), work, "{text}");
        }
    }

    #[test]
    fn q_04_only_what_is_known_to_be_clean_is_clean() {
        assert!(facts().is_clean());
        let some = Some(PathCount::exactly(1));
        let at_least = Some(PathCount { n: 0, is_at_least: true });
        for unclean in [
            WorkFacts { operation: Some(Operation::Merge), ..facts() },
            WorkFacts { staged: some, ..facts() },
            WorkFacts { changed: some, ..facts() },
            WorkFacts { conflicted: some, ..facts() },
            WorkFacts { untracked: some, ..facts() },
            WorkFacts { untracked: None, ..facts() },
            WorkFacts { untracked: at_least, ..facts() },
        ] {
            assert!(!unclean.is_clean(), "{unclean:?}");
        }
    }
}
