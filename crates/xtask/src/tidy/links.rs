//! Links of the pages lead somewhere, every page is in the book, and every example that shows an output is marked.
//!
//! Decides by the tracked files only; addresses on the network are not asked. A page of the book links only to what the
//! book has, since a link out of `docs/` leads nowhere there.

use super::{Report, Text};
use std::collections::{BTreeMap, BTreeSet};

const DOCS: &str = "docs/";
const SUMMARY: &str = "docs/SUMMARY.md";
/// Pages outside of the book.
const PAGES: [&str; 4] = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"];
/// Words beside the language of an example that shows what a command prints.
const MARKS: [&str; 2] = ["run", "illustration"];

pub(super) fn check(files: &[Text], report: &mut Report) {
    let is_page = |file: &&Text| {
        PAGES.contains(&file.path.as_str())
            || (file.path.starts_with(DOCS) && file.has_extension("md"))
    };
    let pages: Vec<&Text> = files.iter().filter(is_page).collect();
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    for page in &pages {
        for (number, target) in links(page) {
            if let Some(why) = wrong(&page.path, &target, &paths, &anchors) {
                report.findings.push(format!("{}:{number}: the link {target}: {why}", page.path));
            }
        }
        examples(page, report);
    }
    in_summary(&pages, report);
}

/// Every page of the book is in its list, once.
fn in_summary(pages: &[&Text], report: &mut Report) {
    let Some(summary) = pages.iter().find(|page| page.path == SUMMARY) else { return };
    let mut listed: BTreeSet<String> = BTreeSet::new();
    for (number, target) in links(summary) {
        if !listed.insert(format!("{DOCS}{target}")) {
            report.findings.push(format!("{SUMMARY}:{number}: {target} is there twice: drop one"));
        }
    }
    for page in pages.iter().filter(|page| page.path.starts_with(DOCS) && page.path != SUMMARY) {
        if !listed.contains(&page.path) {
            report.findings.push(format!("{}: not in {SUMMARY}: add it there", page.path));
        }
    }
}

/// Why a link leads nowhere.
fn wrong(
    page: &str,
    target: &str,
    paths: &BTreeSet<&str>,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, a)| (file, Some(a)));
    let path = if file.is_empty() { page.to_owned() } else { resolved(page, file) };
    if page.starts_with(DOCS) && !path.starts_with(DOCS) {
        return Some("leads out of the book: name the file in words".to_owned());
    }
    let directory = format!("{}/", path.trim_end_matches('/'));
    let is_there =
        paths.contains(path.as_str()) || paths.iter().any(|one| one.starts_with(&directory));
    if !is_there {
        return Some(format!("{path} is not there"));
    }
    let anchor = anchor?;
    let is_heading = anchors.get(path.as_str()).is_some_and(|all| all.contains(anchor));
    (!is_heading).then(|| format!("{path} has no such heading"))
}

/// A target as it is written on a page, from the repository's top.
fn resolved(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => (),
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    parts.join("/")
}

/// Lines of text with their numbers: without code blocks and code within text.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut is_block = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        let without_code: String = line.split('`').step_by(2).collect();
        (!is_fence && !is_block).then_some((at + 1, without_code))
    })
}

/// The targets of a page's links: `[text](target)`, `![text](target)`, `[name]: target`, `src="target"`.
fn links(page: &Text) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(&page.text) {
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let defined = line.strip_prefix('[').and_then(|rest| Some(rest.split_once("]: ")?.1));
        let pictures = ["src=\"", "href=\"", "srcset=\""]
            .into_iter()
            .flat_map(|name| line.split(name).skip(1).filter_map(|rest| rest.split('"').next()));
        let targets = inline.chain(defined).chain(pictures);
        found.extend(targets.map(|target| (number, target.trim().to_owned())));
    }
    found
}

/// The anchors of a page's headings, as the forge and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_block = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        is_block ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_block || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let anchor: String = heading.trim().chars().filter_map(of_anchor).collect();
        let again = (1..).map(|n| format!("{anchor}-{n}"));
        let mut names = std::iter::once(anchor.clone()).chain(again);
        found.extend(names.find(|name| !found.contains(name)));
    }
    found
}

