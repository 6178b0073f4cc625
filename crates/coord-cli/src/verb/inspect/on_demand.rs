//! What is looked at when one session is asked for: the tokens in its transcripts, and the repository of its work (Q-01,
//!
//!
//! Both are read by this process, in bounded time. The coordinator takes no part, so nothing waits for a slow disk.

use std::path::Path;
use std::time::Duration;

use coord_config::Config;
use coord_host::registry::Readable;
use coord_host::transcript::tokens::Tokens;
use coord_host::work;
use coord_model::stamp::rfc3339;
use coord_model::{PathCount, Work, WorkFacts};
use coord_wire::inspect::{Git, Session};
use coord_wire::usage;
use rustix::param::clock_ticks_per_second;

use super::usage::grouped;
use crate::context::Context;

/// How much of the transcripts is read, in bytes.
const TRANSCRIPT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How long the repository is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Digits of a commit that are shown.
const COMMIT_CHARS: usize = 7;

/// Looks at what only this moment shows of a session on this machine.
pub(crate) fn look(session: &mut Session, context: &Context) {
    if session.place.as_ref().is_some_and(|place| place.kind == "elsewhere") {
        return;
    }
    let at = rfc3339(context.now.wall_ms);
    if let Some(tokens) = tokens(session, context, &at) {
        session.usage.get_or_insert_default().tokens = Some(tokens);
    }
    let cwd = Path::new(&session.cwd);
    if !cwd.is_absolute() {
        return;
    }
    let work = match work::find_git(&[]) {
        Ok(git) => work::look(&git, cwd, LOOK),
        Err(why) => Work::Unknown { why },
    };
    session.git = (work != Work::NoRepository).then_some(Git { at, work });
}

fn tokens(session: &Session, context: &Context, at: &str) -> Option<usage::Tokens> {
    let path = Path::new(&session.transcript_path);
    if !path.is_absolute() || session.config_dir.is_empty() {
        return None;
    }
    let config = Config::load(&context.paths.config_file()).unwrap_or_default();
    let readable = Readable { root: context.root.clone(), named: config.tracking.config_dirs.0 };
    let mut tokens = Tokens::new(Path::new(&session.config_dir), path);
    if let Some(ms) = forked_ms(session, context) {
        tokens = tokens.forked_at(ms);
    }
    tokens.read(&readable, TRANSCRIPT_BYTES_MAX).ok()?;
    let counts = tokens.counts().clone();
    let is_any = 0 < counts.n_messages || counts.is_partial;
    is_any.then(|| usage::Tokens { counts, source: "transcript".to_owned(), at: at.to_owned() })
}

/// When a forked session was made, in milliseconds since 1970: when its process started.
fn forked_ms(session: &Session, context: &Context) -> Option<u64> {
    session.forked_from.as_ref()?;
    let ticks = session.owner.as_ref()?.start_time;
    let since_boot_ms = ticks.saturating_mul(1000).checked_div(clock_ticks_per_second())?;
    Some(context.here.boot_at_ms.saturating_add(since_boot_ms))
}

/// A repository in one line.
pub(crate) fn git_words(git: &Git) -> String {
    match &git.work {
        Work::Facts(facts) => facts_words(facts),
        Work::NoRepository => "none".to_owned(),
        Work::NotOurs => "not looked at: it belongs to another user".to_owned(),
        Work::Unknown { why } => format!("not known: {why}"),
    }
}

fn facts_words(facts: &WorkFacts) -> String {
    let WorkFacts { branch, head, operation, .. } = facts;
    let head = head.as_ref().map(|head| head.chars().take(COMMIT_CHARS).collect::<String>());
    let branch = branch.clone().unwrap_or_else(|| "no branch".to_owned());
    let begin = [branch, head.unwrap_or_else(|| "no commit yet".to_owned())].join(" ");
    let operation = operation.map(|operation| {
        use coord_model::Operation::{Am, Bisect, CherryPick, Merge, Rebase, Revert};
        let name = match operation {
            Merge => "merge",
            Rebase => "rebase",
            CherryPick => "cherry-pick",
            Revert => "revert",
            Bisect => "bisect",
            Am => "am",
        };
        format!("{name} in progress")
    });
    let parts = [Some(begin), operation, Some(counts(facts))];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn counts(facts: &WorkFacts) -> String {
    if facts.is_clean() {
        return "clean".to_owned();
    }
    let named = [
        (facts.staged, "staged"),
        (facts.changed, "changed"),
        (facts.conflicted, "in conflict"),
        (facts.untracked, "new"),
    ];
    let words = |(count, name): (Option<PathCount>, &str)| match count {
        None => Some(format!("{name} not known")),
        Some(PathCount { n: 0, is_at_least: false }) => None,
        Some(PathCount { n, is_at_least: true }) => Some(format!("at least {} {name}", grouped(n))),
        Some(PathCount { n, is_at_least: false }) => Some(format!("{} {name}", grouped(n))),
    };
    named.into_iter().filter_map(words).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_model::Operation;

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
        let words = |facts| git_words(&Git { at: String::new(), work: Work::Facts(facts) });
        assert_eq!(words(facts.clone()), "main 4f2c1aa · clean");
        let busy = WorkFacts {
            operation: Some(Operation::Rebase),
            staged: Some(PathCount::exactly(3)),
            changed: Some(PathCount { n: 12_000, is_at_least: true }),
            untracked: None,
            branch: None,
            ..facts.clone()
        };
        assert_eq!(
            words(busy),
            "no branch 4f2c1aa · rebase in progress · 3 staged, at least 12,000 changed, new not known"
        );
        assert_eq!(words(WorkFacts { head: None, ..facts }), "main no commit yet · clean");
    }
}
