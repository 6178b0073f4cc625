//! The repository of a session's work, in words.

use coord_core::{Session, WorkLook};
use coord_model::stamp::rfc3339;
use coord_model::{Operation, PathCount, Work, WorkFacts};
use coord_wire::inspect::Git;

use crate::text::thousands;

/// Digits of a commit that are shown.
const COMMIT_CHARS: usize = 7;

/// The repository, as it was after the session's client died; none if the session goes on, or works in no repository.
pub fn at_end(session: &Session) -> Option<Git> {
    match session.work.as_ref()? {
        WorkLook::Requested | WorkLook::Seen { work: Work::NoRepository, .. } => None,
        WorkLook::Seen { work, at } => Some(Git { at: rfc3339(at.wall_ms), work: work.clone() }),
    }
}

/// A repository in one line.
pub fn words(work: &Work) -> String {
    match work {
        Work::Facts(facts) => {
            let branch = facts.branch.as_deref().unwrap_or("no branch");
            let head = facts.head.as_ref().map(|head| head.chars().take(COMMIT_CHARS).collect());
            let head: String = head.unwrap_or_else(|| "no commit yet".to_owned());
            let unfinished = unfinished(facts).unwrap_or_else(|| "clean".to_owned());
            format!("{branch} {head} · {unfinished}")
        }
        Work::NoRepository => "none".to_owned(),
        Work::NotOurs => "not looked at: it belongs to another user".to_owned(),
        Work::Unknown { why } => format!("not known: {why}"),
    }
}

/// What is not committed: the operation in progress and the counts of paths; none if the work tree is clean.
pub fn unfinished(facts: &WorkFacts) -> Option<String> {
    if facts.is_clean() {
        return None;
    }
    let operation = facts.operation.map(|operation| format!("{} in progress", name(operation)));
    let parts: Vec<String> = operation.into_iter().chain(counts(facts)).collect();
    Some(parts.join(" · "))
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Merge => "merge",
        Operation::Rebase => "rebase",
        Operation::CherryPick => "cherry-pick",
        Operation::Revert => "revert",
        Operation::Bisect => "bisect",
        Operation::Am => "am",
    }
}

/// The counts that are not 0.
fn counts(facts: &WorkFacts) -> Option<String> {
    let named = [
        (facts.staged, "staged"),
        (facts.changed, "changed"),
        (facts.conflicted, "in conflict"),
        (facts.untracked, "new"),
    ];
    let words = |(count, name): (Option<PathCount>, &str)| match count {
        None => Some(format!("{name} not known")),
        Some(PathCount { n: 0, is_at_least: false }) => None,
        Some(PathCount { n, is_at_least: true }) => {
            Some(format!("at least {} {name}", thousands(n)))
        }
        Some(PathCount { n, is_at_least: false }) => Some(format!("{} {name}", thousands(n))),
    };
    let words: Vec<String> = named.into_iter().filter_map(words).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    //
    #[test]
    fn q_04_a_repository_reads_as_a_person_would_say_it() {
        let none = Some(PathCount::exactly(0));
        let facts = WorkFacts {
            root: "/w".to_owned(),
            branch: Some("main".to_owned()),
            head: Some("4f2c1aa9d1e4b7a8f216c0e5d4a7b90".to_owned()),
            operation: None,
            staged: none,
            changed: none,
            conflicted: none,
            untracked: none,
            why_unknown: None,
        };
        let of = |facts| words(&Work::Facts(facts));
        assert_eq!(of(facts.clone()), "main 4f2c1aa · clean");
        let busy = WorkFacts {
            operation: Some(Operation::Rebase),
            staged: Some(PathCount::exactly(3)),
            changed: Some(PathCount { n: 12_000, is_at_least: true }),
            untracked: None,
            branch: None,
            ..facts.clone()
        };
        assert_eq!(
            of(busy),
            "no branch 4f2c1aa · rebase in progress · 3 staged, at least 12,000 changed, new not known"
        );
        assert_eq!(of(WorkFacts { head: None, ..facts.clone() }), "main no commit yet · clean");
        let merging = WorkFacts { operation: Some(Operation::Merge), ..facts };
        assert_eq!(of(merging), "main 4f2c1aa · merge in progress");
    }
}
