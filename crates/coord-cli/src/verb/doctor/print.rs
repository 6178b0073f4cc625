//! How findings are told: one line per group that is well, two per finding that is not; or JSON.

use std::io::Write;

use serde::Serialize;

use super::fix::Outcome;
use super::{Finding, Level};
use crate::out::{Colour, Failure, Painter, escape, pad, print_json};

/// Schema of the JSON.
const SCHEMA: u32 = 1;
/// Columns of the first two words of a line.
const WORD_COLUMNS: usize = 9;
const GROUP_COLUMNS: usize = 13;

/// The JSON.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    schema: u32,
    ok: bool,
    findings: &'a [Finding],
    #[serde(skip_serializing_if = "Option::is_none")]
    fixes: Option<&'a [Outcome]>,
}

/// Whether nothing is an error.
pub(super) fn is_ok(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.level < Level::Error)
}

/// One object.
pub(super) fn json(
    out: &mut impl Write,
    findings: &[Finding],
    fixes: Option<&[Outcome]>,
) -> Result<(), Failure> {
    let answer = Answer { schema: SCHEMA, ok: is_ok(findings), findings, fixes };
    print_json(out, &answer)
}

/// For people.
pub(super) fn text(
    out: &mut impl Write,
    findings: &[Finding],
    fixes: Option<&[Outcome]>,
    dry_run: bool,
) -> Result<(), Failure> {
    let painter = Painter::for_stdout();
    for fix in fixes.unwrap_or_default() {
        let what = escape(&fix.what);
        match &fix.error {
            Some(why) => writeln!(out, "not done: {what}: {}", escape(why))?,
            None if dry_run => writeln!(out, "would do: {what}")?,
            None => writeln!(out, "done: {what}")?,
        }
    }
    let mut rest = findings;
    while let Some(first) = rest.first() {
        let n = rest.iter().take_while(|one| one.group() == first.group()).count();
        let (group, others) = rest.split_at(n);
        tell(out, group, painter)?;
        rest = others;
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let counts = [(Level::Error, "error"), (Level::Warning, "warning"), (Level::Note, "note")];
    let counts = counts.map(|(level, word)| (count(level), word)).into_iter();
    let counts: Vec<String> = counts
        .filter(|(n, _)| 0 < *n)
        .map(|(n, word)| format!("{n} {word}{}", if n == 1 { "" } else { "s" }))
        .collect();
    let end = if counts.is_empty() { "all is well".to_owned() } else { counts.join(", ") };
    let fixable = findings.iter().filter(|finding| finding.fix.is_some()).count();
    let hint = match (fixable, fixes) {
        (1.., None) => format!("; `coord doctor --fix` repairs {fixable} of them"),
        _ => String::new(),
    };
    Ok(writeln!(out, "{end}{hint}")?)
}

/// One group.
fn tell(out: &mut impl Write, group: &[Finding], painter: Painter) -> Result<(), Failure> {
    let Some(name) = group.first().map(Finding::group) else { return Ok(()) };
    let line = |level: Level, text: &str| {
        let colour = match level {
            Level::Ok => Colour::Green,
            Level::Note => Colour::Dim,
            Level::Warning => Colour::Yellow,
            Level::Error => Colour::Red,
        };
        let word = painter.paint(colour, &pad(level.word(), WORD_COLUMNS, false));
        format!("{word}{}{}", pad(name, GROUP_COLUMNS, false), escape(text))
    };
    if group.iter().all(|finding| finding.level == Level::Ok) {
        let found: Vec<&str> = group.iter().map(|finding| finding.found.as_str()).collect();
        return Ok(writeln!(out, "{}", line(Level::Ok, &found.join("; ")))?);
    }
    for finding in group.iter().filter(|finding| finding.level != Level::Ok) {
        writeln!(out, "{}", line(finding.level, &finding.found))?;
        if let Some(remedy) = &finding.remedy {
            let indent = " ".repeat(WORD_COLUMNS + GROUP_COLUMNS);
            writeln!(out, "{indent}→ {}", escape(remedy))?;
        }
    }
    Ok(())
}