fn of_anchor(one: char) -> Option<char> {
    match one {
        ' ' => Some('-'),
        '-' | '_' => Some(one),
        other if other.is_alphanumeric() => other.to_lowercase().next(),
        _ => None,
    }
}

/// An example that shows what a command of ours prints is run as a test, or said to be an illustration.
fn examples(page: &Text, report: &mut Report) {
    let mut opened: Option<(usize, &str)> = None;
    let mut is_after_command = false;
    for (number, line) in page.lines() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            opened = if opened.is_some() { None } else { Some((number, info)) };
            is_after_command = false;
            continue;
        }
        let Some((at, info)) = opened else { continue };
        let is_output = is_after_command && !line.starts_with("$ ");
        let is_marked = info.split(' ').skip(1).any(|word| MARKS.contains(&word));
        if is_output && !is_marked {
            let path = &page.path;
            report.findings.push(format!(
                "{path}:{at}: the example shows an output: mark it, ```console run or ```console illustration"
            ));
            opened = Some((at, "console illustration"));
        }
        is_after_command = line.starts_with("$ coord");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings on these files, beside a page `docs/b.md` with two headings, and a picture.
    fn found(path: &str, text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| Text { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("docs/b.md", "# What's *new*?\n\n## Two\n\n## Two\n"),
            file("docs/x/a.svg", ""),
            file("src.rs", ""),
            file(SUMMARY, "- [A](a.md)\n- [B](b.md)\n"),
            file("docs/a.md", ""),
        ];
        let mut all: Vec<Text> = files.into_iter().filter(|file| file.path != path).collect();
        all.push(file(path, text));
        let mut report = Report::default();
        check(&all, &mut report);
        report.findings
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        for (path, text, n) in [
            (
                "docs/a.md",
                "[b](b.md), [b](./b.md#whats-new), [c](#mine), ![p](x/a.svg)\n# Mine\n",
                0,
            ),
            ("docs/a.md", "[b](b.md#two-1) <https://x/y> [y](https://x/y.md#z)\n", 0),
            ("docs/a.md", "`[b](none.md)`\n```\n[b](none.md)\n```\n", 0),
            ("docs/a.md", "[b](none.md)\n", 1),
            ("docs/a.md", "[b](b.md#three)\n", 1),
            ("docs/a.md", "[b](#none)\n", 1),
            ("docs/a.md", "![b](x/none.svg)\n", 1),
            ("docs/a.md", "[s](../src.rs)\n", 1),
            ("docs/a.md", "[s]: none.md\n", 1),
            (
                "README.md",
                "[s](src.rs), [d](docs/), [b](docs/b.md#two)\n<img src=\"docs/x/a.svg\">\n",
                0,
            ),
            ("README.md", "[s](none.rs), <img src=\"docs/x/b.svg\">\n", 2),
            ("crates/x/a.md", "[s](none.rs)\n", 0),
        ] {
            let found = found(path, text);
            assert_eq!(found.len(), n, "{path} {text:?}: {found:?}");
        }
    }

    #[test]
    fn a_page_that_the_book_lacks_or_has_twice_is_found() {
        for (path, text, n) in [
            ("docs/c.md", "", 1),
            ("docs/c.svg", "", 0),
            (SUMMARY, "- [A](a.md)\n", 1),
            (SUMMARY, "- [A](a.md)\n- [B](b.md)\n- [A](a.md)\n", 1),
            (SUMMARY, "- [A](a.md)\n- [B](b.md)\n- [C](c.md)\n", 1),
        ] {
            let found = found(path, text);
            assert_eq!(found.len(), n, "{path} {text:?}: {found:?}");
        }
    }

    #[test]
    fn an_example_with_an_output_that_is_not_marked_is_found() {
        for (info, text, n) in [
            ("", "$ coord inspect\nlist\nmore", 1),
            ("console", "$ coordctl hold a\n\nlist", 1),
            ("console run", "$ coord inspect\nlist", 0),
            ("console illustration", "$ coord inspect\nlist", 0),
            ("sh", "coord inspect\n$ coord up\n$ coord down", 0),
            ("sh", "$ ls\nlist", 0),
        ] {
            let found = found("README.md", &format!("```{info}\n{text}\n```\n"));
            assert_eq!(found.len(), n, "{info:?} {text:?}: {found:?}");
        }
    }
}
