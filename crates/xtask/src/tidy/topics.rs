//! The topics of the core know each other one way only: records ← topics ← deadlines ← step
//! (docs/architecture.md). A topic is a file of the core with the folder of its name.

use std::collections::{BTreeMap, BTreeSet};

use super::{Report, Text};

const CORE: &str = "crates/coord-core/src/";

/// For each topic the others that it names or calls.
type Uses<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

pub(super) fn check(files: &[Text], report: &mut Report) {
    let topics: Vec<(&str, String)> = files.iter().filter_map(topic).collect();
    let mut homes: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (name, code) in &topics {
        for method in methods(code) {
            homes.entry(method).or_default().insert(name);
        }
    }
    let mut uses = Uses::new();
    for (name, code) in &topics {
        let named = topics.iter().map(|(other, _)| *other).filter(|other| names(code, other));
        // A name that two topics give to a method tells nothing.
        let called = calls(code).filter_map(|method| match homes.get(method) {
            Some(homes) if homes.len() == 1 => homes.first().copied(),
            Some(_) | None => None,
        });
        let others = named.chain(called).filter(|other| other != name);
        uses.entry(name).or_default().extend(others);
    }
    if let Some(circle) = circle(&uses) {
        report.findings.push(format!(
            "{CORE}: {} is a circle: let `step` call both, or move down what both need",
            circle.join(" -> ")
        ));
    }
}

/// The topic that a file belongs to, and its code without comments and tests.
fn topic(file: &Text) -> Option<(&str, String)> {
    let path = file.path.strip_prefix(CORE)?.strip_suffix(".rs")?;
    let name = path.split('/').next()?;
    let before_tests = file.text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    let code = before_tests.map(|line| line.split("//").next().unwrap_or_default().trim());
    // A chain of calls over several lines becomes one line.
    let code = code.collect::<Vec<_>>().join("\n").replace("\n.", ".");
    (name != "lib").then_some((name, code))
}

/// Names of the methods that are defined here.
fn methods(code: &str) -> impl Iterator<Item = String> {
    code.match_indices("fn ").filter_map(|(at, found)| {
        let (name, rest) = code.get(at + found.len()..)?.split_once(['(', '<'])?;
        let takes_self = rest.split_once(')')?.0.contains("self");
        takes_self.then(|| name.trim().to_owned())
    })
}

/// Whether a path names this topic.
fn names(code: &str, topic: &str) -> bool {
    code.match_indices("crate::").any(|(at, found)| {
        let rest = code.get(at + found.len()..).unwrap_or_default();
        let is_whole = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        if let Some(list) = rest.strip_prefix('{') {
            let list = list.split_once('}').map_or("", |(list, _)| list);
            return list.split(',').any(|one| one.trim().split("::").next() == Some(topic));
        }
        rest.strip_prefix(topic).is_some_and(is_whole)
    })
}

/// Methods that are called on the state, which goes by two names.
fn calls(code: &str) -> impl Iterator<Item = &str> {
    ["self.", "state."].into_iter().flat_map(move |receiver| {
        code.match_indices(receiver).filter_map(move |(at, found)| {
            let before = code.get(..at)?.chars().next_back();
            let is_whole = !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
            let (name, _) = code.get(at + found.len()..)?.split_once('(')?;
            let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
            (is_whole && is_name).then_some(name)
        })
    })
}

/// A circle, if there is one.
fn circle<'a>(uses: &Uses<'a>) -> Option<Vec<&'a str>> {
    let mut left: BTreeSet<&str> = uses.keys().copied().collect();
    // What uses nothing that is left stands in no circle.
    while let Some(free) = left.iter().copied().find(|one| uses[one].is_disjoint(&left)) {
        left.remove(free);
    }
    let mut way = vec![*left.first()?];
    loop {
        let next = *uses[way.last()?].intersection(&left).next()?;
        if let Some(from) = way.iter().position(|one| *one == next) {
            way.drain(..from);
            way.push(next);
            return Some(way);
        }
        way.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(name, text): &(&str, &str)| Text {
            path: format!("{CORE}{name}.rs"),
            text: (*text).to_owned(),
        };
        let files: Vec<Text> = files.iter().map(file).collect();
        let mut report = Report::default();
        check(&files, &mut report);
        report.findings
    }

    const QUOTA: &str = "use crate::wake;\nimpl State {\n    fn quota_at(&self) {}\n}\n";

    #[test]
    fn a_circle_of_paths_is_found() {
        assert_eq!(found(&[("quota", QUOTA), ("wake", "fn wake() {}\n")]), Vec::<String>::new());
        let found = found(&[("quota", QUOTA), ("wake", "use crate::{hold, quota};\n")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("quota -> wake -> quota"), "{found:?}");
    }

    #[test]
    fn a_call_on_the_state_closes_a_circle_too() {
        let wake = "fn due(state: &State) {\n    state\n        .quota_at();\n}\n";
        assert_eq!(found(&[("quota", QUOTA), ("wake", wake)]).len(), 1);
        let of_another = wake.replace("state\n", "other.my_state\n");
        assert_eq!(found(&[("quota", QUOTA), ("wake", &of_another)]).len(), 0);
    }

    #[test]
    fn tests_comments_and_a_topics_own_folder_do_not_count() {
        for wake in ["#[cfg(test)]\nmod tests { use crate::quota; }\n", "// crate::quota\n"] {
            assert_eq!(found(&[("quota", QUOTA), ("wake", wake)]).len(), 0, "{wake}");
        }
        assert_eq!(found(&[("quota", "mod a;\n"), ("quota/a", "use crate::quota;\n")]).len(), 0);
    }
}
